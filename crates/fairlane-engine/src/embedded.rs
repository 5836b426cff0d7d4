//! The engine inside this process: the core's machine, owned by one thread.
//!
//! Callers send requests over a channel. Each turn of the owner applies all queued requests, makes
//! their changes durable and then replies. A caller has one request in progress at a time, which
//! bounds the channel. Invariant: every call ends. Once the owner has stopped for any reason,
//! callers get [`EngineError::Broken`].
//!
//! - `embedded/owner.rs`: the thread.
//! - `embedded/disk.rs`: a data directory. `embedded/persistence.rs`: when changes are written to
//!   it, and what happens if they cannot be.

pub mod disk;
mod owner;
mod persistence;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fairlane_core::limits::AUDIT_SUSPECTS_MAX;
use fairlane_core::queue::{Dump, Machine, Settings, Suspect};
use fairlane_core::{Command, HashSeed, Micros, Reply, TypeId};
use tokio::sync::{mpsc as pages, oneshot, watch};

use crate::audit::ScanPage;
use crate::clock::Clock;
use crate::engine::{Admin, BoxFuture, Engine, EngineError, EngineInfo, Space};
use crate::observe::Meters;
use crate::waiters::{WaiterId, Waiting};
use disk::{Disk, DiskError, Loading};
use owner::{Owner, Request};
use persistence::Persistence;

/// The name of this engine.
const NAME: &str = "embedded";
/// Space reserved in a data directory, so that jobs can be drained when the disk is full.
const RESERVE_BYTES: u64 = 16 * 1024 * 1024;

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

/// Options for opening a data directory.
pub struct DirectoryOptions {
    /// When a change is written to disk.
    pub durability: Durability,
    /// The settings of a new queue; an existing queue keeps its own.
    pub settings: Settings,
    /// The source of time.
    pub clock: Clock,
    /// Whether writes wait for the disk; only tests turn it off.
    pub synced: bool,
    /// Bytes of disk space to reserve, so that jobs can still be leased and settled when
    /// the disk is full.
    pub reserve_bytes: u64,
    /// Called with the progress of loading, every 100,000 jobs.
    pub on_loading: Box<dyn FnMut(Loading) + Send>,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            settings: Settings::default(),
            clock: Clock::default(),
            synced: true,
            reserve_bytes: RESERVE_BYTES,
            on_loading: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for DirectoryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryOptions").field("durability", &self.durability).finish_non_exhaustive()
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
    folder: Option<PathBuf>,
    meters: Meters,
}

impl EmbeddedEngine {
    /// An empty queue in memory with these settings.
    pub fn new(settings: Settings, clock: Clock) -> Result<Self, EngineError> {
        let machine = Machine::new(settings, random_hash_seed(), clock.now());
        Self::start(machine, Persistence::Memory, OwnClock::new(clock, Micros(0)), None)
    }

    /// Opens the queue in a directory, which is created if it does not exist. Loads the complete
    /// state, which takes time for a large queue.
    pub fn open(folder: &Path, mut options: DirectoryOptions) -> Result<Self, EngineError> {
        if options.durability == Durability::Memory {
            return Self::new(options.settings, options.clock);
        }
        let sync = match options.durability {
            _ if !options.synced => disk::Sync::Never,
            Durability::Interval => disk::Sync::Soon,
            Durability::Commit | Durability::Memory => disk::Sync::Each,
        };
        let opened = Disk::open(folder, sync, options.reserve_bytes);
        let mut disk = opened.map_err(DiskError::at_opening)?;
        let machine = match disk.load(&mut options.on_loading).map_err(DiskError::at_opening)? {
            Some(mut machine) => {
                machine.release_aggregations();
                machine
            }
            None => first_machine(&mut disk, options.settings, options.clock.now())
                .map_err(DiskError::at_opening)?,
        };
        let clock = OwnClock::new(options.clock, machine.last_time());
        let persistence = Persistence::disk(disk, options.durability);
        Self::start(machine, persistence, clock, Some(folder.to_owned()))
    }

    fn start(
        machine: Machine,
        persistence: Persistence,
        clock: OwnClock,
        folder: Option<PathBuf>,
    ) -> Result<Self, EngineError> {
        let (requests, queued) = mpsc::channel();
        let (lost, loss) = watch::channel(None);
        let owner = Owner { machine, persistence, clock: clock.clone(), lost };
        let owner = std::thread::Builder::new()
            .name("fairlane-owner".into())
            .spawn(move || owner.run(&queued))
            .map_err(|error| EngineError::refused(format!("no thread for the embedded engine: {error}")))?;
        let meters = Meters::new(NAME);
        Ok(Self { requests: Some(requests), owner: Some(owner), loss, clock, folder, meters })
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
        self.read(|machine, now| machine.dump(now)).await
    }

    /// Recounts the state of the queue in tests; the inner error describes the first mismatch.
    pub async fn check(&self) -> Result<Result<(), String>, EngineError> {
        self.read(|machine, _| machine.check()).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Machine, Micros) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Read(Box::new(move |machine, now| {
            // The caller may have been dropped.
            let _ = answer.send(read(machine, now));
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

/// A seed that is unknown outside this process, derived from the keys that the standard library
/// draws from the operating system.
fn random_hash_seed() -> HashSeed {
    let keys = RandomState::new();
    let both = (u128::from(keys.hash_one(0)) << 64) | u128::from(keys.hash_one(1));
    HashSeed::new(both.to_le_bytes())
}

/// A new queue. It is written at once, so that the next process that opens the directory
/// finds these settings.
fn first_machine(disk: &mut Disk, settings: Settings, now: Micros) -> Result<Machine, DiskError> {
    let mut machine = Machine::new(settings, random_hash_seed(), now);
    machine.record();
    disk.write(&machine.take_changes())?;
    Ok(machine)
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
            let (reply, replied) = oneshot::channel();
            self.send(Request::Submit { command, reply })?;
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
            self.send(Request::Wait { waiter, types: types.to_vec(), woken })?;
            let leave = |late| {
                // An owner that has stopped needs no tokens.
                let _ = self.send(Request::Leave { waiter, late });
            };
            Waiting::new(token, leave).at_most(at_most).await
        }))
    }

    fn admin(&self) -> &dyn Admin {
        self
    }
}

impl Admin for EmbeddedEngine {
    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        Box::pin(async {
            let Some(folder) = self.folder.clone() else { return Ok(None) };
            let space = tokio::task::spawn_blocking(move || disk::space(&folder)).await;
            let space = space.map_err(|_| stopped())?;
            space.map(Some).map_err(|error| {
                EngineError::refused(format!("the free space of the data directory cannot be read: {error}"))
            })
        })
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
            let suspects = self.read(|machine, _| machine.suspects()).await?;
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
