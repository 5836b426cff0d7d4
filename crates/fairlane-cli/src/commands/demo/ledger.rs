//! The history of every job of the demo, recorded by its producer and its handlers.
//!
//! Invariant: nothing here is derived from the engine's counts, so that the two can be compared.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use fairlane_core::GroupId;
use fairlane_core::queue::{JobRef, Verdict};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The history of one job, in microseconds since the start; 0 stands for never.
#[derive(Default)]
pub struct History {
    pub enqueued_us: AtomicU64,
    pub started_us: AtomicU64,
    pub done_us: AtomicU64,
    pub executions: AtomicU32,
    pub successes: AtomicU32,
}

struct Customer {
    group: GroupId,
    jobs: Vec<History>,
    enqueued: AtomicU64,
    done: AtomicU64,
}

/// Every job of every customer.
pub struct Ledger {
    start: Instant,
    customers: Vec<Customer>,
    /// The one group of all jobs in the run with a plain queue.
    shared: Option<GroupId>,
    changed: Notify,
    /// Settlements that were refused, and executions of jobs that were never enqueued.
    strays: AtomicU64,
}

impl Ledger {
    /// A ledger with an empty history for each job. In a plain queue all customers share one group,
    /// whose jobs run first in, first out.
    pub fn new(customers: &[(String, u32)], is_plain: bool) -> Self {
        let customer = |(name, size): &(String, u32)| Customer {
            group: GroupId::new(name).expect("a customer's letter makes a name"),
            jobs: (0..*size).map(|_| History::default()).collect(),
            enqueued: AtomicU64::new(0),
            done: AtomicU64::new(0),
        };
        Self {
            start: Instant::now(),
            customers: customers.iter().map(customer).collect(),
            shared: is_plain.then(|| GroupId::new("everyone").expect("a plain word is a name")),
            changed: Notify::new(),
            strays: AtomicU64::new(0),
        }
    }

    /// Microseconds since the start, never 0.
    pub fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64 + 1
    }

    /// The number of customers.
    pub fn customers(&self) -> usize {
        self.customers.len()
    }

    /// The group of a customer.
    pub fn group(&self, customer: usize) -> &GroupId {
        &self.customers[customer].group
    }

    /// The group that a customer's jobs are enqueued in.
    pub fn group_of_jobs(&self, customer: usize) -> &GroupId {
        self.shared.as_ref().unwrap_or(self.group(customer))
    }

    /// The number of jobs that a customer will have.
    pub fn size(&self, customer: usize) -> usize {
        self.customers[customer].jobs.len()
    }

    /// The number of a customer's jobs that the engine has accepted.
    pub fn enqueued(&self, customer: usize) -> u64 {
        self.customers[customer].enqueued.load(Ordering::Relaxed)
    }

    /// The number of a customer's jobs whose settlement was applied.
    pub fn done(&self, customer: usize) -> u64 {
        self.customers[customer].done.load(Ordering::Relaxed)
    }

    /// Whether every job of every customer is done.
    pub fn is_finished(&self) -> bool {
        (0..self.customers()).all(|customer| self.done(customer) >= self.size(customer) as u64)
    }

    /// Completes at the next change. Create it before reading the ledger, so that no change is
    /// missed.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// The histories of a customer's jobs, in the order in which they were enqueued.
    pub fn histories(&self, customer: usize) -> &[History] {
        &self.customers[customer].jobs
    }

    /// The number of unexpected events that belong to no job.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Records that the engine has accepted a job.
    pub fn note_enqueued(&self, customer: usize, index: usize, sent_us: u64) {
        self.customers[customer].jobs[index].enqueued_us.store(sent_us, Ordering::Relaxed);
        self.customers[customer].enqueued.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a handler has started a job.
    pub fn note_started(&self, job: &JobRef) {
        match self.find(job) {
            Some((_, history)) => {
                history.executions.fetch_add(1, Ordering::Relaxed);
                history.started_us.store(self.now_us(), Ordering::Relaxed);
            }
            None => self.note_stray(),
        }
    }

    /// Records the engine's reply to the settlement of a job.
    pub fn note_settled(&self, job: &JobRef, verdict: Verdict) {
        match self.find(job) {
            Some((customer, history)) if verdict == Verdict::Applied => {
                history.successes.fetch_add(1, Ordering::Relaxed);
                history.done_us.store(self.now_us(), Ordering::Relaxed);
                customer.done.fetch_add(1, Ordering::Relaxed);
                self.changed.notify_waiters();
            }
            _ => self.note_stray(),
        }
    }

    fn note_stray(&self) {
        self.strays.fetch_add(1, Ordering::Relaxed);
    }

    /// Finds a job by the numbers of its customer and of the job at the end of its id.
    fn find(&self, job: &JobRef) -> Option<(&Customer, &History)> {
        let mut parts = job.id.escaped().rsplitn(3, '-').map(|part| part.parse::<usize>().ok());
        let (index, customer) = (parts.next()??, parts.next()??);
        let customer = self.customers.get(customer)?;
        Some((customer, customer.jobs.get(index)?))
    }
}
