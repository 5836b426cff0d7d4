//! Files stay short.

use super::{Finding, tree::Tree};

const RULE: &str = "file-size";

/// The ending of a kind of file and the most lines it may have.
const LIMITS: [(&str, usize); 2] = [(".rs", 600), (".lua", 150)];

/// Finds files with more lines than their kind allows.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (ending, lines_max) in LIMITS {
        for (path, text) in tree.ending(ending) {
            let lines = text.lines().count();
            if lines > lines_max {
                let advice = format!("{lines} lines, at most {lines_max}: move a part of it to another file");
                findings.push(Finding::new(RULE, path, lines_max + 1, advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beyond_its_limit_is_found_and_one_at_the_limit_is_not() {
        for (ending, lines_max) in LIMITS {
            let (long, fits) = ("x\n".repeat(lines_max + 1), "x\n".repeat(lines_max));
            let (long_path, fits_path) = (format!("long{ending}"), format!("fits{ending}"));
            let findings = check(&Tree::of(&[(&long_path, &long), (&fits_path, &fits)]));
            assert_eq!(findings.len(), 1);
            assert_eq!((&findings[0].path, findings[0].line), (&long_path, lines_max + 1));
        }
    }

    #[test]
    fn prose_may_be_long() {
        assert_eq!(check(&Tree::of(&[("a.md", &"x\n".repeat(2000))])), []);
    }
}
