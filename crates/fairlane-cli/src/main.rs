//! The `fairlane` program.
//!
//! - `commands/`: one file or folder per command: `demo`, `bench`, `simulate`, `enqueue`, `bulk`, `job`, `work`, `dead`,
//!   `group`, `type`, `why`, `audit`, `data`.
//! - `place.rs`: where a command finds its queue. `limit.rs`: limits as they are written.
//! - `own_engine.rs`: an engine of one run's own.
//! - `tables.rs`: every table. `percentiles.rs`: what is said about many durations.
//! - `failure.rs`: how a command ends when it does not succeed. `output.rs`: standard output.
//!
//! Results go to standard output, everything about the way there to standard error.
//! Left out on purpose: decisions about the queue, which are all in `fairlane-core`.

mod commands;
mod failure;
mod limit;
mod output;
mod own_engine;
mod percentiles;
mod place;
mod tables;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{audit, bench, bulk, data, dead, demo, enqueue, group, job, job_type, simulate, why, work};
use failure::Failure;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    it failed; the message says what broke
  2    the input cannot be used; the message says what to change
  3    an audit found something that is not repaired, or a watched bulk action did not complete
  130  stopped by Ctrl-C";

/// Runs bulk work for many customers at once, fairly, and loses nothing.
#[derive(Parser)]
#[command(name = "fairlane", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Bench(bench::Arguments),
    Simulate(simulate::Arguments),
    Enqueue(enqueue::Arguments),
    Bulk(bulk::Arguments),
    Job(job::Arguments),
    Dead(dead::Arguments),
    Group(group::Arguments),
    Type(job_type::Arguments),
    Work(work::Arguments),
    Why(why::Arguments),
    Audit(audit::Arguments),
    Data(data::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let message = failure.to_string();
            if !message.is_empty() {
                eprintln!("{message}");
            }
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(arguments) => block_on(demo::run(arguments)),
        Command::Bench(arguments) => block_on(bench::run(arguments)),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Work(arguments) => block_on(work::run(arguments)),
        Command::Enqueue(arguments) => block_on(enqueue::run(arguments)),
        Command::Bulk(arguments) => block_on(bulk::run(arguments)),
        Command::Job(arguments) => block_on(job::run(arguments)),
        Command::Dead(arguments) => block_on(dead::run(arguments)),
        Command::Group(arguments) => block_on(group::run(arguments)),
        Command::Type(arguments) => block_on(job_type::run(arguments)),
        Command::Why(arguments) => block_on(why::run(arguments)),
        Command::Audit(arguments) => block_on(audit::run(arguments)),
        Command::Data(arguments) => data::run(arguments),
    }
}

/// How long what still runs has to be dropped before the program ends.
const LAST_MOMENT: std::time::Duration = std::time::Duration::from_millis(500);

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::broken(format!("no threads to run on: {error}")))?;
    let ended = runtime.block_on(work);
    // A read of standard input cannot be stopped, and nobody waits for its line any more; but whoever still runs a
    // program has to have the time to kill it.
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}
