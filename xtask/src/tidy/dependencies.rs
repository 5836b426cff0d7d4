//! Every dependency has a documented reason, and every documented reason its dependency.

use super::manifest::{self, Dependency};
use super::{Finding, markdown, tree::Tree};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "dependencies";
const REASONS: &str = "docs/dependencies.md";

/// Finds dependencies without a reason and reasons without a dependency.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let declared = declared(tree);
    let explained = explained(tree);
    let mut findings = Vec::new();
    for (name, (path, line)) in declared.iter().filter(|(name, _)| !explained.contains_key(*name)) {
        let advice = format!("give `{name}` a line of why in {REASONS}");
        findings.push(Finding::new(RULE, path, *line, advice));
    }
    for (name, (line, reason)) in &explained {
        if !declared.contains_key(name) {
            findings.push(Finding::new(
                RULE,
                REASONS,
                *line,
                format!("no manifest has `{name}`: delete its line"),
            ));
        } else if reason.is_empty() {
            findings.push(Finding::new(RULE, REASONS, *line, format!("say why `{name}` is here")));
        }
    }
    findings
}

/// Every dependency from outside the workspace, with the first manifest that declares it.
fn declared(tree: &Tree) -> BTreeMap<String, (&str, usize)> {
    let mut all: Vec<(&str, Dependency)> = Vec::new();
    for (path, text) in tree.ending("Cargo.toml") {
        all.extend(manifest::dependencies(text).into_iter().map(|dependency| (path, dependency)));
    }
    let local = all.iter().filter(|(_, dependency)| dependency.local);
    let local: BTreeSet<String> = local.map(|(_, dependency)| dependency.name.clone()).collect();
    let mut declared = BTreeMap::new();
    for (path, dependency) in all {
        if !local.contains(&dependency.name) {
            declared.entry(dependency.name).or_insert((path, dependency.line));
        }
    }
    declared
}

/// The rows of the table of reasons: name, line, reason.
fn explained(tree: &Tree) -> BTreeMap<String, (usize, String)> {
    let mut explained = BTreeMap::new();
    for (index, line) in tree.text(REASONS).unwrap_or_default().lines().enumerate() {
        let cells = markdown::cells(line).unwrap_or_default();
        if let [name, reason, ..] = cells[..]
            && let [name] = markdown::code_spans(name)[..]
        {
            explained.insert(name.into(), (index + 1, reason.into()));
        }
    }
    explained
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(manifest: &str, reasons: &str) -> Vec<String> {
        let reasons = format!("| dependency | why |\n|---|---|\n{reasons}");
        let tree = Tree::of(&[("Cargo.toml", manifest), (REASONS, &reasons)]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_dependency_without_a_reason_is_found_where_it_is_declared() {
        let found = advice("[dependencies]\ntoml = \"1\"\n", "");
        assert_eq!(found, ["Cargo.toml:2: dependencies: give `toml` a line of why in docs/dependencies.md"]);
    }

    #[test]
    fn a_reason_without_a_dependency_is_found() {
        let found = advice("[dependencies]\n", "| `toml` | reads scenarios |\n");
        assert_eq!(found, ["docs/dependencies.md:3: dependencies: no manifest has `toml`: delete its line"]);
    }

    #[test]
    fn an_empty_reason_is_found() {
        assert_eq!(advice("[dependencies]\ntoml = \"1\"\n", "| `toml` | |\n").len(), 1);
    }

    #[test]
    fn crates_of_the_workspace_need_no_reason() {
        let manifest =
            "[workspace.dependencies]\nx = { path = \"crates/x\" }\n[dependencies]\nx.workspace = true\n";
        assert_eq!(advice(manifest, ""), [""; 0]);
    }
}
