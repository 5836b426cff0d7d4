//! The rules for the form of the tree, checked by an ordinary test.
//!
//! Each rule is a file in `tidy/`; a rule is a function from the tree to its findings, so that each
//! is tested on a few lines of text with one planted fault. The rules read with `tree`, `source`,
//! `markdown` and `manifest`. They check form, never behaviour: other tests check what the code
//! does.

mod banned_names;
mod banned_words;
mod core_purity;
mod dead_documents;
mod dead_modules;
mod dependencies;
mod dialect;
mod file_size;
mod function_size;
mod ignored_tests;
mod links;
mod lua_modules;
mod manifest;
pub mod markdown;
mod prose_width;
mod raw_operations;
mod requirements;
mod same_stems;
mod snippets;
mod source;
pub mod tree;

use crate::{Outcome, expect_no_arguments};
use std::fmt;
use std::path::Path;
use tree::Tree;

/// Help of `cargo xtask tidy`.
pub const HELP: &str = "\
Usage: cargo xtask tidy

Checks the form of the tree and prints each finding as `path:line: rule: what to do`:
  file-size      Rust files and Lua scripts stay short
  function-size  functions fit a screen
  banned-names   no file or module with a meaningless name
  banned-words   no unfinished work, no left-over debugging, no path of one machine
  dialect        no words that avoid the subject or the term of art, no doc comment of one word
  prose-width    prose in Markdown is wrapped at 100 columns
  same-stems     an operation has the same file stem in core, Lua and conformance
  dead-modules   every Rust file is reached from its crate's root
  lua-modules    Lua files keep no state between calls, and every function is used
  dead-documents every document is linked, every scenario is used
  core-purity    core depends on no clock, randomness, store or runtime
  raw-operations handlers and commands use the library, not operations of the engine
  requirements   the table in docs/requirements.md is complete and names what exists
  dependencies   every dependency has its reason in docs/dependencies.md
  links          relative links in Markdown point to files that exist
  snippets       every command and program in a document is run by a named test
  ignored-tests  an ignored test says why
";

const RULES: [fn(&Tree) -> Vec<Finding>; 17] = [
    file_size::check,
    function_size::check,
    banned_names::check,
    banned_words::check,
    dialect::check,
    prose_width::check,
    same_stems::check,
    dead_modules::check,
    lua_modules::check,
    dead_documents::check,
    core_purity::check,
    raw_operations::check,
    requirements::check,
    dependencies::check,
    links::check,
    snippets::check,
    ignored_tests::check,
];

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    advice: String,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, advice: impl Into<String>) -> Self {
        Self { path: path.into(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, advice } = self;
        write!(formatter, "{path}:{line}: {rule}: {advice}")
    }
}

/// Prints every finding, and fails when there is one.
pub fn run(root: &Path, arguments: &[String]) -> Outcome {
    expect_no_arguments("tidy", arguments)?;
    let tree = Tree::read(root)?;
    let findings = findings(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("{} files, no findings", tree.paths().count());
        return Ok(());
    }
    Err(format!("tidy has {} findings", findings.len()))
}

fn findings(tree: &Tree) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let tree = Tree::read(&crate::workspace_root().unwrap()).unwrap();
        let lines: Vec<String> = findings(&tree).iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn a_finding_shows_its_position_rule_and_advice() {
        let finding = Finding::new("links", "README.md", 7, "correct it");
        assert_eq!(finding.to_string(), "README.md:7: links: correct it");
    }
}
