//! How values are written in the file, in variables and as options.
//!
//! Invariant: a printed value can be written into the file; in quotes, unless it is a number.

use std::fmt::{self, Display};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use fairlane::{Rate, duration_text, parse_duration, parse_rate, rate_text};
use fairlane_core::limits::ATTEMPTS_MAX;
use fairlane_core::queue::{Discipline, LevelOrder};
use fairlane_engine::without_user;
use fairlane_server::SessionSecret;
use fairlane_targets::Secret;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Value;

use crate::logs::LogFormat;

/// The value of a key, or a table of keys, that configures a `T`.
pub trait Field<T> {
    /// Replaces the values that are configured.
    fn apply(&self, to: &mut T);
    /// Appends every key and its value as text.
    fn rows(key: String, of: &T, rows: &mut Vec<(String, String)>);
}

/// A kind of value: how it is parsed, and printed. The error of the parser completes "must be".
macro_rules! value {
    ($(#[$doc:meta])* $name:ident$(<$n:ident>)?($type:ty): $parse:expr, $show:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name$(<$n>)?(pub $type);

        impl<'de $(, $n: Number)?> Deserialize<'de> for $name$(<$n>)? {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let parse: fn(&Value) -> Result<$type, &'static str> = $parse;
                let error = |needed| D::Error::custom(format_args!("must be {needed}"));
                parse(&Value::deserialize(from)?).map(Self).map_err(error)
            }
        }

        impl$(<$n: Number>)? Field<$type> for $name$(<$n>)? {
            fn apply(&self, to: &mut $type) {
                *to = self.0.clone();
            }

            fn rows(key: String, of: &$type, rows: &mut Vec<(String, String)>) {
                let show: fn(&$type) -> String = $show;
                rows.push((key, show(of)));
            }
        }
    };
}

/// The type of a whole number.
pub trait Number: TryFrom<i64> + Display + Clone {}
impl<N: TryFrom<i64> + Display + Clone> Number for N {}

value! {
    /// A whole number.
    Whole<N>(N): |value| {
        let number = number(value).ok_or("a whole number")?;
        let needed = if number < 0 { "a whole number and not negative" } else { "a smaller whole number" };
        N::try_from(number).map_err(|_| needed)
    },
    N::to_string
}
value! {
    /// A whole number from 1.
    Amount(usize): |value| amount(value).ok_or("a whole number from 1"), usize::to_string
}
value! {
    /// A whole number from 1, or none.
    AmountOrNone(Option<usize>): |value| match value.as_str() {
        Some("none") => Ok(None),
        _ => amount(value).map(Some).ok_or("a whole number from 1, or \"none\""),
    },
    or_none
}
value! {
    /// A number of retries.
    Retries(u32): |value| {
        const { assert!(ATTEMPTS_MAX == 10_000) };
        let count = number(value).and_then(|count| count.try_into().ok());
        count.filter(|count| *count <= ATTEMPTS_MAX).ok_or("a whole number from 0 to 10000")
    },
    u32::to_string
}
value! {
    /// Yes or no.
    Flag(bool): |value| {
        let flag = value.as_bool().or_else(|| value.as_str()?.trim().parse().ok());
        flag.ok_or("true or false")
    },
    bool::to_string
}
value! {
    /// A rate, or none.
    RateOrNone(Option<Rate>): |value| {
        let text = value.as_str().filter(|text| *text != "none").map(parse_rate).transpose();
        let is_text = value.is_str();
        text.ok().filter(|_| is_text).ok_or(
            "a rate such as \"50/s\", \"10/min\" or \"500/s burst 20\", or \"none\""
        )
    },
    |rate| or_none(&rate.map(rate_text))
}
value! {
    /// A duration with its unit.
    Time(Duration): |value| {
        let time = value.as_str().and_then(|text| parse_duration(text).ok());
        let needed = "a time such as \"500ms\", \"30s\" or \"5m\", and not 0";
        time.filter(|time| !time.is_zero()).ok_or(needed)
    },
    |time| duration_text(*time)
}
value! {
    /// A number of milliseconds, or a duration with its unit.
    Millis(u64): milliseconds, u64::to_string
}
value! {
    /// A `Duration` as a number of milliseconds, or with its unit.
    Lasting(Duration): |value| milliseconds(value).map(Duration::from_millis),
    |time| time.as_millis().to_string()
}
value! {
    /// A number of bytes, or a size with its unit.
    Bytes(usize): |value| bytes(value).and_then(|bytes| usize::try_from(bytes).map_err(|_| "fewer bytes")),
    |bytes| bytes_text(*bytes as u64)
}
value! {
    /// A size of stored data in bytes.
    StoredBytes(u64): bytes, |bytes| bytes_text(*bytes)
}
value! {
    /// An address and a port to listen on.
    Address(SocketAddr): |value| value.as_str().and_then(listen_address).ok_or(
        "an address and a port, such as 127.0.0.1:8080, localhost:8080, :8080 (all addresses) or [::1]:8080"
    ),
    SocketAddr::to_string
}
value! {
    /// The path of a file, or none.
    File(Option<PathBuf>): |value| Ok(Some(PathBuf::from(text(value)?))),
    |path| or_none(&path.as_ref().map(|path| path.display()))
}
value! {
    /// A name, or none.
    Name(Option<String>): |value| text(value).map(|name| Some(name.to_owned())), or_none
}
value! {
    /// The rules for order and limits.
    DisciplineName(Discipline): |value| {
        let known = [Discipline::Share, Discipline::Classic];
        known.into_iter().find(|one| value.as_str() == Some(one.as_str())).ok_or("share or classic")
    },
    |discipline| discipline.as_str().to_owned()
}
value! {
    /// How levels share capacity.
    LevelsName(LevelOrder): |value| {
        let known = [LevelOrder::Weighted, LevelOrder::Strict];
        known.into_iter().find(|one| value.as_str() == Some(one.as_str())).ok_or("weighted or strict")
    },
    |levels| levels.as_str().to_owned()
}
value! {
    /// The format of the log.
    Log(LogFormat): |value| {
        LogFormat::from_str(value.as_str().unwrap_or_default(), false).map_err(|_| "text or json")
    },
    |log| format!("{log:?}").to_lowercase()
}

