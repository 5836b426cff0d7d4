//! Serialisation where a derive is not enough: bytes as bytes, validated names, lists with a
//! bounded length, and settings that can be left, cleared or set.
//!
//! Invariant: deserialisation never produces a value that its constructor would reject, or a list
//! that `validate` would reject. Left out on purpose: the format, which the sender chooses.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Opaque bytes as one byte string: for `#[serde(with = …)]`.
pub(crate) mod bytes {
    use std::fmt;
    use std::sync::Arc;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Arc<[u8]>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Arc<[u8]>, E> {
            Ok(bytes.into())
        }

        /// Lua has one type for bytes and text.
        fn visit_str<E: Error>(self, text: &str) -> Result<Arc<[u8]>, E> {
            Ok(text.as_bytes().into())
        }
    }
}

/// A change that leaves a setting, clears it or sets it, as an optional list of at most one item:
/// for `#[serde(with = …)]`. Some formats do not distinguish `Some(None)` from `None`.
pub(crate) mod change {
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::{Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(
        change: &Option<Option<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        change.as_ref().map(Option::as_slice).serialize(serializer)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(bound = "T: Deserialize<'de>")]
        struct Items<T>(#[serde(deserialize_with = "super::list::<1, _, _>")] Vec<T>);
        let items = Option::<Items<T>>::deserialize(deserializer)?;
        Ok(items.map(|Items(mut items)| items.pop()))
    }
}

/// A list of at most `MOST` items; deserialisation stops at the first item beyond.
pub(crate) fn list<'de, const MOST: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List::<MOST, T>(PhantomData))
}

struct List<const MOST: usize, T>(PhantomData<T>);

impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for List<MOST, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MOST} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::with_capacity(sequence.size_hint().unwrap_or(0).min(MOST));
        while let Some(item) = sequence.next_element()? {
            if items.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            items.push(item);
        }
        Ok(items)
    }
}

/// A string that `parse` accepts.
pub(crate) fn parsed<'de, T, E: fmt::Display, D: Deserializer<'de>>(
    deserializer: D,
    kind: &'static str,
    parse: fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(Parsed { kind, parse })
}

struct Parsed<T, E> {
    kind: &'static str,
    parse: fn(&str) -> Result<T, E>,
}

impl<T, P: fmt::Display> Visitor<'_> for Parsed<T, P> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.kind)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}
