//! One setting: its key, and how its value is parsed and printed.
//!
//! Invariant: a printed value can be written into the file; in quotes, unless it is a number.

use toml::Value;

/// A value before it is parsed.
#[derive(Debug, Clone, PartialEq)]
pub enum RawValue {
    /// A TOML value from the file.
    Typed(Value),
    /// Text from a variable or from the command line.
    Bare(String),
}

/// A setting of a `T`.
pub struct Setting<T: 'static> {
    /// The key in the file.
    pub key: &'static str,
    /// Formats the value.
    pub show: fn(&T) -> String,
    /// Parses and sets the value; the error says what it must be.
    pub set: fn(&mut T, &RawValue) -> Result<(), String>,
}

/// A list of settings: key, field, and the module in `kinds` that parses and formats the value.
macro_rules! settings {
    ($($key:literal => $($field:ident).+ : $kind:ident),* $(,)?) => {
        &[$(Setting {
            key: $key,
            show: |from| kinds::$kind::show(&from.$($field).+),
            set: |into, raw| {
                into.$($field).+ = kinds::$kind::parse(raw)?;
                Ok(())
            },
        }),*]
    };
}
pub(super) use settings;

impl RawValue {
    /// The value as text; none for another kind of TOML value.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Typed(Value::String(text)) | Self::Bare(text) => Some(text),
            Self::Typed(_) => None,
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Self::Typed(Value::Integer(number)) => Some(*number),
            Self::Bare(text) => text.trim().parse().ok(),
            Self::Typed(_) => None,
        }
    }

    fn flag(&self) -> Option<bool> {
        match self {
            Self::Typed(Value::Boolean(flag)) => Some(*flag),
            Self::Bare(text) => text.trim().parse().ok(),
            Self::Typed(_) => None,
        }
    }
}

/// Parses and formats values. The error of `parse` says what the value must be.
pub mod kinds {
    use super::RawValue;

    /// A whole number from 0.
    pub mod number {
        use super::RawValue;
        use std::fmt::Display;

        pub fn parse<N: TryFrom<i64>>(raw: &RawValue) -> Result<N, String> {
            let number = raw.number().ok_or("a whole number")?;
            let needed =
                if number < 0 { "a whole number and not negative" } else { "a smaller whole number" };
            N::try_from(number).map_err(|_| needed.to_owned())
        }

        pub fn show(number: &impl Display) -> String {
            number.to_string()
        }
    }

    /// A whole number from 1.
    pub mod amount {
        use super::RawValue;
        pub use super::number::show;

        pub fn parse<N: TryFrom<i64>>(raw: &RawValue) -> Result<N, String> {
            match raw.number() {
                Some(number) if number > 0 => super::number::parse(raw),
                _ => Err("a whole number from 1".to_owned()),
            }
        }
    }

    /// A whole number from 1, or none.
    pub mod amount_or_none {
        use super::RawValue;

        pub fn parse(raw: &RawValue) -> Result<Option<usize>, String> {
            if raw.text() == Some("none") {
                return Ok(None);
            }
            let needed = |_| "a whole number from 1, or \"none\"".to_owned();
            super::amount::parse(raw).map(Some).map_err(needed)
        }

        pub fn show(amount: &Option<usize>) -> String {
            amount.map_or("none".to_owned(), |amount| amount.to_string())
        }
    }

    pub mod flag {
        use super::RawValue;

        pub fn parse(raw: &RawValue) -> Result<bool, String> {
            raw.flag().ok_or_else(|| "true or false".to_owned())
        }

        pub fn show(flag: &bool) -> String {
            flag.to_string()
        }
    }

    /// A rate, or none.
    pub mod rate {
        use super::RawValue;
        use crate::limit::{Limit, rate_or_none};
        use fairlane::{Rate, rate_text};

        pub fn parse(raw: &RawValue) -> Result<Option<Rate>, String> {
            let needed =
                || "a rate such as \"50/s\", \"10/min\" or \"500/s burst 20\", or \"none\"".to_owned();
            match rate_or_none(raw.text().ok_or_else(needed)?) {
                Ok(Limit::At(rate)) => Ok(Some(rate)),
                Ok(Limit::None) => Ok(None),
                Err(_) => Err(needed()),
            }
        }

