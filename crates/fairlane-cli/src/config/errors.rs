//! Error messages for the file: the key as it is written, its line, and what the value must be.
//!
//! Invariant: a message contains no value, because any value may be secret. Only numbers that are
//! out of range are printed.

use fairlane_core::limits::ATTEMPTS_MAX;
use fairlane_simulator::with_suggestion;

/// The parser's error as a message for users.
pub fn described(text: &str, error: &toml::de::Error) -> String {
    let Some(span) = error.span() else { return with_suggestion(&without_values(error.message())) };
    let at = span.start.min(text.len());
    let here = line_of(text, at);
    if let Some(needed) = needed(error.message()) {
        return match key_before(text, at) {
            Some(key) => format!("line {here}: {key} must be {needed}"),
            None => format!("line {here}: the value must be {needed}"),
        };
    }
    if let Some(key) = quoted_after(error.message(), "missing field `") {
        let header = text[at..].lines().next().unwrap_or_default().trim();
        let table = if header.starts_with('[') { header } else { "the table" };
        return format!("line {here}: {table} needs {key}");
    }
    match own_line(text, at, error.message()) {
        Some((line, message)) => format!("line {line}: {message}"),
        None => format!("line {here}: {}", with_suggestion(&without_values(error.message()))),
    }
}

/// The line number of a byte, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The required kind of a value, if the parser rejected its kind.
fn needed(message: &str) -> Option<String> {
    let (found, expected) = message.trim_end().rsplit_once(", expected ")?;
    let is_number = |name: &str| matches!(name, "usize" | "u64" | "u32" | "i64");
    let is_out_of_range = found.starts_with("invalid value: integer");
    let needed = match expected {
        // Only retry counts have this type.
        "u32" if is_out_of_range => return Some(format!("a whole number from 0 to {ATTEMPTS_MAX}")),
        name if is_number(name) && is_out_of_range => Some("a whole number and not negative"),
        _ if !found.starts_with("invalid type: ") => None,
        name if is_number(name) => Some("a whole number"),
        "a sequence" => Some("a list such as [\"a\", \"b\"]"),
        "a map" => Some("a table such as { name = \"value\" }"),
        "a string" | "path string" => Some("text in quotes"),
        "a boolean" => Some("true or false"),
        "struct RetryTable" => Some("a table such as { base_ms = 1000, cap_ms = 300000 }"),
        name if name.starts_with("struct ") => Some("a table"),
        _ => None,
    };
    needed.map(str::to_owned)
}

/// The key whose value begins at this byte, if it is on the same line.
fn key_before(text: &str, at: usize) -> Option<&str> {
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let written = text[begin..at].trim_end().strip_suffix('=')?.trim_end();
    let key = written.rsplit(['{', ',']).next()?.trim();
    (!key.is_empty()).then_some(key)
}

fn quoted_after<'a>(message: &'a str, words: &str) -> Option<&'a str> {
    message.strip_prefix(words)?.split('`').next()
}

/// A message about a table begins with the name of a key, as in `lease is 5 ms; …`. Finds that
/// key's line, and replaces the name by the key as it is written there.
fn own_line(text: &str, table_at: usize, message: &str) -> Option<(usize, String)> {
    let listed = message.strip_prefix("number ").and_then(|rest| rest.split(' ').nth(2));
    let word = listed.or_else(|| message.split(' ').next())?.trim_end_matches(':');
    let (number, key) = written_keys(text, table_at).find(|(_, key)| is_named(word, key))?;
    if listed.is_some() || key == word {
        return Some((number, message.to_owned()));
    }
    let rest = &message[word.len()..];
    Some((number, format!("{key}{}", rest.replacen(" ms;", ";", 1))))
}

fn is_named(word: &str, key: &str) -> bool {
    key == word || key.strip_suffix("_ms") == Some(word)
}

/// The keys of the table that begins at this byte, each with its line number.
fn written_keys(text: &str, table_at: usize) -> impl Iterator<Item = (usize, &str)> {
    let first = line_of(text, table_at);
    let lines = text.lines().zip(1..).skip(first - 1);
    let of_table =
        lines.enumerate().take_while(|(index, (line, _))| *index == 0 || !line.trim_start().starts_with('['));
    of_table.filter_map(|(_, (line, number))| Some((number, line.split_once('=')?.0.trim())))
}

/// Removes the value from `invalid type: string "secret", expected a map`, and joins the lines.
fn without_values(message: &str) -> String {
    let message = message.trim_end().replace('\n', ", ");
    match (message.find(": string \""), message.rfind("\", expected")) {
        (Some(from), Some(to)) if from < to => format!("{}: string{}", &message[..from], &message[to + 1..]),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_value_is_found_on_its_line() {
        let text = "a = 1\n  retry = { base_ms = 2, cap_ms = \"x\" }\n[\n 3 ]";
        let key = |value: &str| key_before(text, text.find(value).unwrap());
        assert_eq!(
            (key("1"), key("2"), key("\"x\""), key("3")),
            (Some("a"), Some("base_ms"), Some("cap_ms"), None)
        );
    }

    #[test]
    fn a_message_about_a_table_names_the_line_of_its_key() {
        let text = "lease_ms = 1\n[worker]\nname = \"a\"\nlease_ms = 5\n[other]\ntimeout_ms = 3\n";
        let at = text.find("[worker]").unwrap();
        let found = own_line(text, at, "lease is 5 ms; it must be from 1000 to 2000");
        assert_eq!(found, Some((4, "lease_ms is 5; it must be from 1000 to 2000".into())));
        assert_eq!(own_line(text, at, "timeout is 3 ms; it must be more"), None);
        assert_eq!(own_line(text, at, "name: bad"), Some((3, "name: bad".into())));
    }
}
