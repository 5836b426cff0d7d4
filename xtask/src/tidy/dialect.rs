//! Names and prose use the vocabulary of the field and name their subject. The refused words do
//! neither.
//!
//! A doc comment of one word explains nothing, and it reaches users as the help of an argument.
//! Left out: phrases that a line break divides.

use super::{Finding, tree::Tree};

const RULE: &str = "dialect";

/// Words and phrases that are refused, each with the advice for a better one.
const REFUSED: [(&str, &str); 9] = [
    ("whoever", "name the subject, such as the caller, the worker or the client"),
    ("somebody", "name the subject, such as the caller, the worker or the operator"),
    ("nobody", "name the subject, such as `no worker` or `no client`"),
    ("is told", "write what happens, such as `gets an error` or `is notified`"),
    ("what is said", "name it, such as the event, the message or the reply"),
    ("of the whole", "write `of the queue`"),
    ("is none of", "write what it is, or `is not one of`"),
    ("purse", "write `quota`"),
    ("strangers", "write `unauthenticated clients`"),
];

/// A table that refers to requirements in the words of their authors.
const EXEMPT: &str = "docs/requirements.md";

/// Finds refused words in the source of crates, in documents and examples, and doc comments of one word.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| is_checked(path)) {
        findings.extend(refused_words(path, text));
        if path.ends_with(".rs") {
            findings.extend(one_word_comments(path, text));
        }
    }
    findings
}

fn is_checked(path: &str) -> bool {
    let below_crate = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    let is_source = below_crate.is_some_and(|(_, rest)| rest.starts_with("src/"));
    let is_document = path.starts_with("docs/") && path != EXEMPT;
    is_source || is_document || path.starts_with("examples/") || path == "README.md"
}

fn refused_words(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Names of functions and tests are prose, too.
        let line = line.to_lowercase().replace('_', " ");
        let found = REFUSED.iter().filter(|(word, _)| has_word(&line, word));
        findings.extend(
            found.map(|(word, advice)| Finding::new(RULE, path, index + 1, format!("`{word}`: {advice}"))),
        );
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let begins = !line[..at].ends_with(char::is_alphanumeric);
        begins && !line[at + word.len()..].starts_with(char::is_alphanumeric)
    })
}

fn one_word_comments(path: &str, text: &str) -> Vec<Finding> {
    let comments: Vec<Option<&str>> = text.lines().map(doc_comment).collect();
    let is_comment = |at: usize| comments.get(at).is_some_and(Option::is_some);
    let mut findings = Vec::new();
    for (index, comment) in comments.iter().enumerate() {
        let is_one_word = comment.is_some_and(|comment| comment.split_whitespace().count() == 1);
        let is_alone = !is_comment(index + 1) && (index == 0 || !is_comment(index - 1));
        if is_one_word && is_alone {
            let advice = "a doc comment of one word: write what the item is, with its unit";
            findings.push(Finding::new(RULE, path, index + 1, advice));
        }
    }
    findings
}

/// The text of a line of a doc comment.
fn doc_comment(line: &str) -> Option<&str> {
    let line = line.trim();
    let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    (!comment.starts_with('/')).then_some(comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "crates/x/src/lib.rs";

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_refused_word_is_found_by_its_line() {
        for (word, _) in REFUSED {
            assert_eq!(found(SOURCE, &format!("// fine\n// It {word} here.\n")), [2], "{word}");
            assert_eq!(found("docs/guide.md", &format!("It {word}.\n")), [1], "{word}");
        }
    }

    #[test]
    fn a_refused_word_is_found_in_names_and_at_the_start_of_a_sentence() {
        assert_eq!(found(SOURCE, "fn nobody_waits() {}\nfn it_is_told() {}\n"), [1, 2]);
        assert_eq!(found("README.md", "Whoever waits\n"), [1]);
        assert_eq!(found("examples/http/worker.sh", "# somebody answers\n"), [1]);
    }

    #[test]
    fn a_refused_word_inside_another_word_is_fine() {
        assert_eq!(found(SOURCE, "// This toldable pursed estrangers.\n"), [0; 0]);
    }

    #[test]
    fn tests_other_files_and_the_requirements_are_not_checked() {
        for path in ["crates/x/tests/x/main.rs", "xtask/src/tidy/dialect.rs", "CHANGELOG.md", EXEMPT] {
            assert_eq!(found(path, "/// Which.\n// nobody\n"), [0; 0], "{path}");
        }
    }

    #[test]
    fn a_doc_comment_of_one_word_is_found() {
        let text = "pub struct One {\n    /// Which.\n    pub id: u64,\n    //! Why\n}\n";
        assert_eq!(found(SOURCE, text), [2, 4]);
    }

    #[test]
    fn a_word_in_a_longer_comment_or_in_a_plain_comment_is_fine() {
        let text = "/// The first line\n/// ends.\nfn one() {}\n// Why\n//// Which.\n///\nfn two() {}\n";
        assert_eq!(found(SOURCE, text), [0; 0]);
    }
}
