//! The `comfy-service` program: its roles, a demonstration, and a trial.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use comfy_service::StartError;
use comfy_service::demo::{self, DemoOptions};
use comfy_service::options::{Options, duration};
use comfy_service::role::{self, Roles};
use comfy_service::trial::{self, TrialOptions};
use fairlane_testkit::comfyui::{ComfyUi as StandIn, Generation};

/// An image service on Fairlane: uploads, PostgreSQL with an outbox, ComfyUI engines, signed callbacks
#[derive(Parser)]
#[command(
    name = "comfy-service",
    version,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    /// Starts everything that the service needs on free ports, and stops it at the end
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    options: DemoOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Accepts jobs over HTTP, and shows them
    Api(Options),
    /// Passes committed jobs on to the queue, and compares the two
    Relay(Options),
    /// Runs prompts on a ComfyUI engine, and sends callbacks
    Worker(Options),
    /// All roles in one process
    All(Options),
    /// Runs a stand-in for a ComfyUI engine, without a GPU
    StandIn {
        /// The address to listen on; port 0 means any free port
        #[arg(long, default_value = "127.0.0.1:8188")]
        listen: SocketAddr,
        /// How long each node of a workflow takes
        #[arg(long, default_value = "200ms", value_parser = duration)]
        node_time: Duration,
        /// A file that gets a line for each submission and each run
        #[arg(long)]
        journal: Option<PathBuf>,
    },
    /// Kills every process at every step from the upload to the callback
    Trial(TrialOptions),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let ended = match arguments.command {
        Some(Command::Api(options)) => serve(Roles::API, &options).await,
        Some(Command::Relay(options)) => serve(Roles::RELAY, &options).await,
        Some(Command::Worker(options)) => serve(Roles::WORKER, &options).await,
        Some(Command::All(options)) => serve(Roles::ALL, &options).await,
        Some(Command::StandIn { listen, node_time, journal }) => {
            let stand_in = StandIn::start_at(listen, Generation::New, node_time, journal.as_deref());
            println!("The stand-in for a ComfyUI engine is at {}", stand_in.url());
            stop_signal().await.map(|()| ExitCode::SUCCESS)
        }
        Some(Command::Trial(options)) => try_out(&options).await,
        None if arguments.demo => show(&arguments.options).await,
        None => Err("add --demo, or a role: api, relay, worker or all; --help explains them".into()),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

async fn serve(roles: Roles, options: &Options) -> Result<ExitCode, StartError> {
    let running = tokio::select! {
        running = role::start(roles, options) => running?,
        stopped = stop_signal() => return stopped.map(|()| ExitCode::SUCCESS),
    };
    if roles.api {
        println!("The API is at {}", running.url());
    }
    stop_signal().await?;
    running.stop().await;
    Ok(ExitCode::SUCCESS)
}

async fn show(options: &DemoOptions) -> Result<ExitCode, StartError> {
    let demo = demo::start(options).await?;
    println!("{}", demo.instructions());
    stop_signal().await?;
    demo.stop().await;
    Ok(ExitCode::SUCCESS)
}

async fn try_out(options: &TrialOptions) -> Result<ExitCode, StartError> {
    let program = std::env::current_exe()?;
    let report = trial::run(&program, options).await?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Completes on Ctrl-C and on the signal by which service managers stop a program.
async fn stop_signal() -> Result<(), StartError> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        _ = terminate.recv() => Ok(()),
    }
}
