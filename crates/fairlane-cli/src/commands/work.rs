//! `fairlane work`: a worker that needs no code, configured by a file.
//!
//! - `work/programs.rs`: checks that its programs exist. `work/store.rs`: waits for the store and
//!   applies the settings of the file. `work/difference.rs`: where these differ from the stored ones.
//! - `work/event.rs`, `work/reporter.rs`: what it reports while it runs. `work/drain.rs`: decides
//!   when nothing is left.
//!
//! Invariant: nothing changes in the store before the complete file is known to be valid.

mod difference;
mod drain;
pub mod event;
pub mod programs;
pub mod reporter;
pub mod store;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fairlane::{EngineError, Fairlane, parse_duration};
use fairlane_targets::Callbacks;
use fairlane_worker::{CALLBACK_TYPE, StopReport, Worker};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{Config, ConfigArguments, FILE, Target};
use crate::discovery;
use crate::failure::Failure;
use crate::target::QueueTarget;
use event::{WorkEvent, jobs};
use reporter::Reporter;
use store::Purpose;

const EXAMPLES: &str = "\
Examples:
  fairlane work
  fairlane work --config work.toml --engine redis://10.0.0.5:6379
  fairlane work --config work.toml --check
  fairlane work --config work.toml --drain --json
  fairlane work --config work.toml --patience 30s

Example of a file:
  [types.mail]
  http = \"https://mailer.internal/send\"
  rate = \"50/s\"
  [types.shrink]
  command = [\"./shrink-image\", \"--fast\"]

Creates a data directory that does not exist, and waits for a queue that does not respond.
The first Ctrl-C or SIGTERM waits for running jobs, the second stops at once.
fairlane config and docs/configuration.md list every key of the file.
Exit codes: 0 stopped or drained; 1 failure; 2 bad input; 130 stopped with jobs running.";

/// Runs jobs by calling URLs and programs, as configured in a file
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// File that configures the types [default: ./fairlane.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the queue, overriding the file: http://host:port (a server), redis://host:port,
    /// redis+cluster://host:port,host:port or dir:path [env: FAIRLANE_ENGINE] [default:
    /// ./fairlane-data if it contains a queue, else a server at http://127.0.0.1:8080, else
    /// redis://127.0.0.1:6379]
    #[arg(long, value_name = "URL")]
    engine: Option<String>,
    /// Exit when no job is left for this worker
    #[arg(long)]
    drain: bool,
    /// Only check the file and the address. Contacts nothing and changes nothing
    #[arg(long)]
    check: bool,
    /// How long to wait at the start for a queue that does not respond [default: forever]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    patience: Option<Duration>,
    /// Keep the state of each job in the outbox of this database: postgres://user@host/database
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "URL", env = "FAIRLANE_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Print one JSON object per line and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs jobs until a signal arrives, or until nothing is left with `--drain`.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let overrides =
        ConfigArguments { config: arguments.config, engine: arguments.engine, ..Default::default() };
    let config = Config::read(&overrides)?;
    let path = check_file(&config)?;
    let default = if arguments.check { discovery::configured_or_local } else { discovery::discover };
    let url = config.engine.clone().map_or_else(default, Ok).map_err(Failure::bad_input)?;
    let target = QueueTarget { engine: url.clone(), json: arguments.json };
    target.check()?;
    #[cfg(feature = "postgres")]
    let mirror = arguments.database.as_deref().map(fairlane_postgres::Outbox::connect_lazy).transpose();
    #[cfg(feature = "postgres")]
    let mirror = mirror.map_err(super::outbox::failure)?;
    let with_mirror = |worker: Worker, fairlane: &Fairlane| {
        #[cfg(feature = "postgres")]
        if let Some(outbox) = &mirror {
            return outbox.mirror(worker, fairlane);
        }
        let _ = fairlane;
        worker
    };
    let mut signals = Signals::listen()?;
    let reporter = Reporter::start(arguments.json);
    if arguments.check {
        reporter.report(WorkEvent::checked(path, &url, &config));
        reporter.finish().await;
        return Ok(());
    }
    let reached = tokio::select! {
        reached = store::reach(&target, Purpose::Work, arguments.patience, &config, &reporter) => {
            reached.map(Some)
        }
        () = signals.next() => Ok(None),
    };
    let end = match reached {
        Ok(Some(fairlane)) => {
            let built = worker(&fairlane, &config, &reporter).map(|worker| with_mirror(worker, &fairlane));
            match built {
                Ok(worker) => {
                    work(&fairlane, worker, &url, arguments.drain, &config, &reporter, &mut signals).await
                }
                Err(failure) => End::failed(failure),
            }
        }
        Ok(None) => End::default(),
        Err(failure) => End::failed(failure),
    };
    finish(end, reporter).await
}

