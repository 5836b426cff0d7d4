//! The `box-office` program: a ticket shop on Fairlane, a crowd for it, and a trial of both.

use std::process::ExitCode;

use box_office::crowd::{self, CrowdOptions};
use box_office::measure::{self, MeasureOptions};
use box_office::options::Options;
use box_office::serve::{self, StartError};
use box_office::trial::{self, TrialOptions};
use clap::{Parser, Subcommand};

/// A ticket shop on Fairlane: a waiting room, seats under locks, payments, rankings and an outbox
#[derive(Parser)]
#[command(name = "box-office", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Sends this many simulated buyers, so that you can watch a sale
    #[arg(long, value_name = "BUYERS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    crowd: Option<u32>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Sends simulated buyers to instances that run already
    Crowd {
        /// The address of an instance, such as http://127.0.0.1:8090; may be given several times
        #[arg(long, required = true)]
        against: Vec<String>,
        #[command(flatten)]
        crowd: CrowdOptions,
    },
    /// Sells out under fire: a crowd, two instances that are killed, payments that fail
    Trial(TrialOptions),
    /// Measures payments while the engine answers and while it does not
    Measure(MeasureOptions),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let ended = match arguments.command {
        Some(Command::Crowd { against, crowd }) => send_crowd(&against, &crowd).await,
        Some(Command::Trial(options)) => try_out(&options).await,
        Some(Command::Measure(options)) => measure(&options, arguments.options).await,
        None => serve(&arguments.options, arguments.crowd).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

async fn serve(options: &Options, buyers: Option<u32>) -> Result<ExitCode, StartError> {
    let running = serve::start(options).await?;
    println!("The box office is open: {}", running.url());
    if let Some(buyers) = buyers {
        let (url, crowd) = (running.url(), CrowdOptions { buyers, ..CrowdOptions::default() });
        tokio::spawn(async move {
            match crowd::run(&[url], &crowd).await {
                Ok(report) => {
                    println!(
                        "The crowd has left: {} bought, {} came too late.",
                        report.bought, report.too_late
                    );
                }
                Err(error) => eprintln!("error: {error}"),
            }
        });
    }
    stop_signal().await?;
    running.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Completes on Ctrl-C and on the signal by which service managers stop a program.
async fn stop_signal() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}

async fn send_crowd(against: &[String], options: &CrowdOptions) -> Result<ExitCode, StartError> {
    let report = crowd::run(against, options).await?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(ExitCode::SUCCESS)
}

async fn try_out(options: &TrialOptions) -> Result<ExitCode, StartError> {
    let report = trial::run(options).await?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(options: &MeasureOptions, defaults: Options) -> Result<ExitCode, StartError> {
    let measured = measure::run(options, defaults).await?;
    println!("{}", serde_json::to_string_pretty(&measured)?);
    Ok(ExitCode::SUCCESS)
}
