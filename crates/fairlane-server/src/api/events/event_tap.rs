//! An engine layer that counts enqueued and settled jobs, and notifies the watchers of bulk actions
//! that a command may have changed them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlane_core::queue::{self, BulkRef, BulkSettled, JobReceipt, JobRef, Leased, SettleBulk, Verdict};
use fairlane_core::{BulkId, Command, GroupId, Reply};
use fairlane_engine::{BoxFuture, Clock, Engine, EngineError, Hooks, layer};

use super::Live;
use super::bulks::Changed;
use super::customer_counts::{CustomerCounts, Runs};
use super::wait_histogram::WaitHistogram;

/// Jobs that were enqueued and settled through this server.
#[derive(Default)]
pub(super) struct Counts {
    pub enqueued: AtomicU64,
    pub settled: AtomicU64,
    /// How long the jobs that were leased through this server had waited since they were enqueued.
    pub waits: WaitHistogram,
    /// The counted jobs by customer.
    pub customers: CustomerCounts,
}

/// The engine with a layer that feeds the events.
pub(super) fn event_tap(engine: Arc<dyn Engine>, live: Arc<Live>) -> Arc<dyn Engine> {
    let tap = move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Submitted> {
        Box::pin(submit(engine, command, live.clone()))
    };
    layer(engine, Hooks::default().submit(tap))
}

/// The result of submitting a command to an engine.
type Submitted = Result<Reply, EngineError>;

async fn submit(engine: Arc<dyn Engine>, command: Command, live: Arc<Live>) -> Submitted {
    let changed = if live.bulks.are_followed() { changed_by(&command) } else { Vec::new() };
    let has_callback =
        matches!(&command, Command::Queue(queue::Command::SettleBulk(SettleBulk { callback: Some(_), .. })));
    let runs = Runs::of(&command);
    let reply = engine.submit(command).await?;
    count(&live.counts, &reply, has_callback);
    live.counts.customers.record(&runs, &reply);
    if live.bulks.are_followed() {
        live.bulks.notify(changed.iter().map(|(group, bulk)| (group, bulk.as_ref())));
        if let Reply::Queue(queue::Reply::Lease(Leased::Jobs { jobs, .. })) = &reply {
            let in_bulks = jobs.iter().filter(|job| job.bulk.is_some());
            live.bulks.notify(in_bulks.map(|job| (&job.job.group, job.bulk.as_ref())));
        }
    }
    Ok(reply)
}

fn count(counts: &Counts, reply: &Reply, has_callback: bool) {
    match reply {
        Reply::Queue(queue::Reply::SettleBulk(BulkSettled(Verdict::Applied))) if has_callback => {
            counts.enqueued.fetch_add(1, Ordering::Relaxed);
        }
        Reply::Queue(queue::Reply::Enqueue(enqueued)) => {
            let created = enqueued.receipts.iter().filter(|receipt| **receipt == JobReceipt::Created);
            counts.enqueued.fetch_add(created.count() as u64, Ordering::Relaxed);
        }
        Reply::Queue(queue::Reply::Settle(settled)) => {
            let applied = settled.verdicts.iter().filter(|verdict| **verdict == Verdict::Applied);
            counts.settled.fetch_add(applied.count() as u64, Ordering::Relaxed);
        }
        Reply::Queue(queue::Reply::Lease(Leased::Jobs { jobs, .. })) if !jobs.is_empty() => {
            let now = Clock::System.now();
            for job in jobs.iter().filter(|job| job.attempt == 1) {
                counts.waits.record(now.since(job.created_at) / 1000);
            }
        }
        _ => {}
    }
}

/// The bulk actions that a command may change, or the groups where it does not name bulk actions.
/// Watchers find changes by maintenance commands when they poll.
fn changed_by(command: &Command) -> Vec<(GroupId, Option<BulkId>)> {
    use queue::Command as Queue;
    let jobs = |jobs: &mut dyn Iterator<Item = &JobRef>| distinct(jobs.map(|job| (&job.group, None)));
    let bulk = |BulkRef { group, id }: &BulkRef| vec![(group.clone(), Some(id.clone()))];
    match command {
        Command::Queue(Queue::Enqueue(enqueue)) => {
            let in_bulks = enqueue.jobs.iter().filter(|new| new.bulk.is_some());
            distinct(in_bulks.map(|new| (&new.job.group, new.bulk.as_ref())))
        }
        Command::Queue(Queue::Settle(settle)) => {
            jobs(&mut settle.settlements.iter().map(|settlement| &settlement.job))
        }
        Command::Queue(Queue::CancelJob(cancel)) => jobs(&mut cancel.jobs.iter()),
        Command::Queue(Queue::RequeueDead(requeue)) => jobs(&mut requeue.jobs.iter()),
        Command::Queue(Queue::SealBulk(command)) => bulk(&command.bulk),
        Command::Queue(Queue::HoldBulk(command)) => bulk(&command.bulk),
        Command::Queue(Queue::ResumeBulk(command)) => bulk(&command.bulk),
        Command::Queue(Queue::CancelBulk(command)) => bulk(&command.bulk),
        Command::Queue(Queue::SettleBulk(command)) => bulk(&command.bulk),
        _ => Vec::new(),
    }
}

/// The changes without consecutive duplicates, as jobs of one group or bulk action often follow
/// each other.
fn distinct<'a>(changed: impl Iterator<Item = Changed<'a>>) -> Vec<(GroupId, Option<BulkId>)> {
    let mut distinct: Vec<(GroupId, Option<BulkId>)> = Vec::new();
    for (group, bulk) in changed {
        if distinct.last().is_none_or(|(last, of)| (last, of.as_ref()) != (group, bulk)) {
            distinct.push((group.clone(), bulk.cloned()));
        }
    }
    distinct
}
