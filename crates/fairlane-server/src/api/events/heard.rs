//! The engine as all requests use it: it counts what passes, and tells the watchers of bulk actions that something may
//! have changed them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::queue::{BulkRef, Command, JobReceipt, JobRef, Leased, Reply, Verdict};
use fairlane_core::{BulkId, GroupId, TypeId};
use fairlane_engine::{BoxFuture, Engine, EngineError, Space, WalkPage};
use tokio::sync::mpsc;

use super::Live;
use super::bulks::Moved;

/// What has passed through this server.
#[derive(Default)]
pub(super) struct Counts {
    pub enqueued: AtomicU64,
    pub settled: AtomicU64,
}

/// An engine that is listened to.
pub(super) struct Heard {
    engine: Arc<dyn Engine>,
    live: Arc<Live>,
}

impl Heard {
    pub fn new(engine: Arc<dyn Engine>, live: Arc<Live>) -> Self {
        Self { engine, live }
    }

    fn hear(&self, moved: &[(GroupId, Option<BulkId>)], reply: &Reply) {
        let counts = &self.live.counts;
        match reply {
            Reply::Enqueued(enqueued) => {
                let created = enqueued.receipts.iter().filter(|receipt| **receipt == JobReceipt::Created);
                counts.enqueued.fetch_add(created.count() as u64, Ordering::Relaxed);
            }
            Reply::Settled(settled) => {
                let applied = settled.verdicts.iter().filter(|verdict| **verdict == Verdict::Applied);
                counts.settled.fetch_add(applied.count() as u64, Ordering::Relaxed);
            }
            _ => {}
        }
        if self.live.bulks.are_followed() {
            self.live.bulks.stir(moved.iter().map(|(group, bulk)| (group, bulk.as_ref())));
            if let Reply::Leased(Leased::Jobs { jobs, .. }) = reply {
                let in_bulks = jobs.iter().filter(|job| job.bulk.is_some());
                self.live.bulks.stir(in_bulks.map(|job| (&job.job.group, job.bulk.as_ref())));
            }
        }
    }
}

impl Engine for Heard {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn warnings(&self) -> Vec<String> {
        self.engine.warnings()
    }

    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        self.engine.space()
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.check_writes()
    }

    fn lost(&self) -> BoxFuture<'_, EngineError> {
        self.engine.lost()
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        let moved = if self.live.bulks.are_followed() { moved_by(&command) } else { Vec::new() };
        Box::pin(async move {
            let reply = self.engine.execute(command).await?;
            self.hear(&moved, &reply);
            Ok(reply)
        })
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.engine.wait(types, at_most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.walk(pages)
    }
}

/// The bulk actions that a command may change; where it does not name them, the groups. What loops do is found by looking.
fn moved_by(command: &Command) -> Vec<(GroupId, Option<BulkId>)> {
    let jobs = |jobs: &mut dyn Iterator<Item = &JobRef>| runs(jobs.map(|job| (&job.group, None)));
    let bulk = |BulkRef { group, id }: &BulkRef| vec![(group.clone(), Some(id.clone()))];
    match command {
        Command::Enqueue(enqueue) => {
            let in_bulks = enqueue.jobs.iter().filter(|new| new.bulk.is_some());
            runs(in_bulks.map(|new| (&new.job.group, new.bulk.as_ref())))
        }
        Command::Settle(settle) => jobs(&mut settle.settlements.iter().map(|settlement| &settlement.job)),
        Command::CancelJob(cancel) => jobs(&mut cancel.jobs.iter()),
        Command::RequeueDead(requeue) => jobs(&mut requeue.jobs.iter()),
        Command::SealBulk(command) => bulk(&command.bulk),
        Command::HoldBulk(command) => bulk(&command.bulk),
        Command::ResumeBulk(command) => bulk(&command.bulk),
        Command::CancelBulk(command) => bulk(&command.bulk),
        Command::FinishBulk(command) => bulk(&command.bulk),
        _ => Vec::new(),
    }
}

/// Each once where they come in runs, as jobs of one group or bulk action do.
fn runs<'a>(moved: impl Iterator<Item = Moved<'a>>) -> Vec<(GroupId, Option<BulkId>)> {
    let mut runs: Vec<(GroupId, Option<BulkId>)> = Vec::new();
    for (group, bulk) in moved {
        if runs.last().is_none_or(|(last, of)| (last, of.as_ref()) != (group, bulk)) {
            runs.push((group.clone(), bulk.cloned()));
        }
    }
    runs
}
