//! `fairlane work`: a worker without code, from a file.
//!
//! - `work/programs.rs`: whether its programs are there. `work/store.rs`: the store, waited for and told of types.
//! - `work/said.rs`, `work/telling.rs`: what it says while it works. `work/drain.rs`: when nothing is left to do.
//!
//! Invariant: nothing is changed in the store before the whole file is known to be good.

mod drain;
pub mod programs;
pub mod said;
pub mod store;
pub mod telling;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fairlane::parse_duration;
use fairlane_engine::Engine;
use fairlane_targets::Callbacks;
use fairlane_worker::{CALLBACK_TYPE, StopReport, Worker};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{Config, FILE, Given, Target};
use crate::failure::Failure;
use crate::place::{self, Place};
use said::{Said, jobs};
use telling::Telling;

const EXAMPLES: &str = "\
Examples:
  fairlane work
  fairlane work --config work.toml --engine redis://10.0.0.5:6379
  fairlane work --config work.toml --check
  fairlane work --config work.toml --drain --json
  fairlane work --config work.toml --patience 30s

A file such as:
  [types.mail]
  http = \"https://mailer.internal/send\"
  rate = \"50/s\"
  [types.shrink]
  command = [\"./shrink-image\", \"--fast\"]

A data directory that is not there is made. A queue that does not answer is waited for.
The first Ctrl-C or SIGTERM lets running jobs end, the second one does not.
Every key of the file: fairlane config, and docs/configuration.md.
Exit codes: 0 stopped or drained; 1 it failed; 2 bad input; 130 stopped with jobs in hand.";

/// Works on jobs by posting them to URLs or giving them to programs, as a file says
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Which types to work on, and how [default: ./fairlane.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the queue lives, whatever the file says: http://host:port (a server), redis://host:port,
    /// redis+cluster://host:port,host:port or dir:path [env: FAIRLANE_ENGINE] [default: ./fairlane-data if it is there,
    /// else redis://127.0.0.1:6379]
    #[arg(long, value_name = "URL")]
    engine: Option<String>,
    /// End when nothing is left to do
    #[arg(long)]
    drain: bool,
    /// Only say whether the file and the address can be used; nobody is asked and nothing changed
    #[arg(long)]
    check: bool,
    /// How long to wait at the start for a queue that does not answer [default: until it does]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    patience: Option<Duration>,
    /// Print a JSON object a line and nothing else
    #[arg(long)]
    json: bool,
}

/// Works until it is told to stop, or nothing is left.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let given = Given { config: arguments.config, engine: arguments.engine, ..Given::default() };
    let config = Config::read(&given)?;
    let path = what_to_work_on(&config)?;
    let url = config.engine.clone().map_or_else(place::nearby, Ok).map_err(Failure::bad_input)?;
    let place = Place { engine: url.clone(), json: arguments.json };
    place.check()?;
    let telling = Telling::start(arguments.json);
    if arguments.check {
        telling.say(Said::checked(path, &url, &config));
        telling.end();
        return Ok(());
    }
    let mut signals = Signals::listen()?;
    let reached = tokio::select! {
        reached = store::reach(&place, arguments.patience, &config, &telling) => reached,
        () = signals.next() => return ended(StopReport::default(), Ok(false), telling),
    };
    let engine = match reached {
        Ok(engine) => engine,
        Err(failure) => {
            telling.end();
            return Err(failure);
        }
    };
    let worker = worker(&engine, &config, &telling)?;
    let pool = worker.start().map_err(|error| Failure::bad_input(error.to_string()))?;
    telling.say(Said::started(&pool, &url, &config));
    engine.warnings().into_iter().for_each(|warning| telling.say(Said::EngineWarning { warning }));
    let end = tokio::select! {
        () = signals.next() => Ok(false),
        drained = drain(&engine, &config, &telling), if arguments.drain => drained.map(|()| true),
        () = store::keep(&engine, &config, &telling) => Ok(false),
    };
    tokio::select! {
        report = pool.stop() => ended(report, end, telling),
        () = signals.next() => Err(Failure::Stopped(format!(
            "left running: {}; a job runs again when its lease runs out",
            jobs(telling.running())
        ))),
    }
}

/// The file, which names something to do and only programs that are there.
fn what_to_work_on(config: &Config) -> Result<&Path, Failure> {
    let Some(path) = &config.path else {
        return Err(Failure::bad_input(format!(
            "there is no ./{FILE} to work by; name a file with --config <FILE>"
        )));
    };
    if config.type_ids().is_empty() {
        return Err(Failure::bad_input(format!(
            "{}: it names nothing to work on; add a [types.NAME] with http or command, or [callbacks]",
            path.display()
        )));
    }
    programs::check(config)?;
    Ok(path)
}

/// Ends when nothing is left for this worker, and says what is left for others.
async fn drain(engine: &Arc<dyn Engine>, config: &Config, telling: &Telling) -> Result<(), Failure> {
    let types = config.type_ids();
    drain::until_nothing_is_left(engine, &types, telling).await?;
    let left = drain::left(engine, &types).await?;
    telling.say(Said::Drained { left });
    Ok(())
}

/// `end` says whether it was drained, or why it could not be.
fn ended(report: StopReport, end: Result<bool, Failure>, telling: Telling) -> Result<(), Failure> {
    telling.say(telling.stopped(report, matches!(end, Ok(true))));
    telling.end();
    match end {
        Err(failure) => Err(failure),
        Ok(_) if report.left > 0 => Err(Failure::broken(format!(
            "the engine could not be told how {} ended; a job runs again when its lease runs out",
            jobs(report.left as u64)
        ))),
        Ok(_) => Ok(()),
    }
}

/// A worker as the file has it; without types it only runs the loops.
pub fn worker(engine: &Arc<dyn Engine>, config: &Config, telling: &Telling) -> Result<Worker, Failure> {
    let bad = |type_id: &dyn std::fmt::Display, error: fairlane_targets::BadTarget| {
        Failure::bad_input(format!("{type_id}: {error}"))
    };
    let mut worker =
        Worker::new(engine.clone()).settings(config.worker.settings.clone()).on_event(telling.hook());
    if let Some(name) = &config.worker.name {
        worker = worker.name(name.clone());
    }
    for one in &config.types {
        let (name, options) = (one.type_id.to_string(), one.options.clone());
        worker = match one.target.clone() {
            Target::Http(settings) => {
                let target = fairlane_targets::HttpTarget::new(settings);
                worker.processor_with(name, options, target.map_err(|error| bad(&one.type_id, error))?)
            }
            Target::Command(settings) => {
                let target = fairlane_targets::CommandTarget::new(settings);
                worker.processor_with(name, options, target.map_err(|error| bad(&one.type_id, error))?)
            }
        };
    }
    if let Some(one) = &config.callbacks {
        let options = one.options();
        let callbacks = Callbacks::new(engine.clone(), one.settings.clone());
        let callbacks = callbacks.map_err(|error| bad(&"callbacks", error))?;
        worker = worker.processor_with(CALLBACK_TYPE, options, callbacks);
    }
    Ok(worker)
}

/// Ctrl-C and SIGTERM.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on they do not end the program.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::broken(format!("signals cannot be listened for: {error}")))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Ends with the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
