//! Formats numbers, times and links for people.

use std::fmt::Display;

use fairlane::views::Time;
use fairlane_core::Micros;
use fairlane_core::queue::JobState;
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that stay as they are in a path segment or a query value.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// A name as a segment of a path or a value of a query. A dot is encoded too, since `..` would be
/// resolved by browsers.
pub(super) fn encoded(name: impl Display) -> String {
    utf8_percent_encode(&name.to_string(), UNRESERVED).to_string()
}

/// A number in full, with its digits in groups of three.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with a noun, such as `1 job` or `12 jobs`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A rate per second.
pub(super) fn per_second(rate: f64) -> String {
    if rate < 10.0 { format!("{:.1}", (rate * 10.0).round() / 10.0) } else { count(rate.round() as u64) }
}

/// A fraction in percent.
pub(super) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.1 {
        format!("{:.1} %", share * 100.0)
    } else {
        format!("{:.0} %", share * 100.0)
    }
}

/// A length of time.
pub(super) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => pair(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

fn pair(large: u64, of: &str, small: u64, unit: &str) -> String {
    if small == 0 { format!("{large} {of}") } else { format!("{large} {of} {small} {unit}") }
}

/// A number of bytes in a unit that keeps the number short.
pub(super) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut at = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && at < units.len() - 1 {
        value /= 1024.0;
        at += 1;
    }
    if at == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[at]) }
}

/// A point in time; a script shows it in the viewer's zone.
pub(super) fn time(at: Micros) -> Markup {
    let text = Time(at).to_string();
    let plain = text.get(..19).unwrap_or(&text).replace('T', " ");
    html! { time datetime=(text) { (plain) " UTC" } }
}

/// A point in time, if there is one.
pub(super) fn maybe_time(at: Option<Micros>) -> Markup {
    html! { @if let Some(at) = at { (time(at)) } @else { span.muted { "–" } } }
}

/// The state of a job as a badge.
pub(super) fn job_state(state: JobState) -> Markup {
    let class = match state {
        JobState::Completed => "good",
        JobState::Failed => "bad",
        JobState::Processing => "busy",
        _ => "calm",
    };
    badge(state.as_str(), class)
}

/// A word with a colour. The word alone carries the meaning.
pub(super) fn badge(text: &str, class: &str) -> Markup {
    html! { span class={ "badge " (class) } { (text) } }
}

/// Bytes that may be JSON or text, truncated to `shown_max` characters.
pub(super) fn payload(bytes: &[u8], shown_max: usize) -> Markup {
    let text = match serde_json::from_slice::<&serde_json::value::RawValue>(bytes) {
        // Numbers keep all their digits, since the text is only indented.
        Ok(raw) => indented(raw.get()),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    };
    let cut: String = text.chars().take(shown_max).collect();
    let is_cut = cut.len() < text.len();
    html! {
        pre tabindex="0" { code { (cut) } }
        @if is_cut {
            p.muted { "Only the first " (count(shown_max as u64)) " characters are shown; fairlane job show prints all." }
        }
    }
}

/// JSON with line breaks, its tokens unchanged.
fn indented(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut is_escaped) = (String::new(), 0_usize, false, false);
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    for character in json.chars() {
        if in_string {
            text.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                depth += 1;
                text.push(character);
                line(&mut text, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                let is_empty = text.trim_end().ends_with(['{', '[']);
                text.truncate(text.trim_end().len());
                if !is_empty {
                    line(&mut text, depth);
                }
                text.push(character);
            }
            ',' => {
                text.push(',');
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            other if other.is_ascii_whitespace() => {}
            other => {
                in_string = other == '"';
                text.push(other);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit() {
        assert_eq!(
            [count(0), count(999), count(1000), count(u64::MAX)].join(" "),
            "0 999 1,000 18,446,744,073,709,551,615"
        );
        let json = r#"{"a":[1152921504606846977,{}],"b":"x, {\" y","c":[]}"#;
        let expected =
            "{\n  \"a\": [\n    1152921504606846977,\n    {}\n  ],\n  \"b\": \"x, {\\\" y\",\n  \"c\": []\n}";
        assert_eq!(indented(json), expected);
    }

    #[test]
    fn spans_have_at_most_two_units() {
        let texts = [0, 999, 1_500, 61_000, 3_600_000, 90_000_000].map(span);
        assert_eq!(texts, ["0 ms", "999 ms", "1.5 s", "1 min 1 s", "1 h", "1 d 1 h"]);
    }

    #[test]
    fn names_of_any_characters_are_one_segment() {
        assert_eq!(encoded("a/b ?#%.."), "a%2Fb%20%3F%23%25%2E%2E");
        assert_eq!(bytes(1536), "1.5 KiB");
    }
}
