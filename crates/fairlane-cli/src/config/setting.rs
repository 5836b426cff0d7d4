//! One setting of many: its key, how its value is read, and how it is shown.
//!
//! Invariant: what is shown can be written into the file as it is, in quotes where it is no number.

use toml::Value;

/// A value as somebody has written it.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// In the file, with the kind it has there.
    Typed(Value),
    /// In a variable or on the command line, where all is text.
    Bare(String),
}

/// A setting of a `T`.
pub struct Setting<T: 'static> {
    /// What it is called in the file.
    pub key: &'static str,
    /// Its value, to be shown.
    pub show: fn(&T) -> String,
    /// Sets it, or says what it has to be.
    pub set: fn(&mut T, &Written) -> Result<(), String>,
}

/// A list of settings: key, field, and which of `kinds` reads and shows it.
macro_rules! settings {
    ($($key:literal => $($field:ident).+ : $kind:ident),* $(,)?) => {
        &[$(Setting {
            key: $key,
            show: |from| kinds::$kind::show(&from.$($field).+),
            set: |into, written| {
                into.$($field).+ = kinds::$kind::read(written)?;
                Ok(())
            },
        }),*]
    };
}
pub(super) use settings;

impl Written {
    /// The text, if it is one.
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

/// How values are read and shown. What cannot be read is answered with what it has to be.
pub mod kinds {
    use super::Written;

    /// A whole number from 0.
    pub mod number {
        use super::Written;
        use std::fmt::Display;

        pub fn read<N: TryFrom<i64>>(written: &Written) -> Result<N, String> {
            let number = written.number().ok_or("a whole number")?;
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
        use super::Written;
        pub use super::number::show;

        pub fn read<N: TryFrom<i64>>(written: &Written) -> Result<N, String> {
            match written.number() {
                Some(number) if number > 0 => super::number::read(written),
                _ => Err("a whole number from 1".to_owned()),
            }
        }
    }

    /// A whole number from 1, or none.
    pub mod amount_or_none {
        use super::Written;

        pub fn read(written: &Written) -> Result<Option<usize>, String> {
            if written.text() == Some("none") {
                return Ok(None);
            }
            let needed = |_| "a whole number from 1, or \"none\"".to_owned();
            super::amount::read(written).map(Some).map_err(needed)
        }

        pub fn show(amount: &Option<usize>) -> String {
            amount.map_or("none".to_owned(), |amount| amount.to_string())
        }
    }

    pub mod flag {
        use super::Written;

        pub fn read(written: &Written) -> Result<bool, String> {
            written.flag().ok_or_else(|| "true or false".to_owned())
        }

        pub fn show(flag: &bool) -> String {
            flag.to_string()
        }
    }

    /// A rate, or none.
    pub mod rate {
        use super::Written;
        use crate::limit::{Limit, rate_or_none};
        use fairlane::{Rate, rate_text};

        pub fn read(written: &Written) -> Result<Option<Rate>, String> {
            let needed =
                || "a rate such as \"50/s\", \"10/min\" or \"500/s burst 20\", or \"none\"".to_owned();
            match rate_or_none(written.text().ok_or_else(needed)?) {
                Ok(Limit::At(rate)) => Ok(Some(rate)),
                Ok(Limit::None) => Ok(None),
                Err(_) => Err(needed()),
            }
        }

        pub fn show(rate: &Option<Rate>) -> String {
            rate.map_or("none".to_owned(), rate_text)
        }
    }

    /// A time with its unit.
    pub mod time {
        use super::Written;
        use fairlane::{duration_text, parse_duration};
        use std::time::Duration;

        pub fn read(written: &Written) -> Result<Duration, String> {
            match written.text().map(parse_duration) {
                Some(Ok(time)) if !time.is_zero() => Ok(time),
                _ => Err("a time such as \"500ms\", \"30s\" or \"5m\", and not 0".to_owned()),
            }
        }

        pub fn show(time: &Duration) -> String {
            duration_text(*time)
        }
    }

    /// Milliseconds as a number, or a time with its unit.
    pub mod millis {
        use super::Written;
        use fairlane::parse_duration;

        pub fn read(written: &Written) -> Result<u64, String> {
            if let Some(number) = written.number() {
                return number.try_into().map_err(|_| "a whole number and not negative".to_owned());
            }
            match written.text().map(parse_duration) {
                Some(Ok(time)) => Ok(time.as_millis() as u64),
                _ => Err("a whole number (of milliseconds), or a time such as \"30s\"".to_owned()),
            }
        }

        pub fn show(millis: &u64) -> String {
            millis.to_string()
        }
    }

    /// The same, of a length of time.
    pub mod lasting {
        use super::Written;
        use std::time::Duration;

        pub fn read(written: &Written) -> Result<Duration, String> {
            super::millis::read(written).map(Duration::from_millis)
        }

        pub fn show(time: &Duration) -> String {
            time.as_millis().to_string()
        }
    }

    /// Bytes as a number, or with a unit.
    pub mod bytes {
        use super::Written;

