//! Locks: mutual exclusion, read-write locks and semaphores by name.
//!
//! - `lock/client.rs`: what the locks of a handle share. `lock/waiters.rs`: its waiters and their
//!   subscription. `lock/renewals.rs`: its leases, and the thread that renews them.
//! - `lock/acquisition.rs`: one acquisition, until it is held or given up; `lock/timer.rs`: when a
//!   lease of another holder ends. `lock/lease.rs`: one lease; `lock/release.rs`: its release.
//! - `lock/guard.rs`: the guard of a holder; `lock/deadline.rs`: points in time that also pass
//!   while the machine is suspended. `lock/reentry.rs`: locks that a task holds.
//! - `lock/fencing.rs`: how a resource refuses a holder that has lost its lock.
//! - `lock/error.rs`: errors, which name the holder.
//!
//! Invariant: one task at a time sends the requests of an acquisition, one after the other, so that
//! no renewal crosses a release. Left out on purpose: the choice of the next holder, which the
//! engine makes.

mod acquisition;
mod client;
mod deadline;
mod error;
pub mod fencing;
mod guard;
mod lease;
mod reentry;
mod release;
mod renewals;
#[cfg(test)]
mod tests;
mod timer;
mod waiters;

pub(crate) use client::LockClient;
pub use error::{LockError, LockLost, LossReason};
pub use guard::{DetachedLock, LockGuard, LockHold};

use std::fmt::Display;
use std::sync::OnceLock;
use std::time::Duration;

use fairlane_core::lock::{
    AcquireLock, BreakLock, HeldLock, InspectLock, ListLocks, LockMode, LockName, LockReleased, LockRenewal,
    LockView, LocksListed, ReleaseLock, RenewLocks,
};
use fairlane_core::{Fence, GroupId, HolderName, LockToken};
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::Error;
use crate::fairlane::{Fairlane, broken};
use acquisition::Acquisition;

/// A longer wait than any; the clock has points in time only so far ahead.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How a lock is acquired and held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockOptions {
    /// Whether to be the only holder (the default), a reader, a writer, or one of several.
    pub mode: LockMode,
    /// How long the lock stays held after its holder has died; 5 s by default. A living holder
    /// renews it three times in this time.
    pub ttl: Duration,
    /// How long to wait for a wake-up before the lock is tried again; 1 s by default.
    pub wait: Duration,
    /// How long to wait in all; 10 s by default.
    pub max_wait: Duration,
    /// Whether to keep to the order of the waiters: not to take a lock that is reserved for another
    /// waiter, and not to lose a reserved lock to a newcomer. By default a newcomer may take a
    /// reserved lock; a waiter loses it three times at most. An exclusive lock is reserved only for
    /// a waiter whose process responds late, or that asked for a ttl or `max_hold` below a second;
    /// others are granted it directly.
    pub fair: bool,
    /// How long no caller can acquire the lock after this holder has died, so that its last
    /// requests have ended before the next holder begins; zero by default.
    pub lock_delay: Duration,
    /// The longest time to hold the lock, including renewals; unlimited by default.
    pub max_hold: Option<Duration>,
    /// The name of the holder in errors and views; host, program and process id by default.
    pub holder: Option<String>,
    /// Whether [`Lock::with`] lets the work go on after the lock was lost, instead of cancelling it.
    pub continue_when_lost: bool,
    /// The token of the acquisition; random by default. Repeating an acquisition with the same token
    /// returns the same hold.
    pub token: Option<String>,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            mode: LockMode::Exclusive,
            ttl: Duration::from_secs(5),
            wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(10),
            fair: false,
            lock_delay: Duration::ZERO,
            max_hold: None,
            holder: None,
            continue_when_lost: false,
            token: None,
        }
    }
}

