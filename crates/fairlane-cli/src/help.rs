//! Snapshots of every command's `--help`, so that a change to a help text shows up in review.
//!
//! `FAIRLANE_WRITE_HELP=1 cargo nextest run -p fairlane-cli help` rewrites the snapshots.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

/// The width of the snapshots in columns.
const WIDTH: usize = 120;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help")
}

/// Appends a command and its subcommands, each with its full name.
fn collect(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    found.push((name.to_owned(), command.clone()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        collect(inner, &format!("{name} {}", inner.get_name()), found);
    }
}

fn all() -> Vec<(String, Command)> {
    let mut program = crate::Arguments::command().term_width(WIDTH);
    program.build();
    let mut found = Vec::new();
    collect(&program, "fairlane", &mut found);
    found
}

#[test]
fn help_of_every_command_matches_its_snapshot() {
    let write = std::env::var_os("FAIRLANE_WRITE_HELP").is_some();
    let mut expected = BTreeSet::new();
    for (name, command) in all() {
        let file_name = format!("{}.txt", name.replace(' ', "-"));
        let path = folder().join(&file_name);
        let help = command.term_width(WIDTH).render_long_help().to_string();
        let help: String = help.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        if write {
            std::fs::write(&path, &help).unwrap();
        }
        let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            help, snapshot,
            "{file_name} differs from {name} --help; FAIRLANE_WRITE_HELP=1 rewrites it"
        );
        expected.insert(file_name);
    }
    for file in std::fs::read_dir(folder()).unwrap().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        assert!(expected.contains(&name), "tests/help/{name} belongs to no command; remove it");
    }
}

#[test]
fn every_command_documents_examples_and_exit_codes() {
    for (name, mut command) in all() {
        let help = command.render_long_help().to_string();
        let depth = name.split(' ').count();
        if depth > 1 {
            assert!(help.contains("Example"), "{name} --help has no example");
            assert!(
                help.contains(&format!("  {name}")) || name == "fairlane bench",
                "no example calls {name}"
            );
        }
        if depth < 3 {
            assert!(help.contains("Exit codes:"), "{name} --help has no exit codes");
        }
    }
}

/// Every command is in the table of docs/cli.md, and the table names no other.
#[test]
fn the_page_on_the_command_line_names_every_command() {
    let page = include_str!("../../../docs/cli.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let mut documented = BTreeSet::new();
    for (cell, _) in rows.take_while(|(cell, _)| !cell.contains("://")) {
        let mut parent = String::new();
        for name in cell.split(", ").map(|name| name.trim_matches('`')) {
            // `bulk load`, `show`: the later words are commands of the same parent.
            let name = match name.rsplit_once(' ') {
                Some((before, _)) => {
                    parent = before.to_owned();
                    name.to_owned()
                }
                None if parent.is_empty() => name.to_owned(),
                None => format!("{parent} {name}"),
            };
            documented.insert(format!("fairlane {name}"));
        }
    }
    let leaves = all().into_iter().filter(|(_, command)| !command.has_subcommands());
    let known: BTreeSet<String> = leaves.map(|(name, _)| name).collect();
    assert_eq!(documented, known, "docs/cli.md and the program have the same commands");
}