        const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

        pub fn read(written: &Written) -> Result<usize, String> {
            let needed = || "bytes such as 65536, \"64KiB\" or \"8MiB\", and not 0".to_owned();
            if let Some(number) = written.number() {
                return usize::try_from(number).ok().filter(|bytes| *bytes > 0).ok_or_else(needed);
            }
            let text = written.text().ok_or_else(needed)?.trim();
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

    /// The same, of what a queue stores.
    pub mod stored_bytes {
        use super::Written;

        pub fn read(written: &Written) -> Result<u64, String> {
            super::bytes::read(written).map(|bytes| bytes as u64)
        }

        pub fn show(bytes: &u64) -> String {
            usize::try_from(*bytes).map_or_else(|_| bytes.to_string(), |bytes| super::bytes::show(&bytes))
        }
    }

    /// Where to listen.
    pub mod address {
        use super::Written;
        use std::net::SocketAddr;

        pub fn read(written: &Written) -> Result<SocketAddr, String> {
            let read = written.text().and_then(|text| text.trim().parse().ok());
            read.ok_or_else(|| "an address and a port, such as 127.0.0.1:8080 or [::1]:8080".to_owned())
        }

        pub fn show(address: &SocketAddr) -> String {
            address.to_string()
        }
    }

    /// A file, if there is one.
    pub mod file {
        use super::Written;
        use std::path::PathBuf;

        pub fn read(written: &Written) -> Result<Option<PathBuf>, String> {
            super::name::read(written).map(|text| text.map(PathBuf::from))
        }

        pub fn show(path: &Option<PathBuf>) -> String {
            path.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
        }
    }

    /// A word of one's own, if there is one.
    pub mod name {
        use super::Written;

        pub fn read(written: &Written) -> Result<Option<String>, String> {
            written.text().map(|text| Some(text.to_owned())).ok_or_else(|| "text in quotes".to_owned())
        }

        pub fn show(name: &Option<String>) -> String {
            name.clone().unwrap_or_else(|| "none".to_owned())
        }
    }

    pub mod discipline {
        use super::Written;
        use fairlane_core::queue::Discipline;

        pub fn read(written: &Written) -> Result<Discipline, String> {
            let known = [Discipline::Share, Discipline::Classic];
            let found = known.into_iter().find(|one| written.text() == Some(one.as_str()));
            found.ok_or_else(|| "share or classic".to_owned())
        }

        pub fn show(discipline: &Discipline) -> String {
            discipline.as_str().to_owned()
        }
    }

    pub mod levels {
        use super::Written;
        use fairlane_core::queue::LevelOrder;

        pub fn read(written: &Written) -> Result<LevelOrder, String> {
            let known = [LevelOrder::Weighted, LevelOrder::Strict];
            let found = known.into_iter().find(|one| written.text() == Some(one.as_str()));
            found.ok_or_else(|| "weighted or strict".to_owned())
        }

        pub fn show(levels: &LevelOrder) -> String {
            levels.as_str().to_owned()
        }
    }

    pub mod log {
        use super::Written;
        use crate::logs::LogFormat;

        pub fn read(written: &Written) -> Result<LogFormat, String> {
            match written.text() {
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

    fn bare(text: &str) -> Written {
        Written::Bare(text.to_owned())
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for text in ["1", "64KiB", "8MiB", "1GiB", "1025"] {
            assert_eq!(
                kinds::bytes::read(&bare(text)).map(|bytes| kinds::bytes::show(&bytes)),
                Ok(text.into())
            );
        }
        assert_eq!(
            kinds::time::read(&bare("1m30s")).map(|time| kinds::time::show(&time)),
            Ok("1m30s".into())
        );
        assert_eq!(kinds::rate::read(&bare("none")).map(|rate| kinds::rate::show(&rate)), Ok("none".into()));
        assert_eq!(kinds::millis::read(&bare("2s")), Ok(2000));
        assert_eq!(kinds::millis::read(&Written::Typed(Value::Integer(7))), Ok(7));
    }

    #[test]
    fn what_cannot_be_read_is_answered_with_what_it_has_to_be() {
        assert!(kinds::bytes::read(&bare("8MB")).unwrap_err().contains("8MiB"));
        assert!(kinds::time::read(&bare("0s")).unwrap_err().contains("30s"));
        assert!(kinds::time::read(&Written::Typed(Value::Integer(30))).unwrap_err().contains("30s"));
        assert!(kinds::amount::read::<usize>(&bare("0")).unwrap_err().contains("from 1"));
        assert_eq!(kinds::number::read::<u32>(&bare("-1")).unwrap_err(), "a whole number and not negative");
        assert_eq!(kinds::number::read::<u32>(&bare("9999999999")).unwrap_err(), "a smaller whole number");
        assert!(kinds::address::read(&bare("localhost")).unwrap_err().contains("127.0.0.1:8080"));
        assert!(kinds::discipline::read(&bare("fair")).unwrap_err().contains("classic"));
    }
}
