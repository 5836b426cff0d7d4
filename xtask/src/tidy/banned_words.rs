//! Committed text is finished, and names no path of the machine it was written on.
//!
//! The words are concatenated from halves, so that this file passes its own rule.

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
            let words = WORDS.iter().filter(|word| contains_part(line, word, is_word_character));
            findings.extend(words.map(|word| {
                Finding::new(RULE, path, index + 1, format!("`{word}`: finish it or remove it"))
            }));
            let paths = PATHS.iter().filter(|beginning| contains_part(line, beginning, is_path_character));
            findings.extend(paths.map(|beginning| {
                Finding::new(RULE, path, index + 1, format!("`{beginning}`: name no path of one machine"))
            }));
        }
    }
    findings
}

/// Whether the line contains the part, not as a piece of a longer word or path.
fn contains_part(line: &str, part: &str, belongs: fn(char) -> bool) -> bool {
    line.match_indices(part).any(|(at, _)| {
        let begins = !line[..at].ends_with(belongs);
        let ends_itself = !part.ends_with(is_word_character);
        begins && (ends_itself || !line[at + part.len()..].starts_with(is_word_character))
    })
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// A character before a path that makes it relative.
fn is_path_character(character: char) -> bool {
    is_word_character(character) || matches!(character, '-' | '.' | '~' | '*' | '}' | ')')
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
