//! The `fairlane` program.
//!
//! - `commands/`: one file or folder per command: `serve`, `work`, `status`, `top`, `enqueue`,
//!   `bulk`, `job`, `why`, `dead`, `group`, `type`, `lock`, `room`, `ranking`, `outbox`, `settings`,
//!   `audit`, `config`, `health`, `key`, `data`, `completions`, `man`, `demo`, `simulate`, `bench`.
//! - `config.rs` and `config/`: merges `fairlane.toml`, environment variables and options.
//! - `overview.rs`: a bounded snapshot of the queue, for `status` and `top`.
//! - `target.rs`: the options that select a queue. `discovery.rs`: the queue that is used by
//!   default.
//! - `limit.rs`: parses and prints limits.
//! - `own_engine.rs`: a temporary engine for one run of `demo` or `bench`.
//! - `logs.rs`: the log of a long-running command.
//! - `pages.rs`: lists that are longer than a page. `tables.rs`: every table.
//! - `percentiles.rs`: percentiles and medians.
//! - `escape.rs`: makes untrusted text safe to print.
//! - `hints.rs`: tips for arguments that do not exist.
//! - `failure.rs`: error messages and exit codes. `output.rs`: standard output and standard error.
//!
//! Results go to standard output, progress and messages to standard error.
//! Left out on purpose: decisions about the queue, which are all in `fairlane-core`.

mod commands;
mod config;
mod discovery;
mod escape;
mod failure;
#[cfg(test)]
mod help;
mod hints;
mod limit;
mod logs;
mod output;
mod overview;
mod own_engine;
mod pages;
mod percentiles;
mod tables;
mod target;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[cfg(feature = "postgres")]
use commands::outbox;
use commands::{
    activity, audit, bench, bulk, completions, data, dead, demo, enqueue, group, health, job, job_type, key,
    lock, man, ranking, room, serve, settings, simulate, status, top, why, work,
};
use failure::Failure;

/// Requests and jobs consist of many small allocations that move between threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    failure; the message names the cause
  2    unusable input, or a request that the queue rejects; the message says what to change
  3    an audit found an inconsistency that is not repaired, a board differs from its source, or a
       watched bulk action did not complete
  75   lock run did not acquire its lock in time; 76 it lost the lock
  130  interrupted by Ctrl-C";

/// A job queue that shares workers fairly between customers, stays within rate limits, and never
/// loses an accepted job.
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
    Lock(lock::Arguments),
    Room(Box<room::Arguments>),
    Ranking(Box<ranking::Arguments>),
    #[cfg(feature = "postgres")]
    Outbox(outbox::Arguments),
    Settings(settings::Arguments),
    Audit(audit::Arguments),
    Activity(activity::Arguments),
    Config(commands::config::Arguments),
    Health(health::Arguments),
    Key(key::Arguments),
    Data(data::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Demo(demo::Arguments),
    Simulate(simulate::Arguments),
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let is_json =
        std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    if is_json {
        output::report_failures_as_json();
    }
    let parsed = Arguments::try_parse().map_err(|mut error| {
        let words: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        hints::add(&mut error, &words, Arguments::command());
        error
    });
    let result = match parsed {
        Ok(arguments) => run(arguments.command),
        Err(error) if is_json && error.use_stderr() => {
            let text = error.render().to_string();
            Err(Failure::bad_input(text.trim_start_matches("error: ").trim_end()))
        }
        Err(error) => error.exit(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::print_failure(&failure);
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
        Command::Lock(arguments) => block_on(lock::run(arguments)),
        Command::Room(arguments) => block_on(room::run(*arguments)),
        Command::Ranking(arguments) => block_on(ranking::run(*arguments)),
        #[cfg(feature = "postgres")]
        Command::Outbox(arguments) => block_on(outbox::run(arguments)),
        Command::Settings(arguments) => block_on(settings::run(arguments)),
        Command::Audit(arguments) => block_on(audit::run(arguments)),
        Command::Activity(arguments) => block_on(activity::run(arguments)),
        Command::Config(arguments) => commands::config::run(arguments),
        Command::Health(arguments) => block_on(health::run(arguments)),
        Command::Key(arguments) => key::run(arguments),
        Command::Data(arguments) => data::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => man::run(arguments),
        Command::Demo(arguments) => block_on(demo::run(arguments)),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Bench(arguments) => block_on(bench::run(arguments)),
    }
}

/// How long tasks that are still running have to be dropped before the program exits.
const SHUTDOWN_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(500);

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::broken(format!("cannot start threads: {error}; raise the limit of processes (ulimit -u)"))
    })?;
    let result = runtime.block_on(work);
    // A blocking read of standard input cannot be cancelled, so the shutdown does not wait for it.
    // Tasks that run a child process need the time to kill it.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}
