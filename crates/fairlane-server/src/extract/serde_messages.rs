//! Messages of serde and serde_json, in terms of JSON instead of Rust.

/// The longest message in characters: an invalid value may be as long as a body.
const CHARS_MAX: usize = 500;

/// The message in terms of JSON, without the position.
pub fn plain(message: &str) -> String {
    let mut text = translate(message);
    if let Some((end, _)) = text.char_indices().nth(CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn translate(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    if let Some(name) = quoted(message, "missing field `") {
        return format!("{name} is required");
    }
    if let Some(name) = quoted(message, "duplicate field `") {
        return format!("{name} appears twice");
    }
    if let Some(name) = unknown_field(message) {
        return format!("{name:?} is not a known field; the known fields are {}", expected_names(message));
    }
    if let Some(name) = quoted(message, "unknown variant `") {
        return format!("{name:?} is not one of {}", expected_names(message));
    }
    let invalid = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match (invalid.and_then(|rest| rest.rsplit_once(", expected ")), message) {
        (Some((got, expected)), _) => format!("expected {}, got {}", expected_type(expected), got_value(got)),
        // A value that is not a string, where the name of a variant is expected.
        (None, "expected value") => "expected a string".to_owned(),
        (None, _) => query_message(message).map_or_else(|| message.to_owned(), str::to_owned),
    }
}

/// The field that a message reports as unknown.
pub fn unknown_field(message: &str) -> Option<&str> {
    quoted(message, "unknown field `")
}

fn quoted<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.split('`').next()
}

fn expected_names(message: &str) -> String {
    let names = message.rsplit_once(", expected ").map_or("", |(_, names)| names);
    names.strip_prefix("one of ").unwrap_or(names).replace('`', "").replace(" or ", ", ")
}

fn expected_type(expected: &str) -> &str {
    match expected {
        "u8" => "an integer from 0 to 255",
        "u16" => "an integer from 0 to 65535",
        "u32" => "an integer from 0 to 4294967295",
        "u64" | "usize" => "a non-negative integer",
        "i64" => "an integer",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        _ if expected.starts_with("struct ") => "an object",
        _ if expected.starts_with("enum ") || expected == "variant identifier" => "a string",
        _ => expected,
    }
}

fn got_value(got: &str) -> String {
    match got {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => match got.strip_suffix('`').and_then(|got| got.split_once('`')) {
            Some((_, value)) => value.to_owned(),
            None => got.strip_prefix("string ").unwrap_or(got).to_owned(),
        },
    }
}

/// The message for a value in a query, which is always text.
fn query_message(message: &str) -> Option<&'static str> {
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            Some("expected an integer")
        }
        "number too large to fit in target type" | "number too small to fit in target type" => {
            Some("the number is out of range")
        }
        "provided string was not `true` or `false`" => Some("expected true or false"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_mentions_rust_types() {
        for (message, text) in [
            ("missing field `worker` at line 1 column 2", "worker is required"),
            ("duplicate field `id` at line 1 column 9", "id appears twice"),
            (
                "invalid type: string \"5\", expected u32 at line 1",
                "expected an integer from 0 to 4294967295, got \"5\"",
            ),
            (
                "invalid value: integer `-1`, expected u64 at line 1",
                "expected a non-negative integer, got -1",
            ),
            ("invalid type: sequence, expected an object", "expected an object, got a list"),
            ("invalid type: map, expected a sequence", "expected a list, got an object"),
            ("invalid type: null, expected struct JobBody with 11 elements", "expected an object, got null"),
            (
                "unknown field `grou`, expected one of `group`, `id`",
                "\"grou\" is not a known field; the known fields are group, id",
            ),
            ("unknown variant `up`, expected `a` or `b`", "\"up\" is not one of a, b"),
            ("invalid digit found in string", "expected an integer"),
            ("expected value at line 1 column 40", "expected a string"),
            ("a name has at most 128 bytes", "a name has at most 128 bytes"),
        ] {
            assert_eq!(plain(message), text, "{message}");
        }
        let long = plain(&format!("unknown field `{}`, expected `a`", "é".repeat(5000)));
        assert_eq!((long.chars().count(), long.ends_with('…')), (501, true));
    }
}
