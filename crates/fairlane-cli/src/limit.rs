//! Limits on the command line: a value, or `none`.

use std::fmt::Display;

use fairlane::{Rate, parse_rate, rate_text};

use crate::tables::thousands;

/// A limit to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit<T> {
    /// The limit is this value.
    At(T),
    /// The limit is removed.
    None,
}

impl<T> From<Limit<T>> for Option<T> {
    fn from(limit: Limit<T>) -> Self {
        match limit {
            Limit::At(value) => Some(value),
            Limit::None => None,
        }
    }
}

/// The change of `--pause` or `--resume`, if one of them is given.
pub fn paused(pause: bool, resume: bool) -> Option<bool> {
    (pause || resume).then_some(pause)
}

/// Parses a rate or `none`.
pub fn rate_or_none(text: &str) -> Result<Limit<Rate>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    parse_rate(text).map(Limit::At).map_err(|error| format!("{error}; or none"))
}

/// Parses a whole number or `none`.
pub fn number_or_none(text: &str) -> Result<Limit<u32>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let wrong = || format!("{text:?} is neither a whole number from 0 to {} nor none", u32::MAX);
    text.parse().map(Limit::At).map_err(|_| wrong())
}

/// Parses a whole number within bounds.
pub fn within<const LEAST: u32, const MOST: u32>(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (LEAST..=MOST).contains(&number) => Ok(number),
        _ => Err(format!("it must be a whole number between {LEAST} and {MOST}")),
    }
}

/// Parses a whole number that is not negative.
pub fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("it must be a whole number between 0 and {}", u64::MAX))
}

/// A learned rate binds below this, in thousandths of a job per second. No engine leases jobs of one
/// type as fast, so beyond it the engine is the limit. A type without a rate keeps what it has
/// learned: it grows from the last rejection on and is never dropped.
const BINDING_MILLI_MAX: u64 = 100_000_000;

/// Formats a limit.
pub fn limit_text(limit: Option<&impl Display>) -> String {
    limit.map_or("unlimited".to_owned(), |limit| limit.to_string())
}

/// Formats the effective rate, given in thousandths of a job per second: the configured rate,
/// unless rejections of the downstream have reduced it. `28.5/s`, `12,590/s`, `1.5/min`, `unlimited`.
pub fn rate_now_text(milli: u64, set: Option<Rate>) -> String {
    if let Some(set) = set.filter(|set| milli >= set.milli_per_second()) {
        return rate_text(set);
    }
    if set.is_none() && milli >= BINDING_MILLI_MAX {
        return "unlimited".to_owned();
    }
    match milli as f64 / 1000.0 {
        rate if rate < 0.1 => format!("{:.1}/min", rate * 60.0),
        rate if rate < 100.0 => format!("{rate:.1}/s"),
        rate => format!("{}/s", thousands(rate.round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_formatted_as_configured_and_a_low_one_per_minute() {
        let slowed = |milli| rate_now_text(milli, None);
        let texts = [100, 28_460, 100_000, 12_590_100, 33, 2].map(slowed);
        assert_eq!(texts, ["0.1/s", "28.5/s", "100/s", "12,590/s", "2.0/min", "0.1/min"]);
        assert_eq!(slowed(112_590_100), "unlimited", "a rate that no engine reaches does not bind");
        let set = parse_rate("200000/s").unwrap();
        assert_eq!(rate_now_text(112_590_100, Some(set)), "112,590/s");
        for text in ["1/min", "2/min", "1/h", "50/s"] {
            let set = parse_rate(text).unwrap();
            assert_eq!(rate_now_text(set.milli_per_second(), Some(set)), text);
        }
        let set = parse_rate("50/s").unwrap();
        assert_eq!(rate_now_text(7_000, Some(set)), "7.0/s");
    }

    #[test]
    fn a_limit_is_a_value_or_none() {
        assert_eq!(rate_or_none("none"), Ok(Limit::None));
        assert_eq!(rate_or_none("5/s"), Ok(Limit::At(Rate::per_second(5).unwrap())));
        assert!(rate_or_none("five").unwrap_err().contains("10/min"));
        assert_eq!(number_or_none("7"), Ok(Limit::At(7)));
        assert!(number_or_none("-1").unwrap_err().contains("nor none"));
    }

    #[test]
    fn an_out_of_range_number_is_rejected_with_its_bounds() {
        assert_eq!((within::<1, 1000>("1"), within::<1, 1000>("1000")), (Ok(1), Ok(1000)));
        for text in ["0", "1001", "-1", "1.5", "many"] {
            assert!(within::<1, 1000>(text).unwrap_err().contains("between 1 and 1000"));
        }
        assert_eq!(count("0"), Ok(0));
        assert!(count("-1").unwrap_err().contains("between 0 and"));
    }
}
