//! The engine inside this process: the core's machine, owned by one thread.
//!
//! Callers send requests over a channel. Each turn of the owner applies all queued requests, makes
//! their changes durable and then replies. A caller has one request in progress at a time, which
//! bounds the channel. Invariant: every call ends. Once the owner has stopped for any reason,
//! callers get [`EngineError::Broken`].
//!
//! - `embedded/owner.rs`: the thread.
//! - `embedded/persistence.rs`: what happens to the changes of a turn.
//! - `embedded/directory.rs`: opens a data directory. `embedded/disk.rs`: its contents (feature
//!   `sqlite`).

#[cfg(feature = "sqlite")]
mod directory;
#[cfg(feature = "sqlite")]
pub mod disk;
mod owner;
mod persistence;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fairlane_core::kernel::Dump;
use fairlane_core::limits::AUDIT_SUSPECTS_MAX;
use fairlane_core::queue::{self, Settings, Suspect};
use fairlane_core::{Command, HashSeed, Machines, Micros, ProcessId, Reply, TypeId};
use tokio::sync::{Semaphore, mpsc as pages, oneshot, watch};

use crate::audit::ScanPage;
use crate::clock::Clock;
use crate::engine::{Admin, BoxFuture, Engine, EngineError, EngineInfo, Space};
use crate::observe::Meters;
use crate::signals::Signals;
use crate::waiters::{Submission, Then, WaiterId, Waiting};
#[cfg(feature = "sqlite")]
pub use directory::DirectoryOptions;
use owner::{Owner, Request};
use persistence::{InMemory, Persistence};

/// The name of this engine.
const NAME: &str = "embedded";

/// Payload bytes from which on a command counts as large.
const LARGE_BYTES: usize = 64 * 1024;

/// A clock that is ahead loses one in this many microseconds until it has been caught up with.
const SLEW_DIVISOR: u64 = 100;

/// When a change is written to disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before the reply.
    #[default]
    Commit,
    /// At most one second after the reply.
    Interval,
    /// Never; nothing is read from disk either.
    Memory,
}

/// A string that is not the name of a durability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a durability; the durabilities are commit, interval and memory")]
pub struct UnknownDurability(String);

impl FromStr for Durability {
    type Err = UnknownDurability;
    fn from_str(word: &str) -> Result<Self, UnknownDurability> {
        match word {
            "commit" => Ok(Self::Commit),
            "interval" => Ok(Self::Interval),
            "memory" => Ok(Self::Memory),
            _ => Err(UnknownDurability(word.to_owned())),
        }
    }
}

/// A queue in this process. Dropping it stops its thread.
#[derive(Debug)]
pub struct EmbeddedEngine {
    requests: Option<mpsc::Sender<Request>>,
    owner: Option<JoinHandle<()>>,
    /// Why the owner cannot continue; closed when its thread has ended.
    loss: watch::Receiver<Option<EngineError>>,
    clock: OwnClock,
    /// The data directory, if there is one.
    folder: Option<PathBuf>,
    /// Large commands reach the owner one at a time, so that a small one waits for at most one write
    /// of a large one.
    large: Semaphore,
    meters: Meters,
}

impl EmbeddedEngine {
    /// An empty queue in memory with these settings.
    pub fn new(settings: Settings, clock: Clock) -> Result<Self, EngineError> {
        Self::start(
            new_machines(settings, clock.now()),
            Box::new(InMemory),
            OwnClock::new(clock, Micros(0)),
            None,
        )
    }

    fn start(
        machines: Machines,
        persistence: Box<dyn Persistence>,
        clock: OwnClock,
        folder: Option<PathBuf>,
    ) -> Result<Self, EngineError> {
        let (requests, queued) = mpsc::channel();
        let (lost, loss) = watch::channel(None);
        let owner = Owner { machines, persistence, clock: clock.clone(), lost };
        let owner = std::thread::Builder::new()
            .name("fairlane-owner".into())
            .spawn(move || owner.run(&queued))
            .map_err(|error| {
                EngineError::refused(format!("no thread for the embedded engine: {error}; raise ulimit -u"))
            })?;
        let meters = Meters::new(NAME);
        let large = Semaphore::new(1);
        Ok(Self { requests: Some(requests), owner: Some(owner), loss, clock, folder, large, meters })
    }

    /// Records in the data directory where this process can be reached, for processes that find the
    /// directory in use.
    pub async fn announce(&self, address: impl Into<String>) -> Result<(), EngineError> {
        let (reply, replied) = oneshot::channel();
        self.send(Request::Announce { address: address.into(), reply })?;
        replied.await.map_err(|_| stopped())?
    }

    /// The state of the queue, for comparison in tests.
    pub async fn dump(&self) -> Result<Dump, EngineError> {
        self.read(|machines, now| machines.dump(now)).await
    }

    /// Recounts the state of the queue in tests; the inner error describes the first mismatch.
    pub async fn check(&self) -> Result<Result<(), String>, EngineError> {
        self.read(|machines, _| machines.check()).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Machines, Micros) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Read(Box::new(move |machines, now| {
            // The caller may have been dropped.
            let _ = answer.send(read(machines, now));
        })))?;
        answered.await.map_err(|_| stopped())
    }

    fn sender(&self) -> &mpsc::Sender<Request> {
        self.requests.as_ref().expect("the sender exists until drop")
    }

    fn send(&self, request: Request) -> Result<(), EngineError> {
        self.sender().send(request).map_err(|_| stopped())
    }
}

/// Empty machines, with these settings of the queue.
fn new_machines(settings: Settings, now: Micros) -> Machines {
    let hash_seed = random_hash_seed();
    let mut machines = Machines::new(hash_seed, now);
    machines.queue = queue::Machine::new(settings, hash_seed, now);
    machines
}