/// An address and a port; `localhost` stands for this machine, and a port alone for all addresses.
pub fn listen_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.trim().rsplit_once(':')?;
    match host {
        "" => Some((Ipv4Addr::UNSPECIFIED, port.parse().ok()?).into()),
        "localhost" => Some((Ipv4Addr::LOCALHOST, port.parse().ok()?).into()),
        _ => text.trim().parse().ok(),
    }
}

/// A variable contains a number as text.
fn number(value: &Value) -> Option<i64> {
    value.as_integer().or_else(|| value.as_str()?.trim().parse().ok())
}

fn amount(value: &Value) -> Option<usize> {
    number(value).and_then(|number| number.try_into().ok()).filter(|amount| *amount > 0)
}

fn text(value: &Value) -> Result<&str, &'static str> {
    value.as_str().ok_or("text in quotes")
}

fn milliseconds(value: &Value) -> Result<u64, &'static str> {
    if let Some(number) = number(value) {
        return number.try_into().map_err(|_| "a whole number and not negative");
    }
    let time = value.as_str().and_then(|text| parse_duration(text).ok());
    let time = time.ok_or("a whole number (of milliseconds), or a time such as \"30s\"")?;
    Ok(time.as_millis() as u64)
}

const BYTE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

fn bytes(value: &Value) -> Result<u64, &'static str> {
    let with_unit = |text: &str| {
        let (unit, size) = BYTE_UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
        text.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(*size)
    };
    let plain = number(value).and_then(|number| number.try_into().ok());
    let bytes = plain.or_else(|| with_unit(value.as_str()?.trim()));
    bytes.filter(|bytes| *bytes > 0).ok_or("bytes such as 65536, \"64KiB\" or \"8MiB\", and not 0")
}

fn bytes_text(bytes: u64) -> String {
    let whole = BYTE_UNITS.iter().find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size));
    whole.map_or(bytes.to_string(), |(unit, size)| format!("{}{unit}", bytes / size))
}

fn or_none<T: Display>(value: &Option<T>) -> String {
    value.as_ref().map_or("none".to_owned(), T::to_string)
}

/// A string in which `${VAR}` is replaced by an environment variable; `$${` is a literal `${`.
#[derive(Clone)]
pub struct Text(pub String);

/// Hides the value, which may be secret.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(…)")
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = String::deserialize(from)?;
        expanded(&written, |name| std::env::var(name).ok()).map(Self).map_err(D::Error::custom)
    }
}

/// A secret that signs callbacks; `${VAR}` in it is replaced.
pub struct SecretText(pub Secret);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Text::deserialize(from)?.0.parse().map(Self).map_err(D::Error::custom)
    }
}

/// The secret that signs sessions of the dashboard; `${VAR}` in it is replaced, and it is not printed.
#[derive(Debug, Clone)]
pub struct SessionSecretOrNone(SessionSecret);

impl<'de> Deserialize<'de> for SessionSecretOrNone {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Text::deserialize(from)?.0.parse().map(Self).map_err(D::Error::custom)
    }
}

impl Field<Option<SessionSecret>> for SessionSecretOrNone {
    fn apply(&self, to: &mut Option<SessionSecret>) {
        *to = Some(self.0.clone());
    }

    fn rows(key: String, of: &Option<SessionSecret>, rows: &mut Vec<(String, String)>) {
        rows.push((key, if of.is_some() { "(secret)" } else { "none" }.to_owned()));
    }
}

