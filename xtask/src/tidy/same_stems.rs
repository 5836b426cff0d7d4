//! One stem per operation: its name in core is also the name of its Lua file and of its conformance
//! chapter.

use super::{Finding, tree::Tree};

const RULE: &str = "same-stems";

/// The folders of a capability's operations in core, in Lua and in the conformance suite.
type Folders = [(&'static str, &'static str); 3];

const CAPABILITIES: [Folders; 5] = [
    [
        ("crates/fairlane-core/src/queue/ops", ".rs"),
        ("crates/fairlane-engine/src/redis/lua/queue/ops", ".lua"),
        ("crates/fairlane-conformance/src/chapters", ".rs"),
    ],
    [
        ("crates/fairlane-core/src/lock/ops", ".rs"),
        ("crates/fairlane-engine/src/redis/lua/lock/ops", ".lua"),
        ("crates/fairlane-conformance/src/chapters/lock", ".rs"),
    ],
    [
        ("crates/fairlane-core/src/room/ops", ".rs"),
        ("crates/fairlane-engine/src/redis/lua/room/ops", ".lua"),
        ("crates/fairlane-conformance/src/chapters/room", ".rs"),
    ],
    [
        ("crates/fairlane-core/src/ranking/ops", ".rs"),
        ("crates/fairlane-engine/src/redis/lua/ranking/ops", ".lua"),
        ("crates/fairlane-conformance/src/chapters/ranking", ".rs"),
    ],
    [
        ("crates/fairlane-core/src/activity/ops", ".rs"),
        ("crates/fairlane-engine/src/redis/lua/activity/ops", ".lua"),
        ("crates/fairlane-conformance/src/chapters/activity", ".rs"),
    ],
];

/// The file of a module itself is not an operation.
const NOT_AN_OPERATION: &str = "mod";

/// Finds operations without a file in one of the folders.
pub fn check(tree: &Tree) -> Vec<Finding> {
    CAPABILITIES.iter().flat_map(|folders| check_capability(tree, folders)).collect()
}

fn check_capability(tree: &Tree, folders: &Folders) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, ending) in folders {
        let stems = tree.stems(folder, ending);
        for stem in stems.into_iter().filter(|stem| *stem != NOT_AN_OPERATION) {
            let path = format!("{folder}/{stem}{ending}");
            for twin in twins(folders, stem).filter(|twin| tree.text(twin).is_none()) {
                let advice = format!("the operation `{stem}` also needs {twin}");
                findings.push(Finding::new(RULE, &path, 1, advice));
            }
        }
    }
    findings
}

fn twins<'a>(folders: &'a Folders, stem: &'a str) -> impl Iterator<Item = String> + 'a {
    folders.iter().map(move |(folder, ending)| format!("{folder}/{stem}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDERS: &Folders = &CAPABILITIES[0];

    fn tree_of(present: &[(usize, &str)]) -> Tree {
        let path = |(at, stem): &(usize, &str)| format!("{}/{stem}{}", FOLDERS[*at].0, FOLDERS[*at].1);
        let paths: Vec<String> = present.iter().map(path).collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        Tree::of(&files)
    }

    #[test]
    fn an_operation_with_a_file_in_each_folder_is_complete() {
        assert_eq!(check(&tree_of(&[(0, "lease"), (1, "lease"), (2, "lease"), (0, "mod"), (2, "mod")])), []);
    }

    #[test]
    fn an_operation_missing_in_one_folder_is_found_from_each_other_folder() {
        for missing in [0, 1, 2] {
            let others = [0, 1, 2].into_iter().filter(|folder| *folder != missing);
            let present: Vec<_> = others.map(|folder| (folder, "lease")).collect();
            let findings = check(&tree_of(&present));
            assert_eq!(findings.len(), 2);
            let absent = FOLDERS[missing].0;
            assert!(findings.iter().all(|finding| finding.advice.contains(absent)));
        }
    }

    #[test]
    fn files_in_deeper_folders_are_no_operations() {
        assert_eq!(check(&tree_of(&[(1, "shared/gate")])), []);
    }
}
