//! What a worker has leased and not yet settled.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fairlane_core::Fence;
use fairlane_core::queue::JobRef;
use tokio::sync::Notify;

use crate::context::{CancelReason, Context};

type Key = (JobRef, Fence);

#[derive(Default)]
pub(crate) struct InHand {
    held: Mutex<Held>,
    left: Notify,
}

#[derive(Default)]
struct Held {
    jobs: BTreeMap<Key, Lease>,
    ends: Ends,
}

struct Lease {
    context: Context,
    /// Before the last renewal was sent: the lease runs out no earlier than its length after this.
    renewed: Instant,
    /// Somebody else has the job, or will; it only has to be put down.
    lost: bool,
}

/// How a job left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Finished,
    HandedBack,
    Lost,
}

/// How many jobs have left, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ends {
    pub finished: usize,
    pub handed_back: usize,
}

impl InHand {
    /// A job leased anew is lost under every older fence, which this worker may not have heard of.
    pub fn add(&self, context: &Context, leased: Instant) {
        let key = (context.job().clone(), context.fence());
        let mut held = self.held();
        let mut older = Vec::new();
        for (_, lease) in held.jobs.range_mut((context.job().clone(), Fence(0))..key.clone()) {
            lease.lost = true;
            older.push(lease.context.clone());
        }
        held.jobs.insert(key, Lease { context: context.clone(), renewed: leased, lost: false });
        drop(held);
        for context in older {
            context.cancel(CancelReason::Lost);
        }
    }

    /// The engine knows what became of it, or never will.
    pub fn remove(&self, job: &JobRef, fence: Fence, left: Left) {
        let mut held = self.held();
        if held.jobs.remove(&(job.clone(), fence)).is_none() {
            return;
        }
        match left {
            Left::Finished => held.ends.finished += 1,
            Left::HandedBack => held.ends.handed_back += 1,
            Left::Lost => {}
        }
        let empty = held.jobs.is_empty();
        drop(held);
        if empty {
            self.left.notify_waiters();
        }
    }

    /// The engine says the lease is gone: nothing more is to be done for it, and nothing renewed.
    pub fn lost(&self, job: &JobRef, fence: Fence) {
        let context = self.held().jobs.get_mut(&(job.clone(), fence)).map(|lease| {
            lease.lost = true;
            lease.context.clone()
        });
        if let Some(context) = context {
            context.cancel(CancelReason::Lost);
        }
    }

    /// Whether the engine has said that the lease is gone, so that it can no longer be renewed.
    pub fn is_lost(&self, job: &JobRef, fence: Fence) -> bool {
        self.held().jobs.get(&(job.clone(), fence)).is_none_or(|lease| lease.lost)
    }

    /// Somebody wants the job to stop.
    pub fn cancel(&self, job: &JobRef, fence: Fence) {
        let context = self.held().jobs.get(&(job.clone(), fence)).map(|lease| lease.context.clone());
        if let Some(context) = context {
            context.cancel(CancelReason::Cancelled);
        }
    }

    pub fn cancel_all(&self, reason: CancelReason) {
        let contexts: Vec<Context> = self.held().jobs.values().map(|lease| lease.context.clone()).collect();
        for context in contexts {
            context.cancel(reason);
        }
    }

    /// Leases last renewed at least this long ago, those first that run out first.
    pub fn older_than(&self, age: Duration) -> Vec<Key> {
        let now = Instant::now();
        let held = self.held();
        let mut old: Vec<(Instant, Key)> = held
            .jobs
            .iter()
            .filter(|(_, lease)| !lease.lost && now.duration_since(lease.renewed) >= age)
            .map(|(key, lease)| (lease.renewed, key.clone()))
            .collect();
        old.sort_unstable_by_key(|(renewed, _)| *renewed);
        old.into_iter().map(|(_, key)| key).collect()
    }

    pub fn renewed(&self, job: &JobRef, fence: Fence, at: Instant) {
        if let Some(lease) = self.held().jobs.get_mut(&(job.clone(), fence)) {
            lease.renewed = at;
        }
    }

    pub fn len(&self) -> usize {
        self.held().jobs.len()
    }

    pub fn ends(&self) -> Ends {
        self.held().ends
    }

    /// Resolves when nothing is in hand.
    pub async fn empty(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            left.await;
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().expect("nothing panics while it holds what is in hand")
    }
}
