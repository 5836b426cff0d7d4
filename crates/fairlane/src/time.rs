//! Times as text: RFC 3339 in UTC, `2026-01-31T08:30:00.000Z`.
//!
//! Left out on purpose: other time zones when formatting, and leap seconds, which system clocks do
//! not report.

use std::time::SystemTime;

use jiff::Timestamp;

/// The text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a point in time; write it as 2026-01-31T08:30:00Z or 2026-01-31T08:30:00+02:00")]
pub struct InvalidTime(String);

/// Parses a time in RFC 3339.
///
/// ```
/// let time = fairlane::parse_time("1970-01-02T00:00:00Z")?;
/// assert_eq!(time, std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400));
/// # Ok::<(), fairlane::InvalidTime>(())
/// ```
pub fn parse_time(text: &str) -> Result<SystemTime, InvalidTime> {
    let time = text.trim().parse::<Timestamp>().ok().filter(|time| *time >= Timestamp::UNIX_EPOCH);
    time.map(SystemTime::from).ok_or_else(|| InvalidTime(text.to_owned()))
}

/// Formats a time, given in milliseconds since 1970, in RFC 3339.
///
/// ```
/// assert_eq!(fairlane::time_text(86_400_001), "1970-01-02T00:00:00.001Z");
/// ```
pub fn time_text(since_1970_ms: u64) -> String {
    let time = i64::try_from(since_1970_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> u64 {
        parse_time(text).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
    }

    #[test]
    fn known_times_are_parsed() {
        assert_eq!(ms("1970-01-01T00:00:00Z"), 0);
        assert_eq!(ms("2000-02-29T12:34:56.789Z"), 951_827_696_789);
        assert_eq!(ms("2026-01-31T08:30:00+02:00"), ms("2026-01-31 06:30:00z"));
        assert_eq!(ms("2026-01-31T08:30:00-00:30"), ms("2026-01-31T09:00:00Z"));
    }

    #[test]
    fn a_formatted_time_is_parsed_back() {
        let day_ms = 86_400_000;
        for number in 0..60_000 {
            let time_ms = number * day_ms + number * 7919 % day_ms;
            assert_eq!(ms(&time_text(time_ms)), time_ms);
        }
    }

    #[test]
    fn an_invalid_time_is_rejected_with_the_accepted_form() {
        for text in [
            "",
            "tomorrow",
            "2026-01-31",
            "2026-01-31T08:30:00",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T08:30:00.Z",
            "2026-01-31T08:30:00+2:00",
            "1969-12-31T00:00:00Z",
            "2026-01-31T08:30:00.5é",
            "2026-01-3éT08:30:00Z",
        ] {
            let message = parse_time(text).unwrap_err().to_string();
            assert!(message.contains("2026-01-31T08:30:00Z"), "{message}");
        }
    }
}