/// A seed that is unknown outside this process, derived from the keys that the standard library
/// draws from the operating system.
fn random_hash_seed() -> HashSeed {
    let keys = RandomState::new();
    let both = (u128::from(keys.hash_one(0)) << 64) | u128::from(keys.hash_one(1));
    HashSeed::new(both.to_le_bytes())
}

/// The engine's own clock. If the clock of this machine is behind the last stored time, it
/// continues from the stored time and runs 1 % slower until this machine has caught up. It
/// therefore never steps back: waiting jobs keep their times, rates stay above 99 %, and a
/// difference of one hour is made up in 100 hours.
#[derive(Debug, Clone)]
struct OwnClock {
    clock: Clock,
    opened: Micros,
    ahead_us: u64,
}

impl OwnClock {
    fn new(clock: Clock, stored: Micros) -> Self {
        let opened = clock.now();
        Self { clock, opened, ahead_us: stored.since(opened) }
    }

    fn now(&self) -> Micros {
        let now = self.clock.now();
        now.plus_us(self.ahead_at(now))
    }

    fn ahead_us(&self) -> u64 {
        self.ahead_at(self.clock.now())
    }

    fn ahead_at(&self, now: Micros) -> u64 {
        self.ahead_us.saturating_sub(now.since(self.opened) / SLEW_DIVISOR)
    }

    /// A warning for operators, if the clocks differ by more than a second.
    fn warning(&self) -> Option<String> {
        let ahead_s = self.ahead_us() / 1_000_000;
        (ahead_s > 1).then(|| {
            format!(
                "the clock of this queue is {ahead_s} s ahead of this machine's, which it once followed; times that \
                 are shown lie ahead by as much, delays and rates hold, and it is made up for within {} h",
                (ahead_s * SLEW_DIVISOR).div_ceil(3600)
            )
        })
    }
}

fn stopped() -> EngineError {
    EngineError::broken("the embedded engine has stopped; open a new one")
}

impl Engine for EmbeddedEngine {
    fn info(&self) -> EngineInfo {
        EngineInfo { name: NAME, warnings: self.clock.warning().into_iter().collect() }
    }

    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        let running = self.meters.begin(&command);
        Box::pin(running.until(async move {
            command.validate()?;
            let _turn = match command.weight().bytes {
                0..LARGE_BYTES => None,
                _ => Some(self.large.acquire().await.expect("the semaphore is never closed")),
            };
            let (reply, replied) = oneshot::channel();
            self.send(Request::Submit(Submission { command, reply }))?;
            replied.await.map_err(|_| stopped())?
        }))
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(self.meters.waiting(async move {
            let waiter = WaiterId::next();
            let (woken, token) = oneshot::channel();
            self.send(Request::Wait { waiter, types: types.to_vec(), then: Then::Wake(woken) })?;
            let leave = |late| {
                // An owner that has stopped needs no tokens.
                let _ = self.send(Request::Leave { waiter, late });
            };
            Ok(Waiting::new(token, leave).at_most(at_most).await?.is_some())
        }))
    }

    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Result<Reply, EngineError>> {
        Box::pin(async move {
            command.validate()?;
            let running = self.meters.begin(&command);
            let waiter = WaiterId::next();
            let (reply, replied) = oneshot::channel();
            let then = Then::Submit(Submission { command: command.clone(), reply });
            self.send(Request::Wait { waiter, types: types.to_vec(), then })?;
            let leave = |_| {
                // A reply that arrives too late is lost; the command may be repeated.
                let _ = self.send(Request::Leave { waiter, late: None });
            };
            match Waiting::new(replied, leave).at_most(at_most).await.transpose() {
                Some(reply) => running.ended_wait(true, reply),
                None => {
                    self.meters.wait_ended(false);
                    self.submit(command).await
                }
            }
        })
    }

    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>> {
        Box::pin(async move {
            let (reply, replied) = oneshot::channel();
            self.send(Request::Subscribe { process: process.clone(), reply })?;
            replied.await.map_err(|_| stopped())
        })
    }

    fn admin(&self) -> &dyn Admin {
        self
    }
}

impl Admin for EmbeddedEngine {
    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        #[cfg(feature = "sqlite")]
        return Box::pin(self.directory_space());
        #[cfg(not(feature = "sqlite"))]
        Box::pin(std::future::ready(Ok(None)))
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            let (reply, replied) = oneshot::channel();
            self.send(Request::CheckWrites { reply })?;
            replied.await.map_err(|_| stopped())?
        })
    }

    fn lost(&self) -> BoxFuture<'_, EngineError> {
        Box::pin(async {
            let mut loss = self.loss.clone();
            let lost = loss.wait_for(Option::is_some).await;
            lost.ok().and_then(|error| error.clone()).unwrap_or_else(stopped)
        })
    }

    fn announce(&self, address: String) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(Self::announce(self, address))
    }

    fn scan(&self, pages: pages::Sender<ScanPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let suspects = self.read(|machines, _| machines.queue.suspects()).await?;
            let is_group = |suspect: &&Suspect| matches!(suspect, Suspect::Group(_));
            let groups = suspects.iter().filter(is_group).count() as u64;
            let mut groups_scanned = 0;
            for page in suspects.chunks(AUDIT_SUSPECTS_MAX) {
                groups_scanned += page.iter().filter(is_group).count() as u64;
                // A receiver that was dropped reports its own failure.
                let _ = pages.send(ScanPage { suspects: page.to_vec(), groups_scanned, groups }).await;
            }
            Ok(())
        })
    }
}

impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(owner) = self.owner.take() {
            // A panic of the owner was printed, and every caller has got an error.
            let _ = owner.join();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
