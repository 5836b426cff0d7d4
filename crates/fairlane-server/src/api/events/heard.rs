//! The engine as all requests use it: it counts what passes, and tells the watchers of bulk actions whose group has
//! moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::queue::{Command, JobReceipt, JobRef, Leased, Reply, Verdict};
use fairlane_core::{GroupId, TypeId};
use fairlane_engine::{BoxFuture, Engine, EngineError, WalkPage};
use tokio::sync::mpsc;

use super::Live;

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

    fn hear(&self, moved: Vec<GroupId>, reply: &Reply) {
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
            self.live.bulks.stir(moved.iter());
            if let Reply::Leased(Leased::Jobs { jobs, .. }) = reply {
                let in_bulks = jobs.iter().filter(|job| job.bulk.is_some());
                self.live.bulks.stir(in_bulks.map(|job| &job.job.group));
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

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        let moved = if self.live.bulks.are_followed() { moved_by(&command) } else { Vec::new() };
        Box::pin(async move {
            let reply = self.engine.execute(command).await?;
            self.hear(moved, &reply);
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

/// The groups whose bulk actions a command may change. What loops do is found by looking.
fn moved_by(command: &Command) -> Vec<GroupId> {
    let of = |jobs: &mut dyn Iterator<Item = &JobRef>| {
        let mut groups: Vec<GroupId> = Vec::new();
        for job in jobs {
            // Jobs of one group come in runs.
            if groups.last() != Some(&job.group) {
                groups.push(job.group.clone());
            }
        }
        groups
    };
    match command {
        Command::Enqueue(enqueue) => {
            of(&mut enqueue.jobs.iter().filter(|new| new.bulk.is_some()).map(|new| &new.job))
        }
        Command::Settle(settle) => of(&mut settle.settlements.iter().map(|settlement| &settlement.job)),
        Command::CancelJob(cancel) => of(&mut cancel.jobs.iter()),
        Command::RequeueDead(requeue) => of(&mut requeue.jobs.iter()),
        Command::SealBulk(command) => vec![command.bulk.group.clone()],
        Command::HoldBulk(command) => vec![command.bulk.group.clone()],
        Command::ResumeBulk(command) => vec![command.bulk.group.clone()],
        Command::CancelBulk(command) => vec![command.bulk.group.clone()],
        Command::FinishBulk(command) => vec![command.bulk.group.clone()],
        _ => Vec::new(),
    }
}
