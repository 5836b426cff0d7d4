//! Counts and events of the queue, by its replies.
//!
//! Counts are those of received replies: a command that is repeated is counted again. Payloads,
//! results and reasons never appear, and names of jobs only at level `trace`.

use std::time::Duration;

use fairlane_core::queue::{
    BulkSettled, Command, Extension, GroupSettings, JobReceipt, JobRef, Leased, LeasedJob, Outcome,
    Reclaimed, Refusal, Reply, TypeSet, Verdict,
};
use fairlane_core::{GroupId, TypeId};
use metrics::{Counter, Histogram, counter, histogram};
use tracing::{Level, debug, enabled, info, trace, warn};

use super::meters::Seldom;
use super::{TARGET, names};

/// Why jobs are refused, in the order in which `count_enqueued` counts them.
const REASONS: [&str; 6] =
    ["group_full", "queue_full", "too_many_types", "group_bytes_full", "queue_bytes_full", "other"];
/// The outcomes of attempts by [`Ended::index`].
const OUTCOMES: [&str; 6] = ["succeeded", "failed", "retry", "throttled", "released", "cancelled"];
/// The verdicts in the order in which `count_settled` counts them.
const VERDICTS: [&str; 3] = ["applied", "stale", "gone"];

/// The counters of the queue in one engine.
#[derive(Debug)]
pub(super) struct QueueMeters {
    engine: &'static str,
    created: Counter,
    exists: Counter,
    /// Counters by reason, in the order of [`REASONS`].
    refused: [Counter; REASONS.len()],
    refused_told: Seldom,
    /// Counters by level.
    leased: [Counter; 3],
    /// Histograms by level.
    job_wait: [Histogram; 3],
    extended: Counter,
    lost_at_extend: Counter,
    lost_at_settle: Counter,
    /// Counters by outcome, then by verdict.
    settled: [[Counter; VERDICTS.len()]; OUTCOMES.len()],
    dead_failed: Counter,
    dead_lost: Counter,
    backoff: Histogram,
    promoted: Counter,
    recovered: Counter,
    reclaimed_dead: Counter,
}

impl QueueMeters {
    /// The handles of an engine of this name.
    pub fn new(engine: &'static str) -> Self {
        let levels = fairlane_core::Level::ALL.map(fairlane_core::Level::as_str);
        Self {
            engine,
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
        }
    }

    /// Records the arguments of a command before it is applied.
    pub fn begin(&self, command: &Command) -> Asked {
        trace_jobs(self.engine, command);
        Asked::of(command)
    }

    /// Counts a reply and logs it.
    pub fn count(&self, operation: &str, asked: &Asked, reply: &Reply, took: Duration) {
        count(self, operation, asked, reply, took);
    }
}

fn count(meters: &QueueMeters, operation: &str, asked: &Asked, reply: &Reply, took: Duration) {
    let took_us = took.as_micros() as u64;
    match (reply, asked) {
        (Reply::Enqueue(enqueued), _) => count_enqueued(meters, &enqueued.receipts, took_us),
        (Reply::Lease(leased), _) => count_leased(meters, leased, took_us),
        (Reply::Extend(extended), _) => count_extended(meters, &extended.extensions, took_us),
        (Reply::Settle(settled), Asked::Settle(ended)) => {
            count_settled(meters, ended, &settled.verdicts, took_us);
        }
        (Reply::SettleBulk(BulkSettled(Verdict::Applied)), Asked::Callback) => meters.created.increment(1),
        (Reply::Promote(promoted), _) => {
            meters.promoted.increment(promoted.moved as u64);
            debug!(target: TARGET, engine = meters.engine, moved = promoted.moved, took_us, "promoted");
        }
        (Reply::Reclaim(reclaimed), _) => count_reclaimed(meters, reclaimed, took_us),
        (Reply::SetGroup(set), Asked::Group(group)) => tell_group(meters.engine, group, &set.settings),
        (Reply::SetType(set), Asked::Type(name)) => tell_type(meters.engine, name, set),
        (Reply::SetQueue(answer), _) => info!(target: TARGET, engine = meters.engine, ?answer, "queue set"),
        _ => debug!(target: TARGET, engine = meters.engine, operation, took_us, "answered"),
    }
}

fn count_enqueued(meters: &QueueMeters, receipts: &[JobReceipt], took_us: u64) {
    let (mut created, mut exists, mut refused) = (0, 0, [0; REASONS.len()]);
    for receipt in receipts {
        match receipt {
            JobReceipt::Created => created += 1,
            JobReceipt::Refused { refusal, .. } => refused[reason(refusal)] += 1,
            JobReceipt::Exists { .. } | JobReceipt::Differs { .. } => exists += 1,
        }
    }
    meters.created.increment(created);
    meters.exists.increment(exists);
    let engine = meters.engine;
    debug!(target: TARGET, engine, created, exists, refused = refused.iter().sum::<u64>(), took_us, "enqueued");
    if refused.iter().any(|count| *count > 0) {
        for (counter, count) in meters.refused.iter().zip(refused) {
            counter.increment(count);
        }
        if meters.refused_told.is_due() {
            let [group_full, queue_full, too_many_types, group_bytes_full, queue_bytes_full, other] = refused;
            warn!(target: TARGET, engine, group_full, queue_full, too_many_types, group_bytes_full, queue_bytes_full, other, "jobs refused");
        }
    }
}

/// The index of a refusal in [`REASONS`].
#[allow(unreachable_patterns, reason = "other refusals concern only the caller, who has the receipt")]
fn reason(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::GroupFull => 0,
        Refusal::QueueFull => 1,
        Refusal::TooManyTypes => 2,
        Refusal::GroupBytesFull => 3,
        Refusal::QueueBytesFull => 4,
        _ => 5,
    }
}

