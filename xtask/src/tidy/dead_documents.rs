//! Every document is linked from another and listed in the summary, from which the site is built, and
//! every scenario is used by a test or a document.

use super::{Finding, markdown, tree::Tree};
use std::collections::BTreeSet;

const RULE: &str = "dead-documents";
const ENTRANCES: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

const SUMMARY: &str = "docs/SUMMARY.md";

/// Finds documents that nothing links or the summary does not list, and scenarios that nothing mentions.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = dead_documents(tree);
    findings.extend(unlisted_documents(tree));
    findings.extend(dead_scenarios(tree));
    findings
}

fn dead_documents(tree: &Tree) -> Vec<Finding> {
    let linked = linked_documents(tree);
    let documents = tree.ending(".md").map(|(path, _)| path).filter(|path| is_document(path));
    documents
        .filter(|path| *path != SUMMARY && !linked.contains(*path))
        .map(|path| {
            Finding::new(RULE, path, 1, format!("link it from {} or another document", ENTRANCES.join(", ")))
        })
        .collect()
}

fn unlisted_documents(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.text(SUMMARY) else { return Vec::new() };
    let links = markdown::links(summary).into_iter();
    let listed: BTreeSet<String> =
        links.filter_map(|link| markdown::linked_path(SUMMARY, &link.target)).collect();
    let documents = tree.ending(".md").map(|(path, _)| path).filter(|path| is_document(path));
    documents
        .filter(|path| *path != SUMMARY && !listed.contains(*path))
        .map(|path| Finding::new(RULE, path, 1, format!("list it in {SUMMARY}")))
        .collect()
}

fn linked_documents(tree: &Tree) -> BTreeSet<String> {
    let mut linked = BTreeSet::new();
    for (path, text) in tree.ending(".md") {
        if is_document(path) || ENTRANCES.contains(&path) {
            let targets = markdown::links(text).into_iter();
            let paths = targets.filter_map(|link| markdown::linked_path(path, &link.target));
            linked.extend(paths.filter(|target| target != path));
        }
    }
    linked
}

fn dead_scenarios(tree: &Tree) -> Vec<Finding> {
    let is_scenario = |path: &&str| path.starts_with("scenarios/") && path.ends_with(".toml");
    let is_user = |path: &str| path.ends_with(".rs") || path == "README.md" || is_document(path);
    let users: Vec<&str> = tree.files().filter(|(path, _)| is_user(path)).map(|(_, text)| text).collect();
    tree.paths()
        .filter(is_scenario)
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            !users.iter().any(|text| text.contains(name))
        })
        .map(|path| {
            Finding::new(RULE, path, 1, "no test, README or document mentions it: use it or delete it")
        })
        .collect()
}

fn is_document(path: &str) -> bool {
    path.starts_with("docs/") && path.ends_with(".md")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_document_that_nothing_links_is_found() {
        let files = [
            ("README.md", "[a](docs/a.md)"),
            ("docs/a.md", "[b](b.md)"),
            ("docs/b.md", ""),
            ("docs/c.md", "[c](c.md)"),
        ];
        assert_eq!(found(&files), ["docs/c.md"]);
    }

    #[test]
    fn a_document_that_the_summary_does_not_list_is_found() {
        let files = [
            ("README.md", "[a](docs/a.md) [b](docs/b.md)"),
            ("docs/SUMMARY.md", "- [A](a.md)"),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
        ];
        assert_eq!(found(&files), ["docs/b.md"]);
    }

    #[test]
    fn a_scenario_that_nothing_mentions_is_found() {
        let files = [
            ("README.md", "simulate scenarios/flood.toml"),
            ("scenarios/flood.toml", ""),
            ("scenarios/calm.toml", ""),
        ];
        assert_eq!(found(&files), ["scenarios/calm.toml"]);
    }

    #[test]
    fn a_scenario_mentioned_by_a_test_is_used() {
        let files = [("crates/x/tests/runs.rs", "run(\"calm.toml\")"), ("scenarios/calm.toml", "")];
        assert_eq!(found(&files), [""; 0]);
    }
}
