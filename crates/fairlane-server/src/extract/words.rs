//! What the reader of JSON and queries says, in words that do not speak of the program it is written in.

/// Most letters of a message: what does not fit may be as long as a body.
const LETTERS_MAX: usize = 500;

/// The message in plain words, without the place.
pub fn plain(message: &str) -> String {
    let mut words = whole(message);
    if let Some((end, _)) = words.char_indices().nth(LETTERS_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words
}

fn whole(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    if let Some(name) = quoted(message, "missing field `") {
        return format!("{name} is missing");
    }
    if let Some(name) = quoted(message, "duplicate field `") {
        return format!("{name} stands twice; which is meant?");
    }
    if let Some(key) = unknown_key(message) {
        return format!("{key:?} is not known here; known are {}", known(message));
    }
    if let Some(word) = quoted(message, "unknown variant `") {
        return format!("{word:?} is none of {}", known(message));
    }
    let invalid = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match (invalid.and_then(|rest| rest.rsplit_once(", expected ")), message) {
        (Some((got, wanted)), _) => format!("{} is wanted, not {}", wanted_words(wanted), got_words(got)),
        // What is no word at all.
        (None, "expected value") => "a word is wanted".to_owned(),
        (None, _) => query_words(message).map_or_else(|| message.to_owned(), str::to_owned),
    }
}

/// The key that a message says is not known.
pub fn unknown_key(message: &str) -> Option<&str> {
    quoted(message, "unknown field `")
}

fn quoted<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.split('`').next()
}

fn known(message: &str) -> String {
    let known = message.rsplit_once(", expected ").map_or("", |(_, known)| known);
    known.strip_prefix("one of ").unwrap_or(known).replace('`', "").replace(" or ", ", ")
}

fn wanted_words(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 on",
        "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        _ if wanted.starts_with("struct ") => "an object",
        _ if wanted.starts_with("enum ") || wanted == "variant identifier" => "a word",
        _ => wanted,
    }
}

fn got_words(got: &str) -> String {
    match got {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => match got.strip_suffix('`').and_then(|got| got.split_once('`')) {
            Some((_, value)) => value.to_owned(),
            None => got.strip_prefix("string ").unwrap_or(got).to_owned(),
        },
    }
}

/// What is said of a value in a query, which is text whatever is wanted.
fn query_words(message: &str) -> Option<&'static str> {
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            Some("a whole number is wanted")
        }
        "number too large to fit in target type" | "number too small to fit in target type" => {
            Some("the number is out of range")
        }
        "provided string was not `true` or `false`" => Some("true or false is wanted"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_speaks_of_rust() {
        for (message, words) in [
            ("missing field `worker` at line 1 column 2", "worker is missing"),
            ("duplicate field `id` at line 1 column 9", "id stands twice; which is meant?"),
            (
                "invalid type: string \"5\", expected u32 at line 1",
                "a whole number from 0 to 4294967295 is wanted, not \"5\"",
            ),
            (
                "invalid value: integer `-1`, expected u64 at line 1",
                "a whole number from 0 on is wanted, not -1",
            ),
            ("invalid type: sequence, expected an object", "an object is wanted, not a list"),
            ("invalid type: map, expected a sequence", "a list is wanted, not an object"),
            ("invalid type: null, expected struct JobBody with 11 elements", "an object is wanted, not null"),
            (
                "unknown field `grou`, expected one of `group`, `id`",
                "\"grou\" is not known here; known are group, id",
            ),
            ("unknown variant `up`, expected `a` or `b`", "\"up\" is none of a, b"),
            ("invalid digit found in string", "a whole number is wanted"),
            ("expected value at line 1 column 40", "a word is wanted"),
            ("a name has at most 128 bytes", "a name has at most 128 bytes"),
        ] {
            assert_eq!(plain(message), words, "{message}");
        }
        let long = plain(&format!("unknown field `{}`, expected `a`", "é".repeat(5000)));
        assert_eq!((long.chars().count(), long.ends_with('…')), (501, true));
    }
}
