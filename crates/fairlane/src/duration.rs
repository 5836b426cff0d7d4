//! Durations as text: `500ms`, `30s`, `5m`, `2h`, `1d`, and sums such as `1h30m`.
//!
//! Invariant: [`parse_duration`] reads what [`duration_text`] writes. Left out on purpose:
//! fractions, months and years, which are ambiguous.

use std::time::Duration;

/// The units, longest first, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
/// Synonyms of units.
const SYNONYMS: [(&str, &str); 3] = [("min", "m"), ("sec", "s"), ("day", "d")];

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a length of time; write a whole number and a unit: 500ms, 30s, 5m, 2h, 1d or 1h30m")]
pub struct InvalidDuration(String);

/// Parses a duration.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(fairlane::parse_duration("500ms")?, Duration::from_millis(500));
/// assert_eq!(fairlane::parse_duration("1h30m")?, Duration::from_secs(5400));
/// assert!(fairlane::parse_duration("30").unwrap_err().to_string().contains("500ms, 30s, 5m, 2h, 1d"));
/// # Ok::<(), fairlane::InvalidDuration>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration(text.to_owned());
    let mut rest = text.trim();
    let mut total_ms = None::<u64>;
    while !rest.is_empty() {
        let (number, after) = split(rest, |sign| sign.is_ascii_digit());
        let (unit, after) = split(after.trim_start(), |sign| sign.is_ascii_alphabetic());
        let number: u64 = number.parse().map_err(|_| invalid())?;
        let part_ms = unit_ms(unit).and_then(|unit_ms| number.checked_mul(unit_ms)).ok_or_else(invalid)?;
        total_ms = Some(total_ms.unwrap_or(0).checked_add(part_ms).ok_or_else(invalid)?);
        rest = after.trim_start();
    }
    total_ms.map(Duration::from_millis).ok_or_else(invalid)
}

/// Formats a duration, to the millisecond.
///
/// ```
/// assert_eq!(fairlane::duration_text(std::time::Duration::from_secs(5400)), "1h30m");
/// ```
pub fn duration_text(duration: Duration) -> String {
    let mut rest_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, unit_ms) in UNITS {
        if rest_ms >= unit_ms {
            text.push_str(&format!("{}{unit}", rest_ms / unit_ms));
            rest_ms %= unit_ms;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// The length of a unit in milliseconds.
pub(crate) fn unit_ms(unit: &str) -> Option<u64> {
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == unit);
    let unit = synonym.map_or(unit, |(_, unit)| unit);
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ms)| *ms)
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|sign| !belongs(sign)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        for (text, ms) in [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("5 min", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            (" 1h 30m ", 5_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn an_invalid_duration_is_rejected_with_the_accepted_forms() {
        for text in
            ["", " ", "30", "s", "-5s", "1.5h", "2w", "5 m x", "99999999999999999999s", "300000000000d"]
        {
            let message = parse_duration(text).unwrap_err().to_string();
            assert!(message.contains(&format!("{text:?}")) && message.contains("1h30m"), "{message}");
        }
    }

    #[test]
    fn a_formatted_duration_is_parsed_back() {
        for ms in [0, 1, 999, 1000, 61_001, 5_400_000, 90_061_001] {
            let duration = Duration::from_millis(ms);
            assert_eq!(parse_duration(&duration_text(duration)), Ok(duration));
        }
    }
}
