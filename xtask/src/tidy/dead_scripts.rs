//! Every Lua file is used: a script by the engine, an include by a script.

use super::source::tokens;
use super::{Finding, tree::Tree};
use std::collections::BTreeSet;

const RULE: &str = "dead-scripts";
const SCRIPTS: &str = "crates/fairlane-engine/src/redis/scripts";
const INCLUDES: &str = "crates/fairlane-engine/src/redis/scripts/include";
const INCLUDE_LINE: &str = "--@include ";

/// Finds scripts and includes that nothing uses, and includes that do not exist.
pub fn check(tree: &Tree) -> Vec<Finding> {
    [dead_scripts(tree), dead_includes(tree), missing_includes(tree)].concat()
}

fn dead_scripts(tree: &Tree) -> Vec<Finding> {
    let rust = tree.ending(".rs").filter(|(path, _)| path.starts_with("crates/"));
    let words: BTreeSet<String> = rust.flat_map(|(_, text)| tokens(text)).map(|token| token.text).collect();
    let dead = tree.stems(SCRIPTS, ".lua").into_iter().filter(|stem| !words.contains(*stem));
    dead.map(|stem| {
        let advice = format!("no Rust file names `{stem}`: use the script or delete it");
        Finding::new(RULE, &format!("{SCRIPTS}/{stem}.lua"), 1, advice)
    })
    .collect()
}

fn dead_includes(tree: &Tree) -> Vec<Finding> {
    let used: BTreeSet<&str> = inclusions(tree).into_iter().map(|inclusion| inclusion.name).collect();
    let dead = tree.stems(INCLUDES, ".lua").into_iter().filter(|stem| !used.contains(stem));
    dead.map(|stem| {
        let advice = format!("no script has `{INCLUDE_LINE}{stem}`: use the include or delete it");
        Finding::new(RULE, &format!("{INCLUDES}/{stem}.lua"), 1, advice)
    })
    .collect()
}

fn missing_includes(tree: &Tree) -> Vec<Finding> {
    let exists = |name: &str| tree.text(&format!("{INCLUDES}/{name}.lua")).is_some();
    let missing = inclusions(tree).into_iter().filter(|inclusion| !exists(inclusion.name));
    missing
        .map(|inclusion| {
            let advice = format!("{INCLUDES}/{}.lua does not exist", inclusion.name);
            Finding::new(RULE, inclusion.path, inclusion.line, advice)
        })
        .collect()
}

/// One line by which a Lua file includes another.
struct Inclusion<'a> {
    path: &'a str,
    line: usize,
    name: &'a str,
}

fn inclusions(tree: &Tree) -> Vec<Inclusion<'_>> {
    let mut inclusions = Vec::new();
    for (path, text) in tree.ending(".lua") {
        for (index, line) in text.lines().enumerate() {
            if let Some(name) = line.trim().strip_prefix(INCLUDE_LINE) {
                inclusions.push(Inclusion { path, line: index + 1, name: name.trim() });
            }
        }
    }
    inclusions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lua: &[(&str, &str)], rust: &str) -> Vec<String> {
        let paths: Vec<String> = lua.iter().map(|(stem, _)| format!("{SCRIPTS}/{stem}.lua")).collect();
        let mut files = vec![("crates/fairlane-engine/src/lib.rs", rust)];
        files.extend(paths.iter().zip(lua).map(|(path, (_, text))| (path.as_str(), *text)));
        check(&Tree::of(&files)).into_iter().map(|finding| finding.advice).collect()
    }

    #[test]
    fn a_script_that_no_rust_file_names_is_found() {
        let advice = found(&[("lease", ""), ("settle", "")], "load(\"lease\")");
        assert_eq!(advice.len(), 1);
        assert!(advice[0].contains("`settle`"));
    }

    #[test]
    fn an_include_that_no_script_uses_is_found() {
        let lua = [("lease", "--@include gate\n"), ("include/gate", ""), ("include/old", "")];
        let advice = found(&lua, "lease");
        assert_eq!(advice.len(), 1);
        assert!(advice[0].contains("--@include old"));
    }

    #[test]
    fn an_inclusion_of_nothing_is_found() {
        let advice = found(&[("lease", "--@include gone\n")], "lease");
        assert_eq!(advice, [format!("{INCLUDES}/gone.lua does not exist")]);
    }
}
