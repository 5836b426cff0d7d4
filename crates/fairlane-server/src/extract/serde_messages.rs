//! Messages of serde for users of the API: without positions in the text, which a JSON pointer
//! gives, and without Rust types.

/// The longest message in characters: an invalid value may be as long as a body.
const CHARS_MAX: usize = 500;

/// The message without its position, with a JSON type in place of a Rust type.
pub fn plain(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    let mut text = match message.rsplit_once(", expected ") {
        Some((got, expected)) => format!("{got}, expected {}", json_type(expected)),
        None => message.to_owned(),
    };
    if let Some((end, _)) = text.char_indices().nth(CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn json_type(expected: &str) -> &str {
    match expected {
        "u8" => "an integer from 0 to 255",
        "u16" => "an integer from 0 to 65535",
        "u32" => "an integer from 0 to 4294967295",
        "u64" | "usize" => "a non-negative integer",
        "i64" => "an integer",
        "f64" => "a number",
        _ if expected.starts_with("struct ") => "an object",
        _ if expected.starts_with("enum ") || expected == "variant identifier" => "a string",
        _ => expected,
    }
}

/// The field that a message reports as unknown.
pub fn unknown_field(message: &str) -> Option<&str> {
    message.strip_prefix("unknown field `")?.split('`').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_mentions_rust_types_or_positions() {
        for (message, text) in [
            ("missing field `worker` at line 1 column 2", "missing field `worker`"),
            (
                "invalid type: string \"5\", expected u32 at line 1",
                "invalid type: string \"5\", expected an integer from 0 to 4294967295",
            ),
            (
                "invalid value: integer `-1`, expected u64 at line 1",
                "invalid value: integer `-1`, expected a non-negative integer",
            ),
            (
                "invalid type: null, expected struct JobBody with 11 elements",
                "invalid type: null, expected an object",
            ),
            ("unknown variant `up`, expected `a` or `b`", "unknown variant `up`, expected `a` or `b`"),
            ("a name has at most 128 bytes", "a name has at most 128 bytes"),
        ] {
            assert_eq!(plain(message), text, "{message}");
        }
        let long = plain(&format!("unknown field `{}`, expected `a`", "é".repeat(5000)));
        assert_eq!((long.chars().count(), long.ends_with('…')), (501, true));
    }
}
