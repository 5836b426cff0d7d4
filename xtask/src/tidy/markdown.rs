//! A minimal Markdown reader: links, headings, tables and code in backticks.
//!
//! Left out: HTML links, and links that span lines.

/// A link's target and its line.
#[derive(Debug, PartialEq)]
pub struct Link {
    pub target: String,
    pub line: usize,
}

/// Every link outside code, inline or by reference.
pub fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            let targets = line_targets(&without_code(line));
            links.extend(targets.into_iter().map(|target| Link { target, line: index + 1 }));
        }
    }
    links
}

/// The headings outside code, as fragments of links name them.
pub fn headings(text: &str) -> Vec<String> {
    let outside = text.split("\n```").step_by(2);
    let headings = outside.flat_map(str::lines).filter(|line| line.starts_with('#'));
    headings.map(|line| fragment(line.trim_start_matches('#'))).collect()
}

fn fragment(title: &str) -> String {
    let kept = title.trim().chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The cells of a table's row; `None` if the line is not one.
pub fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(str::trim).collect())
}

/// The texts in backticks.
pub fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The file that a relative link points to, relative to the root; `None` for other sites and for
/// the same page.
pub fn linked_path(from: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // No file of the tree is above the root, so the path is kept as one that cannot be
            // found.
            ".." if parts.pop().is_none() => return Some(path.into()),
            ".." => {}
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("code")
}

fn line_targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let reference = line.starts_with('[').then(|| line.split_once("]: ")).flatten().map(|(_, target)| target);
    let first_word = |target: &str| target.split_whitespace().next().map(String::from);
    inline.chain(reference).filter_map(first_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        links(text).into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_are_found_inline_and_by_reference() {
        let text = "see [a](a.md) and [b](b.md \"title\")\n\n[c]: c.md\n";
        assert_eq!(targets(text), ["a.md", "b.md", "c.md"]);
    }

    #[test]
    fn links_in_code_are_not_links() {
        assert_eq!(targets("```\n[a](a.md)\n```\n`[b](b.md)` [c](c.md)\n"), ["c.md"]);
    }

    #[test]
    fn a_link_is_resolved_from_the_folder_of_its_page() {
        assert_eq!(linked_path("docs/a.md", "../README.md#start"), Some("README.md".into()));
        assert_eq!(linked_path("docs/a.md", "b.md"), Some("docs/b.md".into()));
        assert_eq!(linked_path("a.md", "../../b.md"), Some("../../b.md".into()));
    }

    #[test]
    fn other_sites_and_the_same_page_are_not_files() {
        assert_eq!(linked_path("a.md", "https://example.org"), None);
        assert_eq!(linked_path("a.md", "#below"), None);
    }

    #[test]
    fn a_row_gives_its_cells_and_a_cell_its_code() {
        assert_eq!(cells("| a | `b`, `c` |"), Some(vec!["a", "`b`, `c`"]));
        assert_eq!(cells("no row"), None);
        assert_eq!(code_spans("`b`, `c` d"), ["b", "c"]);
    }
}
