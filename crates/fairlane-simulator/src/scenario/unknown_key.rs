//! A mistyped key is answered with the one that was probably meant.

/// The parser's message, and behind it the known name nearest to one that it does not know.
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
    let near =
        |name: &&str| name.starts_with(unknown) || distance(unknown, name) <= (unknown.len() / 3).max(2);
    names.filter(near).min_by_key(|name| distance(unknown, name))
}

/// Letters to add, drop or change to make one word the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = index + 1;
        for (column, known) in other.iter().enumerate() {
            let changed = corner + usize::from(letter != *known);
            corner = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(corner + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_letters() {
        assert_eq!(distance("alpha", "alpha"), 0);
        assert_eq!(distance("wrokers", "workers"), 2);
        assert_eq!(distance("", "rate"), 4);
        assert_eq!(distance("job", "jobs"), 1);
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let message = "unknown field `alhpa`, expected one of `name`, `alpha`, `rate`";
        assert!(with_suggestion(message).ends_with("did you mean `alpha`?"));
        let message = "unknown field `colour`, expected one of `name`, `alpha`, `rate`";
        assert_eq!(with_suggestion(message), message);
    }
}
