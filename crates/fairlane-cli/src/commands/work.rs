//! `fairlane work`: a worker without code, from a file.
//!
//! - `work/config.rs`: the file, read and checked as a whole. `work/text.rs`: `${VAR}` and rates in it.
//! - `work/telling.rs`: what it says while it works. `work/drain.rs`: when nothing is left to do.
//!
//! Invariant: nothing is changed in the store before the whole file is known to be good.

mod config;
mod drain;
mod telling;
mod text;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fairlane_core::queue::{SetType, TypePatch, TypeSet};
use fairlane_core::{Rate, TypeId};
use fairlane_engine::Engine;
use fairlane_targets::Callbacks;
use fairlane_worker::{CALLBACK_TYPE, Pool, StopReport, Worker};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::place::Place;
use config::{Config, Target};
use telling::{Said, Telling, jobs};

const EXAMPLES: &str = "\
Examples:
  fairlane work --config work.toml
  fairlane work --config work.toml --engine redis://10.0.0.5:6379
  fairlane work --config work.toml --check
  fairlane work --config work.toml --drain --json

A file such as:
  [types.mail]
  http = \"https://mailer.internal/send\"
  rate = \"50/s\"
  [types.shrink]
  command = [\"./shrink-image\", \"--fast\"]

The first Ctrl-C or SIGTERM lets running jobs end, the second one does not.
Exit codes: 0 stopped or drained; 1 it failed; 2 bad input; 130 stopped with jobs in hand.";

/// Works on jobs by posting them to URLs or giving them to programs, as a file says
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Which types to work on, and how
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Where the queue lives, whatever the file says: redis://host:port, redis+cluster://host:port,host:port or dir:path
    #[arg(long, value_name = "URL", env = "FAIRLANE_ENGINE", hide_env_values = true)]
    engine: Option<String>,
    /// End when nothing is left to do
    #[arg(long)]
    drain: bool,
    /// Only say whether the file can be used
    #[arg(long)]
    check: bool,
    /// Print a JSON object a line and nothing else
    #[arg(long)]
    json: bool,
}

/// Where the queue lives if nobody says.
const DEFAULT_ENGINE: &str = "redis://127.0.0.1:6379";

/// Works until it is told to stop, or nothing is left.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let config = Config::read(&arguments.config)?;
    let telling = Telling::start(arguments.json);
    let url = arguments.engine.or_else(|| config.engine.clone()).unwrap_or_else(|| DEFAULT_ENGINE.to_owned());
    if arguments.check {
        telling.say(Said::checked(&arguments.config, &config));
        telling.end();
        return Ok(());
    }
    let mut signals = Signals::listen()?;
    let place = Place { engine: url.clone(), json: arguments.json };
    let engine = place.attach().await?.engine().clone();
    set_types(&engine, &config).await?;
    let types = config.type_ids();
    let started = |pool: &Pool| Said::started(pool, &url, &config);
    let worker = worker(&engine, &config, &telling)?;
    let pool = worker.start().map_err(|error| Failure::bad_input(error.to_string()))?;
    telling.say(started(&pool));
    let drained = drain::until_nothing_is_left(&engine, &types, &telling);
    let failed = tokio::select! {
        () = signals.next() => None,
        ended = drained, if arguments.drain => ended.err(),
    };
    tokio::select! {
        report = pool.stop() => ended(report, failed, telling),
        () = signals.next() => Err(Failure::Stopped(format!(
            "left running: {}; a job runs again when its lease runs out",
            jobs(telling.running())
        ))),
    }
}

fn ended(report: StopReport, failed: Option<Failure>, telling: Telling) -> Result<(), Failure> {
    telling.say(telling.stopped(report));
    telling.end();
    match failed {
        Some(failure) => Err(failure),
        None if report.left > 0 => Err(Failure::broken(format!(
            "the engine could not be told how {} ended; a job runs again when its lease runs out",
            jobs(report.left as u64)
        ))),
        None => Ok(()),
    }
}

/// Writes to the store what holds for a type wherever it is worked on.
async fn set_types(engine: &Arc<dyn Engine>, config: &Config) -> Result<(), Failure> {
    for one in &config.types {
        set_type(engine, &one.type_id, one.rate, one.max_retry_count).await?;
    }
    if let Some(callbacks) = &config.callbacks {
        let type_id = TypeId::new(CALLBACK_TYPE).expect("a plain word is a name");
        set_type(engine, &type_id, None, Some(callbacks.max_retry_count)).await?;
    }
    Ok(())
}

async fn set_type(
    engine: &Arc<dyn Engine>,
    type_id: &TypeId,
    rate: Option<Option<Rate>>,
    max_retry_count: Option<u32>,
) -> Result<(), Failure> {
    if rate.is_none() && max_retry_count.is_none() {
        return Ok(());
    }
    let patch = TypePatch { rate, max_retry_count: max_retry_count.map(Some), ..TypePatch::default() };
    match engine.set_type(SetType { type_id: type_id.clone(), patch }).await? {
        TypeSet::Set(_) => Ok(()),
        TypeSet::TooManyTypes => Err(Failure::bad_input(format!(
            "the queue has as many types as it can have, and {type_id} is not one of them"
        ))),
    }
}

fn worker(engine: &Arc<dyn Engine>, config: &Config, telling: &Telling) -> Result<Worker, Failure> {
    let bad = |type_id: &dyn std::fmt::Display, error: fairlane_targets::BadTarget| {
        Failure::bad_input(format!("{type_id}: {error}"))
    };
    let mut worker = Worker::new(engine.clone()).settings(config.worker.clone()).on_event(telling.hook());
    if let Some(name) = &config.name {
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
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::broken(format!("signals cannot be listened for: {error}")))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
