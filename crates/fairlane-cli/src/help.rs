//! The help of every command is what its file says: what changes there is seen by whoever changes it.
//!
//! `FAIRLANE_WRITE_HELP=1 cargo nextest run -p fairlane-cli help` writes the files anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

/// As wide as the files are.
const WIDTH: usize = 120;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help")
}

/// Every command with the words that call it.
fn walk(command: &Command, words: &str, found: &mut Vec<(String, Command)>) {
    found.push((words.to_owned(), command.clone()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        walk(inner, &format!("{words} {}", inner.get_name()), found);
    }
}

fn all() -> Vec<(String, Command)> {
    let mut program = crate::Arguments::command().term_width(WIDTH);
    program.build();
    let mut found = Vec::new();
    walk(&program, "fairlane", &mut found);
    found
}

#[test]
fn the_help_of_every_command_is_as_its_file_has_it() {
    let write = std::env::var_os("FAIRLANE_WRITE_HELP").is_some();
    let mut expected = BTreeSet::new();
    for (words, command) in all() {
        let name = format!("{}.txt", words.replace(' ', "-"));
        let path = folder().join(&name);
        let help = command.term_width(WIDTH).render_long_help().to_string();
        let help: String = help.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        if write {
            std::fs::write(&path, &help).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            help, kept,
            "{name} is not what {words} --help says; FAIRLANE_WRITE_HELP=1 writes it anew"
        );
        expected.insert(name);
    }
    for file in std::fs::read_dir(folder()).unwrap().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        assert!(expected.contains(&name), "tests/help/{name} is of no command any more; remove it");
    }
}

#[test]
fn every_command_has_examples_and_its_exit_codes_or_those_of_the_command_it_is_part_of() {
    for (words, mut command) in all() {
        let help = command.render_long_help().to_string();
        let depth = words.split(' ').count();
        if depth > 1 {
            assert!(help.contains("Example"), "{words} --help has no example");
            assert!(
                help.contains(&format!("  {words}")) || words == "fairlane bench",
                "{words}: no example of it"
            );
        }
        if depth < 3 {
            assert!(help.contains("Exit codes:"), "{words} --help has no exit codes");
        }
    }
}
