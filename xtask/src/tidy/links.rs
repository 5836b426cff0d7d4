//! A relative link in Markdown points to a file that exists, and its fragment to a heading of that
//! page. Links to other sites are not checked.

use super::{Finding, markdown, tree::Tree};

const RULE: &str = "links";

/// Finds links to files and headings that do not exist.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for link in markdown::links(text) {
            let linked = markdown::linked_path(path, &link.target);
            if let Some(target) = linked.filter(|target| !tree.has(target)) {
                let advice = format!("{target} does not exist: correct the link");
                findings.push(Finding::new(RULE, path, link.line, advice));
            } else if let Some(fragment) = missing_heading(tree, path, &link.target) {
                let advice = format!("there is no heading #{fragment}: correct the link");
                findings.push(Finding::new(RULE, path, link.line, advice));
            }
        }
    }
    findings
}

/// The fragment of a link, if its page has no such heading.
fn missing_heading<'a>(tree: &Tree, path: &str, target: &'a str) -> Option<&'a str> {
    let (_, fragment) = target.split_once('#').filter(|_| !target.contains("://"))?;
    let page = markdown::linked_path(path, target).unwrap_or_else(|| path.to_owned());
    let text = tree.text(&page).filter(|_| page.ends_with(".md"))?;
    (!markdown::headings(text).iter().any(|heading| heading == fragment)).then_some(fragment)
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
    fn a_link_to_a_missing_heading_is_found_on_its_own_and_another_page() {
        let tree = Tree::of(&[
            ("a.md", "# A\n## It's `b c`\n[b](#its-b-c)\n[x](#x)\n[y](docs/b.md#y)\n"),
            ("docs/b.md", "# B\n```\n# y\n```\n[a](../a.md#a)\n"),
        ]);
        let lines: Vec<usize> = check(&tree).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [4, 5]);
    }

    #[test]
    fn other_sites_are_not_checked() {
        assert_eq!(check(&Tree::of(&[("a.md", "[x](https://example.org/gone)\n")])), []);
    }
}
