//! The leases of a client, renewed by a thread of their own: an application that blocks its runtime
//! does not delay renewals.
//!
//! A lease lies in a table until its first renewal is due; then a task of the thread takes it and
//! keeps it. A guard that is released before takes its lease out of the table instead. Invariant: one
//! side owns a lease at a time, the table, the task or the guard, so no renewal crosses a release.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use fairlane_engine::{Engine, EngineError, attach};
use tokio::sync::{Notify, OnceCell};
use tokio::time::{Instant, sleep_until};

use super::lease::Lease;

/// The leases of one client, and the engine that the thread renews them with.
pub(super) struct Renewals {
    shared: Arc<dyn Engine>,
    /// The kind of engine. It is read once, because each read copies all information about the
    /// engine.
    name: &'static str,
    /// Where to connect a second time, because a connection belongs to the runtime in which it was
    /// opened; `None` for an engine in this process.
    address: Option<String>,
    own: OnceCell<Arc<dyn Engine>>,
    table: Mutex<Table>,
    /// Notifies the thread that a lease is due before its next check.
    is_due_earlier: Notify,
}

#[derive(Default)]
struct Table {
    /// The leases by the time of their first renewal, and a number that makes the key unique.
    leases: BTreeMap<Ticket, Lease>,
    numbers: u64,
    /// The time of the thread's next check.
    looks_at: Option<Instant>,
}

/// The key of a lease in the table.
pub(super) type Ticket = (Instant, u64);

impl Renewals {
    pub fn new(shared: Arc<dyn Engine>, address: Option<String>) -> Self {
        let name = shared.name();
        let address = address.filter(|_| name != "embedded");
        let (own, table, is_due_earlier) = (OnceCell::new(), Mutex::default(), Notify::new());
        Self { shared, name, address, own, table, is_due_earlier }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The engine of the thread.
    pub async fn engine(&self) -> Result<&Arc<dyn Engine>, EngineError> {
        match &self.address {
            Some(address) => self.own.get_or_try_init(|| attach(address)).await,
            None => Ok(&self.shared),
        }
    }

    /// Adds a lease whose first renewal is due at this time.
    pub fn add(&self, due: Instant, lease: Lease) -> Ticket {
        let mut table = self.table();
        table.numbers += 1;
        let ticket = (due, table.numbers);
        table.leases.insert(ticket, lease);
        if table.looks_at.is_none_or(|at| due < at) {
            table.looks_at = Some(due);
            self.is_due_earlier.notify_one();
        }
        ticket
    }

    /// Takes a lease back, unless its first renewal was due.
    pub fn remove(&self, ticket: &Ticket) -> Option<Lease> {
        self.table().leases.remove(ticket)
    }

    /// Waits until leases are due, and takes them.
    pub async fn due(&self) -> Vec<Lease> {
        loop {
            let looks_at = {
                let mut table = self.table();
                let now = Instant::now();
                let mut due = Vec::new();
                while let Some(first) = table.leases.first_entry()
                    && first.key().0 <= now
                {
                    due.push(first.remove());
                }
                if !due.is_empty() {
                    return due;
                }
                table.looks_at = table.leases.first_key_value().map(|(ticket, _)| ticket.0);
                table.looks_at
            };
            let sleep = async {
                match looks_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => {}
                () = self.is_due_earlier.notified() => {}
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no code panics while it holds this lock")
    }
}
