//! A relative link in Markdown points to a file that exists. Links to other sites are not checked.

use super::{Finding, markdown, tree::Tree};

const RULE: &str = "links";

/// Finds links to files that do not exist.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for link in markdown::links(text) {
            let linked = markdown::linked_path(path, &link.target);
            if let Some(target) = linked.filter(|target| !tree.has(target)) {
                let advice = format!("{target} does not exist: correct the link");
                findings.push(Finding::new(RULE, path, link.line, advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_missing_file_is_found_by_its_line() {
        let tree = Tree::of(&[
            ("docs/a.md", "\n[gone](gone.md)\n[top](../README.md)\n"),
            ("README.md", "[docs](docs)\n"),
        ]);
        let lines: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(lines, ["docs/a.md:2: links: docs/gone.md does not exist: correct the link"]);
    }

    #[test]
    fn other_sites_are_not_checked() {
        assert_eq!(check(&Tree::of(&[("a.md", "[x](https://example.org/gone)\n")])), []);
    }
}
