//! Names of locks, such as `coupon:issue:42`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::LOCK_NAME_BYTES_MAX;
use crate::names::{GroupId, InvalidName};

const KIND: &str = "lock name";

/// The name of a lock: 1 to 256 bytes of UTF-8 without control characters. Unlike other names it is
/// stored as it is written: `lock:<name>` is its key in Redis.
///
/// A name that begins with a group and `:` belongs to that group: a key that is bound to groups may
/// use the locks of these groups only.
#[derive(Clone)]
pub struct LockName {
    text: Arc<str>,
    group: Option<GroupId>,
}

impl LockName {
    /// Validates a name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(InvalidName::Empty(KIND));
        }
        if text.len() > LOCK_NAME_BYTES_MAX {
            return Err(InvalidName::TooLong { kind: KIND, bytes: text.len(), most: LOCK_NAME_BYTES_MAX });
        }
        if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
            return Err(InvalidName::Control { kind: KIND, at });
        }
        let group = text.split_once(':').and_then(|(group, _)| GroupId::from_escaped(group).ok());
        Ok(Self { text: text.into(), group })
    }

    /// The name as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The group that the lock belongs to.
    pub fn group(&self) -> Option<&GroupId> {
        self.group.as_ref()
    }
}

impl PartialEq for LockName {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for LockName {}

impl PartialOrd for LockName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LockName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for LockName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl FromStr for LockName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl Serialize for LockName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for LockName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::encoding::parsed(deserializer, KIND, Self::from_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_colons_and_belongs_to_the_group_before_the_first() {
        let name = LockName::new("coupon:issue:42").unwrap();
        assert_eq!(name.to_string(), "coupon:issue:42");
        assert_eq!(name.group(), Some(&GroupId::new("coupon").unwrap()));
        let escaped = LockName::new("a%3Ab:seat").unwrap();
        assert_eq!(escaped.group(), Some(&GroupId::new("a:b").unwrap()));
        for without in ["nightly", ":seat", "50%:seat"] {
            assert_eq!(LockName::new(without).unwrap().group(), None, "{without}");
        }
    }

    #[test]
    fn a_bad_name_is_refused_with_its_reason() {
        assert!(LockName::new("").is_err() && LockName::new("a\nb").is_err());
        assert!(LockName::new("x".repeat(LOCK_NAME_BYTES_MAX)).is_ok());
        let long = LockName::new("x".repeat(LOCK_NAME_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(long.to_string(), "a lock name has at most 256 bytes, this one has 257");
    }
}
