//! Methods for locks. Unless a case says otherwise, it acquires the lock `seat:1` exclusively, for
//! five seconds, and waits; the process of an acquisition has the name of its token.

use fairlane_core::kernel::Signal;
use fairlane_core::limits::LOCK_SLICE_MS;
use fairlane_core::lock::*;
use fairlane_core::{Fence, HolderName, LockToken, ProcessId};
use fairlane_engine::Signals;

use super::{SILENCE, Subject, WAKE_LIMIT};

/// How long locks are held unless a case says otherwise.
pub const TTL_MS: u64 = 5000;

impl Subject {
    /// Acquires a lock.
    pub async fn acquire(&self, command: AcquireLock) -> LockAcquired {
        self.engine.call(command).await.expect("acquire_lock is answered")
    }

    /// Acquires a lock that must be available, and returns its fence.
    pub async fn locked(&self, command: AcquireLock) -> Fence {
        match self.acquire(command).await {
            LockAcquired::Held { fence, .. } => fence,
            other => panic!("not held: {other:?}"),
        }
    }

    /// Joins the waiters, and returns the position and why the lock is not free.
    pub async fn queue_up(&self, command: AcquireLock) -> (u64, Blocked) {
        match self.acquire(command).await {
            LockAcquired::Waiting { position, blocked } => (position, blocked),
            other => panic!("not waiting: {other:?}"),
        }
    }

    /// Whether the lock was acquired without waiting.
    pub async fn is_had(&self, command: AcquireLock) -> bool {
        matches!(self.acquire(AcquireLock { wait: false, ..command }).await, LockAcquired::Held { .. })
    }

    /// Releases the lock `seat:1`.
    pub async fn release(&self, token: &str) -> LockReleased {
        self.release_of("seat:1", token).await
    }

    /// Releases a lock.
    pub async fn release_of(&self, name: &str, token: &str) -> LockReleased {
        let command = ReleaseLock { name: lock_name(name), token: lock_token(token) };
        self.engine.call(command).await.expect("release_lock is answered")
    }

    /// Renews the lock `seat:1`.
    pub async fn renew(&self, token: &str, ttl_ms: u64) -> LockRenewal {
        let held = HeldLock { name: lock_name("seat:1"), token: lock_token(token), ttl_ms };
        self.engine.call(RenewLocks { locks: vec![held] }).await.expect("renew_locks is answered").renewals[0]
    }

    /// Keeps the waiters of a process alive, and returns the tokens that locks are reserved for.
    pub async fn attend(&self, process: &str) -> Vec<String> {
        let command = AttendLocks { process: process_id(process) };
        let attended = self.engine.call(command).await.expect("attend_locks is answered");
        attended.claims.into_iter().map(|claim| claim.token.to_string()).collect()
    }

    /// Brings locks up to date.
    pub async fn sweep_locks(&self) -> LocksSwept {
        self.engine.call(SweepLocks { locks_max: 100 }).await.expect("sweep_locks is answered")
    }

    /// A lock, if it is in use.
    pub async fn find_lock(&self, name: &str) -> Option<LockView> {
        let command = InspectLock { name: lock_name(name) };
        self.engine.call(command).await.expect("inspect_lock is answered").0
    }

    /// The lock `seat:1`, which is in use.
    pub async fn lock(&self) -> LockView {
        self.find_lock("seat:1").await.expect("the lock is in use")
    }

    /// Subscribes to the signals of a process.
    pub async fn subscribe(&self, process: &str) -> Signals {
        self.engine.subscribe(&process_id(process)).await.expect("the subscription is confirmed")
    }
}

/// The next signal, which must arrive.
pub async fn next_signal(signals: &mut Signals) -> Signal {
    let signal = tokio::time::timeout(WAKE_LIMIT, signals.next()).await.expect("a signal arrives");
    signal.expect("the subscription lasts")
}

/// The tokens of the next signals, which must arrive.
pub async fn signalled(signals: &mut Signals, count: usize) -> Vec<String> {
    let mut tokens = Vec::new();
    for _ in 0..count {
        tokens.push(next_signal(signals).await.waiter.to_string());
    }
    tokens
}

/// Whether no signal arrives.
pub async fn is_unsignalled(signals: &mut Signals) -> bool {
    tokio::time::timeout(SILENCE, signals.next()).await.is_err()
}

/// The name of a lock.
pub fn lock_name(name: &str) -> LockName {
    LockName::new(name).expect("a valid lock name")
}

/// The token of an acquisition.
pub fn lock_token(token: &str) -> LockToken {
    LockToken::new(token).expect("a valid token")
}

/// A process id.
pub fn process_id(process: &str) -> ProcessId {
    ProcessId::new(process).expect("a valid process id")
}

/// An acquisition of `seat:1`.
pub fn exclusive(token: &str) -> AcquireLock {
    AcquireLock {
        name: lock_name("seat:1"),
        token: lock_token(token),
        process: process_id(token),
        holder: HolderName::new(format!("holder {token}")).expect("a valid holder"),
        mode: LockMode::Exclusive,
        ttl_ms: TTL_MS,
        wait: true,
        fair: false,
        lock_delay_ms: 0,
        max_hold_ms: None,
    }
}

/// An acquisition for less than a slice. It cannot be granted to a waiter, so the lock is reserved.
pub fn brief(token: &str) -> AcquireLock {
    AcquireLock { ttl_ms: LOCK_SLICE_MS - 1, ..exclusive(token) }
}

/// An acquisition of another lock.
pub fn exclusive_of(name: &str, token: &str) -> AcquireLock {
    AcquireLock { name: lock_name(name), ..exclusive(token) }
}

/// An acquisition that keeps to the order of the waiters.
pub fn fair(token: &str) -> AcquireLock {
    AcquireLock { fair: true, ..exclusive(token) }
}

/// An acquisition for reading.
pub fn reader(token: &str) -> AcquireLock {
    AcquireLock { mode: LockMode::Read, ..exclusive(token) }
}

/// An acquisition for writing.
pub fn writer(token: &str) -> AcquireLock {
    AcquireLock { mode: LockMode::Write, ..exclusive(token) }
}

/// An acquisition of a permit.
pub fn permit(of: u32, token: &str) -> AcquireLock {
    AcquireLock { mode: LockMode::Permit { of }, ..exclusive(token) }
}
