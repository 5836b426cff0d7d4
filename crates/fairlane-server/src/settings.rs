//! Every limit of a server, with its default.

use std::time::Duration;

use fairlane_core::Rate;

/// What a server allows; the defaults are for the open internet behind a reverse proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSettings {
    /// Connections at once. When there are as many, those that are idle are closed for others: first those that have
    /// shown no valid key, then those that have been idle longest.
    pub connections_max: usize,
    /// Of these, connections of one client address; a third of that without a valid key. None: three quarters of
    /// `connections_max`. Behind a proxy all have its address.
    pub address_connections_max: Option<usize>,
    /// Requests worked on at once, those that wait for work or events not counted; more are told to come back.
    pub requests_max: usize,
    /// Of these, requests of one key.
    pub key_requests_max: usize,
    /// Long polls and event streams at once; one key may have a quarter of them, or a sixteenth if it is bound to
    /// groups, and an eighth is for workers alone.
    pub held_max: usize,
    /// Streams of jobs and results, walks and audits at once, each of which may take a few MiB; one key may have a
    /// quarter of them, or a sixteenth if it is bound to groups.
    pub streams_max: usize,
    /// Requests a second of one key that has no rate of its own; what they have done counts as well, 50 jobs like one.
    pub key_rate: Option<Rate>,
    /// Bytes of a body that is read as a whole.
    pub body_bytes_max: usize,
    /// Bytes of all such bodies together, but for the first 16 KiB of each; more are told to come back. One key may have
    /// a quarter of them, or a sixteenth if it is bound to groups.
    pub bodies_bytes_max: usize,
    /// Bytes of a request's head, and of what is read ahead on a connection; at least 8 KiB.
    pub head_bytes_max: usize,
    /// How long a request's head may take once it has begun.
    pub head_timeout: Duration,
    /// How long the first head of a connection may take, from when it is accepted.
    pub first_head_timeout: Duration,
    /// How long a connection that has shown a valid key may be idle between two requests; one that has not is closed
    /// with its first answer.
    pub idle_timeout: Duration,
    /// How long a body may take from one piece to the next.
    pub body_timeout: Duration,
    /// How long a body that is read as a whole may take in all.
    pub body_whole_timeout: Duration,
    /// How long a request may be worked on, beside what its body took.
    pub request_timeout: Duration,
    /// How long a client may not read its answer.
    pub write_timeout: Duration,
    /// The longest long poll.
    pub poll_max: Duration,
    /// How long a stream of jobs waits when the queue is full or does not answer, before it says where to go on.
    pub stream_patience: Duration,
    /// How long a stop waits for requests that are being answered.
    pub shutdown_grace_period: Duration,
    /// Groups that have figures of their own in `/metrics`: those with the most unfinished jobs.
    pub groups_shown_max: usize,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            address_connections_max: None,
            requests_max: 1024,
            key_requests_max: 128,
            held_max: 12_288,
            streams_max: 256,
            key_rate: Rate::new(2_000, 1000, Some(200)).ok(),
            body_bytes_max: 8 * 1024 * 1024,
            bodies_bytes_max: 256 * 1024 * 1024,
            head_bytes_max: 16 * 1024,
            head_timeout: Duration::from_secs(10),
            first_head_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            body_whole_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            poll_max: Duration::from_secs(60),
            stream_patience: Duration::from_secs(10),
            shutdown_grace_period: Duration::from_secs(30),
            groups_shown_max: 100,
        }
    }
}
