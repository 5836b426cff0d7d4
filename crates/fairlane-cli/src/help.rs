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

/// The pages that users read, each with its text.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["", "docs", "deploy", "examples/http", "examples/box-office", "examples/comfy-service"];
    let files =
        folders.into_iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap().flatten());
    let pages = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The words of a command as a shell splits them, up to a comment, a pipe or a redirection. A
/// substitution counts as one word.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut depth = 0;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ' ') if depth == 0 => words.push(String::new()),
            (None, '#' | '|' | '>' | '&' | ';') if words.last().is_some_and(String::is_empty) => break,
            (None, _) if depth > 0 => {}
            _ => words.last_mut().expect("there is always a last word").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The command that the first words name, and the number of these words.
fn named(words: &[String]) -> (Command, usize) {
    let mut command = crate::Arguments::command();
    command.build();
    let mut depth = 1;
    while let Some(inner) = words.get(depth).and_then(|word| command.find_subcommand(word).cloned()) {
        command = inner;
        depth += 1;
    }
    (command, depth)
}

#[test]
fn every_command_in_a_block_of_the_documents_is_accepted() {
    let (mut count, mut refused) = (0, Vec::new());
    for (page, text) in pages() {
        let text = text.replace("\\\n", " ");
        let blocks = text.split("```").skip(1).step_by(2);
        let shell = blocks.filter(|block| block.starts_with("sh") || block.starts_with("text"));
        for line in shell.flat_map(str::lines).filter(|line| line.starts_with("fairlane ")) {
            let parsed = crate::Arguments::command().try_get_matches_from(words(line));
            refused
                .extend(parsed.err().filter(clap::Error::use_stderr).map(|e| format!("{page}: {line}\n{e}")));
            count += 1;
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(count >= 60, "only {count} commands were found");
}

#[test]
fn every_command_in_a_sentence_of_the_documents_exists_with_its_options() {
    let (mut count, mut unknown) = (0, Vec::new());
    for (page, text) in pages() {
        let prose = text.split("```").step_by(2).collect::<Vec<_>>().concat();
        for span in prose.split('`').skip(1).step_by(2).filter(|span| span.starts_with("fairlane ")) {
            let words = words(&span.replace('\n', " "));
            let (command, depth) = named(&words);
            // `bulk load|show` names two commands, and COMMAND stands for any.
            let given = words.get(depth).filter(|_| command.has_subcommands());
            let names = given.iter().flat_map(|given| given.split('|'));
            let wrong = names.filter(|name| *name != "COMMAND" && command.find_subcommand(name).is_none());
            unknown.extend(wrong.map(|name| format!("{page}: `{span}`: {name}")));
            let own = words.iter().skip(depth).take_while(|word| *word != "--");
            let options = own.filter_map(|word| word.strip_prefix("--")?.split('=').next());
            let wrong = options.filter(|option| {
                *option != "help" && !command.get_arguments().any(|known| known.get_long() == Some(option))
            });
            unknown.extend(wrong.map(|option| format!("{page}: `{span}`: --{option}")));
            count += 1;
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(count >= 100, "only {count} commands were found");
}
