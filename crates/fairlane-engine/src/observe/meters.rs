//! The handles of one engine, registered once, and its two hooks: around a command
//! and around a wait.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairlane_core::queue::Outcome;
use fairlane_core::{Command, GroupId, Level, Reply, TypeId};
use metrics::{Counter, Histogram, counter, histogram};

use super::{TARGET, names, queue};
use crate::engine::EngineError;

/// The counters of one engine. The handles belong to the recorder that is installed when
/// they are created.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(super) engine: &'static str,
    /// In the order of [`Command::stems`].
    operations: Vec<OperationMeters>,
    errors: [Counter; 4],
    /// In the same order; empty in an engine without scripts.
    scripts: Vec<Histogram>,
    pub(super) created: Counter,
    pub(super) exists: Counter,
    /// Counters by reason, in the order of [`REASONS`].
    pub(super) refused: [Counter; REASONS.len()],
    pub(super) refused_told: Seldom,
    /// Counters by level.
    pub(super) leased: [Counter; 3],
    /// Histograms by level.
    pub(super) job_wait: [Histogram; 3],
    pub(super) extended: Counter,
    pub(super) lost_at_extend: Counter,
    pub(super) lost_at_settle: Counter,
    /// Counters by outcome, then by verdict.
    pub(super) settled: [[Counter; VERDICTS.len()]; OUTCOMES.len()],
    pub(super) dead_failed: Counter,
    pub(super) dead_lost: Counter,
    pub(super) backoff: Histogram,
    pub(super) promoted: Counter,
    pub(super) recovered: Counter,
    pub(super) reclaimed_dead: Counter,
    woken: Counter,
    timed_out: Counter,
}

#[derive(Debug)]
struct OperationMeters {
    answered: Counter,
    failed: Counter,
    duration: Histogram,
}

/// Why jobs are refused, in the order in which `queue.rs` counts them.
pub(super) const REASONS: [&str; 6] =
    ["group_full", "queue_full", "too_many_types", "group_bytes_full", "queue_bytes_full", "other"];
/// The outcomes of attempts by [`Ended::index`].
const OUTCOMES: [&str; 6] = ["succeeded", "failed", "retry", "throttled", "released", "cancelled"];
/// The verdicts in the order in which `queue.rs` counts them.
const VERDICTS: [&str; 3] = ["applied", "stale", "gone"];

impl Meters {
    /// The handles of an engine of this name.
    pub fn new(engine: &'static str) -> Self {
        let levels = Level::ALL.map(Level::as_str);
        Self {
            engine,
            operations: Command::stems().map(|stem| OperationMeters::new(engine, stem)).collect(),
            errors: ["invalid", "unavailable", "refused", "broken"]
                .map(|kind| counter!(names::ERRORS, "engine" => engine, "kind" => kind)),
            scripts: Vec::new(),
            created: counter!(names::ENQUEUED, "engine" => engine),
            exists: counter!(names::ENQUEUE_EXISTS, "engine" => engine),
            refused: REASONS
                .map(|reason| counter!(names::ENQUEUE_REFUSED, "engine" => engine, "reason" => reason)),
            refused_told: Seldom::default(),
            leased: levels.map(|level| counter!(names::LEASED, "engine" => engine, "priority" => level)),
            job_wait: levels
                .map(|level| histogram!(names::JOB_WAIT, "engine" => engine, "priority" => level)),
            extended: counter!(names::LEASES_EXTENDED, "engine" => engine),
            lost_at_extend: counter!(names::LEASES_LOST, "engine" => engine, "operation" => "extend"),
            lost_at_settle: counter!(names::LEASES_LOST, "engine" => engine, "operation" => "settle"),
            settled: OUTCOMES.map(|outcome| {
                VERDICTS.map(|verdict| {
                    counter!(names::SETTLED, "engine" => engine, "outcome" => outcome, "verdict" => verdict)
                })
            }),
            dead_failed: counter!(names::DEAD, "engine" => engine, "cause" => "failed"),
            dead_lost: counter!(names::DEAD, "engine" => engine, "cause" => "lost"),
            backoff: histogram!(names::BACKOFF, "engine" => engine),
            promoted: counter!(names::PROMOTED, "engine" => engine),
            recovered: counter!(names::RECLAIMED, "engine" => engine, "outcome" => "recovered"),
            reclaimed_dead: counter!(names::RECLAIMED, "engine" => engine, "outcome" => "dead"),
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
        let Command::Queue(queued) = command;
        queue::trace_jobs(self.engine, queued);
        Running { meters: self, operation: command.stem(), asked: Asked::of(queued) }
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
            Ok(true) => self.woken.increment(1),
            Ok(false) => self.timed_out.increment(1),
            Err(error) => self.failed("wait", error),
        }
        result
    }

    fn ended(&self, running: &Running<'_>, result: &Result<Reply, EngineError>, took: Duration) {
        let operation = index_of(running.operation).expect("every command has a stem");
        let operation = &self.operations[operation];
        operation.duration.record(took);
        match result {
            Ok(reply) => {
                operation.answered.increment(1);
                let Reply::Queue(reply) = reply;
                queue::count(self, running.operation, &running.asked, reply, took);
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
    asked: Asked,
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
        self.meters.ended(&self, &result, started.elapsed());
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

/// The parts of a command that the counts need and its reply does not contain.
pub(super) enum Asked {
    Nothing,
    Settle(Vec<Ended>),
    Group(GroupId),
    Type(TypeId),
    Callback,
}

impl Asked {
    fn of(command: &fairlane_core::queue::Command) -> Self {
        use fairlane_core::queue::Command;
        match command {
            Command::Settle(settle) => {
                Self::Settle(settle.settlements.iter().map(|one| Ended::of(&one.outcome)).collect())
            }
            Command::SetGroup(set) => Self::Group(set.group.clone()),
            Command::SetType(set) => Self::Type(set.type_id.clone()),
            Command::SettleBulk(settle) if settle.callback.is_some() => Self::Callback,
            _ => Self::Nothing,
        }
    }
}

/// How one attempt ended, without the note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Succeeded,
    Failed,
    Retry,
    Throttled { delay_ms: u64 },
    Released,
    Cancelled,
}

impl Ended {
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Succeeded { .. } => Self::Succeeded,
            Outcome::Failed { .. } => Self::Failed,
            Outcome::Retry { .. } => Self::Retry,
            Outcome::Throttled { delay_ms, .. } => Self::Throttled { delay_ms: *delay_ms },
            Outcome::Released => Self::Released,
            Outcome::Cancelled { .. } => Self::Cancelled,
        }
    }

    pub fn index(self) -> usize {
        match self {
            Self::Succeeded => 0,
            Self::Failed => 1,
            Self::Retry => 2,
            Self::Throttled { .. } => 3,
            Self::Released => 4,
            Self::Cancelled => 5,
        }
    }

    pub fn as_str(self) -> &'static str {
        OUTCOMES[self.index()]
    }
}

fn index_of(stem: &str) -> Option<usize> {
    Command::stems().position(|known| known == stem)
}
