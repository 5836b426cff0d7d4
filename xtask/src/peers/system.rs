//! The systems: how the program of each is installed and started.

use crate::{Outcome, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A queue that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    Fairlane,
    BullMq,
    Sidekiq,
    Celery,
}

/// Every system, in the order of the table.
pub const SYSTEMS: [System; 4] = [System::Fairlane, System::BullMq, System::Sidekiq, System::Celery];

/// A program with the arguments that come first.
pub struct Program {
    path: PathBuf,
    arguments: Vec<PathBuf>,
}

impl System {
    /// Its name as people write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Fairlane => "Fairlane",
            Self::BullMq => "BullMQ",
            Self::Sidekiq => "Sidekiq",
            Self::Celery => "Celery",
        }
    }

    /// Builds or installs its program below `folder`. An error says what is missing.
    pub fn install(self, root: &Path, folder: &Path) -> Result<Program, String> {
        eprintln!("installing {}", self.title());
        let sources = root.join("benches/peers");
        match self {
            Self::Fairlane => install_fairlane(root),
            Self::BullMq => install_bullmq(&sources.join("bullmq"), &folder.join("bullmq")),
            Self::Sidekiq => find_sidekiq(&sources.join("sidekiq")),
            Self::Celery => install_celery(&sources.join("celery"), &folder.join("celery")),
        }
    }
}

impl Program {
    /// A program, found along the path if it is a plain name.
    pub fn new<A: AsRef<Path>>(path: impl Into<PathBuf>, arguments: &[A]) -> Self {
        let arguments = arguments.iter().map(|argument| argument.as_ref().into()).collect();
        Self { path: path.into(), arguments }
    }

    /// A command that further arguments can be added to.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments);
        command
    }
}

fn install_fairlane(root: &Path) -> Result<Program, String> {
    quietly(&mut shell::cargo(root, &["build", "--release", "-p", "fairlane", "--example", "peer"]))?;
    Ok(Program::new(shell::target_folder(root).join("release/examples/peer"), &[] as &[&str]))
}

fn install_bullmq(source: &Path, folder: &Path) -> Result<Program, String> {
    require("node", "nodejs")?;
    require("npm", "npm")?;
    std::fs::create_dir(folder)
        .map_err(|error| format!("{} could not be made: {error}", folder.display()))?;
    for name in ["package.json", "package-lock.json", "peer.js"] {
        std::fs::copy(source.join(name), folder.join(name))
            .map_err(|error| format!("{name} could not be copied: {error}"))?;
    }
    // `npm ci` would demand that the lock file has the optional packages of every platform.
    quietly(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(folder))?;
    Ok(Program::new("node", &[folder.join("peer.js")]))
}

fn find_sidekiq(source: &Path) -> Result<Program, String> {
    require("ruby", "ruby-sidekiq")?;
    if !shell::succeeds_quietly(Command::new("ruby").args(["-e", "require 'sidekiq'"])) {
        return Err(
            "Ruby finds no gem `sidekiq`; Debian's package ruby-sidekiq or `gem install sidekiq` has it"
                .into(),
        );
    }
    Ok(Program::new("ruby", &[source.join("peer.rb")]))
}

fn install_celery(source: &Path, folder: &Path) -> Result<Program, String> {
    require("python3", "python3-venv")?;
    quietly(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let python = folder.join("bin/python");
    let requirements = source.join("requirements.txt");
    quietly(Command::new(&python).args(["-m", "pip", "install", "--requirement"]).arg(requirements))?;
    Ok(Program::new(python, &[source.join("peer.py")]))
}

fn require(program: &str, debian_package: &str) -> Outcome {
    match shell::find(program) {
        Some(_) => Ok(()),
        None => Err(format!("`{program}` is not installed; Debian's package {debian_package} has it")),
    }
}

/// Runs a command without printing its output; an error contains the last line of it.
fn quietly(command: &mut Command) -> Outcome {
    let line = shell::command_line(command);
    let output = command.output().map_err(|error| format!("`{line}` could not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("without a message");
    Err(format!("`{line}` failed ({}): {last}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_files_pin_versions_and_name_no_registry() {
        let folder = crate::workspace_root().unwrap().join("benches/peers");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(!read("bullmq/package-lock.json").contains("\"resolved\""));
        assert!(read("bullmq/package-lock.json").contains("\"integrity\""));
        assert!(read("celery/requirements.txt").lines().all(|line| line.contains("==")));
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let message = require("no-such-program-here", "some-package").unwrap_err();
        assert!(message.contains("no-such-program-here") && message.contains("some-package"));
    }

    #[test]
    fn a_failed_installation_gives_the_last_line_of_its_errors() {
        let line = "echo first >&2; echo the registry does not answer >&2; exit 1";
        let message = quietly(Command::new("sh").args(["-c", line])).unwrap_err();
        assert!(message.ends_with("the registry does not answer"), "{message}");
    }
}
