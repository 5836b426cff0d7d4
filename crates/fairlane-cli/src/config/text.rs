//! Strings of the file: `${VAR}` from the environment, and rates.

use std::fmt;

use fairlane_core::Rate;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::limit::{Limit, rate_or_none};

/// A string in which `${VAR}` is replaced by an environment variable; `$${` is a literal `${`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
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

/// A rate as on the command line: `50/s`, `10/min`, `500/s burst 20`, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateText(pub Option<Rate>);

impl<'de> Deserialize<'de> for RateText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = String::deserialize(from)?;
        match rate_or_none(&written).map_err(D::Error::custom)? {
            Limit::At(rate) => Ok(Self(Some(rate))),
            Limit::None => Ok(Self(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
