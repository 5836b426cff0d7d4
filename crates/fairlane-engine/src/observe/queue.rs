//! Counts and events of the queue, by its replies.
//!
//! Counts are those of received replies: a command that is repeated is counted again. Payloads,
//! results and reasons never appear, and names of jobs only at level `trace`.

use std::time::Duration;

use fairlane_core::queue::{
    BulkSettled, Command, Extension, GroupSettings, JobReceipt, JobRef, Leased, LeasedJob, Reclaimed,
    Refusal, Reply, TypeSet, Verdict,
};
use fairlane_core::{GroupId, TypeId};
use tracing::{Level, debug, enabled, info, trace, warn};

use super::TARGET;
use super::meters::{Asked, Ended, Meters, REASONS};

/// Counts a reply and logs it.
pub(super) fn count(meters: &Meters, operation: &str, asked: &Asked, reply: &Reply, took: Duration) {
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

fn count_enqueued(meters: &Meters, receipts: &[JobReceipt], took_us: u64) {
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

fn count_leased(meters: &Meters, leased: &Leased, took_us: u64) {
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

fn count_extended(meters: &Meters, extensions: &[Extension], took_us: u64) {
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

fn count_settled(meters: &Meters, ended: &[Ended], verdicts: &[Verdict], took_us: u64) {
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

fn count_backoff(meters: &Meters, delay_ms: u64) {
    meters.backoff.record(Duration::from_millis(delay_ms));
}

fn count_reclaimed(meters: &Meters, reclaimed: &Reclaimed, took_us: u64) {
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
    let GroupSettings { weight, rate, concurrency, paused, .. } = settings;
    info!(target: TARGET, engine, %group, ?weight, ?rate, ?concurrency, paused, "group set");
}

fn tell_type(engine: &str, name: &TypeId, set: &TypeSet) {
    match set {
        TypeSet::Set(settings) => {
            let (rate, concurrency, paused) = (settings.rate, settings.concurrency, settings.paused);
            info!(target: TARGET, engine, r#type = %name, ?rate, ?concurrency, paused, "type set");
        }
        TypeSet::TooManyTypes => warn!(target: TARGET, engine, r#type = %name, "type refused"),
    }
}

/// Names the jobs of a command, so that a single job can be followed in the log.
pub(super) fn trace_jobs(engine: &str, command: &Command) {
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
