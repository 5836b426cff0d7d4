//! What has happened to every job of the demo, written down by those who did it.
//!
//! Invariant: nothing here is derived from what the engine counts, so that it can be held against it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use fairlane_core::GroupId;
use fairlane_core::queue::{JobRef, Verdict};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The history of one job, in microseconds since the start; 0 is never.
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
    changed: Notify,
    /// Settlements that were refused, and executions of jobs that were never enqueued.
    strays: AtomicU64,
}

impl Ledger {
    /// An empty page for each job.
    pub fn new(customers: &[(String, u32)]) -> Self {
        let page = |(name, size): &(String, u32)| Customer {
            group: GroupId::new(name).expect("a customer's letter makes a name"),
            jobs: (0..*size).map(|_| History::default()).collect(),
            enqueued: AtomicU64::new(0),
            done: AtomicU64::new(0),
        };
        Self {
            start: Instant::now(),
            customers: customers.iter().map(page).collect(),
            changed: Notify::new(),
            strays: AtomicU64::new(0),
        }
    }

    /// Microseconds since the start, never 0.
    pub fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64 + 1
    }

    /// How many there are.
    pub fn customers(&self) -> usize {
        self.customers.len()
    }

    /// A customer's name.
    pub fn group(&self, customer: usize) -> &GroupId {
        &self.customers[customer].group
    }

    /// How many jobs a customer will have.
    pub fn size(&self, customer: usize) -> usize {
        self.customers[customer].jobs.len()
    }

    /// How many jobs of a customer the engine has taken.
    pub fn enqueued(&self, customer: usize) -> u64 {
        self.customers[customer].enqueued.load(Ordering::Relaxed)
    }

    /// How many settlements of a customer's jobs have counted.
    pub fn done(&self, customer: usize) -> u64 {
        self.customers[customer].done.load(Ordering::Relaxed)
    }

    /// Whether every job of every customer is done.
    pub fn is_finished(&self) -> bool {
        (0..self.customers()).all(|customer| self.done(customer) >= self.size(customer) as u64)
    }

    /// Resolves at the next change; made before looking, so that none is missed.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// A customer's jobs, in the order they were enqueued.
    pub fn histories(&self, customer: usize) -> &[History] {
        &self.customers[customer].jobs
    }

    /// What happened that should not have, to no job in particular.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// The engine has taken a job.
    pub fn note_enqueued(&self, customer: usize, index: usize, sent_us: u64) {
        self.customers[customer].jobs[index].enqueued_us.store(sent_us, Ordering::Relaxed);
        self.customers[customer].enqueued.fetch_add(1, Ordering::Relaxed);
    }

    /// A handler runs it.
    pub fn note_started(&self, job: &JobRef) {
        match self.find(job) {
            Some((_, history)) => {
                history.executions.fetch_add(1, Ordering::Relaxed);
                history.started_us.store(self.now_us(), Ordering::Relaxed);
            }
            None => self.note_stray(),
        }
    }

    /// The engine has answered its settlement.
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

    /// By the number that ends its id.
    fn find(&self, job: &JobRef) -> Option<(&Customer, &History)> {
        let customer = self.customers.iter().find(|customer| customer.group == job.group)?;
        let (_, index) = job.id.escaped().rsplit_once('-')?;
        Some((customer, customer.jobs.get(index.parse::<usize>().ok()?)?))
    }
}
