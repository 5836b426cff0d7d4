//! Prose in Markdown is wrapped at 100 columns, so that it reads well in a terminal and a changed
//! sentence is a small difference.
//!
//! Left out: code and pictures in fences, tables, images, and lines with an address of the web.

use super::{Finding, tree::Tree};

const RULE: &str = "prose-width";
const COLUMNS_MAX: usize = 100;

/// A table that quotes sentences of other documents.
const EXEMPT: &str = "docs/requirements.md";

/// Finds lines of prose that are too wide.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md").filter(|(path, _)| *path != EXEMPT) {
        let mut in_fence = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_fence = !in_fence;
            } else if !in_fence && is_prose(line) && line.chars().count() > COLUMNS_MAX {
                let advice = format!("wrap it at {COLUMNS_MAX} columns");
                findings.push(Finding::new(RULE, path, index + 1, advice));
            }
        }
    }
    findings
}

fn is_prose(line: &str) -> bool {
    let is_table_or_image = line.starts_with('|') || line.starts_with("![");
    !is_table_or_image && !line.contains("http://") && !line.contains("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Tree::of(&[("docs/page.md", text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_wide_line_of_prose_is_found() {
        let wide = "word ".repeat(21);
        assert_eq!(lines(&format!("short\n{wide}\n- {wide}\n")), [2, 3]);
        assert_eq!(lines(&"ü".repeat(100)), Vec::<usize>::new(), "columns, not bytes");
    }

    #[test]
    fn code_tables_images_and_addresses_may_be_wide() {
        let wide = "word ".repeat(21);
        let text = format!("```\n{wide}\n```\n| {wide} |\n![{wide}](a.png)\nhttps://example.com/{wide}\n");
        assert_eq!(lines(&text), Vec::<usize>::new());
    }
}
