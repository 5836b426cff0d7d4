//! Functions fit on a screen, unless a comment says why one should not be divided.

use super::{Finding, source, tree::Tree};

const RULE: &str = "function-size";
const LINES_MAX: usize = 80;
const EXEMPTION: &str = "// tidy: long because ";

/// Finds functions with too many lines and no reason for it on the line above.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        for function in source::functions(text) {
            let (name, lines) = (&function.name, function.lines());
            if lines > LINES_MAX && !is_exempt(text, function.first_line) {
                let advice = format!(
                    "`{name}` has {lines} lines, at most {LINES_MAX}: divide it, or say `{EXEMPTION}…` on the line above"
                );
                findings.push(Finding::new(RULE, path, function.first_line, advice));
            }
        }
    }
    findings
}

fn is_exempt(text: &str, first_line: usize) -> bool {
    let line_above = first_line.checked_sub(2).and_then(|at| text.lines().nth(at));
    let reason = line_above.and_then(|line| line.trim().strip_prefix(EXEMPTION));
    reason.is_some_and(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("fn wide() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_beyond_the_limit_is_found_and_one_at_the_limit_is_not() {
        let (long, fits) = (function_of(LINES_MAX + 1), function_of(LINES_MAX));
        let findings = check(&Tree::of(&[("fits.rs", &fits), ("long.rs", &long)]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "long.rs");
        assert!(findings[0].advice.starts_with("`wide` has 81 lines"));
    }

    #[test]
    fn a_reason_on_the_line_above_exempts() {
        let text = format!("{EXEMPTION}it is one table.\n{}", function_of(LINES_MAX + 1));
        assert_eq!(check(&Tree::of(&[("long.rs", &text)])), []);
    }

    #[test]
    fn an_exemption_without_a_reason_does_not_exempt() {
        let text = format!("{EXEMPTION}\n{}", function_of(LINES_MAX + 1));
        assert_eq!(check(&Tree::of(&[("long.rs", &text)])).len(), 1);
    }
}
