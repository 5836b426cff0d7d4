//! The protocol between a server and the `http` engine.
//!
//! Every body is [postcard](https://postcard.jamesmunns.com). The content type carries the version
//! of the format, which is raised when the encoding of anything here changes. Invariant: no input
//! makes [`decode`] or [`Frames`] panic or allocate more than a small multiple of its length, which
//! the limits below bound.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /engine` | | [`ServerInfo`] |
//! | `POST /engine/execute` | [`Command`] | `Result<`[`Reply`]`, `[`WireError`]`>` |
//! | `POST /engine/wait` | [`Wait`] | `Result<bool, `[`WireError`]`>` |
//! | `POST /engine/subscribe` | [`Subscribe`] | [`SignalStep`]s, each in a [`frame`] |
//! | `POST /engine/walk` | | [`ScanStep`]s, each in a [`frame`] |
//!
//! [`Command`]: fairlane_core::Command
//! [`Reply`]: fairlane_core::Reply

use fairlane_core::limits::{
    BULK_PAYLOAD_BYTES_MAX, ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX, LEASE_BYTES_MAX, LEASE_JOBS_MAX,
    LIST_BYTES_MAX, LIST_GROUPS_MAX, LIST_JOBS_MAX, NAME_BYTES_MAX, NOTE_BYTES_MAX, PAYLOAD_BYTES_MAX,
    PICK_JOBS_MAX, SETTLE_JOBS_MAX, STATS_RETENTION_MS_MAX, TYPES_MAX,
};
use fairlane_core::{LockToken, ProcessId, TypeId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::audit::ScanPage;
use crate::engine::EngineError;

/// The content type of every body; its number is the version of the format.
pub const CONTENT_TYPE: &str = "application/x-fairlane-4";
/// The prefix of the content types of all versions.
pub const CONTENT_TYPE_FAMILY: &str = "application/x-fairlane-";

/// The path of information about the served engine.
pub const INFO_PATH: &str = "/engine";
/// The path of commands.
pub const SUBMIT_PATH: &str = "/engine/execute";
/// The path of waits.
pub const WAIT_PATH: &str = "/engine/wait";
/// The path of subscriptions.
pub const SUBSCRIBE_PATH: &str = "/engine/subscribe";
/// The path of scans.
pub const SCAN_PATH: &str = "/engine/walk";

/// Most bytes of a job besides its payload or note: its names and numbers.
const JOB_BYTES_MAX: usize = 8 * (NAME_BYTES_MAX + 2) + 256;
/// Largest command in bytes: a `settle` of the most jobs, each with the longest note.
pub const COMMAND_BYTES_MAX: usize = SETTLE_JOBS_MAX * (NOTE_BYTES_MAX + JOB_BYTES_MAX);
/// Largest command of a producer in bytes: an `enqueue` of the most jobs and bytes.
pub const PRODUCER_COMMAND_BYTES_MAX: usize = ENQUEUE_BYTES_MAX + ENQUEUE_JOBS_MAX * JOB_BYTES_MAX;
/// Largest reply in bytes: a page of the most bulk actions, each with the longest
/// payload and summary.
pub const REPLY_BYTES_MAX: usize =
    LIST_GROUPS_MAX * (BULK_PAYLOAD_BYTES_MAX + NOTE_BYTES_MAX + JOB_BYTES_MAX);
/// Largest reply to a `lease` in bytes: the last job may have the longest payload.
const LEASED_BYTES_MAX: usize = LEASE_BYTES_MAX + PAYLOAD_BYTES_MAX + LEASE_JOBS_MAX * JOB_BYTES_MAX;
/// Largest page of jobs, in bytes.
const LISTED_BYTES_MAX: usize =
    LIST_BYTES_MAX + PAYLOAD_BYTES_MAX + NOTE_BYTES_MAX + LIST_JOBS_MAX * JOB_BYTES_MAX;
/// Largest congestion history in bytes: one snapshot per second, of four numbers.
const HISTORY_BYTES_MAX: usize = STATS_RETENTION_MS_MAX as usize / 1000 * 4 * 10;
/// Largest request to wait, in bytes.
pub const WAIT_BYTES_MAX: usize = TYPES_MAX * (NAME_BYTES_MAX + 2) + 256;
/// Largest request to subscribe, in bytes.
pub const SUBSCRIBE_BYTES_MAX: usize = NAME_BYTES_MAX + 16;
/// Largest frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// Most suspects of one frame; a page with more is split.
const FRAME_SUSPECTS_MAX: usize = 1000;
/// Longest wait of one request in milliseconds: many proxies close a connection that is
/// silent for a minute.
pub const WAIT_MS_MAX: u64 = 55_000;
/// Time between two heartbeats of a subscription in milliseconds. A client ends a subscription
/// after [`HEARTBEATS_MISSED_MAX`] of them without a frame.
pub const HEARTBEAT_MS: u64 = 5_000;
/// Heartbeats that a subscription may miss.
pub const HEARTBEATS_MISSED_MAX: u32 = 3;

const _: () = {
    assert!(PRODUCER_COMMAND_BYTES_MAX < COMMAND_BYTES_MAX);
    assert!(PICK_JOBS_MAX * JOB_BYTES_MAX < PRODUCER_COMMAND_BYTES_MAX);
    assert!(BULK_PAYLOAD_BYTES_MAX + JOB_BYTES_MAX < PRODUCER_COMMAND_BYTES_MAX);
    assert!(LEASED_BYTES_MAX < REPLY_BYTES_MAX && LISTED_BYTES_MAX < REPLY_BYTES_MAX);
    assert!(HISTORY_BYTES_MAX < REPLY_BYTES_MAX);
    assert!(FRAME_SUSPECTS_MAX * (2 * (NAME_BYTES_MAX + 2) + 16) < FRAME_BYTES_MAX);
};

/// Waits until jobs of these types may be available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The types to wait for.
    pub types: Vec<TypeId>,
    /// The longest wait in milliseconds; a server responds after [`WAIT_MS_MAX`] at the latest.
    pub at_most_ms: u64,
}