/// The address of a database, or none; `${VAR}` in it is replaced, and its secrets are not printed.
#[derive(Debug, Clone)]
pub struct DatabaseOrNone(Text);

impl<'de> Deserialize<'de> for DatabaseOrNone {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let url = Text::deserialize(from)?;
        let is_postgres = ["postgres://", "postgresql://"].iter().any(|scheme| url.0.starts_with(scheme));
        if is_postgres {
            Ok(Self(url))
        } else {
            Err(D::Error::custom("must be an address such as postgres://user@host/database"))
        }
    }
}

impl Field<Option<Text>> for DatabaseOrNone {
    fn apply(&self, to: &mut Option<Text>) {
        *to = Some(self.0.clone());
    }

    fn rows(key: String, of: &Option<Text>, rows: &mut Vec<(String, String)>) {
        // A query may have a password too.
        let shown = |url: &Text| without_user(url.0.split('?').next().unwrap_or_default());
        rows.push((key, or_none(&of.as_ref().map(shown))));
    }
}

/// Replaces variables. Errors contain neither their values nor the surrounding text.
fn expanded(written: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = written;
    while let Some(at) = rest.find("${") {
        let (before, behind) = (&rest[..at], &rest[at + 2..]);
        if let Some(plain) = before.strip_suffix('$') {
            text.push_str(plain);
            text.push_str("${");
            rest = behind;
            continue;
        }
        let (name, behind) =
            behind.split_once('}').ok_or("a ${ is not closed by }; write $${ for a literal ${")?;
        let value = variable(name).ok_or_else(|| {
            format!(
                "the environment variable {name} is not set; set it, or write $${{{name}}} for the literal text"
            )
        })?;
        text.push_str(before);
        text.push_str(&value);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<T: for<'de> Deserialize<'de>>(value: impl Into<Value>) -> Result<T, String> {
        T::deserialize(value.into()).map_err(|error| error.message().to_owned())
    }

    fn reprinted<T, F: Field<T> + for<'de> Deserialize<'de>>(text: &str, mut value: T) -> String {
        let mut rows = Vec::new();
        parsed::<F>(text).unwrap().apply(&mut value);
        F::rows(String::new(), &value, &mut rows);
        rows.remove(0).1
    }

    #[test]
    fn formatted_values_can_be_parsed() {
        for text in ["1", "64KiB", "8MiB", "1GiB", "1025"] {
            assert_eq!(reprinted::<_, Bytes>(text, 0), text);
        }
        assert_eq!(reprinted::<_, Time>("1m30s", Duration::ZERO), "1m30s");
        assert_eq!(reprinted::<_, RateOrNone>("none", None), "none");
        assert_eq!(reprinted::<_, Log>("json", LogFormat::Text), "json");
        assert_eq!(reprinted::<_, Millis>("2s", 0), "2000");
        assert_eq!(parsed::<Millis>(7).unwrap().0, 7);
    }

    #[test]
    fn an_invalid_value_is_rejected_with_what_it_must_be() {
        assert!(parsed::<Bytes>("8MB").unwrap_err().contains("8MiB"));
        assert!(parsed::<Time>("0s").unwrap_err().contains("30s"));
        assert!(parsed::<Time>(30).unwrap_err().contains("30s"));
        assert!(parsed::<RateOrNone>(30).unwrap_err().contains("50/s"));
        assert!(parsed::<Amount>("0").unwrap_err().contains("from 1"));
        assert_eq!(parsed::<Whole<u32>>("-1").unwrap_err(), "must be a whole number and not negative");
        assert_eq!(parsed::<Whole<u32>>("9999999999").unwrap_err(), "must be a smaller whole number");
        for text in ["localhost", "9000", "localhost:", ":70000", "host:9000"] {
            assert!(parsed::<Address>(text).unwrap_err().contains("127.0.0.1:8080"), "{text}");
        }
        assert!(parsed::<DisciplineName>("fair").unwrap_err().contains("classic"));
    }

    #[test]
    fn variables_are_replaced_and_a_missing_one_is_an_error() {
        let expanded =
            |written: &str| expanded(written, |name| (name == "TOKEN").then(|| "t0ken${X}".to_owned()));
        for (written, expected) in [
            ("plain", "plain"),
            ("Bearer ${TOKEN}", "Bearer t0ken${X}"),
            ("${TOKEN}${TOKEN}", "t0ken${X}t0ken${X}"),
            ("$${TOKEN} costs $5", "${TOKEN} costs $5"),
            ("ä${TOKEN}ö", "ät0ken${X}ö"),
        ] {
            assert_eq!(expanded(written).as_deref(), Ok(expected), "{written}");
        }
        let missing = expanded("hunter2 ${NOPE}").unwrap_err();
        assert!(missing.contains("NOPE") && !missing.contains("hunter2"), "{missing}");
        assert!(expanded("${TOKEN").unwrap_err().contains("not closed"));
    }
}
