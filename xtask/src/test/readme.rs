//! The README's commands, run as a reader would run them.
//!
//! A fenced block whose info string is `sh run` holds commands that must succeed, one to a line (a backslash at
//! the end of a line joins it with the next). Each runs in a bash of its own at the workspace root, with the program
//! that was just built on the PATH, as if it were installed. Not done:
//! variables or folder changes that outlive their line, and commands that start this very check again.

use crate::{Outcome, shell};
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const COMMAND_LIMIT: Duration = Duration::from_secs(600);
const RUN_TAG: [&str; 2] = ["sh", "run"];

/// Commands that end in this check, and so would never end.
const RECURSIVE: [&str; 2] = ["xtask test", ".ci/run"];

/// Runs every tagged command of README.md.
pub fn run_commands(root: &Path) -> Outcome {
    let text = std::fs::read_to_string(root.join("README.md"))
        .map_err(|error| format!("README.md could not be read: {error}"))?;
    let commands = commands(&text);
    if commands.is_empty() {
        return Err("README.md has no command in a block tagged `sh run`".into());
    }
    shell::run(&mut shell::cargo(root, &["build", "-p", "fairlane-cli"]))?;
    let path = path_with_program(root)?;
    for command in &commands {
        let mut bash = shell::program_at(root, "bash");
        bash.args(["-e", "-c", command]).env("PATH", &path).stdin(Stdio::null());
        shell::run_within(&mut bash, command, COMMAND_LIMIT)?;
    }
    Ok(())
}

/// The PATH with the folder of the debug build before everything else.
fn path_with_program(root: &Path) -> Result<OsString, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let built = shell::target_folder(root).join("debug");
    let folders = std::iter::once(built).chain(std::env::split_paths(&folders));
    std::env::join_paths(folders).map_err(|error| format!("the PATH cannot be extended: {error}"))
}

fn commands(markdown: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut unfinished = String::new();
    for line in tagged_lines(markdown) {
        if let Some(beginning) = line.strip_suffix('\\') {
            unfinished += beginning;
            continue;
        }
        let command = std::mem::take(&mut unfinished) + line;
        let command = command.trim().trim_start_matches("$ ");
        let recursive = RECURSIVE.iter().any(|part| command.contains(part));
        if !command.is_empty() && !command.starts_with('#') && !recursive {
            commands.push(command.to_string());
        }
    }
    commands
}

fn tagged_lines(markdown: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut block: Option<bool> = None;
    for line in markdown.lines() {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(info), None) => block = Some(info.split_whitespace().eq(RUN_TAG)),
            (Some(_), Some(_)) => block = None,
            (None, Some(true)) => lines.push(line),
            (None, _) => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_tagged_run_are_run() {
        let text = "```sh run\necho one\n```\n\n```sh\necho two\n```\n```text\n```\necho three\n";
        assert_eq!(commands(text), ["echo one"]);
    }

    #[test]
    fn comments_prompts_and_empty_lines_are_not_part_of_a_command() {
        let text = "```sh run\n# a word first\n\n$ echo one\n```\n";
        assert_eq!(commands(text), ["echo one"]);
    }

    #[test]
    fn a_backslash_joins_a_line_with_the_next() {
        let text = "```sh run\necho one \\\n  two\n```\n";
        assert_eq!(commands(text), ["echo one   two"]);
    }

    #[test]
    fn the_check_does_not_start_itself_again() {
        let text = "```sh run\ncargo xtask test\n.ci/run\ncargo xtask tidy\n```\n";
        assert_eq!(commands(text), ["cargo xtask tidy"]);
    }

    #[test]
    fn a_command_that_fails_in_its_middle_fails() {
        let mut bash = shell::program_at(Path::new("."), "bash");
        bash.args(["-e", "-c", "false; true"]);
        assert!(shell::run_within(&mut bash, "false; true", COMMAND_LIMIT).is_err());
    }
}
