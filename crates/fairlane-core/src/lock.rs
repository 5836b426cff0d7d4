//! Locks: mutual exclusion, read-write locks and semaphores by name, with a lease and a fence for
//! every holder.
//!
//! - `lock/name.rs`: names of locks. `lock/state.rs`: one lock with its holders, claims and waiters.
//! - `lock/grant.rs`: which waiter is next, and whether a newcomer may take the lock.
//! - `lock/view.rs`: the views of a lock. `lock/rows.rs`: its rows in a store.
//! - `lock/ops/`: the operations.
//!
//! A waiter belongs to a process, and a process keeps all its waiters alive with one command
//! ([`AttendLocks`]). When a lock becomes free, the machine passes it to the first waiter whose process
//! is alive and signals that process. An exclusive lock is granted to it for one slice, and the signal has
//! the fence. If the process has not attended lately, or the lock cannot be granted for a slice, it is
//! reserved instead (a claim): the waiter acquires it by repeating its command, unless a newcomer takes
//! it. Invariant: after every command, holders and claims together fit
//! the lock, and no capacity is free while a waiter whose process is alive would fit. Fences grow
//! strictly over all locks. Left out on purpose: renewal and waiting, which need a clock of their own; waiters are not
//! stored, because they register again after a restart.

mod dump;
mod grant;
mod invariants;
mod name;
mod ops;
mod rows;
mod state;
mod view;

pub use name::LockName;
pub use ops::*;
pub use state::{LockKind, LockMode};
pub use view::{Blocked, HolderView, LockView};

use std::collections::{BTreeMap, BTreeSet};

use crate::hashing::{HashSeed, KeyedMap};
use crate::kernel::{self, Context, Dump, Operation, Signal};
use crate::limits::{LOCK_GRANT_ALIVE_MS, LOCK_SLICE_MS};
use crate::names::{LockToken, ProcessId};
use crate::numbers::{Fence, Micros};
use state::Lock;

/// The state of all locks of one partition.
#[derive(Debug)]
pub struct Machine {
    now: Micros,
    /// The fence that was issued last.
    fence: Fence,
    locks: BTreeMap<LockName, Lock>,
    /// The next time at which each lock changes by itself.
    deadlines: BTreeSet<(Micros, LockName)>,
    /// The time until which each process with waiters counts as alive.
    processes: KeyedMap<ProcessId, Micros>,
    /// The processes by the time until which they count as alive.
    processes_until: BTreeSet<(Micros, ProcessId)>,
    /// By process, its waiters that a lock is reserved for, and those that were granted a lock and
    /// have not renewed it yet.
    claims: KeyedMap<ProcessId, BTreeSet<(LockName, LockToken)>>,
    waiters: u64,
    /// Leases that have run out since the last sweep.
    expired: u64,
    /// The count of `expired` in the store.
    expired_stored: u64,
    signals: Vec<Signal>,
    /// Locks that a store has to write; `None` before recording is enabled.
    touched: Option<BTreeSet<LockName>>,
}

impl Machine {
    fn empty(hash_seed: HashSeed) -> Self {
        Self {
            now: Micros::default(),
            fence: Fence::default(),
            locks: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            processes: KeyedMap::with_hasher(hash_seed),
            processes_until: BTreeSet::new(),
            claims: KeyedMap::with_hasher(hash_seed),
            waiters: 0,
            expired: 0,
            expired_stored: 0,
            signals: Vec::new(),
            touched: None,
        }
    }

    /// Applies one operation, which must have passed [`Operation::validate`].
    pub fn call<O: Operation<Machine = Self>>(&mut self, operation: O, now: Micros) -> O::Reply {
        self.now = now;
        operation.apply(self, &mut Context { now })
    }

    fn touch(&mut self, name: &LockName) {
        if let Some(touched) = &mut self.touched {
            touched.insert(name.clone());
        }
    }

    /// A fence that was never issued before, for any lock: `max(previous + 1, now in µs)`. Locks
    /// can therefore be forgotten as soon as they are free.
    fn next_fence(&mut self, now: Micros) -> Fence {
        self.fence = Fence((self.fence.0 + 1).max(now.0));
        self.fence
    }

    /// Keeps the waiters of a process alive for one slice.
    fn attend(&mut self, process: &ProcessId, now: Micros) {
        let until = now.plus_ms(LOCK_SLICE_MS);
        if let Some(before) = self.processes.insert(process.clone(), until) {
            self.processes_until.remove(&(before, process.clone()));
        }
        self.processes_until.insert((until, process.clone()));
    }

    fn is_alive(&self, process: &ProcessId, now: Micros) -> bool {
        self.processes.get(process).is_some_and(|until| *until > now)
    }

    /// Whether a process has attended so recently that it is very probably alive.
    fn is_attentive(&self, process: &ProcessId, now: Micros) -> bool {
        let least = now.plus_ms(LOCK_GRANT_ALIVE_MS);
        self.processes.get(process).is_some_and(|until| *until >= least)
    }

    /// Forgets up to `most` processes that no longer count as alive.
    fn forget_processes(&mut self, most: usize, now: Micros) -> usize {
        let mut forgotten = 0;
        while forgotten < most
            && let Some((until, process)) = self.processes_until.first().cloned()
            && until <= now
        {
            self.processes_until.pop_first();
            self.processes.remove(&process);
            forgotten += 1;
        }
        forgotten
    }
}

impl kernel::Machine for Machine {
    type Command = Command;
    type Reply = Reply;

    fn new(hash_seed: HashSeed, now: Micros) -> Self {
        Self { now, ..Self::empty(hash_seed) }
    }

    fn apply(&mut self, command: Command, now: Micros) -> Reply {
        self.now = now;
        command.apply(self, &mut Context { now })
    }

    fn last_time(&self) -> Micros {
        self.now
    }

    fn check(&self) -> Result<(), String> {
        self.check()
    }

    fn dump(&self, now: Micros, dump: &mut Dump) {
        self.dump(now, dump);
    }

    fn take_signals(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.signals)
    }
}
