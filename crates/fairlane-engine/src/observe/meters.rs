//! The handles of one engine, registered once, and its two hooks: around a command
//! and around a wait.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairlane_core::{Command, Reply};
use metrics::{Counter, Histogram, counter, histogram};

use super::lock::LockMeters;
use super::queue::{self, QueueMeters};
use super::{TARGET, names};
use crate::engine::EngineError;

/// The counters of one engine. The handles belong to the recorder that is installed when
/// they are created.
#[derive(Debug)]
pub(crate) struct Meters {
    engine: &'static str,
    /// In the order of [`Command::stems`].
    operations: Vec<OperationMeters>,
    errors: [Counter; 4],
    /// In the same order; empty in an engine without scripts.
    scripts: Vec<Histogram>,
    queue: QueueMeters,
    lock: LockMeters,
    woken: Counter,
    timed_out: Counter,
}

#[derive(Debug)]
struct OperationMeters {
    answered: Counter,
    failed: Counter,
    duration: Histogram,
}

impl Meters {
    /// The handles of an engine of this name.
    pub fn new(engine: &'static str) -> Self {
        Self {
            engine,
            operations: Command::stems().map(|stem| OperationMeters::new(engine, stem)).collect(),
            errors: ["invalid", "unavailable", "refused", "broken"]
                .map(|kind| counter!(names::ERRORS, "engine" => engine, "kind" => kind)),
            scripts: Vec::new(),
            queue: QueueMeters::new(engine),
            lock: LockMeters::new(engine),
            woken: counter!(names::WAITS, "engine" => engine, "ended" => "woken"),
            timed_out: counter!(names::WAITS, "engine" => engine, "ended" => "timeout"),
        }
    }

    /// Adds the durations of scripts, for an engine that runs them.
    pub fn with_scripts(mut self) -> Self {
        let engine = self.engine;
        let script =
            |stem: &'static str| histogram!(names::SCRIPT_DURATION, "engine" => engine, "script" => stem);
        self.scripts = Command::stems().map(script).collect();
        self
    }

    /// Records the arguments of a command before it is applied.
    pub fn begin(&self, command: &Command) -> Running<'_> {
        let queue = command.queue().map(|command| self.queue.begin(command));
        Running { meters: self, operation: command.stem(), queue }
    }

    /// Runs a script and measures its duration.
    pub async fn script<T>(&self, stem: &str, run: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let result = run.await;
        if let Some(duration) = index_of(stem).and_then(|index| self.scripts.get(index)) {
            duration.record(started.elapsed());
        }
        result
    }

    /// Runs a wait and counts it by its result.
    pub async fn waiting(
        &self,
        wait: impl Future<Output = Result<bool, EngineError>>,
    ) -> Result<bool, EngineError> {
        let result = wait.await;
        match &result {
            Ok(is_woken) => self.wait_ended(*is_woken),
            Err(error) => self.failed("wait", error),
        }
        result
    }

    /// Counts a wait that a wake-up or its time has ended.
    pub fn wait_ended(&self, is_woken: bool) {
        if is_woken { &self.woken } else { &self.timed_out }.increment(1);
    }

    fn ended(&self, running: &Running<'_>, result: &Result<Reply, EngineError>, took: Option<Duration>) {
        let operation = index_of(running.operation).expect("every command has a stem");
        let operation = &self.operations[operation];
        if let Some(took) = took {
            operation.duration.record(took);
        }
        match result {
            Ok(reply) => {
                operation.answered.increment(1);
                if let (Some(asked), Some(reply)) = (&running.queue, reply.queue()) {
                    self.queue.count(running.operation, asked, reply, took.unwrap_or_default());
                }
                if let Some(reply) = reply.lock() {
                    self.lock.count(reply);
                }
            }
            Err(error) => {
                operation.failed.increment(1);
                self.failed(running.operation, error);
            }
        }
    }

    fn failed(&self, operation: &'static str, error: &EngineError) {
        let engine = self.engine;
        let kind = match error {
            EngineError::Invalid(_) => {
                tracing::debug!(target: TARGET, engine, operation, %error, "command invalid");
                0
            }
            EngineError::Unavailable { .. } => {
                tracing::warn!(target: TARGET, engine, operation, %error, "engine unavailable");
                1
            }
            EngineError::Refused { .. } => {
                tracing::warn!(target: TARGET, engine, operation, %error, "store refused");
                2
            }
            // The reason may quote stored data such as a payload, so only the caller gets it.
            EngineError::Broken { .. } => {
                tracing::error!(target: TARGET, engine, operation, "engine broken");
                3
            }
        };
        self.errors[kind].increment(1);
    }
}

impl OperationMeters {
    fn new(engine: &'static str, stem: &'static str) -> Self {
        let ended =
            |result| counter!(names::OPERATIONS, "engine" => engine, "operation" => stem, "result" => result);
        Self {
            answered: ended("ok"),
            failed: ended("error"),
            duration: histogram!(names::OPERATION_DURATION, "engine" => engine, "operation" => stem),
        }
    }
}

/// A command in progress.
pub(crate) struct Running<'a> {
    meters: &'a Meters,
    operation: &'static str,
    queue: Option<queue::Asked>,
}

impl Running<'_> {
    /// Runs the command and counts its result. A command that is dropped before its
    /// end is not counted.
    pub async fn until(
        self,
        run: impl Future<Output = Result<Reply, EngineError>>,
    ) -> Result<Reply, EngineError> {
        let started = Instant::now();
        let result = run.await;
        self.meters.ended(&self, &result, Some(started.elapsed()));
        result
    }

    /// Counts the result of a command that the engine applied at the end of a wait. How long that
    /// took is not known.
    pub fn ended_wait(
        self,
        is_woken: bool,
        result: Result<Reply, EngineError>,
    ) -> Result<Reply, EngineError> {
        if result.is_ok() {
            self.meters.wait_ended(is_woken);
        }
        self.meters.ended(&self, &result, None);
        result
    }
}

/// Limits an event that clients can cause at will to once per second.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Whether the event is due now.
    pub fn is_due(&self) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.is_none_or(|told| told.elapsed() >= Duration::from_secs(1));
        if is_due {
            *told = Some(Instant::now());
        }
        is_due
    }
}

fn index_of(stem: &str) -> Option<usize> {
    Command::stems().position(|known| known == stem)
}