async fn work(
    fairlane: &Fairlane,
    worker: Worker,
    url: &str,
    is_drain: bool,
    config: &Config,
    reporter: &Reporter,
    signals: &mut Signals,
) -> End {
    let pool = match worker.start() {
        Ok(pool) => pool,
        Err(error) => return End::failed(Failure::bad_input(error.to_string())),
    };
    reporter.report(WorkEvent::started(&pool, url, config));
    for warning in fairlane.engine().info().warnings {
        reporter.report(WorkEvent::EngineWarning { warning });
    }
    let drained = tokio::select! {
        () = signals.next() => Ok(false),
        drained = drain(fairlane, config, reporter), if is_drain => drained.map(|()| true),
        () = store::keep(fairlane, config, reporter) => Ok(false),
        error = fairlane.engine().admin().lost() => return End::lost(&error, reporter.running()),
    };
    tokio::select! {
        report = pool.stop() => {
            let is_drained = matches!(drained, Ok(true));
            End { report, drained: is_drained, failure: drained.err() }
        }
        () = signals.next() => End::interrupted(reporter.running(), &jobs(reporter.running())),
    }
}

/// The path of the file, after checking that it configures a type and that its programs exist.
fn check_file(config: &Config) -> Result<&Path, Failure> {
    let Some(path) = &config.path else {
        return Err(Failure::bad_input(format!(
            "there is no configuration file ./{FILE}; select one with --config <FILE>"
        )));
    };
    if config.type_ids().is_empty() {
        return Err(Failure::bad_input(format!(
            "{}: no types are configured; add a [types.NAME] with http, command or comfyui, or [callbacks]",
            path.display()
        )));
    }
    programs::check(config)?;
    Ok(path)
}

/// Completes when nothing is left for this worker, and reports what is left for others.
async fn drain(fairlane: &Fairlane, config: &Config, reporter: &Reporter) -> Result<(), Failure> {
    let left = drain::until_nothing_is_left(fairlane, &config.type_ids(), reporter).await?;
    reporter.report(WorkEvent::Drained { left });
    Ok(())
}

/// How a worker, or a server with one, ended.
#[derive(Default)]
pub struct End {
    /// What happened to the jobs that were running.
    pub report: StopReport,
    /// Whether nothing was left for this worker.
    pub drained: bool,
    /// Why it ended, if that was a failure.
    pub failure: Option<Failure>,
}

impl End {
    /// An end by a failure, without running jobs.
    pub fn failed(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    /// An end by the loss of the engine, which has to be opened again; running jobs cannot be
    /// settled.
    pub fn lost(error: &EngineError, left: u64) -> Self {
        let message = format!("the engine has stopped: {error}; restart this command to open it again");
        let report = StopReport { left: left as usize, ..StopReport::default() };
        Self { report, failure: Some(Failure::broken(message)), ..Self::default() }
    }

    /// An end by a second signal with `left` jobs running; `what` describes everything unfinished.
    pub fn interrupted(left: u64, what: &str) -> Self {
        let message = format!("left running: {what}; a job runs again when its lease expires");
        let report = StopReport { left: left as usize, ..StopReport::default() };
        Self { report, failure: Some(Failure::Stopped(message)), ..Self::default() }
    }
}

/// Reports the end as the last event.
pub async fn finish(end: End, reporter: Reporter) -> Result<(), Failure> {
    let End { report, drained, failure } = end;
    let unsettled = || {
        let what = jobs(report.left as u64);
        let message = format!("{what} could not be settled; a job runs again when its lease expires");
        (report.left > 0).then(|| Failure::broken(message))
    };
    let failure = failure.or_else(unsettled);
    reporter.report(reporter.stopped(report, drained, failure.as_ref()));
    reporter.finish().await;
    failure.map_or(Ok(()), Err)
}

/// The worker that the file configures; without types it only runs the loops.
pub fn worker(fairlane: &Fairlane, config: &Config, reporter: &Reporter) -> Result<Worker, Failure> {
    let bad = |type_id: &dyn std::fmt::Display, error: fairlane_targets::BadTarget| {
        Failure::bad_input(format!("{type_id}: {error}"))
    };
    let mut worker = fairlane.worker().settings(config.worker.settings.clone()).on_event(reporter.hook());
    if let Some(name) = &config.worker.name {
        worker = worker.name(name.clone());
    }
    for one in &config.types {
        let (name, options) = (one.type_id.to_string(), one.options.clone());
        worker = match one.target.clone() {
            None => continue,
            Some(Target::Http(settings)) => {
                let target = fairlane_targets::HttpTarget::new(settings);
                worker.processor_with(name, options, target.map_err(|error| bad(&one.type_id, error))?)
            }
            Some(Target::Command(settings)) => {
                let target = fairlane_targets::CommandTarget::new(settings);
                worker.processor_with(name, options, target.map_err(|error| bad(&one.type_id, error))?)
            }
            Some(Target::ComfyUi(settings)) => {
                let target = fairlane_targets::ComfyUi::new(settings);
                worker.processor_with(name, options, target.map_err(|error| bad(&one.type_id, error))?)
            }
        };
    }
    if let Some(one) = &config.callbacks {
        let options = one.options();
        let callbacks = Callbacks::new(fairlane.engine().clone(), one.settings.clone());
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
    /// Starts listening; from now on the signals do not end the program.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::broken(format!("cannot listen for signals: {error}")))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Completes when the next signal arrives.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