        pub fn show(rate: &Option<Rate>) -> String {
            rate.map_or("none".to_owned(), rate_text)
        }
    }

    /// A duration with its unit.
    pub mod time {
        use super::RawValue;
        use fairlane::{duration_text, parse_duration};
        use std::time::Duration;

        pub fn parse(raw: &RawValue) -> Result<Duration, String> {
            match raw.text().map(parse_duration) {
                Some(Ok(time)) if !time.is_zero() => Ok(time),
                _ => Err("a time such as \"500ms\", \"30s\" or \"5m\", and not 0".to_owned()),
            }
        }

        pub fn show(time: &Duration) -> String {
            duration_text(*time)
        }
    }

    /// A number of milliseconds, or a duration with its unit.
    pub mod millis {
        use super::RawValue;
        use fairlane::parse_duration;

        pub fn parse(raw: &RawValue) -> Result<u64, String> {
            if let Some(number) = raw.number() {
                return number.try_into().map_err(|_| "a whole number and not negative".to_owned());
            }
            match raw.text().map(parse_duration) {
                Some(Ok(time)) => Ok(time.as_millis() as u64),
                _ => Err("a whole number (of milliseconds), or a time such as \"30s\"".to_owned()),
            }
        }

        pub fn show(millis: &u64) -> String {
            millis.to_string()
        }
    }

    /// A `Duration` as a number of milliseconds, or with its unit.
    pub mod lasting {
        use super::RawValue;
        use std::time::Duration;

        pub fn parse(raw: &RawValue) -> Result<Duration, String> {
            super::millis::parse(raw).map(Duration::from_millis)
        }

        pub fn show(time: &Duration) -> String {
            time.as_millis().to_string()
        }
    }

    /// A number of bytes, or a size with its unit.
    pub mod bytes {
        use super::RawValue;

        const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

        pub fn parse(raw: &RawValue) -> Result<usize, String> {
            let needed = || "bytes such as 65536, \"64KiB\" or \"8MiB\", and not 0".to_owned();
            if let Some(number) = raw.number() {
                return usize::try_from(number).ok().filter(|bytes| *bytes > 0).ok_or_else(needed);
            }
            let text = raw.text().ok_or_else(needed)?.trim();
            let unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
            let (number, size) = unit.ok_or_else(needed)?;
            let number: usize = number.trim().parse().map_err(|_| needed())?;
            number.checked_mul(*size).filter(|bytes| *bytes > 0).ok_or_else(needed)
        }

        pub fn show(bytes: &usize) -> String {
            let whole = UNITS.iter().find(|(_, size)| *bytes > 0 && bytes.is_multiple_of(*size));
            whole.map_or(bytes.to_string(), |(unit, size)| format!("{}{unit}", bytes / size))
        }
    }

    /// A size of stored data in bytes.
    pub mod stored_bytes {
        use super::RawValue;

        pub fn parse(raw: &RawValue) -> Result<u64, String> {
            super::bytes::parse(raw).map(|bytes| bytes as u64)
        }

        pub fn show(bytes: &u64) -> String {
            usize::try_from(*bytes).map_or_else(|_| bytes.to_string(), |bytes| super::bytes::show(&bytes))
        }
    }

    /// An address and a port to listen on.
    pub mod address {
        use super::RawValue;
        use std::net::SocketAddr;

        pub fn parse(raw: &RawValue) -> Result<SocketAddr, String> {
            let read = raw.text().and_then(|text| text.trim().parse().ok());
            read.ok_or_else(|| "an address and a port, such as 127.0.0.1:8080 or [::1]:8080".to_owned())
        }

        pub fn show(address: &SocketAddr) -> String {
            address.to_string()
        }
    }

    /// The path of a file, or none.
    pub mod file {
        use super::RawValue;
        use std::path::PathBuf;

