//! Times as text: RFC 3339 in UTC.

use fairlane_core::Micros;
use jiff::Timestamp;

/// A time in the form `2024-05-01T12:00:00.000000Z`.
pub(crate) fn rfc_3339(time: Micros) -> String {
    let time = i64::try_from(time.0).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    format!("{:.6}", time.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_rfc_3339() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_868_799, "2000-02-29T23:59:59.000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000Z"),
            (1_714_564_800, "2024-05-01T12:00:00.000000Z"),
            (4_102_444_799, "2099-12-31T23:59:59.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc_3339(Micros(seconds * 1_000_000)), expected);
        }
        assert!(rfc_3339(Micros(1_000_042)).ends_with(":01.000042Z"));
    }
}
