//! Every limit of a server, with its default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fairlane::{PassOptions, RoomName};
use fairlane_core::Rate;

use crate::guard::SessionSecret;
use crate::waiting_page::WaitingPage;

/// The limits of a server; the defaults suit the public internet behind a reverse proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSettings {
    /// Concurrent connections. At the limit, idle connections are closed for new ones: first those
    /// without a valid key, then those idle longest.
    pub connections_max: usize,
    /// Of these, connections of one client address; a third of that without a valid key. `None` is
    /// three quarters of `connections_max`. All clients behind a proxy have its address.
    pub address_connections_max: Option<usize>,
    /// Concurrent requests, without those that wait for work or events; more are refused.
    pub requests_max: usize,
    /// Of these, requests of one key.
    pub key_requests_max: usize,
    /// Concurrent long polls and event streams. One key may have a quarter of them, or a sixteenth
    /// if it is bound to groups; an eighth is reserved for workers.
    pub held_max: usize,
    /// Concurrent streams of jobs and results, scans and audits, each of which may take a few MiB.
    /// One key may have a quarter of them, or a sixteenth if it is bound to groups.
    pub streams_max: usize,
    /// Requests a second of a key that has no rate of its own. The jobs of a request count too: 50
    /// jobs cost as much as one request.
    pub key_rate: Option<Rate>,
    /// Bytes of a body that is read completely before it is parsed.
    pub body_bytes_max: usize,
    /// Bytes of all such bodies together, without the first 16 KiB of each; more are refused. One
    /// key may have a quarter of them, or a sixteenth if it is bound to groups.
    pub bodies_bytes_max: usize,
    /// Bytes of the head of a request, and of what a connection reads ahead; at least 8 KiB.
    pub head_bytes_max: usize,
    /// How long the head of a request may take, from its first byte.
    pub head_timeout: Duration,
    /// How long the first head of a connection may take, from when the connection is accepted.
    pub first_head_timeout: Duration,
    /// How long a connection with a valid key may be idle between two requests; a connection
    /// without one is closed with its first response.
    pub idle_timeout: Duration,
    /// How long a body may pause between two chunks.
    pub body_timeout: Duration,
    /// How long a body may take in total, if it is read completely before it is parsed.
    pub body_whole_timeout: Duration,
    /// How long a request may take, without the time for its body.
    pub request_timeout: Duration,
    /// How long a client may pause reading its response.
    pub write_timeout: Duration,
    /// The longest long poll.
    pub poll_max: Duration,
    /// How long a stream of jobs waits while the queue is full or does not reply, before it ends
    /// with the line to resume from.
    pub stream_patience: Duration,
    /// How long a stop waits for requests in progress.
    pub shutdown_grace_period: Duration,
    /// Groups with gauges of their own in `/metrics`: those with the most unfinished jobs.
    pub groups_shown_max: usize,
    /// How long a browser stays signed in.
    pub session_length: Duration,
    /// Signs the sessions of browsers. Servers behind one address need the same. `None` is a random
    /// secret, so that sessions end with the process.
    pub session_secret: Option<SessionSecret>,
    /// The file with the keys that sign passes of waiting rooms; without one the server issues none.
    pub pass_keys: Option<PathBuf>,
    /// The longest validity of a pass; the next poll renews it.
    pub pass_ttl: Duration,
    /// The waiting pages by their rooms; a room without one has no public page.
    pub waiting_pages: BTreeMap<RoomName, WaitingPage>,
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
            session_length: Duration::from_secs(12 * 3600),
            session_secret: None,
            pass_keys: None,
            pass_ttl: PassOptions::default().ttl,
            waiting_pages: BTreeMap::new(),
        }
    }
}
