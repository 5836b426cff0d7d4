//! One stem per operation: who knows where it is decided knows where it is written in Lua and where it is tested.

use super::{Finding, tree::Tree};

const RULE: &str = "same-stems";

/// Where an operation lives, in core, in Lua and in the conformance suite.
const PLACES: [(&str, &str); 3] = [
    ("crates/fairlane-core/src/queue/operations", ".rs"),
    ("crates/fairlane-engine/src/redis/scripts", ".lua"),
    ("crates/fairlane-conformance/src/chapters", ".rs"),
];

/// A module's own file is no operation.
const NOT_AN_OPERATION: &str = "mod";

/// Finds operations that lack a file in one of the places.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, ending) in PLACES {
        let stems = tree.stems(folder, ending);
        for stem in stems.into_iter().filter(|stem| *stem != NOT_AN_OPERATION) {
            let path = format!("{folder}/{stem}{ending}");
            for twin in twins(stem).filter(|twin| tree.text(twin).is_none()) {
                let advice = format!("the operation `{stem}` also needs {twin}");
                findings.push(Finding::new(RULE, &path, 1, advice));
            }
        }
    }
    findings
}

fn twins(stem: &str) -> impl Iterator<Item = String> {
    PLACES.iter().map(move |(folder, ending)| format!("{folder}/{stem}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_of(present: &[(usize, &str)]) -> Tree {
        let path = |(place, stem): &(usize, &str)| format!("{}/{stem}{}", PLACES[*place].0, PLACES[*place].1);
        let paths: Vec<String> = present.iter().map(path).collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        Tree::of(&files)
    }

    #[test]
    fn an_operation_in_all_places_is_complete() {
        assert_eq!(check(&tree_of(&[(0, "lease"), (1, "lease"), (2, "lease"), (0, "mod"), (2, "mod")])), []);
    }

    #[test]
    fn an_operation_missing_in_one_place_is_found_from_each_other_place() {
        for missing in [0, 1, 2] {
            let others = [0, 1, 2].into_iter().filter(|place| *place != missing);
            let present: Vec<_> = others.map(|place| (place, "lease")).collect();
            let findings = check(&tree_of(&present));
            assert_eq!(findings.len(), 2);
            let absent = PLACES[missing].0;
            assert!(findings.iter().all(|finding| finding.advice.contains(absent)));
        }
    }

    #[test]
    fn includes_are_no_operations() {
        assert_eq!(check(&tree_of(&[(1, "include/gate")])), []);
    }
}
