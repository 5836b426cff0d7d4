//! Suggests the known key that is most similar to an unknown one.

use strsim::levenshtein;

/// The parser's message, followed by the known name that is most similar to the unknown one.
pub fn with_suggestion(message: &str) -> String {
    let message = message.trim_end();
    match nearest(message) {
        Some(name) => format!("{message}; did you mean `{name}`?"),
        None => message.to_owned(),
    }
}

/// The message reads "unknown field `x`, expected one of `a`, `b`".
fn nearest(message: &str) -> Option<&str> {
    let kinds = ["unknown field `", "unknown variant `"];
    let begin = kinds.iter().find_map(|kind| message.rfind(kind))?;
    let mut names = message[begin..].split('`').skip(1).step_by(2);
    let unknown = names.next()?;
    let stem = unknown.trim_end_matches('s');
    let near =
        |name: &&str| name.starts_with(stem) || levenshtein(unknown, name) <= (unknown.len() / 3).max(2);
    names.filter(near).min_by_key(|name| levenshtein(unknown, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_name_is_suggested() {
        let message = "unknown field `alhpa`, expected one of `name`, `alpha`, `rate`";
        assert!(with_suggestion(message).ends_with("did you mean `alpha`?"));
        let message = "unknown field `colour`, expected one of `name`, `alpha`, `rate`";
        assert_eq!(with_suggestion(message), message);
        let message = "unknown field `workers`, expected one of `name`, `worker_timeout_ms`, `worker_count`";
        assert!(with_suggestion(message).ends_with("did you mean `worker_count`?"));
    }
}
