//! `fairlane completions`: shell completion scripts.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairlane completions bash > ~/.local/share/bash-completion/completions/fairlane
  fairlane completions zsh > ~/.zfunc/_fairlane
  fairlane completions fish > ~/.config/fish/completions/fairlane.fish

For zsh, the folder must be in fpath before compinit runs.
Exit codes: 0 success; 2 bad input.";

/// Prints a shell completion script
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints the script.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "fairlane", &mut script);
    output::print(String::from_utf8_lossy(&script).trim_end())
}
