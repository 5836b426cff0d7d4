//! What clients send in more than one place: cursors, rates, and what is null or absent.

use std::str::FromStr;

use fairlane::parse_rate;
use fairlane_core::Rate;
use fairlane_core::limits::INTEGER_MAX;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use crate::problem::{Problem, ProblemKind};

/// How long a page is unless the client says.
pub(super) const PAGE: usize = 100;

/// Tells null (`Some(None)`) from absent (`None`, by `#[serde(default)]`).
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// What is there is not null; absent is `None`, by `#[serde(default)]`.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// What is certainly a rate; more forms are read than are promised here. The longer the period, the smaller the burst.
const RATE: &str = concat!(
    "^(none|[1-9][0-9]{0,5}/(s( burst [1-9][0-9]{0,5})?|min( burst [1-9][0-9]{0,3})?",
    "|(h|[1-9][0-9]{0,3}s)( burst [1-9][0-9]?)?|day( burst [1-9])?))$"
);

/// No rate, as it is written in files and on the command line.
const NONE: &str = "none";

/// How a rate is written in a change.
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

/// A rate as it is written in a change; null removes it, and so does the word that stands for it everywhere else.
pub(super) fn rate(given: Option<Option<String>>) -> Result<Option<Option<Rate>>, Problem> {
    let read = |text: String| {
        parse_rate(&text).map_err(|error| ProblemKind::Invalid.because(error.to_string()).at("/rate"))
    };
    let given = given.map(|rate| rate.filter(|text| text != NONE));
    given.map(|rate| rate.map(read).transpose()).transpose()
}

/// A change that changes nothing is most likely a mistake.
pub(super) fn nothing_to_change(settings: &str) -> Problem {
    ProblemKind::Invalid.because(format!("nothing is to be changed; name at least one of {settings}"))
}

/// A position that an earlier page named.
pub(super) fn position(cursor: Option<&str>) -> Result<u64, Problem> {
    cursor.map_or(Ok(0), |cursor| number(cursor).ok_or_else(|| no_cursor(cursor)))
}

/// A number that the engine can count to.
pub(super) fn number(text: &str) -> Option<u64> {
    u64::from_str(text).ok().filter(|number| *number < INTEGER_MAX)
}

/// What to say of a cursor that no page can have named.
pub(super) fn no_cursor(cursor: &str) -> Problem {
    let detail =
        format!("{cursor:?} is no cursor; begin without one, and go on with the \"next\" of the last page");
    ProblemKind::Invalid.because(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of what [`RATE`] allows.
    #[test]
    fn what_is_promised_to_be_a_rate_is_one() {
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
