//! The `fairlane` program.
//!
//! - `commands/`: one file or folder per command: `serve`, `work`, `status`, `top`, `enqueue`,
//!   `bulk`, `job`, `why`, `dead`, `group`, `type`, `settings`, `audit`, `config`, `health`, `key`, `data`,
//!   `completions`, `demo`, `simulate`, `bench`.
//! - `config.rs` and `config/`: `fairlane.toml`, variables and options as one configuration.
//! - `overview.rs`: the whole queue at a glance.
//! - `place.rs`: where a command finds its queue; `discovery.rs`: where nobody says. `limit.rs`: limits as they are written.
//! - `own_engine.rs`: an engine of one run's own.
//! - `logs.rs`: events of a long-running command.
//! - `tables.rs`: every table. `percentiles.rs`: what is said about many durations.
//! - `escape.rs`: text of others made safe to show.
//! - `failure.rs`: how a command ends when it does not succeed. `output.rs`: standard output and standard error.
//!
//! Results go to standard output, everything about the way there to standard error.
//! Left out on purpose: decisions about the queue, which are all in `fairlane-core`.

mod commands;
mod config;
mod discovery;
mod escape;
mod failure;
#[cfg(test)]
mod help;
mod limit;
mod logs;
mod output;
mod overview;
mod own_engine;
mod percentiles;
mod place;
mod tables;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{
    audit, bench, bulk, completions, data, dead, demo, enqueue, group, health, job, job_type, key, serve,
    settings, simulate, status, top, why, work,
};
use failure::Failure;

/// A request and a job are made of many small pieces that move between threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    it failed; the message says what broke
  2    the input cannot be used, or the queue refuses it; the message says what to change
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
    Serve(serve::Arguments),
    Work(work::Arguments),
    Status(status::Arguments),
    Top(top::Arguments),
    Enqueue(enqueue::Arguments),
    Bulk(bulk::Arguments),
    Job(job::Arguments),
    Why(why::Arguments),
    Dead(dead::Arguments),
    Group(group::Arguments),
    Type(job_type::Arguments),
    Settings(settings::Arguments),
    Audit(audit::Arguments),
    Config(commands::config::Arguments),
    Health(health::Arguments),
    Key(key::Arguments),
    Data(data::Arguments),
    Completions(completions::Arguments),
    Demo(demo::Arguments),
    Simulate(simulate::Arguments),
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let is_json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if is_json {
        output::speak_to_programs();
    }
    let done = match Arguments::try_parse() {
        Ok(arguments) => run(arguments.command),
        Err(unread) if is_json && unread.use_stderr() => {
            let text = unread.render().to_string();
            Err(Failure::bad_input(text.trim_start_matches("error: ").trim_end()))
        }
        Err(unread) => unread.exit(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::say_failure(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(arguments) => block_on(serve::run(arguments)),
        Command::Work(arguments) => block_on(work::run(arguments)),
        Command::Status(arguments) => block_on(status::run(arguments)),
        Command::Top(arguments) => block_on(top::run(arguments)),
        Command::Enqueue(arguments) => block_on(enqueue::run(arguments)),
        Command::Bulk(arguments) => block_on(bulk::run(arguments)),
        Command::Job(arguments) => block_on(job::run(arguments)),
        Command::Why(arguments) => block_on(why::run(arguments)),
        Command::Dead(arguments) => block_on(dead::run(arguments)),
        Command::Group(arguments) => block_on(group::run(arguments)),
        Command::Type(arguments) => block_on(job_type::run(arguments)),
        Command::Settings(arguments) => block_on(settings::run(arguments)),
        Command::Audit(arguments) => block_on(audit::run(arguments)),
        Command::Config(arguments) => commands::config::run(arguments),
        Command::Health(arguments) => block_on(health::run(arguments)),
        Command::Key(arguments) => key::run(arguments),
        Command::Data(arguments) => data::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Demo(arguments) => block_on(demo::run(arguments)),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Bench(arguments) => block_on(bench::run(arguments)),
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
