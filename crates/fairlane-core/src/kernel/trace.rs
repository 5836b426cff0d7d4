//! The trace context of a job, as a W3C `traceparent`.
//!
//! Invariant: a value has the form of version 00, `00-<trace>-<span>-<flags>`, in lower case, and
//! neither id is all zeros. Left out on purpose: `tracestate`, and the creation of spans, which is
//! up to the worker.

use std::fmt;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::encoding;

/// Bytes of a `traceparent` of version 00.
const TEXT_BYTES: usize = 55;
/// Byte offsets of the dashes.
const DASHES: [usize; 3] = [2, 35, 52];

/// Why a string is not a valid trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a trace is a W3C traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01: {0}")]
pub struct InvalidTrace(&'static str);

/// A W3C `traceparent`: the trace, the span that caused the job, and flags.
///
/// ```
/// use fairlane_core::Trace;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// assert_eq!(Trace::new(text)?.as_str(), text);
/// assert!(Trace::new("00-4bf9-00f0-01").is_err());
/// # Ok::<(), fairlane_core::InvalidTrace>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Trace(Arc<[u8; TEXT_BYTES]>);

/// In a binary format, the packed form.
impl Serialize for Trace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(self.as_str()),
            false => serializer.serialize_bytes(&self.packed()),
        }
    }
}

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return encoding::parsed(deserializer, "trace", Self::new);
        }
        Self::from_packed(&encoding::bytes::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Trace {
    /// Bytes of the packed form.
    pub const PACKED_BYTES: usize = 25;

    /// Parses a `traceparent`. Of a later version, only the fields of version 00 are kept,
    /// as W3C requires.
    pub fn new(text: &str) -> Result<Self, InvalidTrace> {
        let (head, rest) =
            text.as_bytes().split_first_chunk().ok_or(InvalidTrace("this has fewer than 55 bytes"))?;
        let mut head: [u8; TEXT_BYTES] = *head;
        if head.starts_with(b"00-") && !rest.is_empty() || !rest.is_empty() && rest[0] != b'-' {
            return Err(InvalidTrace("this has more than 55 bytes"));
        }
        let in_place = |(at, byte): (usize, &u8)| match DASHES.contains(&at) {
            true => *byte == b'-',
            false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        };
        if !head.iter().enumerate().all(in_place) {
            return Err(InvalidTrace(
                "this is not hexadecimal in lower case, with dashes in the right places",
            ));
        }
        if head.starts_with(b"ff") {
            return Err(InvalidTrace("version ff is not allowed"));
        }
        let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
        if is_zero(&head[3..35]) || is_zero(&head[36..52]) {
            return Err(InvalidTrace("the id of the trace or of the span is all zeros"));
        }
        head[..2].copy_from_slice(b"00");
        Ok(Self(Arc::new(head)))
    }

    /// The form used in a header.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&*self.0).expect("digits and dashes are text")
    }

    /// The form used in stores: both ids and the flags, without the version.
    pub fn packed(&self) -> [u8; Self::PACKED_BYTES] {
        let mut packed = [0; Self::PACKED_BYTES];
        let digits = self.0[3..].iter().filter(|byte| **byte != b'-');
        let values =
            digits.map(|digit| if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 });
        for (index, value) in values.enumerate() {
            packed[index / 2] = packed[index / 2] << 4 | value;
        }
        packed
    }

    /// Restores a trace from its packed form.
    pub fn from_packed(packed: &[u8]) -> Result<Self, InvalidTrace> {
        let (ids, [flags]) = packed
            .split_last_chunk()
            .filter(|(ids, _)| ids.len() + 1 == Self::PACKED_BYTES)
            .ok_or(NOT_PACKED)?;
        let (trace, span) = ids.split_first_chunk().ok_or(NOT_PACKED)?;
        let (span, _) = span.split_first_chunk().ok_or(NOT_PACKED)?;
        let (trace, span) = (u128::from_be_bytes(*trace), u64::from_be_bytes(*span));
        Self::new(&format!("00-{trace:032x}-{span:016x}-{flags:02x}"))
    }
}

const NOT_PACKED: InvalidTrace = InvalidTrace("its packed form has 25 bytes");

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl std::str::FromStr for Trace {
    type Err = InvalidTrace;
    fn from_str(text: &str) -> Result<Self, InvalidTrace> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_survives_its_packed_form() {
        for text in [EXAMPLE, "00-00000000000000000000000000000001-ffffffffffffffff-ff"] {
            let trace = Trace::new(text).unwrap();
            assert_eq!((trace.as_str(), trace.to_string().as_str()), (text, text));
            assert_eq!(Trace::from_packed(&trace.packed()).unwrap(), trace);
        }
        assert!(Trace::from_packed(&[1; 24]).is_err() && Trace::from_packed(&[1; 26]).is_err());
        assert!(Trace::from_packed(&[0; 25]).is_err());
    }

    #[test]
    fn a_later_version_is_reduced_to_the_fields_of_version_00() {
        for later in [EXAMPLE.replacen("00", "01", 1), format!("{}-more", EXAMPLE.replacen("00", "fe", 1))] {
            assert_eq!(Trace::new(&later).unwrap().as_str(), EXAMPLE);
        }
    }

    #[test]
    fn an_invalid_trace_is_rejected_with_the_reason() {
        for (text, words) in [
            (String::new(), "fewer than 55"),
            (EXAMPLE[..54].to_owned(), "fewer than 55"),
            (format!("{EXAMPLE}-"), "more than 55"),
            (format!("{}1", EXAMPLE.replacen("00", "01", 1)), "more than 55"),
            (EXAMPLE.to_uppercase(), "lower case"),
            (EXAMPLE.replace('-', "_"), "dashes"),
            (EXAMPLE.replace("4bf9", "4-f9"), "dashes"),
            (format!("{}é", &EXAMPLE[..53]), "lower case"),
            (EXAMPLE.replacen("00", "ff", 1), "version ff"),
            (EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)), "all zeros"),
            (EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16)), "all zeros"),
        ] {
            let message = Trace::new(&text).unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
