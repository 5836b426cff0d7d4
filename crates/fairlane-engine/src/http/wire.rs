//! What a server and the `http` engine say to each other, as bytes.
//!
//! Every body is [postcard](https://postcard.jamesmunns.com); the content type carries the version of the format,
//! which is raised when the encoding of anything here changes. Invariant: no bytes make [`decode`] or [`Frames`]
//! panic, or take more memory than a small multiple of their length, which the limits below bound.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /engine` | | [`Facts`] |
//! | `POST /engine/execute` | [`Command`] | `Result<`[`Reply`]`, `[`Trouble`]`>` |
//! | `POST /engine/wait` | [`Wait`] | `Result<bool, `[`Trouble`]`>` |
//! | `POST /engine/walk` | | [`WalkStep`]s, each in a [`frame`] |
//!
//! [`Command`]: fairlane_core::queue::Command
//! [`Reply`]: fairlane_core::queue::Reply

use fairlane_core::TypeId;
use fairlane_core::limits::{
    BULK_PAYLOAD_BYTES_MAX, ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX, LEASE_BYTES_MAX, LEASE_JOBS_MAX,
    LIST_BYTES_MAX, LIST_GROUPS_MAX, LIST_JOBS_MAX, NAME_BYTES_MAX, NOTE_BYTES_MAX, PAYLOAD_BYTES_MAX,
    PICK_JOBS_MAX, SETTLE_JOBS_MAX, STATS_RETENTION_MS_MAX, TYPES_MAX,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::audit::WalkPage;
use crate::engine::EngineError;

/// The content type of every body; its number is the version of the format.
pub const CONTENT_TYPE: &str = "application/x-fairlane-3";
/// What the content type of every version begins with.
pub const CONTENT_TYPE_FAMILY: &str = "application/x-fairlane-";

/// Where facts about the served engine are asked for.
pub const FACTS_PATH: &str = "/engine";
/// Where commands are sent.
pub const EXECUTE_PATH: &str = "/engine/execute";
/// Where work is waited for.
pub const WAIT_PATH: &str = "/engine/wait";
/// Where everything stored is walked through.
pub const WALK_PATH: &str = "/engine/walk";

/// What a job takes beside its payload or note: its names and numbers.
const JOB_BYTES_MAX: usize = 8 * (NAME_BYTES_MAX + 2) + 256;
/// Largest command: a `settle` of as many jobs as it takes, each with the longest note.
pub const COMMAND_BYTES_MAX: usize = SETTLE_JOBS_MAX * (NOTE_BYTES_MAX + JOB_BYTES_MAX);
/// Largest command that no worker sends: an `enqueue` of as many jobs and bytes as it takes.
pub const PRODUCER_COMMAND_BYTES_MAX: usize = ENQUEUE_BYTES_MAX + ENQUEUE_JOBS_MAX * JOB_BYTES_MAX;
/// Largest reply: a page of as many bulk actions as it has, each with the longest payload and summary.
pub const REPLY_BYTES_MAX: usize =
    LIST_GROUPS_MAX * (BULK_PAYLOAD_BYTES_MAX + NOTE_BYTES_MAX + JOB_BYTES_MAX);
/// Largest reply to a `lease`: the job with which it has enough bytes may be as long as any.
const LEASED_BYTES_MAX: usize = LEASE_BYTES_MAX + PAYLOAD_BYTES_MAX + LEASE_JOBS_MAX * JOB_BYTES_MAX;
/// Largest page of jobs.
const LISTED_BYTES_MAX: usize =
    LIST_BYTES_MAX + PAYLOAD_BYTES_MAX + NOTE_BYTES_MAX + LIST_JOBS_MAX * JOB_BYTES_MAX;
/// Largest history of congestion: a snapshot a second, of four numbers.
const HISTORY_BYTES_MAX: usize = STATS_RETENTION_MS_MAX as usize / 1000 * 4 * 10;
/// Largest request to wait.
pub const WAIT_BYTES_MAX: usize = TYPES_MAX * (NAME_BYTES_MAX + 2) + 256;
/// Largest frame of a walk.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// Suspects of one frame; a page with more becomes several.
const FRAME_SUSPECTS_MAX: usize = 1000;
/// Longest wait of one request: proxies cut off what is silent for a minute.
pub const WAIT_MS_MAX: u64 = 55_000;

const _: () = {
    assert!(PRODUCER_COMMAND_BYTES_MAX < COMMAND_BYTES_MAX);
    assert!(PICK_JOBS_MAX * JOB_BYTES_MAX < PRODUCER_COMMAND_BYTES_MAX);
    assert!(BULK_PAYLOAD_BYTES_MAX + JOB_BYTES_MAX < PRODUCER_COMMAND_BYTES_MAX);
    assert!(LEASED_BYTES_MAX < REPLY_BYTES_MAX && LISTED_BYTES_MAX < REPLY_BYTES_MAX);
    assert!(HISTORY_BYTES_MAX < REPLY_BYTES_MAX);
    assert!(FRAME_SUSPECTS_MAX * (2 * (NAME_BYTES_MAX + 2) + 16) < FRAME_BYTES_MAX);
};

/// Waits until something of these types may be servable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Which types.
    pub types: Vec<TypeId>,
    /// How long at most; a server answers after [`WAIT_MS_MAX`] in any case.
    pub at_most_ms: u64,
}

