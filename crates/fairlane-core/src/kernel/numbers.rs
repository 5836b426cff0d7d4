//! Times, fences, costs and weights as types of their own, so that the compiler finds mix-ups.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{COST_MAX, INTEGER_MAX, WEIGHT_MAX};

/// An instant as the number of microseconds since the Unix epoch. Core never reads a clock; time is
/// always an argument.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Micros(pub u64);

impl TryFrom<u64> for Micros {
    type Error = OutOfRange;
    fn try_from(value: u64) -> Result<Self, OutOfRange> {
        within("a time in us", value, 0, INTEGER_MAX - 1).map(Self)
    }
}

impl Micros {
    /// The instant `ms` milliseconds after the Unix epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1000)
    }

    /// Whole milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1000
    }

    /// The instant `ms` milliseconds later.
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0 + ms * 1000)
    }

    /// The instant `us` microseconds later.
    pub const fn plus_us(self, us: u64) -> Self {
        Self(self.0 + us)
    }

    /// Microseconds since `earlier`, or 0 if `earlier` is in the future.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A number that grows with every lease: of two leases of a job, the later one has
/// the larger fence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a worker's lease request. The worker repeats it until it gets a
/// reply, then raises it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct RequestNumber(pub u64);

/// A number out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be between {least} and {most}, not {got}")]
pub struct OutOfRange {
    /// Name of the number, for the error message.
    pub what: &'static str,
    /// The smallest valid value.
    pub least: u64,
    /// The largest valid value.
    pub most: u64,
    /// The rejected value.
    pub got: u64,
}

/// Returns `got` if it is within the bounds.
pub fn within(what: &'static str, got: u64, least: u64, most: u64) -> Result<u64, OutOfRange> {
    if (least..=most).contains(&got) {
        return Ok(got);
    }
    Err(OutOfRange { what, least, most, got })
}

impl Fence {
    /// A fence from a client's request.
    pub fn new(value: u64) -> Result<Self, OutOfRange> {
        within("a fence", value, 1, INTEGER_MAX - 1).map(Self)
    }
}

impl TryFrom<u64> for Fence {
    type Error = OutOfRange;
    /// A deserialised fence. Zero means no lease.
    fn try_from(value: u64) -> Result<Self, OutOfRange> {
        within("a fence", value, 0, INTEGER_MAX - 1).map(Self)
    }
}

impl RequestNumber {
    /// A request number from a client's request.
    pub fn new(value: u64) -> Result<Self, OutOfRange> {
        within("a request number", value, 1, INTEGER_MAX - 1).map(Self)
    }

    /// The next request number; an error after the largest that a store can hold.
    pub fn next(self) -> Result<Self, OutOfRange> {
        Self::new(self.0.saturating_add(1))
    }
}

impl TryFrom<u64> for RequestNumber {
    type Error = OutOfRange;
    fn try_from(value: u64) -> Result<Self, OutOfRange> {
        Self::new(value)
    }
}

/// How much a job counts towards its group's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Cost(u32);

impl Cost {
    /// A cost from 1 to 10,000.
    pub fn new(value: u32) -> Result<Self, OutOfRange> {
        within("a cost", value.into(), 1, COST_MAX.into()).map(|_| Self(value))
    }

    /// The cost as an integer.
    pub fn get(self) -> u64 {
        self.0.into()
    }
}

impl TryFrom<u32> for Cost {
    type Error = OutOfRange;
    fn try_from(value: u32) -> Result<Self, OutOfRange> {
        Self::new(value)
    }
}

impl From<Cost> for u32 {
    fn from(cost: Cost) -> Self {
        cost.0
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self(1)
    }
}

/// A group's share relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

impl Weight {
    /// A weight from 1 to 1000.
    pub fn new(value: u32) -> Result<Self, OutOfRange> {
        within("a weight", value.into(), 1, WEIGHT_MAX.into()).map(|_| Self(value))
    }

    /// The weight as an integer.
    pub fn get(self) -> u64 {
        self.0.into()
    }
}

impl TryFrom<u32> for Weight {
    type Error = OutOfRange;
    fn try_from(value: u32) -> Result<Self, OutOfRange> {
        Self::new(value)
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

/// Urgency within a type. The levels share the type's capacity 16:4:1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// Urgent work, or small customers.
    High,
    /// Ordinary work.
    #[default]
    Normal,
    /// Large batches, or batches that can wait.
    Low,
}

impl Level {
    /// All levels, most urgent first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// The index of the level: 0, 1 or 2.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name of the level: `high`, `normal` or `low`.
    pub const fn as_str(self) -> &'static str {
        ["high", "normal", "low"][self.index()]
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A string that is not the name of a level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a level; the levels are high, normal and low")]
pub struct UnknownLevel(String);

impl std::str::FromStr for Level {
    type Err = UnknownLevel;
    fn from_str(name: &str) -> Result<Self, UnknownLevel> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == name);
        found.ok_or_else(|| UnknownLevel(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, U64Deserializer};

    use super::*;

    fn read<'de, T: Deserialize<'de>>(value: u64) -> Result<T, Error> {
        let deserializer: U64Deserializer<Error> = value.into_deserializer();
        T::deserialize(deserializer)
    }

    #[test]
    fn numbers_beyond_what_a_store_holds_are_refused_when_deserialised() {
        assert_eq!(read(INTEGER_MAX - 1), Ok(RequestNumber(INTEGER_MAX - 1)));
        assert_eq!((read(0), read(INTEGER_MAX - 1)), (Ok(Fence(0)), Ok(Fence(INTEGER_MAX - 1))));
        assert_eq!(read(INTEGER_MAX - 1), Ok(Micros(INTEGER_MAX - 1)));
        for value in [INTEGER_MAX, i64::MAX as u64 + 1, u64::MAX] {
            assert!(read::<RequestNumber>(value).is_err() && read::<Fence>(value).is_err(), "{value}");
            assert!(read::<Micros>(value).is_err(), "{value}");
        }
        assert!(read::<RequestNumber>(0).is_err());
    }

    #[test]
    fn the_largest_request_number_has_no_next() {
        assert_eq!(RequestNumber(7).next(), Ok(RequestNumber(8)));
        assert!(RequestNumber(INTEGER_MAX - 1).next().is_err());
        assert!(RequestNumber(u64::MAX).next().is_err());
    }
}
