//! Every Rust file is compiled: it is reached by `mod` from its crate's root.
//!
//! No compiler reads a file outside every module tree. Programs below `src/bin`, and everything
//! outside `src`, are roots that cargo finds by itself.

use super::source::{self, Token, is_word};
use super::{Finding, tree::Tree};
use std::collections::BTreeSet;

const RULE: &str = "dead-modules";

/// Finds source files that no root reaches.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources: BTreeSet<&str> =
        tree.ending(".rs").map(|(path, _)| path).filter(|path| in_source_folder(path)).collect();
    let mut waiting: Vec<String> =
        sources.iter().filter(|path| is_root(path)).map(|path| path.to_string()).collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        let text = tree.text(&path).unwrap_or_default();
        waiting.extend(declared(&path, text).into_iter().filter(|module| sources.contains(module.as_str())));
        reached.insert(path);
    }
    let dead = sources.into_iter().filter(|path| !reached.contains(*path));
    dead.map(|path| Finding::new(RULE, path, 1, "no `mod` leads here: declare it or delete it")).collect()
}

fn in_source_folder(path: &str) -> bool {
    let below = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    below.is_some_and(|(_, rest)| rest.starts_with("src/")) || path.starts_with("xtask/src/")
}

fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

/// The possible paths of the modules that a file declares.
fn declared(path: &str, text: &str) -> Vec<String> {
    let folder = module_folder(path);
    let mut paths = Vec::new();
    let mut enclosing: Vec<(String, usize)> = Vec::new();
    let mut depth = 0_usize;
    let tokens = source::tokens(&source::blank(text));
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                enclosing.retain(|(_, opened)| *opened <= depth);
            }
            "mod" => match declaration(&tokens[at..]) {
                Some((name, ";")) => {
                    let names = enclosing.iter().map(|(name, _)| name.as_str()).chain([name]);
                    let module = format!("{folder}/{}", names.collect::<Vec<_>>().join("/"));
                    paths.extend([format!("{module}.rs"), format!("{module}/mod.rs")]);
                }
                Some((name, _)) => enclosing.push((name.into(), depth + 1)),
                None => {}
            },
            _ => {}
        }
    }
    paths
}

/// The name after `mod`, and whether a file (`;`) or a body (`{`) follows.
fn declaration(tokens: &[Token]) -> Option<(&str, &str)> {
    let [_, name, next, ..] = tokens else {
        return None;
    };
    let known = is_word(&name.text) && matches!(next.text.as_str(), ";" | "{");
    known.then_some((name.text.as_str(), next.text.as_str()))
}

/// The folder of a file's modules.
fn module_folder(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').expect("a source file lies in a folder");
    let owns_its_folder = matches!(name, "lib.rs" | "main.rs" | "mod.rs") || folder.ends_with("/src/bin");
    match owns_its_folder {
        true => folder.into(),
        false => path.trim_end_matches(".rs").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_file_without_a_declaration_is_found() {
        let files = [
            ("crates/a/src/lib.rs", "// mod orphan;\nmod used;"),
            ("crates/a/src/used.rs", ""),
            ("crates/a/src/orphan.rs", ""),
        ];
        assert_eq!(dead(&files), ["crates/a/src/orphan.rs"]);
    }

    #[test]
    fn modules_are_followed_in_both_layouts() {
        let files = [
            ("crates/a/src/main.rs", "pub mod one; mod two;"),
            ("crates/a/src/one.rs", "mod below;"),
            ("crates/a/src/one/below.rs", ""),
            ("crates/a/src/two/mod.rs", "pub(crate) mod below;"),
            ("crates/a/src/two/below.rs", ""),
        ];
        assert_eq!(dead(&files), [""; 0]);
    }

    #[test]
    fn a_module_declared_inside_another_lies_in_its_folder() {
        let text = "mod outer { fn f() {} mod inner; }\nmod after;";
        let files =
            [("xtask/src/main.rs", text), ("xtask/src/outer/inner.rs", ""), ("xtask/src/after.rs", "")];
        assert_eq!(dead(&files), [""; 0]);
    }

    #[test]
    fn a_file_declared_only_by_a_dead_file_is_dead() {
        let files = [
            ("crates/a/src/lib.rs", ""),
            ("crates/a/src/one.rs", "mod two;"),
            ("crates/a/src/one/two.rs", ""),
        ];
        assert_eq!(dead(&files).len(), 2);
    }

    #[test]
    fn programs_tests_and_examples_are_roots() {
        let files = [
            ("crates/a/src/bin/soak.rs", ""),
            ("crates/a/tests/claims.rs", ""),
            ("crates/a/examples/first.rs", ""),
        ];
        assert_eq!(dead(&files), [""; 0]);
    }
}
