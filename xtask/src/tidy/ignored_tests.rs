//! An ignored test has a reason.

use super::{Finding, source, tree::Tree};

const RULE: &str = "ignored-tests";

/// Finds ignored tests without a reason.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let code = source::blank(text);
        for (index, (kept, line)) in code.lines().zip(text.lines()).enumerate() {
            if kept.contains("#[ignore") && !has_reason(line) {
                let advice = "say why: `#[ignore = \"reason\"]`, or let it run";
                findings.push(Finding::new(RULE, path, index + 1, advice));
            }
        }
    }
    findings
}

fn has_reason(line: &str) -> bool {
    let reason = line.split_once("#[ignore = \"").map(|(_, reason)| reason);
    reason.is_some_and(|reason| !reason.starts_with('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_test_without_a_reason_is_found() {
        for attribute in ["#[ignore]", "#[ignore = \"\"]"] {
            let text = format!("#[test]\n{attribute}\nfn claim() {{}}\n");
            let findings = check(&Tree::of(&[("a.rs", &text)]));
            assert_eq!(findings.len(), 1, "{attribute}");
            assert_eq!(findings[0].line, 2);
        }
    }

    #[test]
    fn a_reason_or_a_mere_mention_is_fine() {
        let text = "// #[ignore]\n#[ignore = \"needs an hour\"]\nfn claim() {}\n";
        assert_eq!(check(&Tree::of(&[("a.rs", text)])), []);
    }
}