fn count_leased(meters: &QueueMeters, leased: &Leased, took_us: u64) {
    let engine = meters.engine;
    let Leased::Jobs { jobs, .. } = leased else {
        debug!(target: TARGET, engine, took_us, "lease superseded");
        return;
    };
    let mut by_level = [0; 3];
    for job in jobs {
        by_level[job.level.index()] += 1;
        if job.attempt == 1 {
            meters.job_wait[job.level.index()].record(waited(job));
        }
        trace!(target: TARGET, engine, group = %job.job.group, job = %job.job.id, attempt = job.attempt, "job leased");
    }
    for (counter, count) in meters.leased.iter().zip(by_level) {
        counter.increment(count);
    }
    debug!(target: TARGET, engine, jobs = jobs.len(), took_us, "leased");
}

/// The time from enqueue to lease. A fence is the time of its lease by the store's clock, unless
/// that clock has stepped back.
fn waited(job: &LeasedJob) -> Duration {
    Duration::from_micros(job.fence.0.saturating_sub(job.created_at.0))
}

fn count_extended(meters: &QueueMeters, extensions: &[Extension], took_us: u64) {
    let engine = meters.engine;
    let lost = extensions.iter().filter(|extension| **extension == Extension::Lost).count();
    let extended = extensions.len() - lost;
    meters.extended.increment(extended as u64);
    debug!(target: TARGET, engine, extended, lost, took_us, "extended");
    if lost > 0 {
        meters.lost_at_extend.increment(lost as u64);
        warn!(target: TARGET, engine, operation = "extend", lost, "leases lost");
    }
}

fn count_settled(meters: &QueueMeters, ended: &[Ended], verdicts: &[Verdict], took_us: u64) {
    let engine = meters.engine;
    let mut by_verdict = [0_u64; 3];
    let mut failed = 0;
    for (ended, verdict) in ended.iter().zip(verdicts) {
        let index = match verdict {
            Verdict::Applied => 0,
            Verdict::Stale => 1,
            Verdict::Gone => 2,
        };
        by_verdict[index] += 1;
        meters.settled[ended.index()][index].increment(1);
        match ended {
            Ended::Failed if index == 0 => failed += 1,
            Ended::Throttled { delay_ms } if index == 0 => count_backoff(meters, *delay_ms),
            _ => {}
        }
    }
    let [applied, stale, gone] = by_verdict;
    debug!(target: TARGET, engine, applied, stale, gone, took_us, "settled");
    if stale > 0 {
        meters.lost_at_settle.increment(stale);
        warn!(target: TARGET, engine, operation = "settle", lost = stale, "leases lost");
    }
    if failed > 0 {
        meters.dead_failed.increment(failed);
        warn!(target: TARGET, engine, cause = "failed", dead = failed, "jobs dead");
    }
}

fn count_backoff(meters: &QueueMeters, delay_ms: u64) {
    meters.backoff.record(Duration::from_millis(delay_ms));
}

fn count_reclaimed(meters: &QueueMeters, reclaimed: &Reclaimed, took_us: u64) {
    let engine = meters.engine;
    let Reclaimed { recovered, dead, .. } = *reclaimed;
    meters.recovered.increment(recovered as u64);
    debug!(target: TARGET, engine, recovered, dead, took_us, "reclaimed");
    if recovered > 0 {
        warn!(target: TARGET, engine, operation = "reclaim", lost = recovered, "leases lost");
    }
    if dead > 0 {
        meters.reclaimed_dead.increment(dead as u64);
        meters.dead_lost.increment(dead as u64);
        warn!(target: TARGET, engine, cause = "lost", dead, "jobs dead");
    }
}

fn tell_group(engine: &str, group: &GroupId, settings: &GroupSettings) {
    let (rate, concurrency) = (or_none(settings.rate), or_none(settings.concurrency));
    let (weight, paused) = (settings.weight.get(), settings.paused);
    info!(target: TARGET, engine, %group, weight, %rate, %concurrency, paused, "group set");
}

fn tell_type(engine: &str, name: &TypeId, set: &TypeSet) {
    match set {
        TypeSet::Set(settings) => {
            let (rate, concurrency) = (or_none(settings.rate), or_none(settings.concurrency));
            info!(target: TARGET, engine, r#type = %name, %rate, %concurrency, paused = settings.paused, "type set");
        }
        TypeSet::TooManyTypes => warn!(target: TARGET, engine, r#type = %name, "type refused"),
    }
}

/// A limit as the command line takes it: a value or `none`.
fn or_none(limit: Option<impl ToString>) -> String {
    limit.map_or("none".to_owned(), |limit| limit.to_string())
}

/// Names the jobs of a command, so that a single job can be followed in the log.
fn trace_jobs(engine: &str, command: &Command) {
    if !enabled!(target: TARGET, Level::TRACE) {
        return;
    }
    let tell = |operation: &str, job: &JobRef, outcome: Option<Ended>| {
        let outcome = outcome.map(Ended::as_str);
        trace!(target: TARGET, engine, operation, group = %job.group, job = %job.id, outcome, "job asked about");
    };
    match command {
        Command::Enqueue(enqueue) => enqueue.jobs.iter().for_each(|job| tell("enqueue", &job.job, None)),
        Command::Extend(extend) => extend.leases.iter().for_each(|(job, _)| tell("extend", job, None)),
        Command::Settle(settle) => {
            settle.settlements.iter().for_each(|one| tell("settle", &one.job, Some(Ended::of(&one.outcome))));
        }
        _ => {}
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
    fn of(command: &Command) -> Self {
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
