//! The engine inside this process: the core's machine behind one owner thread.
//!
//! Callers send requests over a channel; each turn of the owner applies all that is queued, makes it durable,
//! then replies. A caller has one request under way at a time, which bounds the channel. Invariant: every
//! call ends: once the owner has stopped, for whatever reason, it gets [`EngineError::Broken`].
//!
//! - `embedded/owner.rs`: the thread.
//! - `embedded/disk.rs`: a data directory. `embedded/keeper.rs`: when changes go there, and if they cannot.

pub mod disk;
mod keeper;
mod owner;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fairlane_core::limits::AUDIT_SUSPECTS_MAX;
use fairlane_core::queue::{Command, Dump, Machine, Reply, Settings, Suspect};
use fairlane_core::{HashSeed, Micros, TypeId};
use tokio::sync::{mpsc as pages, oneshot, watch};

use crate::audit::WalkPage;
use crate::clock::Clock;
use crate::engine::{BoxFuture, Engine, EngineError, Space};
use crate::observe::Meters;
use crate::waiters::{Place, Waiting};
use disk::{Disk, DiskError, Loading};
use keeper::Keeper;
pub use owner::jobs_of;
use owner::{Owner, Request};

/// What this engine is called.
const NAME: &str = "embedded";
/// Kept back in a data directory, so that a full disk can be drained.
const RESERVE_BYTES: u64 = 16 * 1024 * 1024;

/// A clock that is ahead loses one of so many microseconds, until it is not.
const SLEW_DIVISOR: u64 = 100;

/// When a change is on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is answered.
    #[default]
    Commit,
    /// A second later at most.
    Interval,
    /// Never; nothing is read from disk either.
    Memory,
}

/// Not the word for a durability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no durability; there are commit, interval and memory")]
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

/// How a data directory is opened.
pub struct DirectoryOptions {
    /// When a change is on disk.
    pub durability: Durability,
    /// The settings of a new queue; one that is there keeps its own.
    pub settings: Settings,
    /// Where the time comes from.
    pub clock: Clock,
    /// Waits for the disk; only tests do without.
    pub synced: bool,
    /// Space kept back, so that jobs can still be leased and settled when the disk is full.
    pub reserve_bytes: u64,
    /// Hears how far the loading is, every 100,000 jobs.
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
    /// Why the owner can do nothing more; closed when its thread has ended.
    loss: watch::Receiver<Option<EngineError>>,
    clock: OwnClock,
    folder: Option<PathBuf>,
    meters: Meters,
}

impl EmbeddedEngine {
    /// An empty queue in memory, with these settings.
    pub fn new(settings: Settings, clock: Clock) -> Result<Self, EngineError> {
        let machine = Machine::new(settings, random_hash_seed(), clock.now());
        Self::start(machine, Keeper::Memory, OwnClock::new(clock, Micros(0)), None)
    }

    /// The queue in a directory, which is made if it is not there. Reads it all, so this takes a while where
    /// there is much.
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
        let keeper = Keeper::disk(disk, options.durability);
        Self::start(machine, keeper, clock, Some(folder.to_owned()))
    }

    fn start(
        machine: Machine,
        keeper: Keeper,
        clock: OwnClock,
        folder: Option<PathBuf>,
    ) -> Result<Self, EngineError> {
        let (requests, queued) = mpsc::channel();
        let (lost, loss) = watch::channel(None);
        let owner = Owner { machine, keeper, clock: clock.clone(), lost };
        let owner = std::thread::Builder::new()
            .name("fairlane-owner".into())
            .spawn(move || owner.run(&queued))
            .map_err(|error| EngineError::refused(format!("no thread for the embedded engine: {error}")))?;
        let meters = Meters::new(NAME);
        Ok(Self { requests: Some(requests), owner: Some(owner), loss, clock, folder, meters })
    }

    /// Says in the data directory where this process can be talked to, for those who find it taken.
    pub async fn announce(&self, address: impl Into<String>) -> Result<(), EngineError> {
        let (reply, replied) = oneshot::channel();
        self.send(Request::Announce { address: address.into(), reply })?;
        replied.await.map_err(|_| stopped())?
    }

    /// The whole state, to be compared in tests.
    pub async fn dump(&self) -> Result<Dump, EngineError> {
        self.look(|machine, now| machine.dump(now)).await
    }

    /// Recounts the whole state in tests; the inner error names the first thing that does not fit.
    pub async fn check(&self) -> Result<Result<(), String>, EngineError> {
        self.look(|machine, _| machine.check()).await
    }

    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Machine, Micros) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Look(Box::new(move |machine, now| {
            // Whoever asked may have gone; nobody else wants to know.
            let _ = answer.send(look(machine, now));
        })))?;
        answered.await.map_err(|_| stopped())
    }

    fn sender(&self) -> &mpsc::Sender<Request> {
        self.requests.as_ref().expect("the sender is there until drop")
    }

    fn send(&self, request: Request) -> Result<(), EngineError> {
        self.sender().send(request).map_err(|_| stopped())
    }
}

