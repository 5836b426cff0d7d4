//! `fairlane config`: every value that is configured, and where it came from.

use clap::Args;
use serde::Serialize;

use crate::config::{Config, Given, Row};
use crate::failure::Failure;
use crate::{output, tables};

const EXAMPLES: &str = "\
Examples:
  fairlane config
  fairlane config --config fairlane.toml --listen 127.0.0.1:9000
  FAIRLANE_WORKER_LEASE_MS=20000 fairlane config --json

Values come from fairlane.toml, above it from variables such as FAIRLANE_SERVER_LISTEN, above them from options. What may
be secret is shown as …. Nobody is asked and nothing changed.
Exit codes: 0 all of it can be used; 2 something cannot; the message says what and where.";

/// Shows every value that serve and work would use, and where it comes from
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    given: Given,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// What programs get.
#[derive(Serialize)]
struct Answer {
    /// The file, if there is one.
    file: Option<String>,
    values: Vec<Row>,
}

/// Reads everything and shows it.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let config = Config::read(&arguments.given)?;
    if let Some(url) = &config.engine {
        fairlane_engine::check_address(url)?;
    }
    let answer = Answer { file: config.path.map(|path| path.display().to_string()), values: config.rows };
    if arguments.json {
        return output::print_json(&answer);
    }
    let rows = answer.values.iter().map(|row| vec![row.key.clone(), row.value.clone(), row.origin.clone()]);
    output::print(&tables::texts(&["key", "value", "from"], rows))
}
