//! What is committed is finished, and says nothing about the machine it was written on.
//!
//! The list is put together from halves, so that this file passes its own rule.

use super::{Finding, tree::Tree};

const RULE: &str = "banned-words";

/// Unfinished work and left-over debugging, as whole words.
const WORDS: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("d", "bg!("),
];

/// Beginnings of paths that exist on one machine only.
const PATHS: [&str; 2] = [concat!("/", "work/"), concat!("/", "root/")];

/// Finds banned words and paths in every text file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        for (index, line) in text.lines().enumerate() {
            let words = WORDS.iter().filter(|word| holds(line, word, is_word_sign));
            findings.extend(words.map(|word| {
                Finding::new(RULE, path, index + 1, format!("`{word}`: finish it or take it out"))
            }));
            let paths = PATHS.iter().filter(|beginning| holds(line, beginning, is_path_sign));
            findings.extend(paths.map(|beginning| {
                Finding::new(RULE, path, index + 1, format!("`{beginning}`: name no path of one machine"))
            }));
        }
    }
    findings
}

/// Whether the line holds the part with nothing before it, nor after its last word, that belongs to it.
fn holds(line: &str, part: &str, belongs: fn(char) -> bool) -> bool {
    line.match_indices(part).any(|(at, _)| {
        let begins = !line[..at].ends_with(belongs);
        let ends_itself = !part.ends_with(is_word_sign);
        begins && (ends_itself || !line[at + part.len()..].starts_with(is_word_sign))
    })
}

fn is_word_sign(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// A path goes on to its left, so it does not begin at the root.
fn is_path_sign(sign: char) -> bool {
    is_word_sign(sign) || matches!(sign, '-' | '.' | '~' | '*' | '}' | ')')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        check(&Tree::of(&[("notes.txt", &format!("fine\n{line}\n"))])).len()
    }

    #[test]
    fn every_banned_word_is_found_where_it_stands() {
        for word in WORDS {
            let findings = check(&Tree::of(&[("a.rs", &format!("fine\n // {word} later\n"))]));
            assert_eq!(findings.len(), 1, "{word}");
            assert_eq!(findings[0].line, 2);
        }
    }

    #[test]
    fn a_banned_word_inside_another_word_is_fine() {
        assert_eq!(found(&format!("mktemp name.{0}{0}", WORDS[2])), 0);
        assert_eq!(found(&format!("MASTER{}S", WORDS[0])), 0);
    }

    #[test]
    fn a_path_of_one_machine_is_found_and_a_relative_one_is_not() {
        for beginning in PATHS {
            assert_eq!(found(&format!("see {beginning}notes")), 1);
            assert_eq!(found(&format!("\"{beginning}notes\"")), 1);
            assert_eq!(found(&format!("see src{beginning}mod.rs")), 0);
        }
    }
}
