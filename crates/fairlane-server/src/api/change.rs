//! Fields that several requests have in common: cursors, rates, and null or absent values.

use std::str::FromStr;

use fairlane::parse_rate;
use fairlane_core::Rate;
use fairlane_core::limits::INTEGER_MAX;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use crate::problem::{Problem, ProblemKind};

/// The default number of items on a page.
pub(super) const PAGE: usize = 100;

/// Distinguishes null (`Some(None)`) from absent (`None`, by `#[serde(default)]`).
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// Refuses null; absent is `None`, by `#[serde(default)]`.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The pattern of a rate in the API description. The server accepts more forms. The longer the
/// period, the smaller the burst.
const RATE: &str = concat!(
    "^(none|[1-9][0-9]{0,5}/(s( burst [1-9][0-9]{0,5})?|min( burst [1-9][0-9]{0,3})?",
    "|(h|[1-9][0-9]{0,3}s)( burst [1-9][0-9]?)?|day( burst [1-9])?))$"
);

/// The text for no rate, as in files and on the command line.
const NONE: &str = "none";

/// The schema of a rate in a change.
pub(super) fn rates() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .pattern(Some(RATE))
        .description(Some(
            "Jobs and a period, such as 100/s, 10/min, 5/10s or 500/s burst 20; null or none removes the rate.",
        ))
        .examples(["100/s"])
        .build()
}

/// A rate in a change; null removes it, and so does [`NONE`].
pub(super) fn rate(given: Option<Option<String>>) -> Result<Option<Option<Rate>>, Problem> {
    let read = |text: String| {
        parse_rate(&text).map_err(|error| ProblemKind::Invalid.because(error.to_string()).at("/rate"))
    };
    let given = given.map(|rate| rate.filter(|text| text != NONE));
    given.map(|rate| rate.map(read).transpose()).transpose()
}

/// A change that has at least one of these settings: an empty one is most likely a mistake.
pub(super) fn filled<P: Default + PartialEq>(change: P, settings: &str) -> Result<P, Problem> {
    if change == P::default() {
        let detail = format!("the change is empty; set at least one of {settings}");
        return Err(ProblemKind::Invalid.because(detail));
    }
    Ok(change)
}

/// The position in a cursor.
pub(super) fn position(cursor: Option<&str>) -> Result<u64, Problem> {
    cursor.map_or(Ok(0), |cursor| number(cursor).ok_or_else(|| invalid_cursor(cursor)))
}

/// A number within the range of the engine.
pub(super) fn number(text: &str) -> Option<u64> {
    u64::from_str(text).ok().filter(|number| *number < INTEGER_MAX)
}

/// The problem of an invalid cursor.
pub(super) fn invalid_cursor(cursor: &str) -> Problem {
    let detail = format!(
        "{cursor:?} is not a valid cursor; begin without one, and continue with the \"next\" of the last page"
    );
    ProblemKind::Invalid.because(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the smallest and the largest rates that match [`RATE`].
    #[test]
    fn a_rate_that_matches_the_description_is_accepted() {
        for text in [
            "none",
            "1/s",
            "999999/s burst 999999",
            "999999/min burst 9999",
            "999999/h burst 99",
            "1/1s burst 99",
            "999999/9999s burst 99",
            "999999/day burst 9",
            "1/day",
        ] {
            assert!(rate(Some(Some(text.to_owned()))).is_ok(), "{text}");
        }
    }
}
