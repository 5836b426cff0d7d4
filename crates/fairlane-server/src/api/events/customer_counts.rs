//! Jobs that arrived and jobs that were served through this server, by customer, in bounded memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use fairlane_core::queue::{self, JobReceipt, Outcome, Verdict};
use fairlane_core::{Command, GroupId, Reply};

/// Most customers that are counted by name between two calls of [`CustomerCounts::take`]; the jobs
/// of further ones are counted together.
const NAMED_MAX: usize = 20_000;

/// Jobs of one customer, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Jobs {
    /// Jobs that were enqueued.
    pub arrived: u64,
    /// Jobs that a worker has settled as done, as failed or to be retried.
    pub served: u64,
}

impl std::ops::AddAssign for Jobs {
    fn add_assign(&mut self, other: Self) {
        self.arrived += other.arrived;
        self.served += other.served;
    }
}

/// The jobs of a period of time, by customer.
#[derive(Debug, Clone, Default)]
pub(crate) struct CustomerJobs {
    /// Jobs of customers that are counted by name.
    pub named: HashMap<GroupId, Jobs>,
    /// Jobs of all other customers.
    pub others: Jobs,
}

/// The jobs since the last call of [`CustomerCounts::take`].
#[derive(Default)]
pub(super) struct CustomerCounts(Mutex<CustomerJobs>);

/// The groups of a command's jobs, with the number of consecutive jobs of each. A job that its
/// downstream refused, or that its worker returned, was not served.
pub(super) struct Runs(Vec<(GroupId, bool, usize)>);

impl Runs {
    pub fn of(command: &Command) -> Self {
        let mut runs = Self(Vec::new());
        match command {
            Command::Queue(queue::Command::Enqueue(enqueue)) => {
                enqueue.jobs.iter().for_each(|new| runs.add(&new.job.group, true));
            }
            Command::Queue(queue::Command::Settle(settle)) => {
                let is_served = |outcome: &Outcome| {
                    !matches!(
                        outcome,
                        Outcome::Throttled { .. } | Outcome::Released | Outcome::Cancelled { .. }
                    )
                };
                let settled = settle.settlements.iter();
                settled.for_each(|one| runs.add(&one.job.group, is_served(&one.outcome)));
            }
            _ => {}
        }
        runs
    }

    fn add(&mut self, group: &GroupId, counts: bool) {
        match self.0.last_mut() {
            Some((last, of, jobs)) if last == group && *of == counts => *jobs += 1,
            _ => self.0.push((group.clone(), counts, 1)),
        }
    }
}

impl CustomerCounts {
    /// Counts the jobs of a command that the engine has accepted.
    pub fn record(&self, runs: &Runs, reply: &Reply) {
        match reply {
            Reply::Queue(queue::Reply::Enqueue(enqueued)) => {
                let is_created = |receipt: &JobReceipt| *receipt == JobReceipt::Created;
                self.add(runs, enqueued.receipts.iter().map(is_created), |jobs| Jobs {
                    arrived: jobs,
                    served: 0,
                });
            }
            Reply::Queue(queue::Reply::Settle(settled)) => {
                let is_applied = |verdict: &Verdict| *verdict == Verdict::Applied;
                self.add(runs, settled.verdicts.iter().map(is_applied), |jobs| Jobs {
                    arrived: 0,
                    served: jobs,
                });
            }
            _ => {}
        }
    }

    fn add(&self, runs: &Runs, mut accepted: impl Iterator<Item = bool>, as_jobs: impl Fn(u64) -> Jobs) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (group, is_counted, jobs) in &runs.0 {
            let number = accepted.by_ref().take(*jobs).filter(|is_accepted| *is_accepted).count() as u64;
            if *is_counted && number > 0 {
                counts.add(group, as_jobs(number));
            }
        }
    }

    /// The counts, which begin at zero again.
    pub fn take(&self) -> CustomerJobs {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CustomerCounts {
    /// The counts since the last call of [`take`](Self::take).
    pub fn so_far(&self) -> CustomerJobs {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CustomerJobs {
    fn add(&mut self, group: &GroupId, jobs: Jobs) {
        if let Some(of) = self.named.get_mut(group) {
            *of += jobs;
        } else if self.named.len() < NAMED_MAX {
            self.named.insert(group.clone(), jobs);
        } else {
            self.others += jobs;
        }
    }
}

#[cfg(test)]
mod tests {
    use fairlane_core::Fence;
    use fairlane_core::JobId;
    use fairlane_core::queue::{JobRef, Settle, Settled, Settlement};

    use super::*;

    fn group(name: &str) -> GroupId {
        GroupId::new(name).unwrap()
    }

    #[test]
    fn accepted_answers_are_counted_by_customer() {
        let settlement = |name: &str, outcome: Outcome| Settlement {
            job: JobRef { group: group(name), id: JobId::new("j").unwrap() },
            fence: Fence(1),
            outcome,
        };
        let done = || Outcome::Succeeded { result: std::sync::Arc::from(&[][..]) };
        let settlements = vec![
            settlement("a", done()),
            settlement("a", Outcome::Throttled { delay_ms: 1, retry_after_ms: 0 }),
            settlement("a", done()),
            settlement("b", done()),
            settlement("b", done()),
        ];
        let command = Command::Queue(queue::Command::Settle(Settle { settlements }));
        let applied = Verdict::Applied;
        let verdicts = vec![applied, applied, applied, Verdict::Stale, applied];
        let reply = Reply::Queue(queue::Reply::Settle(Settled { verdicts }));
        let counts = CustomerCounts::default();
        counts.record(&Runs::of(&command), &reply);
        let taken = counts.take();
        assert_eq!((taken.named[&group("a")].served, taken.named[&group("b")].served), (2, 1));
        assert!(counts.take().named.is_empty());
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut jobs = CustomerJobs::default();
        for number in 0..NAMED_MAX + 5 {
            jobs.add(&group(&format!("g{number}")), Jobs { arrived: 1, served: 2 });
        }
        jobs.add(&group("g0"), Jobs { arrived: 1, served: 0 });
        assert_eq!((jobs.named.len(), jobs.others), (NAMED_MAX, Jobs { arrived: 5, served: 10 }));
        assert_eq!(jobs.named[&group("g0")].arrived, 2);
    }
}
