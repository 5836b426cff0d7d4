//! Acknowledgements and leases, as producers and workers saw them.
//!
//! A worker records a lease when it receives it, and its end before it sends the settlement. So a
//! lease that is live in the ledger is live in the store, and two live leases of one job in the
//! ledger are two in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane_core::Fence;
use fairlane_core::queue::{JobRef, LeasedJob, Verdict};

use super::limits;
use crate::subject::{group_id, trace_of};

/// The most violations that are recorded.
const VIOLATIONS_MAX: usize = 20;

#[derive(Debug)]
struct Holder {
    fence: Fence,
    leased_at: Instant,
    lease: Duration,
}

#[derive(Debug, Default)]
struct Entries {
    acknowledged: BTreeSet<JobRef>,
    holders: BTreeMap<JobRef, Holder>,
    ended: BTreeSet<JobRef>,
    /// When jobs started, by the store's own clock: a fence is the time of its lease in
    /// microseconds.
    starts_us: Vec<u64>,
    violations: Vec<String>,
}

/// The ledger that all clients share.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Mutex<Entries>,
    dropped: AtomicU64,
}

impl Ledger {
    fn with<T>(&self, write: impl FnOnce(&mut Entries) -> T) -> T {
        write(&mut self.entries.lock().expect("no holder of the lock panics"))
    }

    /// Records that an enqueue was acknowledged.
    pub fn acknowledge(&self, job: JobRef) {
        self.with(|entries| entries.acknowledged.insert(job));
    }

    /// Records a lease.
    pub fn leased(&self, leased: &LeasedJob, lease: Duration) {
        self.with(|entries| {
            entries.starts_us.push(leased.fence.0);
            let holder = Holder { fence: leased.fence, leased_at: Instant::now(), lease };
            if entries.ended.contains(&leased.job) {
                entries.violate(format!("{:?} was leased after its end", leased.job));
            }
            if leased.trace != trace_of(&leased.job) {
                entries.violate(format!("{:?} was leased with the trace {:?}", leased.job, leased.trace));
            }
            let before = entries.holders.insert(leased.job.clone(), holder);
            if let Some(before) = before
                && before.leased_at.elapsed() < before.lease
            {
                let fences = (before.fence, leased.fence);
                entries.violate(format!("{:?} has two live leases, {fences:?}", leased.job));
            }
            let limits = limits();
            let seated = group_id(limits.seated_group);
            let live = |(job, holder): &(&JobRef, &Holder)| {
                job.group == seated && holder.leased_at.elapsed() < holder.lease
            };
            let taken = entries.holders.iter().filter(live).count();
            if taken > limits.seats as usize {
                entries.violate(format!("{taken} jobs of a group with {} seats are in flight", limits.seats));
            }
        });
    }

    /// Records that a lease is about to be settled, or was abandoned by its worker.
    pub fn ending(&self, leased: &LeasedJob) {
        self.with(|entries| entries.holders.remove(&leased.job));
    }

    /// Records the verdict on a settlement.
    pub fn settled(&self, leased: &LeasedJob, terminal: bool, verdict: Verdict) {
        self.with(|entries| {
            if verdict != Verdict::Applied {
                entries.violate(format!("the end of a live lease of {:?} was {verdict:?}", leased.job));
            }
            if terminal && !entries.ended.insert(leased.job.clone()) {
                entries.violate(format!("{:?} ended twice", leased.job));
            }
        });
    }

    /// Counts a future that was dropped before its reply.
    pub fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a violation.
    pub fn violation(&self, what: String) {
        self.with(|entries| entries.violate(what));
    }

    /// Checks that no second had more starts than `most`.
    pub fn check_rate(&self, most: u64) {
        self.with(|entries| {
            let mut starts_us = std::mem::take(&mut entries.starts_us);
            starts_us.sort_unstable();
            let mut first = 0;
            let mut worst = 0;
            for (index, at_us) in starts_us.iter().enumerate() {
                while at_us - starts_us[first] >= 1_000_000 {
                    first += 1;
                }
                worst = worst.max(index - first + 1);
            }
            entries.starts_us = starts_us;
            if worst as u64 > most {
                entries.violate(format!("{worst} jobs started within a second, {most} may"));
            }
        });
    }

