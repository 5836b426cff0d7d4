//! The state of machines as text, in the layout of Redis, so that two engines can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The value of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DumpValue {
    /// A string.
    Text(String),
    /// A hash.
    Hash(BTreeMap<String, String>),
    /// A list, head first.
    List(Vec<String>),
    /// A sorted set in ascending order, with scores.
    Sorted(Vec<(u64, String)>),
    /// A sorted set with a score that is negative or has a fraction, in ascending order; scores are
    /// the bits of a double.
    Scored(Vec<(u64, String)>),
    /// A set.
    Set(Vec<String>),
}

/// All keys with their values, without the prefix of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dump(pub BTreeMap<String, DumpValue>);

impl DumpValue {
    /// A sorted set in ascending order, with any scores.
    pub fn scored(members: Vec<(f64, String)>) -> Self {
        let is_whole = members.iter().all(|(score, _)| *score >= 0.0 && score.fract() == 0.0);
        match is_whole {
            true => Self::Sorted(members.into_iter().map(|(score, member)| (score as u64, member)).collect()),
            false => {
                Self::Scored(members.into_iter().map(|(score, member)| (score.to_bits(), member)).collect())
            }
        }
    }
}

impl Dump {
    pub(crate) fn add_field(&mut self, key: String, field: &str, value: String) {
        let hash = self.0.entry(key).or_insert_with(|| DumpValue::Hash(BTreeMap::new()));
        if let DumpValue::Hash(fields) = hash {
            fields.insert(field.to_owned(), value);
        }
    }

    /// Removes keys without a value.
    pub(crate) fn remove_empty(&mut self) {
        self.0.retain(|_, value| match value {
            DumpValue::Text(text) => !text.is_empty(),
            DumpValue::Hash(fields) => !fields.is_empty(),
            DumpValue::List(items) | DumpValue::Set(items) => !items.is_empty(),
            DumpValue::Sorted(items) | DumpValue::Scored(items) => !items.is_empty(),
        });
    }

    /// A readable text of the keys that differ, one per paragraph.
    pub fn difference(&self, other: &Self) -> String {
        let mut lines = String::new();
        let keys: BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        for key in keys {
            let (mine, theirs) = (self.0.get(key), other.0.get(key));
            if mine != theirs {
                let _ = writeln!(lines, "{key}\n  left  {mine:?}\n  right {theirs:?}");
            }
        }
        lines
    }
}
