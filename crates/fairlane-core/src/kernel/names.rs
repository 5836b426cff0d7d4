//! Names: groups, jobs, types and workers.
//!
//! A name is 1 to 128 bytes of UTF-8 without control characters. In memory, `:` and `%` are kept
//! escaped, so that names joined by `:` (as in Redis keys) can be split again and two groups never
//! share a key. Both engines order names by their escaped bytes. Formats that people read have the
//! unescaped form, binary ones the escaped form.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::NAME_BYTES_MAX;

/// Why a name was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name has no characters.
    #[error("a {0} must not be empty")]
    Empty(&'static str),
    /// Longer than [`NAME_BYTES_MAX`].
    #[error("a {kind} has at most {most} bytes, this one has {bytes}")]
    TooLong {
        /// The kind of name.
        kind: &'static str,
        /// The length of the name, in bytes.
        bytes: usize,
        /// The longest length, in bytes.
        most: usize,
    },
    /// A control character, such as a line break.
    #[error("a {kind} must not contain control characters (found one at byte {at})")]
    Control {
        /// The kind of name.
        kind: &'static str,
        /// The byte offset of the first control character.
        at: usize,
    },
    /// An escaped name that `escape` would not have written.
    #[error("{0:?} is not an escaped name")]
    NotEscaped(String),
}

fn escape(kind: &'static str, raw: &str) -> Result<Arc<str>, InvalidName> {
    if raw.is_empty() {
        return Err(InvalidName::Empty(kind));
    }
    if raw.len() > NAME_BYTES_MAX {
        return Err(InvalidName::TooLong { kind, bytes: raw.len(), most: NAME_BYTES_MAX });
    }
    // Most names are plain ASCII, which a scan of the bytes detects.
    if raw.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'%' | b':')) {
        return Ok(raw.into());
    }
    if let Some((at, _)) = raw.char_indices().find(|(_, c)| c.is_control()) {
        return Err(InvalidName::Control { kind, at });
    }
    if raw.contains(['%', ':']) {
        return Ok(raw.replace('%', "%25").replace(':', "%3A").into());
    }
    Ok(raw.into())
}

fn unescape(escaped: &str) -> Cow<'_, str> {
    if escaped.contains('%') {
        return escaped.replace("%3A", ":").replace("%25", "%").into();
    }
    escaped.into()
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates a name as the user writes it.
            pub fn new(raw: impl AsRef<str>) -> Result<Self, InvalidName> {
                escape($kind, raw.as_ref()).map(Self)
            }

            /// Restores a name from its escaped form, as it appears in keys and replies.
            pub fn from_escaped(escaped: &str) -> Result<Self, InvalidName> {
                let name = Self::new(unescape(escaped))?;
                if name.escaped() == escaped {
                    return Ok(name);
                }
                Err(InvalidName::NotEscaped(escaped.to_owned()))
            }

            /// The escaped form, which contains no `:`.
            pub fn escaped(&self) -> &str {
                &self.0
            }

            /// The form that people write. Most names have nothing to unescape and are borrowed.
            pub fn unescaped(&self) -> Cow<'_, str> {
                unescape(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.unescaped())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.to_string())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match serializer.is_human_readable() {
                    true => serializer.serialize_str(&self.unescaped()),
                    false => serializer.serialize_str(self.escaped()),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let parse = if deserializer.is_human_readable() { Self::from_str } else { Self::from_escaped };
                crate::encoding::parsed(deserializer, $kind, parse)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(raw: &str) -> Result<Self, InvalidName> {
                Self::new(raw)
            }
        }
    };
}

name!(
    /// One customer: the unit of weight, limits and pause.
    GroupId, "group id"
);
name!(
    /// One job, unique within its group.
    JobId, "job id"
);
name!(
    /// The kind of work of a job; it determines the processor and thereby the downstream.
    TypeId, "job type"
);
name!(
    /// One bulk action, unique within its group.
    BulkId, "bulk action id"
);
name!(
    /// The worker that leases jobs.
    WorkerId, "worker id"
);

name!(
    /// One acquisition of a lock; known to its holder or waiter only.
    LockToken, "lock token"
);
name!(
    /// The name of a lock's holder, for people.
    HolderName, "holder"
);
name!(
    /// One process that waits, for locks for instance.
    ProcessId, "process id"
);

name!(
    /// One waiting room.
    RoomName, "room"
);
name!(
    /// One user of a waiting room.
    UserId, "user id"
);
name!(
    /// One place in a waiting room; known to its user only.
    PlaceToken, "place token"
);
name!(
    /// One change in the activity log; it is recorded once under its id.
    ActivityId, "activity id"
);
name!(
    /// The name of a ranking board.
    BoardName, "board"
);
name!(
    /// One member of a board: what is ranked.
    MemberId, "member"
);
name!(
    /// One event of a board; it counts once under its id.
    EventId, "event id"
);
name!(
    /// One attempt to rebuild a board.
    RebuildId, "rebuild id"
);

/// Separates a worker's name from the process that leases for it.
const PROCESS_MARK: char = '~';
/// Hexadecimal digits of a process number.
const PROCESS_DIGITS: usize = 16;

impl WorkerId {
    /// The worker's id within one process, so that its request numbers are not shared with another
    /// process. Long names are truncated, so two of them may become equal.
    pub fn of_process(&self, process: u64) -> Self {
        let mut name = self.to_string();
        while name.len() > NAME_BYTES_MAX - PROCESS_DIGITS - PROCESS_MARK.len_utf8() {
            name.pop();
        }
        Self::new(format!("{name}{PROCESS_MARK}{process:0PROCESS_DIGITS$x}"))
            .expect("a suffix of hexadecimal digits is valid and fits")
    }

    /// The name that the worker was configured with, without [its process](Self::of_process).
    pub fn given_name(&self) -> String {
        let full = self.to_string();
        let is_process =
            |text: &str| text.len() == PROCESS_DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        match full.rsplit_once(PROCESS_MARK) {
            Some((name, process)) if is_process(process) => name.to_owned(),
            _ => full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_escaped_form() {
        for raw in ["a", "customer:42", "50%", "%3A", "a%25:b", "고객-1", "with space"] {
            let name = GroupId::new(raw).unwrap();
            assert_eq!(name.to_string(), raw);
            assert!(!name.escaped().contains(':'));
            assert_eq!(GroupId::from_escaped(name.escaped()).unwrap(), name);
        }
    }

    #[test]
    fn a_worker_of_a_process_is_shown_under_the_name_it_was_given() {
        for given in ["w", "w~1", "w~0123456789abcdef", "größer:50%"] {
            let own = WorkerId::new(given).unwrap().of_process(7);
            assert_eq!(own.given_name(), given);
            assert_ne!(own.to_string(), given);
        }
        let long = "ü".repeat(NAME_BYTES_MAX / 2);
        let own = WorkerId::new(&long).unwrap().of_process(u64::MAX);
        assert!(long.starts_with(&own.given_name()));
        assert_eq!(WorkerId::new("w~1").unwrap().given_name(), "w~1");
    }

    #[test]
    fn a_bad_name_is_refused_with_its_reason() {
        assert_eq!(JobId::new(""), Err(InvalidName::Empty("job id")));
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(JobId::new(&long), Err(InvalidName::TooLong { kind: "job id", bytes: 129, most: 128 }));
        assert_eq!(TypeId::new("a\nb"), Err(InvalidName::Control { kind: "job type", at: 1 }));
        assert!(matches!(WorkerId::from_escaped("a:b"), Err(InvalidName::NotEscaped(_))));
    }
}
