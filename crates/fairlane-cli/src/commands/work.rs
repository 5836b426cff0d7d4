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
use fairlane_engine::{Engine, EngineError};
use fairlane_targets::Callbacks;
use fairlane_worker::{CALLBACK_TYPE, StopReport, Worker};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{Config, FILE, Given, Target};
use crate::discovery;
use crate::failure::Failure;
use crate::place::Place;
use said::{Said, jobs};
use store::Purpose;
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
    /// redis+cluster://host:port,host:port or dir:path [env: FAIRLANE_ENGINE] [default: ./fairlane-data if a queue is
    /// there, else a server on this machine, http://127.0.0.1:8080, else redis://127.0.0.1:6379]
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
    let elsewhere = if arguments.check { discovery::expected } else { discovery::found };
    let url = config.engine.clone().map_or_else(elsewhere, Ok).map_err(Failure::bad_input)?;
    let place = Place { engine: url.clone(), json: arguments.json };
    place.check()?;
    let mut signals = Signals::listen()?;
    let telling = Telling::start(arguments.json);
    if arguments.check {
        telling.say(Said::checked(path, &url, &config));
        telling.end().await;
        return Ok(());
    }
    let reached = tokio::select! {
        reached = store::reach(&place, Purpose::Work, arguments.patience, &config, &telling) => reached.map(Some),
        () = signals.next() => Ok(None),
    };
    let end = match reached {
        Ok(Some(engine)) => work(&engine, &url, arguments.drain, &config, &telling, &mut signals).await,
        Ok(None) => End::default(),
        Err(failure) => End::of(failure),
    };
    ended(end, telling).await
}

async fn work(
    engine: &Arc<dyn Engine>,
    url: &str,
    is_drain: bool,
    config: &Config,
    telling: &Telling,
    signals: &mut Signals,
) -> End {
    let started = worker(engine, config, telling)
        .and_then(|worker| worker.start().map_err(|error| Failure::bad_input(error.to_string())));
    let pool = match started {
        Ok(pool) => pool,
        Err(failure) => return End::of(failure),
    };
    telling.say(Said::started(&pool, url, config));
    engine.warnings().into_iter().for_each(|warning| telling.say(Said::EngineWarning { warning }));
    let drained = tokio::select! {
        () = signals.next() => Ok(false),
        drained = drain(engine, config, telling), if is_drain => drained.map(|()| true),
        () = store::keep(engine, config, telling) => Ok(false),
        error = engine.lost() => return End::lost(&error, telling.running()),
    };
    tokio::select! {
        report = pool.stop() => {
            let is_drained = matches!(drained, Ok(true));
            End { report, drained: is_drained, failure: drained.err() }
        }
        () = signals.next() => End::at_once(telling.running(), &jobs(telling.running())),
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
    let left = drain::until_nothing_is_left(engine, &config.type_ids(), telling).await?;
    telling.say(Said::Drained { left });
    Ok(())
}

/// How a worker, or a server with one, came to its end.
#[derive(Default)]
pub struct End {
    /// What became of the jobs in hand.
    pub report: StopReport,
    /// Whether nothing was left to do.
    pub drained: bool,
    /// What went wrong.
    pub failure: Option<Failure>,
}

impl End {
    /// It ends because of this, with nothing in hand.
    pub fn of(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    /// The engine can do nothing more until it is opened again, so jobs in hand cannot be settled here.
    pub fn lost(error: &EngineError, left: u64) -> Self {
        let message = format!("the engine has stopped: {error}; start again to open it anew");
        let report = StopReport { left: left as usize, ..StopReport::default() };
        Self { report, failure: Some(Failure::broken(message)), ..Self::default() }
    }

    /// Somebody would not wait for so many jobs and whatever else was under way.
    pub fn at_once(left: u64, what: &str) -> Self {
        let message = format!("left running: {what}; a job runs again when its lease runs out");
        let report = StopReport { left: left as usize, ..StopReport::default() };
        Self { report, failure: Some(Failure::Stopped(message)), ..Self::default() }
    }
}

/// Says so, as the last of all.
pub async fn ended(end: End, telling: Telling) -> Result<(), Failure> {
    let End { report, drained, failure } = end;
    let untold = || {
        let what = jobs(report.left as u64);
        let message = format!(
            "the engine could not be told how {what} ended; a job runs again when its lease runs out"
        );
        (report.left > 0).then(|| Failure::broken(message))
    };
    let failure = failure.or_else(untold);
    telling.say(telling.stopped(report, drained, failure.as_ref()));
    telling.end().await;
    failure.map_or(Ok(()), Err)
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