/// A handle to a lock, made with [`Fairlane::lock`].
///
/// A lock is a lease: it passes on when its holder has died or was cut off. A holder that does not
/// notice this in time, for instance because its process was suspended, then works at the same time
/// as the next holder. Let the resource check the [fence](LockHold::fence) where that matters; see
/// [`fencing`]. Without a checked fence a lock is advisory.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// let fairlane = fairlane::Fairlane::open("memory:").await?;
/// let lock = fairlane.lock("coupon:issue:42");
/// let issued = lock.with(|hold| async move { format!("issued under fence {}", hold.fence()) }).await?;
/// assert!(issued.starts_with("issued"));
///
/// let guard = fairlane.lock("coupon:issue:42").try_lock().await?;
/// let busy = fairlane.lock("coupon:issue:42").try_lock().await.unwrap_err();
/// assert!(busy.to_string().contains("held by"));
/// assert!(guard.release().await?, "it was held until now");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lock {
    fairlane: Fairlane,
    name: String,
    options: LockOptions,
}

impl Lock {
    pub(crate) fn new(fairlane: Fairlane, name: String) -> Self {
        Self { fairlane, name, options: LockOptions::default() }
    }

    /// Replaces all options.
    pub fn options(self, options: LockOptions) -> Self {
        Self { options, ..self }
    }

    /// Acquires the lock to read, together with other readers.
    pub fn read(self) -> Self {
        self.mode(LockMode::Read)
    }

    /// Acquires the lock to write, to the exclusion of readers and other writers.
    pub fn write(self) -> Self {
        self.mode(LockMode::Write)
    }

    /// Acquires one permit of a semaphore with this many.
    pub fn semaphore(self, permits: u32) -> Self {
        self.mode(LockMode::Permit { of: permits })
    }

    /// Sets how the lock is held.
    pub fn mode(mut self, mode: LockMode) -> Self {
        self.options.mode = mode;
        self
    }

    /// Sets how long the lock stays held after its holder has died.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// Sets how long to wait for the lock.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.options.max_wait = max_wait;
        self
    }

    /// Leaves a lock that has become free to the waiter that is next.
    pub fn fair(mut self) -> Self {
        self.options.fair = true;
        self
    }

    /// Acquires the lock, runs the work and releases the lock. The work is cancelled when the lock
    /// is lost ([`LockError::Lost`]), at its next `await`; its effects until then remain.
    ///
    /// Acquiring the same lock within the work fails at once ([`LockError::Reentered`]), because
    /// the work would wait for itself.
    pub async fn with<T, W, F>(self, work: W) -> Result<T, Error>
    where
        W: FnOnce(LockHold) -> F,
        F: Future<Output = T>,
    {
        let continues = self.options.continue_when_lost;
        let guard = self.lock().await?;
        let hold = guard.hold().clone();
        let work = reentry::within(&hold, async { work(hold.clone()).await });
        if continues {
            let output = work.await;
            // The work gets a loss from the hold. If the release fails, the ttl ends the hold.
            let _ = guard.release().await;
            return Ok(output);
        }
        let output = tokio::select! {
            biased;
            lost = hold.lost() => return Err(LockError::Lost(lost).into()),
            output = work => output,
        };
        match guard.release().await {
            Ok(false) => Err(LockError::Lost(hold.taken_away()).into()),
            // The lock was held until the work ended. If the release failed, it passes on after its
            // ttl.
            Ok(true) | Err(_) => Ok(output),
        }
    }

    /// Acquires the lock, and waits for it as long as [`LockOptions::max_wait`] allows
    /// ([`LockError::WaitTimeout`]).
    ///
    /// Dropping the future gives up the place among the waiters, or the lock if it was just
    /// granted.
    pub async fn lock(&self) -> Result<LockGuard, Error> {
        self.lock_until(Instant::now() + self.options.max_wait.min(FOREVER)).await
    }

    /// As [`lock`](Self::lock), until a point in time.
    pub async fn lock_until(&self, deadline: impl Into<Instant>) -> Result<LockGuard, Error> {
        self.acquire(Some(deadline.into())).await
    }

    /// Acquires the lock if it is free; otherwise the error is [`LockError::Busy`] and names the
    /// holder.
    pub async fn try_lock(&self) -> Result<LockGuard, Error> {
        self.acquire(None).await
    }

    async fn acquire(&self, until: Option<Instant>) -> Result<LockGuard, Error> {
        let client = self.fairlane.lock_client()?;
        let command = self.command(client)?;
        reentry::check(&command)?;
        client.acquire(Acquisition::new(command, self.options.wait, until)).await
    }

    fn command(&self, client: &LockClient) -> Result<AcquireLock, Error> {
        let options = &self.options;
        let holder = options.holder.as_deref().unwrap_or_else(|| default_holder());
        let token = options.token.clone().unwrap_or_else(random);
        Ok(AcquireLock {
            name: self.name()?,
            token: LockToken::new(token)?,
            process: client.process().clone(),
            holder: HolderName::new(holder)?,
            mode: options.mode,
            ttl_ms: milliseconds(options.ttl),
            wait: false,
            fair: options.fair,
            lock_delay_ms: milliseconds(options.lock_delay),
            max_hold_ms: options.max_hold.map(milliseconds),
        })
    }

    fn name(&self) -> Result<LockName, Error> {
        Ok(LockName::new(&self.name)?)
    }

    /// The state of the lock; `None` if it has no holders and no waiters.
    pub async fn view(&self) -> Result<Option<LockView>, Error> {
        Ok(self.fairlane.engine().call(InspectLock { name: self.name()? }).await?.0)
    }

    /// Takes the lock away from all its holders, or from the one with this fence, and returns their
    /// number. For operators: a holder finds out at its next renewal, and is stopped earlier only
    /// by a resource that checks its fence.
    pub async fn break_holders(&self, fence: Option<Fence>) -> Result<u64, Error> {
        Ok(self.fairlane.engine().call(BreakLock { name: self.name()?, fence }).await?.holders)
    }

    /// Renews a [detached](LockGuard::detach) lock, and returns how long it is held; `None` if it is
    /// not held any more.
    pub async fn renew_token(&self, token: impl Display) -> Result<Option<Duration>, Error> {
        let token = LockToken::new(token.to_string())?;
        let lock = HeldLock { name: self.name()?, token, ttl_ms: milliseconds(self.options.ttl) };
        let renewed = self.fairlane.engine().call(RenewLocks { locks: vec![lock] }).await?;
        match renewed.renewals.first() {
            Some(LockRenewal::Renewed { remaining_us }) => Ok(Some(Duration::from_micros(*remaining_us))),
            Some(LockRenewal::Lost) => Ok(None),
            None => Err(broken("the reply to renew_locks is empty")),
        }
    }

    /// Releases a [detached](LockGuard::detach) lock, or gives up its place among the waiters.
    pub async fn release_token(&self, token: impl Display) -> Result<LockReleased, Error> {
        let token = LockToken::new(token.to_string())?;
        Ok(self.fairlane.engine().call(ReleaseLock { name: self.name()?, token }).await?)
    }
}