/// What a client wants to know of the engine behind a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// What it is called.
    pub name: String,
    /// What its operator should know.
    pub warnings: Vec<String>,
}

/// One frame of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalkStep {
    /// What it has come to.
    Page(WalkPage),
    /// It cannot go on.
    Failed(Trouble),
    /// That was all.
    End,
}

impl WalkStep {
    /// The frames of a page: one, unless it has more suspects than fit.
    pub fn pages(page: &WalkPage) -> Vec<Self> {
        let WalkPage { suspects, groups_walked, groups } = page;
        let part = |suspects: &[_]| {
            Self::Page(WalkPage {
                suspects: suspects.to_vec(),
                groups_walked: *groups_walked,
                groups: *groups,
            })
        };
        if suspects.is_empty() {
            return vec![part(&[])];
        }
        suspects.chunks(FRAME_SUSPECTS_MAX).map(part).collect()
    }
}

/// An [`EngineError`] on its way. A command is validated before it is sent, so that what is invalid is seldom told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// The command is malformed, in the eyes of the server.
    Invalid(String),
    /// The engine behind the server cannot be reached.
    Unavailable(String),
    /// The store cannot do it as things are.
    Refused(String),
    /// The engine has stopped, or does not fit.
    Broken(String),
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Invalid(invalid) => Self::Invalid(invalid.to_string()),
            EngineError::Unavailable { engine, reason } => {
                Self::Unavailable(format!("its {engine} cannot be reached: {reason}"))
            }
            EngineError::Refused { reason } => Self::Refused(reason),
            EngineError::Broken { reason } => Self::Broken(reason),
        }
    }
}

impl From<Trouble> for EngineError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unavailable(reason) => super::unavailable(reason),
            Trouble::Invalid(reason) | Trouble::Refused(reason) => Self::refused(reason),
            Trouble::Broken(reason) => Self::broken(reason),
        }
    }
}

/// Bytes that nobody who speaks this version has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what came cannot be read as {CONTENT_TYPE}")]
pub struct Undecodable;

/// The bytes of a value.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("a value whose lengths are known can be written")
}

/// The value of these bytes, all of them.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Undecodable> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Undecodable),
    }
}

/// A step of a walk behind its length, four bytes of it, the lowest first.
pub fn frame(step: &WalkStep) -> Vec<u8> {
    let body = encode(step);
    let length = u32::try_from(body.len()).expect("a frame has far fewer bytes than four can count");
    [&length.to_le_bytes()[..], &body].concat()
}

/// Takes frames out of bytes as they come.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// More bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next step, if all of it has come. Take all there are before pushing more.
    pub fn next_step(&mut self) -> Result<Option<WalkStep>, Undecodable> {
        let Some((length, rest)) = self.bytes.split_first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(Undecodable);
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let step = decode(body)?;
        self.bytes.drain(..size_of::<u32>() + length);
        Ok(Some(step))
    }
}

#[cfg(test)]
mod tests;
