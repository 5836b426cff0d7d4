//! A name says what a file contains. These names do not, and such files collect unrelated code.

use super::{Finding, source, tree::Tree};

const RULE: &str = "banned-names";
const BANNED: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];

/// Finds files, folders and modules with a meaningless name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in tree.paths() {
        let stems = path.split('/').map(|part| part.split('.').next().unwrap_or_default());
        findings.extend(stems.filter(is_banned).map(|stem| finding(path, 1, stem)));
    }
    for (path, text) in tree.ending(".rs") {
        let tokens = source::tokens(&source::blank(text));
        let modules = tokens.windows(3).filter(|three| three[0].text == "mod" && three[2].text == "{");
        let banned = modules.filter(|three| is_banned(&three[1].text.as_str()));
        findings.extend(banned.map(|three| finding(path, three[1].line, &three[1].text)));
    }
    findings
}

fn is_banned(stem: &&str) -> bool {
    BANNED.contains(stem)
}

fn finding(path: &str, line: usize, stem: &str) -> Finding {
    Finding::new(RULE, path, line, format!("`{stem}` is meaningless: name it after its content"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_folder_with_a_meaningless_name_is_found() {
        let tree =
            Tree::of(&[("src/utils.rs", ""), ("tests/common/mod.rs", ""), ("src/common_prefix.rs", "")]);
        let paths: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["src/utils.rs", "tests/common/mod.rs"]);
    }

    #[test]
    fn a_module_inside_a_file_is_found_by_its_line() {
        let findings = check(&Tree::of(&[("src/lib.rs", "// mod misc {\n\nmod helpers {\n}\n")]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 3);
    }
}
