//! Makes text that others wrote safe to show on a terminal.
//!
//! Payloads, results, error messages and names come from producers and workers. A control character in them could
//! retitle the terminal, write its clipboard or hide lines; a bidirectional control reorders what a person reads.
//! Invariant: everything the program writes for people or as JSON passes through this file.

use std::borrow::Cow;

/// Text of several lines: line breaks and tabs stay, every other control character becomes visible.
pub fn text(text: &str) -> Cow<'_, str> {
    replaced(text, |sign| is_hostile(sign) && !matches!(sign, '\n' | '\t'), visible)
}

/// Text that has to stay on one line, such as a cell of a table: line breaks become visible too.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, is_hostile, visible)
}

/// Valid JSON: the same value, with every control character written as an escape of JSON.
pub fn json(json: &str) -> Cow<'_, str> {
    replaced(
        json,
        |sign| is_hostile(sign) && !matches!(sign, '\n' | '\t'),
        |sign| match sign {
            // A string in JSON has no raw C0 control character, so this one stands between two values.
            '\r' => " ".to_owned(),
            sign => format!("\\u{:04x}", u32::from(sign)),
        },
    )
}

/// Whether a terminal would obey the character instead of showing it.
fn is_hostile(sign: char) -> bool {
    let is_bidi = matches!(sign,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_line_break = matches!(sign, '\u{2028}' | '\u{2029}');
    sign.is_control() || is_bidi || is_line_break
}

fn visible(sign: char) -> String {
    match sign {
        '\n' | '\r' | '\t' => sign.escape_default().to_string(),
        sign => sign.escape_unicode().to_string(),
    }
}

fn replaced(text: &str, matches: impl Fn(char) -> bool, with: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&matches) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for sign in text.chars() {
        match matches(sign) {
            true => safe += &with(sign),
            false => safe.push(sign),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}]0;t\u{7}b\r\u{9b}31m\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{0}";

    #[test]
    fn control_and_bidirectional_characters_become_visible() {
        let shown = r"a\u{1b}]0;t\u{7}b\r\u{9b}31m\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{0}";
        assert_eq!((text(HOSTILE), line(HOSTILE)), (shown.into(), shown.into()));
    }

    #[test]
    fn line_breaks_stay_in_a_text_and_not_in_a_line() {
        assert_eq!((text("a\n\tb"), line("a\n\tb")), ("a\n\tb".into(), r"a\n\tb".into()));
    }

    #[test]
    fn ordinary_text_of_any_language_is_unchanged() {
        for plain in ["", "Grüße an Żółw", "שלום", "日本 👩‍👩‍👧", "{\"a\": [1, 2]}"] {
            assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, "a\n\"b"] });
        for written in
            [value.to_string(), serde_json::to_string_pretty(&value).unwrap().replace('\n', "\r\n")]
        {
            let escaped = json(&written);
            assert!(!escaped.chars().any(|sign| is_hostile(sign) && sign != '\n'), "{escaped}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        }
    }
}