        pub fn parse(raw: &RawValue) -> Result<Option<PathBuf>, String> {
            super::name::parse(raw).map(|text| text.map(PathBuf::from))
        }

        pub fn show(path: &Option<PathBuf>) -> String {
            path.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
        }
    }

    /// A name, or none.
    pub mod name {
        use super::RawValue;

        pub fn parse(raw: &RawValue) -> Result<Option<String>, String> {
            raw.text().map(|text| Some(text.to_owned())).ok_or_else(|| "text in quotes".to_owned())
        }

        pub fn show(name: &Option<String>) -> String {
            name.clone().unwrap_or_else(|| "none".to_owned())
        }
    }

    pub mod discipline {
        use super::RawValue;
        use fairlane_core::queue::Discipline;

        pub fn parse(raw: &RawValue) -> Result<Discipline, String> {
            let known = [Discipline::Share, Discipline::Classic];
            let found = known.into_iter().find(|one| raw.text() == Some(one.as_str()));
            found.ok_or_else(|| "share or classic".to_owned())
        }

        pub fn show(discipline: &Discipline) -> String {
            discipline.as_str().to_owned()
        }
    }

    pub mod levels {
        use super::RawValue;
        use fairlane_core::queue::LevelOrder;

        pub fn parse(raw: &RawValue) -> Result<LevelOrder, String> {
            let known = [LevelOrder::Weighted, LevelOrder::Strict];
            let found = known.into_iter().find(|one| raw.text() == Some(one.as_str()));
            found.ok_or_else(|| "weighted or strict".to_owned())
        }

        pub fn show(levels: &LevelOrder) -> String {
            levels.as_str().to_owned()
        }
    }

    pub mod log {
        use super::RawValue;
        use crate::logs::LogFormat;

        pub fn parse(raw: &RawValue) -> Result<LogFormat, String> {
            match raw.text() {
                Some("text") => Ok(LogFormat::Text),
                Some("json") => Ok(LogFormat::Json),
                _ => Err("text or json".to_owned()),
            }
        }

        pub fn show(log: &LogFormat) -> String {
            match log {
                LogFormat::Text => "text".to_owned(),
                LogFormat::Json => "json".to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(text: &str) -> RawValue {
        RawValue::Bare(text.to_owned())
    }

    #[test]
    fn formatted_values_can_be_parsed() {
        for text in ["1", "64KiB", "8MiB", "1GiB", "1025"] {
            assert_eq!(
                kinds::bytes::parse(&bare(text)).map(|bytes| kinds::bytes::show(&bytes)),
                Ok(text.into())
            );
        }
        assert_eq!(
            kinds::time::parse(&bare("1m30s")).map(|time| kinds::time::show(&time)),
            Ok("1m30s".into())
        );
        assert_eq!(kinds::rate::parse(&bare("none")).map(|rate| kinds::rate::show(&rate)), Ok("none".into()));
        assert_eq!(kinds::millis::parse(&bare("2s")), Ok(2000));
        assert_eq!(kinds::millis::parse(&RawValue::Typed(Value::Integer(7))), Ok(7));
    }

    #[test]
    fn an_invalid_value_is_rejected_with_what_it_must_be() {
        assert!(kinds::bytes::parse(&bare("8MB")).unwrap_err().contains("8MiB"));
        assert!(kinds::time::parse(&bare("0s")).unwrap_err().contains("30s"));
        assert!(kinds::time::parse(&RawValue::Typed(Value::Integer(30))).unwrap_err().contains("30s"));
        assert!(kinds::amount::parse::<usize>(&bare("0")).unwrap_err().contains("from 1"));
        assert_eq!(kinds::number::parse::<u32>(&bare("-1")).unwrap_err(), "a whole number and not negative");
        assert_eq!(kinds::number::parse::<u32>(&bare("9999999999")).unwrap_err(), "a smaller whole number");
        assert!(kinds::address::parse(&bare("localhost")).unwrap_err().contains("127.0.0.1:8080"));
        assert!(kinds::discipline::parse(&bare("fair")).unwrap_err().contains("classic"));
    }
}
