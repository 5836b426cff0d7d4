//! One stem per operation: its name in core is also the name of its Lua file and of its conformance
//! chapter.

use std::collections::BTreeSet;

use super::{Finding, tree::Tree};

const RULE: &str = "same-stems";

const CORE: &str = "crates/fairlane-core/src";
const LUA: &str = "crates/fairlane-engine/src/redis/lua";
const CHAPTERS: &str = "crates/fairlane-conformance/src/chapters";

/// The folders of a capability's operations in core, in Lua and in the conformance suite.
type Folders = [(String, &'static str); 3];

/// The file of a module itself is not an operation.
const NOT_AN_OPERATION: &str = "mod";

/// Finds operations without a file in one of the folders.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let findings = |capability| check_capability(tree, &folders(capability));
    capabilities(tree).into_iter().flat_map(findings).collect()
}

/// The capabilities that have operations in core or in Lua.
fn capabilities<'a>(tree: &'a Tree) -> BTreeSet<&'a str> {
    let capability = |path: &'a str| -> Option<&'a str> {
        let within = path.strip_prefix(CORE).or(path.strip_prefix(LUA))?.strip_prefix('/')?;
        Some(within.split_once("/ops/")?.0)
    };
    tree.paths().filter_map(capability).collect()
}

fn folders(capability: &str) -> Folders {
    let chapters = match capability {
        // The chapters of the queue are not in a subfolder.
        "queue" => CHAPTERS.to_owned(),
        _ => format!("{CHAPTERS}/{capability}"),
    };
    [
        (format!("{CORE}/{capability}/ops"), ".rs"),
        (format!("{LUA}/{capability}/ops"), ".lua"),
        (chapters, ".rs"),
    ]
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

    fn tree_of(present: &[(usize, &str)]) -> Tree {
        let folders = folders("queue");
        let path = |(at, stem): &(usize, &str)| format!("{}/{stem}{}", folders[*at].0, folders[*at].1);
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
            let absent = &folders("queue")[missing].0;
            assert!(findings.iter().all(|finding| finding.advice.contains(absent)));
        }
    }

    #[test]
    fn files_in_deeper_folders_are_no_operations() {
        assert_eq!(check(&tree_of(&[(1, "shared/gate")])), []);
    }
}
