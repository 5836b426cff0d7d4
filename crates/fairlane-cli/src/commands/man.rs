//! `fairlane man`: manual pages, for packages.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairlane man ~/.local/share/man/man1
  fairlane man target/man && man -l target/man/fairlane-serve.1

Writes fairlane.1 and one page for each command. The pages have the text of --help.
Exit codes: 0 success; 1 the directory cannot be written; 2 bad input.";

/// Writes manual pages into a directory
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory for the pages; created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let directory = arguments.directory;
    let written = std::fs::create_dir_all(&directory)
        .and_then(|()| clap_mangen::generate_to(crate::Arguments::command(), &directory));
    written.map_err(Failure::unwritable_now(&directory))?;
    output::print(&format!("the manual pages are in {}", directory.display()))
}
