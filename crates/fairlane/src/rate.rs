//! Rates as text: `50/s`, `10/min`, `1000/h`, `5/10s`, and with a burst `500/s burst 20`.
//!
//! Invariant: [`parse_rate`] reads what [`rate_text`] writes as the same rate.

use fairlane_core::limits::{RATE_COUNT_MAX, RATE_PERIOD_MS_MAX, RATE_PERIOD_MS_MIN};
use fairlane_core::{OutOfRange, Rate};

use crate::duration::{parse_duration, unit_ms};

const FORMS: &str = "write a count and a period, such as 50/s, 10/min, 1000/h, 5/10s or 500/s burst 20";

/// The text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRate {
    /// It does not have the form of a rate.
    #[error("{0:?} is not a rate; {FORMS}")]
    Form(String),
    /// Its numbers are out of range.
    #[error(
        "{text:?} is not a possible rate: {error}; a rate has a count up to {RATE_COUNT_MAX} and a period from \
         {RATE_PERIOD_MS_MIN} ms to {RATE_PERIOD_MS_MAX} ms"
    )]
    Range {
        /// The invalid text.
        text: String,
        /// The number that is out of range, and its range.
        error: OutOfRange,
    },
}

/// Parses a rate. Without a burst it has the default one: one job, plus what the rate gives in 20
/// ms.
///
/// ```
/// let rate = fairlane::parse_rate("500/s burst 20")?;
/// assert_eq!((rate.count(), rate.period_ms(), rate.burst()), (500, 1000, 20));
/// assert_eq!(fairlane::parse_rate("10/min")?.period_ms(), 60_000);
/// assert!(fairlane::parse_rate("fast").unwrap_err().to_string().contains("50/s, 10/min"));
/// # Ok::<(), fairlane::InvalidRate>(())
/// ```
pub fn parse_rate(text: &str) -> Result<Rate, InvalidRate> {
    let parts = parts(text).ok_or_else(|| InvalidRate::Form(text.to_owned()))?;
    let (count, period_ms, burst) = parts;
    Rate::new(count, period_ms, burst).map_err(|error| InvalidRate::Range { text: text.to_owned(), error })
}

/// The count, the period in milliseconds and the burst; `None` if the text has another form.
fn parts(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (rate, burst) = match text.split_once("burst") {
        Some((rate, burst)) => (rate, Some(number(burst)?)),
        None => (text, None),
    };
    let (count, period) = rate.split_once('/')?;
    let period = period.trim();
    let period_ms = match unit_ms(period) {
        Some(unit_ms) => unit_ms,
        None => parse_duration(period).ok()?.as_millis().try_into().ok()?,
    };
    Some((number(count)?, period_ms, burst))
}

fn number(text: &str) -> Option<u64> {
    text.trim().replace('_', "").parse().ok()
}

/// Formats a rate such as `50/s`, with its burst if that is not the default.
///
/// ```
/// assert_eq!(fairlane::rate_text(fairlane::parse_rate("500 / sec burst 20")?), "500/s burst 20");
/// # Ok::<(), fairlane::InvalidRate>(())
/// ```
pub fn rate_text(rate: Rate) -> String {
    rate.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed() {
        for (text, count, period_ms, burst) in [
            ("50/s", 50, 1000, None),
            ("10/min", 10, 60_000, None),
            ("10/m", 10, 60_000, None),
            ("1000/h", 1000, 3_600_000, None),
            ("10_000 / day", 10_000, 86_400_000, None),
            ("5/10s", 5, 10_000, None),
            ("500/s burst 20", 500, 1000, Some(20)),
            (" 500/s  burst  1 ", 500, 1000, Some(1)),
        ] {
            assert_eq!(parse_rate(text), Ok(Rate::new(count, period_ms, burst).unwrap()), "{text}");
        }
    }

    #[test]
    fn an_invalid_rate_is_rejected_with_the_accepted_forms() {
        for text in ["", "50", "/s", "s/50", "50/fortnight", "50/s burst", "50/s burst many", "-1/s", "1.5/s"]
        {
            let message = parse_rate(text).unwrap_err().to_string();
            assert!(message.contains(&format!("{text:?}")) && message.contains("10/min"), "{message}");
        }
    }

    #[test]
    fn a_rate_out_of_range_is_rejected_with_its_range() {
        for text in ["0/s", "5/1ms", "1/2d", "2_000_000/s", "1/s burst 0"] {
            let message = parse_rate(text).unwrap_err().to_string();
            assert!(message.contains("must be between"), "{message}");
        }
    }

    #[test]
    fn a_formatted_rate_is_parsed_back() {
        for text in ["50/s", "10/min", "7/h burst 3", "1/day", "5/10s", "1/90s", "3/1500ms", "500/s burst 20"]
        {
            let rate = parse_rate(text).unwrap();
            assert_eq!(rate_text(rate), text);
        }
    }
}
