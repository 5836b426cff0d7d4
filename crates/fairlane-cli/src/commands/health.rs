//! `fairlane health`: whether a server is ready, for probes in containers without an HTTP client.

use std::time::{Duration, Instant};

use clap::Args;
use fairlane_engine::EngineError;
use fairlane_engine::http::ready;
use serde::Serialize;

use crate::discovery;
use crate::failure::Failure;
use crate::output;
use crate::target::is_server;

const EXAMPLES: &str = "\
Examples:
  fairlane health
  fairlane health http://127.0.0.1:9000
  fairlane health --wait 30s
  fairlane health https://queue.example.com --json

Requests /readyz, which needs no key. A server is ready if it responds, its engine responds and \
accepts writes, and it is not shutting down. With --wait a script continues when a server that it \
has started is ready.
Exit codes: 0 ready; 1 not ready, or no response; 2 bad input.";

/// Checks whether a server is ready
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Address of the server [default: FAIRLANE_ENGINE or engine in ./fairlane.toml if that is a
    /// server, else the server on this machine, at the address in [server] listen or at
    /// http://127.0.0.1:8080]
    #[arg(value_name = "URL")]
    server: Option<String>,
    /// How long to wait for a response
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration, default_value = "5s")]
    #[arg(allow_hyphen_values = true)]
    timeout: Duration,
    /// Repeat the request until the server is ready, for at most this time
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration, default_value = "0s")]
    #[arg(allow_hyphen_values = true, hide_default_value = true)]
    wait: Duration,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// The JSON form of the result.
#[derive(Serialize)]
struct HealthView {
    server: String,
    ready: bool,
}

/// Interval between two requests of `--wait`.
const WAIT_INTERVAL: Duration = Duration::from_millis(100);

/// Sends requests to the server until it is ready or the time is over; one request by default.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let address = match arguments.server {
        Some(address) => address,
        None => discovery::server().map_err(Failure::bad_input)?,
    };
    let server = fairlane_engine::without_user(&address);
    if !is_server(&server) {
        return Err(Failure::bad_input(format!(
            "{server:?} is not the address of a server; use http://host:port or https://host"
        )));
    }
    fairlane_engine::check_address(&address)?;
    let started = Instant::now();
    while let Err(error) = ready(&address, arguments.timeout).await {
        if started.elapsed() >= arguments.wait {
            return Err(Failure::broken(match error {
                EngineError::Unavailable { engine: "the server", reason } => format!(
                    "{server} is not ready: {reason}\nstart it (fairlane serve), or name the address of another server"
                ),
                error => format!("{server} is not ready: {error}"),
            }));
        }
        tokio::time::sleep(WAIT_INTERVAL).await;
    }
    match arguments.json {
        true => output::print_json(&HealthView { server, ready: true }),
        false => output::print(&format!("{server} is ready")),
    }
}