    /// Every job whose enqueue was acknowledged.
    pub fn acknowledged(&self) -> Vec<JobRef> {
        self.with(|entries| entries.acknowledged.iter().cloned().collect())
    }

    /// Acknowledged jobs that have not ended yet.
    pub fn unfinished(&self) -> usize {
        self.with(|entries| entries.acknowledged.len().saturating_sub(entries.ended.len()))
    }

    /// The number of leases.
    pub fn leases(&self) -> u64 {
        self.with(|entries| entries.starts_us.len() as u64)
    }

    /// The number of dropped futures.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The violations recorded so far.
    pub fn violations(&self) -> Vec<String> {
        self.with(|entries| entries.violations.clone())
    }
}

impl Entries {
    fn violate(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairlane_core::{Cost, Level, Micros};

    use super::*;
    use crate::subject::{job_ref, type_id};

    const LEASE: Duration = Duration::from_secs(60);

    fn leased(group: &str, id: &str, fence: u64) -> LeasedJob {
        LeasedJob {
            job: job_ref(group, id),
            type_id: type_id("t"),
            level: Level::Normal,
            cost: Cost::default(),
            payload: Arc::from(&b""[..]),
            created_at: Micros(0),
            fence: Fence(fence),
            attempt: 1,
            bulk: None,
            trace: trace_of(&job_ref(group, id)),
        }
    }

    #[test]
    fn two_live_leases_of_a_job_are_noticed() {
        let ledger = Ledger::default();
        ledger.leased(&leased("g", "1", 1), LEASE);
        ledger.ending(&leased("g", "1", 1));
        ledger.leased(&leased("g", "1", 2), LEASE);
        assert_eq!(ledger.violations(), [""; 0]);
        ledger.leased(&leased("g", "1", 3), LEASE);
        assert_eq!(ledger.violations().len(), 1);
    }

    #[test]
    fn a_trace_of_another_job_is_noticed() {
        let ledger = Ledger::default();
        let traces = ["1", "2", "3", "4"].map(|id| leased("g", id, 1).trace);
        assert!(traces.contains(&None) && traces.iter().any(Option::is_some));
        let other = if traces[0].is_some() { None } else { traces.into_iter().flatten().next() };
        ledger.leased(&LeasedJob { trace: other, ..leased("g", "1", 1) }, LEASE);
        assert_eq!(ledger.violations().len(), 1);
    }

    #[test]
    fn a_second_end_and_a_stale_end_are_noticed() {
        let ledger = Ledger::default();
        ledger.settled(&leased("g", "1", 1), true, Verdict::Applied);
        assert_eq!(ledger.violations(), [""; 0]);
        ledger.settled(&leased("g", "1", 2), true, Verdict::Applied);
        ledger.settled(&leased("g", "2", 3), false, Verdict::Stale);
        ledger.leased(&leased("g", "1", 4), LEASE);
        assert_eq!(ledger.violations().len(), 3);
    }

    #[test]
    fn a_seat_too_many_is_noticed() {
        let ledger = Ledger::default();
        let limits = limits();
        for number in 0..=u64::from(limits.seats) {
            assert_eq!(ledger.violations(), [""; 0]);
            ledger.leased(&leased(limits.seated_group, &number.to_string(), number), LEASE);
        }
        assert_eq!(ledger.violations().len(), 1);
    }

    #[test]
    fn a_second_with_too_many_starts_is_noticed() {
        let ledger = Ledger::default();
        for number in 0..10 {
            ledger.leased(&leased("g", &number.to_string(), number * 200_000), LEASE);
        }
        ledger.check_rate(5);
        assert_eq!(ledger.violations(), [""; 0]);
        ledger.check_rate(4);
        assert_eq!(ledger.violations().len(), 1);
    }
}
