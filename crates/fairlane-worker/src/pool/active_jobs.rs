//! Active jobs: leased by this worker and not yet settled.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fairlane_core::queue::JobRef;
use tokio::sync::Notify;

use crate::context::{CancelReason, Context};

#[derive(Default)]
pub(crate) struct ActiveJobs {
    state: Mutex<State>,
    emptied: Notify,
    filled: Notify,
}

#[derive(Default)]
struct State {
    /// The newest lease of each job.
    leases: HashMap<JobRef, Lease>,
    /// Attempts at jobs that were leased again before these attempts were settled. This is rare.
    superseded: Vec<Context>,
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

impl State {
    fn len(&self) -> usize {
        self.leases.len() + self.superseded.len()
    }

    fn contexts(&self) -> impl Iterator<Item = &Context> {
        self.leases.values().map(|lease| &lease.context).chain(&self.superseded)
    }

    /// The lease of an attempt, unless it is superseded or settled.
    fn lease(&mut self, context: &Context) -> Option<&mut Lease> {
        self.leases.get_mut(context.job()).filter(|lease| lease.context.is(context))
    }

    fn remove(&mut self, context: &Context) -> bool {
        match self.leases.remove(context.job()) {
            Some(lease) if lease.context.is(context) => return true,
            Some(newer) => drop(self.leases.insert(context.job().clone(), newer)),
            None => {}
        }
        let before = self.superseded.len();
        self.superseded.retain(|other| !other.is(context));
        self.superseded.len() < before
    }
}

impl ActiveJobs {
    /// Adds leased jobs. A new lease of a job means that every older lease of it is lost, which
    /// this worker may not know yet.
    pub fn add(&self, contexts: &[Context], leased: Instant) {
        let mut older = Vec::new();
        let mut state = self.state();
        let was_empty = state.len() == 0;
        for context in contexts {
            let lease = Lease { context: context.clone(), renewed: leased, lost: false };
            older.extend(state.leases.insert(context.job().clone(), lease).map(|lease| lease.context));
        }
        state.superseded.extend_from_slice(&older);
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        for context in older {
            context.cancel(CancelReason::Lost);
        }
    }

    /// Removes jobs that are settled, or whose settlements the engine will never accept.
    pub fn remove<'a>(&self, ends: impl IntoIterator<Item = (&'a Context, LeaseEnd)>) {
        let mut state = self.state();
        for (context, end) in ends {
            if !state.remove(context) {
                continue;
            }
            match end {
                LeaseEnd::Finished => state.end_counts.finished += 1,
                LeaseEnd::HandedBack => state.end_counts.handed_back += 1,
                LeaseEnd::Lost => {}
            }
        }
        let is_empty = state.len() == 0;
        drop(state);
        if is_empty {
            self.emptied.notify_waiters();
        }
    }

    /// Marks a lease that the engine reported as lost: it is no longer renewed, and its job must
    /// stop.
    pub fn lost(&self, context: &Context) {
        let is_active = self.state().lease(context).map(|lease| lease.lost = true).is_some();
        if is_active {
            context.cancel(CancelReason::Lost);
        }
    }

    /// Whether the lease is known to be lost, so that it can no longer be renewed.
    pub fn is_lost(&self, context: &Context) -> bool {
        self.state().lease(context).is_none_or(|lease| lease.lost)
    }

    /// Whether a job may have two active attempts.
    pub fn has_superseded(&self) -> bool {
        !self.state().superseded.is_empty()
    }

    pub fn cancel_all(&self, reason: CancelReason) {
        let contexts: Vec<Context> = self.state().contexts().cloned().collect();
        for context in contexts {
            context.cancel(reason);
        }
    }

    /// Leases last renewed at least this long ago, in the order in which they expire.
    pub fn older_than(&self, age: Duration) -> Vec<Context> {
        let now = Instant::now();
        let state = self.state();
        let is_old = |lease: &&Lease| !lease.lost && now.duration_since(lease.renewed) >= age;
        let mut old: Vec<&Lease> = state.leases.values().filter(is_old).collect();
        old.sort_unstable_by_key(|lease| lease.renewed);
        old.into_iter().map(|lease| lease.context.clone()).collect()
    }

    pub fn renewed(&self, context: &Context, at: Instant) {
        if let Some(lease) = self.state().lease(context) {
            lease.renewed = at;
        }
    }

    /// The running attempts that have timed out, and when the next one will.
    pub fn overdue(&self, now: tokio::time::Instant) -> (Vec<Context>, Option<tokio::time::Instant>) {
        let state = self.state();
        let running = state.contexts().filter(|context| context.may_go_on());
        let (mut overdue, mut next) = (Vec::new(), None::<tokio::time::Instant>);
        for context in running {
            match context.due() {
                due if due <= now => overdue.push(context.clone()),
                due => next = Some(next.map_or(due, |next| next.min(due))),
            }
        }
        (overdue, next)
    }

    pub fn len(&self) -> usize {
        self.state().len()
    }

    pub fn end_counts(&self) -> EndCounts {
        self.state().end_counts
    }

    /// Resolves when no job is active.
    pub async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.len() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// Resolves when jobs became active after none was, since the last call.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the active jobs")
    }
}
