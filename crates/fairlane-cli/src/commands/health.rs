//! `fairlane health`: whether a server is ready, for probes that have nothing else to ask with.

use std::time::Duration;

use clap::Args;
use fairlane_engine::http::ready;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::place::is_server;

const EXAMPLES: &str = "\
Examples:
  fairlane health
  fairlane health http://127.0.0.1:9000
  fairlane health https://queue.example.com --json

It asks the server's /readyz, which needs no key: whether it answers, its engine answers and takes
changes, and it is not stopping.
Exit codes: 0 it is ready; 1 it is not, or it does not answer; 2 bad input.";

/// Says whether a server is ready
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Where the server is
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// How long to wait for its answer
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration, default_value = "5s")]
    #[arg(allow_hyphen_values = true)]
    timeout: Duration,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// What programs get.
#[derive(Serialize)]
struct Answer {
    server: String,
    ready: bool,
}

/// Asks once.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let server = fairlane_engine::without_user(&arguments.server);
    if !is_server(&server) {
        return Err(Failure::bad_input(format!(
            "{server:?} is not the address of a server; write http://host:port or https://host"
        )));
    }
    fairlane_engine::check_address(&arguments.server)?;
    if let Err(error) = ready(&arguments.server, arguments.timeout).await {
        return Err(Failure::broken(format!("{server} is not ready: {error}")));
    }
    match arguments.json {
        true => output::print_json(&Answer { server, ready: true }),
        false => output::print(&format!("{server} is ready")),
    }
}
