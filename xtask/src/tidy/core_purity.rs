//! Core is pure: time and randomness are arguments, and it accesses no store.
//!
//! The rule checks its dependencies and its source, since the standard library has a clock too.

use super::{Finding, source, tree::Tree};
use crate::shell;
use std::path::Path;

const RULE: &str = "core-purity";
const CORE: &str = "fairlane-core";
const MANIFEST: &str = "crates/fairlane-core/Cargo.toml";
const SOURCE: &str = "crates/fairlane-core/src/";
const FORBIDDEN_CRATES: [&str; 7] = ["tokio", "redis", "rand", "chrono", "time", "jiff", "getrandom"];
const FORBIDDEN_CODE: [&str; 2] = ["SystemTime", "Instant::now"];

/// Finds clocks in core's source and impure crates below it.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = clocks(tree);
    if let Some(root) = tree.root() {
        match dependency_tree(root) {
            Ok(listing) => findings.extend(impure_crates(&listing)),
            Err(message) => findings.push(Finding::new(RULE, MANIFEST, 1, message)),
        }
    }
    findings
}

fn clocks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| path.starts_with(SOURCE)) {
        let code = source::blank(text);
        for (index, line) in code.lines().enumerate() {
            let used = FORBIDDEN_CODE.iter().filter(|name| line.contains(**name));
            findings.extend(used.map(|name| {
                Finding::new(
                    RULE,
                    path,
                    index + 1,
                    format!("`{name}` reads a clock: take the time as an argument"),
                )
            }));
        }
    }
    findings
}

fn dependency_tree(root: &Path) -> Result<String, String> {
    let arguments = ["tree", "--offline", "-p", CORE, "-e", "normal", "--prefix", "none"];
    let output = shell::cargo(root, &arguments)
        .output()
        .map_err(|error| format!("cargo tree could not be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(format!("cargo tree failed: {}", reason.trim().replace('\n', " ")))
}

/// The crates in the output of `cargo tree --prefix none` that core must not depend on.
fn impure_crates(listing: &str) -> Vec<Finding> {
    let names = listing.lines().filter_map(|line| line.split_whitespace().next());
    let mut impure: Vec<&str> = names.filter(|name| FORBIDDEN_CRATES.contains(name)).collect();
    impure.sort_unstable();
    impure.dedup();
    let advice = |name| format!("core must not depend on `{name}`, nor on anything that does");
    impure.into_iter().map(|name| Finding::new(RULE, MANIFEST, 1, advice(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_core_is_found_by_its_line() {
        let clock = FORBIDDEN_CODE[1];
        let text = format!("// {clock}\nfn f() {{\n    let now = {clock}();\n}}\n");
        let findings = check(&Tree::of(&[("crates/fairlane-core/src/lib.rs", &text)]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 3);
    }

    #[test]
    fn a_clock_outside_core_is_fine() {
        let text = format!("fn f() {{ {}() }}\n", FORBIDDEN_CODE[1]);
        assert_eq!(check(&Tree::of(&[("crates/fairlane-cli/src/main.rs", &text)])), []);
    }

    #[test]
    fn an_impure_crate_anywhere_below_core_is_found_once() {
        let listing = "fairlane-core v0.1.0\nthiserror v2.0.1\nrand v0.9.0\nrand v0.9.0 (*)\n";
        let findings = impure_crates(listing);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].advice.contains("`rand`"));
    }

    #[test]
    fn a_crate_whose_name_only_begins_like_an_impure_one_is_fine() {
        assert_eq!(impure_crates("timeless v1.0.0\nrandom-names v1.0.0\n"), []);
    }
}
