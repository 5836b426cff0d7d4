//! Events and values as lines of JSON, read in constant memory.
//!
//! A line of events has the keys `id`, `member`, `at` and optionally `delta`; a line of values has
//! `member`, `value`, `at` and optionally `version`. `at` is a time such as `2026-11-17T09:30:00Z`, or
//! milliseconds since 1970. Empty lines are skipped. Invariant: an error names its line.

use std::fmt;

use fairlane_core::ranking::{NewEvent, NewScore};
use fairlane_core::{EventId, MemberId};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::millis;
use crate::error::Error;
use crate::time::{InvalidTime, parse_time};

/// The longest line, in bytes.
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

/// The time of an event in JSON and in queries: a text such as `2026-11-17T09:30:00Z`, or milliseconds
/// since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTime {
    /// The time in milliseconds since 1970.
    pub ms: u64,
}

impl std::str::FromStr for EventTime {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        match text.parse() {
            Ok(ms) => Ok(Self { ms }),
            Err(_) => parse_time(text).map(|time| Self { ms: millis(time) }),
        }
    }
}

impl<'de> Deserialize<'de> for EventTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = EventTime;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as 2026-11-17T09:30:00Z, or milliseconds since 1970")
    }

    fn visit_u64<E: de::Error>(self, ms: u64) -> Result<EventTime, E> {
        Ok(EventTime { ms })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<EventTime, E> {
        text.parse().map_err(E::custom)
    }
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
    at: EventTime,
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
            let read = read?;
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
        let at_ms = line.at.ms;
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
