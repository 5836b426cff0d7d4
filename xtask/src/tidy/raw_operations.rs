//! Handlers of the server and commands of the program use the library: they call no operation of the
//! engine themselves.

use super::{Finding, source, tree::Tree};

const RULE: &str = "raw-operations";
const FOLDERS: [&str; 5] = [
    "crates/fairlane-server/src/api/",
    "crates/fairlane-server/src/ui/",
    "crates/fairlane-server/src/metrics/",
    "crates/fairlane-server/src/health.rs",
    "crates/fairlane-cli/src/commands/",
];
/// The benchmarks measure the engine itself.
const EXCEPT: [&str; 1] = ["crates/fairlane-cli/src/commands/bench/"];
/// How an operation reaches an engine, in a handler or in a test beside it.
const CALLS: [&str; 4] = [".call(", ".call_when_woken(", "engine().submit(", ".settle_all("];

/// Finds calls of operations where the library belongs.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_in = |path: &str, folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    for (path, text) in tree.ending(".rs") {
        if !is_in(path, &FOLDERS) || is_in(path, &EXCEPT) {
            continue;
        }
        for (index, line) in source::blank(text).lines().enumerate() {
            if CALLS.iter().any(|call| line.contains(call)) {
                let advice = "use a method of `fairlane` instead of an operation of the engine";
                findings.push(Finding::new(RULE, path, index + 1, advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// .call(\nasync fn f() {\n    engine.call(InspectQueue).await;\n}\n";

    #[test]
    fn an_operation_called_in_a_handler_is_found_by_its_line() {
        let findings = check(&Tree::of(&[("crates/fairlane-server/src/api/jobs.rs", TEXT)]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 3);
    }

    #[test]
    fn a_benchmark_and_the_library_may_call_operations() {
        let paths = ["crates/fairlane-cli/src/commands/bench/ground.rs", "crates/fairlane/src/dead.rs"];
        assert_eq!(check(&Tree::of(&paths.map(|path| (path, TEXT)))), []);
    }
}
