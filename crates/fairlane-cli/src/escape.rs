//! Makes untrusted text safe to print on a terminal.
//!
//! Payloads, results, error messages and names come from producers and workers. A control character
//! in them could change the title of the terminal, write its clipboard or hide lines. A
//! bidirectional control reorders the visible text. Invariant: all text and JSON that the program
//! prints passes through this file.

use std::borrow::Cow;

/// Escapes text of several lines: line breaks and tabs stay, other control characters become
/// visible.
pub fn text(text: &str) -> Cow<'_, str> {
    replaced(text, |character| is_hostile(character) && !matches!(character, '\n' | '\t'), visible)
}

/// Escapes text that must stay on one line, such as a table cell: line breaks become visible too.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, is_hostile, visible)
}

/// Escapes valid JSON: control characters become JSON escapes, and the value stays the same.
pub fn json(json: &str) -> Cow<'_, str> {
    replaced(
        json,
        |character| is_hostile(character) && !matches!(character, '\n' | '\t'),
        |character| match character {
            // A JSON string contains no raw C0 control character, so this one is between two
            // values.
            '\r' => " ".to_owned(),
            character => format!("\\u{:04x}", u32::from(character)),
        },
    )
}

/// Whether a terminal would interpret the character instead of printing it.
fn is_hostile(character: char) -> bool {
    let is_bidi = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_line_break = matches!(character, '\u{2028}' | '\u{2029}');
    character.is_control() || is_bidi || is_line_break
}

fn visible(character: char) -> String {
    match character {
        '\n' | '\r' | '\t' => character.escape_default().to_string(),
        character => character.escape_unicode().to_string(),
    }
}

fn replaced(text: &str, matches: impl Fn(char) -> bool, with: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&matches) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match matches(character) {
            true => safe += &with(character),
            false => safe.push(character),
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
            assert!(
                !escaped.chars().any(|character| is_hostile(character) && character != '\n'),
                "{escaped}"
            );
            assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        }
    }
}
