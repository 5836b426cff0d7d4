//! Child programs: how they are found, started and reported.
//!
//! A child inherits the terminal, so its output streams, and it gets the environment of the user
//! who typed `cargo xtask`, without the variables that cargo added for this program.

use crate::Outcome;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Cargo describes the running package in variables with these beginnings; a nested cargo must not
/// see them.
const OWN_VARIABLES: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

const CHILD_POLL_MS: u64 = 50;

/// A cargo command line, to be run from the workspace root.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let program = std::env::var("CARGO").unwrap_or_else(|_| String::from("cargo"));
    let mut command = program_at(root, &program);
    command.args(arguments);
    command
}

/// The target folder of cargo.
pub fn target_folder(root: &Path) -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    root.join(named.map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// Any other program, to be run from the workspace root.
pub fn program_at(root: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OWN_VARIABLES.iter().any(|beginning| text.starts_with(beginning)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Prints the command line and runs it; a failure becomes an error message.
pub fn run(command: &mut Command) -> Outcome {
    let line = command_line(command);
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("`{line}` could not be started: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{line}` failed ({status})"))
}

/// As [`run`], but ends the program when it takes longer than `limit`.
pub fn run_within(command: &mut Command, line: &str, limit: Duration) -> Outcome {
    println!("$ {line}");
    finish_within(command, line, limit)
}

/// As [`run_within`], without printing the command line.
pub fn finish_within(command: &mut Command, line: &str, limit: Duration) -> Outcome {
    let mut child = command.spawn().map_err(|error| format!("`{line}` could not be started: {error}"))?;
    let deadline = Instant::now() + limit;
    loop {
        let ended = child.try_wait().map_err(|error| format!("`{line}` could not be waited for: {error}"))?;
        match ended {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("`{line}` failed ({status})")),
            None if Instant::now() >= deadline => return Err(overdue(child, line, limit)),
            None => std::thread::sleep(Duration::from_millis(CHILD_POLL_MS)),
        }
    }
}

/// Whether the program starts and succeeds; its output is dropped.
pub fn succeeds_quietly(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The path of the program in `PATH`, if it is there.
pub fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn overdue(mut child: Child, line: &str, limit: Duration) -> String {
    // The child may have ended already; then there is nothing to kill.
    let _ = child.kill();
    let _ = child.wait();
    format!("`{line}` was ended after {} s", limit.as_secs())
}

/// The name of the program and its arguments, for messages.
pub fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(line: &str) -> Command {
        let mut command = program_at(Path::new("."), "bash");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn a_failing_program_is_named_with_its_arguments() {
        let message = run(&mut bash("exit 3")).unwrap_err();
        assert!(message.starts_with("`bash -c exit 3` failed"), "{message}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_reported() {
        let mut command = program_at(Path::new("."), "no-such-program-here");
        assert!(run(&mut command).unwrap_err().contains("could not be started"));
    }

    #[test]
    fn a_program_beyond_its_time_is_ended() {
        let started = Instant::now();
        let limit = Duration::from_millis(20);
        let message = run_within(&mut bash("exec sleep 60"), "sleep", limit).unwrap_err();
        assert!(message.contains("was ended"), "{message}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_program_within_its_time_succeeds() {
        assert_eq!(run_within(&mut bash("true"), "true", Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn a_child_does_not_see_what_cargo_says_about_this_package() {
        let command = cargo(Path::new("."), &["tree"]);
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        assert!(removed.iter().any(|(name, _)| *name == "CARGO_MANIFEST_DIR"));
    }

    #[test]
    fn a_program_is_found_along_the_path_or_not_at_all() {
        assert!(find("bash").is_some());
        assert_eq!(find("no-such-program-here"), None);
    }
}
