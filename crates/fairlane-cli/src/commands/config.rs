//! `fairlane config`: every configured value and its source.

use clap::Args;
use serde::Serialize;

use crate::config::{Config, ConfigArguments, Row};
use crate::failure::Failure;
use crate::{output, tables};

const EXAMPLES: &str = "\
Examples:
  fairlane config
  fairlane config --config fairlane.toml --listen 127.0.0.1:9000
  FAIRLANE_WORKER_LEASE_MS=20000 fairlane config --json

Options override environment variables such as FAIRLANE_SERVER_LISTEN, which override \
fairlane.toml. Values that may be secret are printed as …. Contacts nothing and changes nothing.
Exit codes: 0 all values are valid; 2 a value is invalid; the message names it and its source.";

/// Prints every value that serve and work would use, with its source
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// The JSON form of the result.
#[derive(Serialize)]
struct ConfigView {
    /// The path of the file, if there is one.
    file: Option<String>,
    values: Vec<Row>,
}

/// Reads the configuration and prints it.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let config = Config::read(&arguments.config)?;
    if let Some(url) = &config.engine {
        fairlane_engine::check_address(url)?;
    }
    let view = ConfigView { file: config.path.map(|path| path.display().to_string()), values: config.rows };
    if arguments.json {
        return output::print_json(&view);
    }
    let rows = view.values.iter().map(|row| vec![row.key.clone(), row.value.clone(), row.origin.clone()]);
    output::print(&tables::texts(&["key", "value", "from"], rows))
}