impl Fairlane {
    /// A handle to a lock: to acquire it, to inspect it, to break it.
    pub fn lock(&self, name: impl Display) -> Lock {
        Lock::new(self.clone(), name.to_string())
    }

    /// Runs the work while it holds a lock; see [`Lock::with`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), fairlane::Error> {
    /// # let fairlane = fairlane::Fairlane::open("memory:").await?;
    /// use fairlane::LockOptions;
    /// use std::time::Duration;
    ///
    /// let options = LockOptions { ttl: Duration::from_secs(30), ..LockOptions::default() };
    /// fairlane.with_lock("report", options, |_| async { /* one process at a time */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with_lock<T, W, F>(
        &self,
        name: impl Display,
        options: LockOptions,
        work: W,
    ) -> Result<T, Error>
    where
        W: FnOnce(LockHold) -> F,
        F: Future<Output = T>,
    {
        self.lock(name).options(options).with(work).await
    }

    /// A page of locks that have holders or waiters, ordered by name: at most `limit` (up to 500)
    /// after `after`, of one group or of all.
    pub async fn locks(
        &self,
        group: Option<GroupId>,
        after: Option<LockName>,
        limit: usize,
    ) -> Result<LocksListed, Error> {
        Ok(self.engine().call(ListLocks { group, after, locks_max: limit }).await?)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn random() -> String {
    Uuid::now_v7().simple().to_string()
}

/// The name of this process: `host:program:4711`.
fn default_holder() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_stem()).unwrap_or_default();
        let parts = [host, program.to_string_lossy().into_owned()];
        // A name has at most 128 bytes.
        let parts =
            parts.map(|part| part.chars().filter(char::is_ascii_graphic).take(50).collect::<String>());
        format!("{}:{}:{}", parts[0], parts[1], std::process::id())
    })
}