/// A seed that is unknown outside of this process, made of the keys that the standard library draws
/// from the operating system.
fn random_hash_seed() -> HashSeed {
    let keys = RandomState::new();
    let both = (u128::from(keys.hash_one(0)) << 64) | u128::from(keys.hash_one(1));
    HashSeed::new(both.to_le_bytes())
}

/// A new queue, written at once: whoever opens the directory next finds these settings.
fn first_machine(disk: &mut Disk, settings: Settings, now: Micros) -> Result<Machine, DiskError> {
    let mut machine = Machine::new(settings, random_hash_seed(), now);
    machine.record();
    disk.write(&machine.take_changes())?;
    Ok(machine)
}

/// The engine's own clock: it goes on from the last time that was stored if this machine's lies before
/// it, and runs a hundredth slower until this machine's has caught up. So it never steps back: what waits
/// keeps its time, a rate is served at 99 % of itself or more, and an hour is made up for in 100 hours.
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

    /// For an operator, if it differs by more than a second.
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
    fn name(&self) -> &'static str {
        NAME
    }

    fn warnings(&self) -> Vec<String> {
        self.clock.warning().into_iter().collect()
    }

    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        Box::pin(async {
            let Some(folder) = self.folder.clone() else { return Ok(None) };
            let space = tokio::task::spawn_blocking(move || disk::space(&folder)).await;
            let space = space.map_err(|_| stopped())?;
            space.map(Some).map_err(|error| {
                EngineError::refused(format!("the room left for the data directory cannot be read: {error}"))
            })
        })
    }

    fn announce(&self, address: String) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(Self::announce(self, address))
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

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        let running = self.meters.begin(&command);
        Box::pin(running.until(async move {
            command.validate()?;
            let (reply, replied) = oneshot::channel();
            self.send(Request::Execute { command, reply })?;
            replied.await.map_err(|_| stopped())?
        }))
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(self.meters.waiting(async move {
            let place = Place::last();
            let (woken, token) = oneshot::channel();
            self.send(Request::Wait { place, types: types.to_vec(), woken })?;
            let leave = |late| {
                // An owner that has stopped has no use for tokens.
                let _ = self.send(Request::Leave { place, late });
            };
            Waiting::new(token, leave).at_most(at_most).await
        }))
    }

    fn walk(&self, walked: pages::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let suspects = self.look(|machine, _| machine.suspects()).await?;
            let groups =
                suspects.iter().filter(|suspect| matches!(suspect, Suspect::Group(_))).count() as u64;
            let mut groups_walked = 0;
            for page in suspects.chunks(AUDIT_SUSPECTS_MAX) {
                let suspects = page.to_vec();
                groups_walked +=
                    page.iter().filter(|suspect| matches!(suspect, Suspect::Group(_))).count() as u64;
                // Whoever looks at suspects has failed then, and says so itself.
                let _ = walked.send(WalkPage { suspects, groups_walked, groups }).await;
            }
            Ok(())
        })
    }
}

impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(owner) = self.owner.take() {
            // A panic of the owner has been printed, and every caller has been told.
            let _ = owner.join();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
