//! The commands of README.md and docs/install.md, run as a reader would run them.
//!
//! A fenced block whose info string is `sh run` holds commands that must succeed, one to a line (a
//! backslash at the end of a line joins it with the next). Each runs in a bash of its own at the
//! workspace root, with the program on the PATH that was installed as the README installs it. Left
//! out: variables or folder changes that outlive their line, and commands that start this check
//! again.

use crate::{Outcome, shell};
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const COMMAND_LIMIT: Duration = Duration::from_secs(600);
const RUN_TAG: [&str; 2] = ["sh", "run"];

/// Commands that run this check, which would never end.
const RECURSIVE: [&str; 2] = ["xtask test", ".ci/run"];

/// The pages that begin with an installation, which is the first block of `sh` in both.
const PAGES: [&str; 2] = ["README.md", "docs/install.md"];
/// The commands that install the program in a clone.
const INSTALL: &str = "cargo install --locked --path crates/fairlane-cli";

/// Installs the program as the documents do, and runs the tagged commands of both pages with it.
///
/// The build is the debug build, which exists already, and the folder is one below `target`.
pub fn run_commands(root: &Path) -> Outcome {
    let mut commands = Vec::new();
    for page in PAGES {
        let text = std::fs::read_to_string(root.join(page))
            .map_err(|error| format!("{page} could not be read: {error}"))?;
        if !text.contains(&format!("\n```sh\n{INSTALL}\n```\n")) {
            return Err(format!("{page} does not show `{INSTALL}` in a block of `sh`"));
        }
        let tagged = self::commands(&text);
        if tagged.is_empty() {
            return Err(format!("{page} has no command in a block tagged `sh run`"));
        }
        commands.extend(tagged.into_iter().filter(|command| !commands.contains(command)).collect::<Vec<_>>());
    }
    let installed = shell::target_folder(root).join("readme-installed");
    let mut install = shell::program_at(root, "bash");
    let line = format!("{INSTALL} --debug --no-track --force --root \"$0\"");
    shell::run(install.args(["-e", "-c", &line]).arg(&installed))?;
    let path = path_with_program(&installed.join("bin"))?;
    for command in &commands {
        let mut bash = shell::program_at(root, "bash");
        bash.args(["-e", "-c", command]).env("PATH", &path).stdin(Stdio::null());
        shell::run_within(&mut bash, command, COMMAND_LIMIT)?;
    }
    Ok(())
}

/// The PATH with the folder of the program before everything else.
fn path_with_program(folder: &Path) -> Result<OsString, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&folders));
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