/// Receives the signals to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// The process.
    pub process: ProcessId,
}

/// One frame of a subscription. The response ends when the subscription does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalStep {
    /// The subscription is confirmed: the first frame.
    Confirmed,
    /// The engine cannot subscribe: the only frame.
    Failed(WireError),
    /// A signal to this waiter.
    Signal(LockToken),
    /// The connection is alive.
    Heartbeat,
}

/// Information about the engine behind a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// The kind of engine.
    pub name: String,
    /// Warnings about settings that weaken its guarantees, a sentence each.
    pub warnings: Vec<String>,
}

/// One frame of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanStep {
    /// A page of the scan.
    Page(ScanPage),
    /// The scan failed.
    Failed(WireError),
    /// The scan is complete.
    End,
}

impl ScanStep {
    /// The frames of a page: one, unless it has more suspects than fit.
    pub fn pages(page: &ScanPage) -> Vec<Self> {
        let ScanPage { suspects, groups_scanned, groups } = page;
        let part = |suspects: &[_]| {
            Self::Page(ScanPage {
                suspects: suspects.to_vec(),
                groups_scanned: *groups_scanned,
                groups: *groups,
            })
        };
        if suspects.is_empty() {
            return vec![part(&[])];
        }
        suspects.chunks(FRAME_SUSPECTS_MAX).map(part).collect()
    }
}

/// An [`EngineError`] on the wire. Commands are validated before they are sent, so
/// `Invalid` is rare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireError {
    /// The server considers the command malformed.
    Invalid(String),
    /// The engine behind the server cannot be reached.
    Unavailable(String),
    /// The store cannot apply the command in its current state.
    Refused(String),
    /// The engine has stopped, or is incompatible.
    Broken(String),
}

impl From<EngineError> for WireError {
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

impl From<WireError> for EngineError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Unavailable(reason) => super::unavailable(reason),
            WireError::Invalid(reason) | WireError::Refused(reason) => Self::refused(reason),
            WireError::Broken(reason) => Self::broken(reason),
        }
    }
}

/// Bytes that are not a valid message of this protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not a valid message of {CONTENT_TYPE}")]
pub struct Undecodable;

/// Encodes a value.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("a value with known lengths can be encoded")
}

/// Decodes a value from all of these bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Undecodable> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Undecodable),
    }
}

/// A step of a scan or subscription, preceded by its length in four bytes, little-endian.
pub fn frame(step: &impl Serialize) -> Vec<u8> {
    let body = encode(step);
    let length = u32::try_from(body.len()).expect("the length of a frame fits into four bytes");
    [&length.to_le_bytes()[..], &body].concat()
}

/// Extracts frames from bytes as they arrive.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next step, if it has arrived completely. Take all steps before pushing more bytes.
    pub fn next_step<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Undecodable> {
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
