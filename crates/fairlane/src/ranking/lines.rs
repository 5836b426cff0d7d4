//! Events and values as lines of JSON, read in constant memory.
//!
//! A line of events has the keys `id`, `member`, `at` and optionally `delta`; a line of values has
//! `member`, `value`, `at` and optionally `version`. `at` is a time such as `2026-11-17T09:30:00Z`, or
//! milliseconds since 1970. Empty lines are skipped. Invariant: an error names its line.

use fairlane_core::ranking::{NewEvent, NewScore};
use fairlane_core::{EventId, MemberId};
use serde::Deserialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::millis;
use crate::error::Error;
use crate::time::parse_time;

/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Why a line of a source cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LineError {
    /// The number of the line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// One row of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankingLine {
    /// An event, for a board by count or sum.
    Event(NewEvent),
    /// A value, for a board by maximum or latest value.
    Score(NewScore),
}

/// Reads the rows of a source, a line at a time.
pub struct RankingLines<R> {
    source: R,
    line: u64,
    buffer: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum At {
    Millis(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<String>,
    member: String,
    delta: Option<i64>,
    value: Option<i64>,
    #[serde(default)]
    version: u64,
    at: At,
}

impl<R: AsyncBufRead + Unpin> RankingLines<R> {
    /// Reads from a source.
    pub const fn new(source: R) -> Self {
        Self { source, line: 0, buffer: Vec::new() }
    }

    /// The next row, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RankingLine>, Error> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let most = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut self.source).take(most).read_until(b'\n', &mut self.buffer).await;
            let read = read.map_err(|error| self.error(error.to_string()))?;
            if read == 0 {
                return Ok(None);
            }
            if read > LINE_BYTES_MAX {
                return Err(self.error(format!("a line has at most {LINE_BYTES_MAX} bytes")));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return self.parsed().map(Some).map_err(|reason| self.error(reason));
            }
        }
    }

    fn error(&self, reason: String) -> Error {
        LineError { line: self.line, reason }.into()
    }

    fn parsed(&self) -> Result<RankingLine, String> {
        let line: Line = serde_json::from_slice(&self.buffer).map_err(|error| error.to_string())?;
        let at_ms = match line.at {
            At::Millis(at_ms) => at_ms,
            At::Text(text) => millis(parse_time(&text).map_err(|error| error.to_string())?),
        };
        let member = MemberId::new(&line.member).map_err(|error| error.to_string())?;
        match (line.id, line.value) {
            (Some(id), None) => {
                let id = EventId::new(&id).map_err(|error| error.to_string())?;
                Ok(RankingLine::Event(NewEvent { id, member, delta: line.delta.unwrap_or(1), at_ms }))
            }
            (None, Some(value)) => {
                Ok(RankingLine::Score(NewScore { member, value, version: line.version, at_ms }))
            }
            _ => Err("a line has either an id (an event) or a value".to_owned()),
        }
    }
}
