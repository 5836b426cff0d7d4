//! Active jobs: leased by this worker and not yet settled.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fairlane_core::Fence;
use fairlane_core::queue::JobRef;
use tokio::sync::Notify;

use crate::context::{CancelReason, Context};

type Key = (JobRef, Fence);

#[derive(Default)]
pub(crate) struct ActiveJobs {
    state: Mutex<State>,
    emptied: Notify,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<Key, Lease>,
    end_counts: EndCounts,
}

struct Lease {
    context: Context,
    /// Just before the last renewal was sent: the lease expires no earlier than its length after
    /// this.
    renewed: Instant,
    /// The job is, or will be, leased to another worker; this attempt only has to stop.
    lost: bool,
}

/// How the lease of a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    Finished,
    HandedBack,
    Lost,
}

/// Number of jobs whose leases ended, by how they ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndCounts {
    pub finished: usize,
    pub handed_back: usize,
}

impl ActiveJobs {
    /// Adds a leased job. A new lease of a job means that every older lease of it is lost, which
    /// this worker may not know yet.
    pub fn add(&self, context: &Context, leased: Instant) {
        let key = (context.job().clone(), context.fence());
        let mut state = self.state();
        let mut older = Vec::new();
        for (_, lease) in state.jobs.range_mut((context.job().clone(), Fence(0))..key.clone()) {
            lease.lost = true;
            older.push(lease.context.clone());
        }
        state.jobs.insert(key, Lease { context: context.clone(), renewed: leased, lost: false });
        drop(state);
        for context in older {
            context.cancel(CancelReason::Lost);
        }
    }

    /// Removes a job that is settled, or whose settlement the engine will never accept.
    pub fn remove(&self, job: &JobRef, fence: Fence, end: LeaseEnd) {
        let mut state = self.state();
        if state.jobs.remove(&(job.clone(), fence)).is_none() {
            return;
        }
        match end {
            LeaseEnd::Finished => state.end_counts.finished += 1,
            LeaseEnd::HandedBack => state.end_counts.handed_back += 1,
            LeaseEnd::Lost => {}
        }
        let is_empty = state.jobs.is_empty();
        drop(state);
        if is_empty {
            self.emptied.notify_waiters();
        }
    }

    /// Marks a lease that the engine reported as lost: it is no longer renewed, and its job must
    /// stop.
    pub fn lost(&self, job: &JobRef, fence: Fence) {
        let context = self.state().jobs.get_mut(&(job.clone(), fence)).map(|lease| {
            lease.lost = true;
            lease.context.clone()
        });
        if let Some(context) = context {
            context.cancel(CancelReason::Lost);
        }
    }

    /// Whether the engine reported the lease as lost, so that it can no longer be renewed.
    pub fn is_lost(&self, job: &JobRef, fence: Fence) -> bool {
        self.state().jobs.get(&(job.clone(), fence)).is_none_or(|lease| lease.lost)
    }

    /// Requests a cancelled job to stop.
    pub fn cancel(&self, job: &JobRef, fence: Fence) {
        let context = self.state().jobs.get(&(job.clone(), fence)).map(|lease| lease.context.clone());
        if let Some(context) = context {
            context.cancel(CancelReason::Cancelled);
        }
    }

    pub fn cancel_all(&self, reason: CancelReason) {
        let contexts: Vec<Context> = self.state().jobs.values().map(|lease| lease.context.clone()).collect();
        for context in contexts {
            context.cancel(reason);
        }
    }

    /// Leases last renewed at least this long ago, in the order in which they expire.
    pub fn older_than(&self, age: Duration) -> Vec<Key> {
        let now = Instant::now();
        let state = self.state();
        let mut old: Vec<(Instant, Key)> = state
            .jobs
            .iter()
            .filter(|(_, lease)| !lease.lost && now.duration_since(lease.renewed) >= age)
            .map(|(key, lease)| (lease.renewed, key.clone()))
            .collect();
        old.sort_unstable_by_key(|(renewed, _)| *renewed);
        old.into_iter().map(|(_, key)| key).collect()
    }

    pub fn renewed(&self, job: &JobRef, fence: Fence, at: Instant) {
        if let Some(lease) = self.state().jobs.get_mut(&(job.clone(), fence)) {
            lease.renewed = at;
        }
    }

    pub fn len(&self) -> usize {
        self.state().jobs.len()
    }

    pub fn end_counts(&self) -> EndCounts {
        self.state().end_counts
    }

    /// Resolves when no job is active.
    pub async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            emptied.await;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the active jobs")
    }
}
