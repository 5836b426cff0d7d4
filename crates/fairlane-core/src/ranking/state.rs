//! One board: its settings, its live generation, and the one that a rebuild fills.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::hashing::{HashSeed, KeyedMap};
use crate::names::{BoardName, EventId, MemberId, RebuildId};
use crate::numbers::Micros;

use super::journal::Journal;
use super::rows::SetKind;
use super::score::ScoreSet;
use super::settings::BoardSettings;
use super::view::Standing;
use super::window::Slot;

/// Counts since the board was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardTotals {
    /// Events and values that were taken.
    pub recorded: u64,
    /// Cancellations that were taken.
    pub cancelled: u64,
    /// Repeated events and cancellations, and values that did not change the board.
    pub repeated: u64,
    /// Events and cancellations that were taken, but too late for a sealed window or a closed
    /// season.
    pub late: u64,
    /// Events and cancellations that were refused because they are older than the horizon; only a
    /// rebuild counts them.
    pub too_old: u64,
    /// Events, cancellations and values that were refused for another reason.
    pub refused: u64,
}

impl BoardTotals {
    /// The counts in the order of the fields.
    pub(super) const fn to_array(self) -> [u64; 6] {
        [self.recorded, self.cancelled, self.repeated, self.late, self.too_old, self.refused]
    }

    pub(super) const fn from_array(
        [recorded, cancelled, repeated, late, too_old, refused]: [u64; 6],
    ) -> Self {
        Self { recorded, cancelled, repeated, late, too_old, refused }
    }
}

/// A remembered event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// The number of its row in a store.
    pub row: u64,
    /// The second at which the hour of its arrival began.
    pub arrived_s: u64,
    pub mark: Mark,
}

/// The state of a remembered event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    /// It counts; `season` is 0 if it came after the season of its time was closed.
    Counted { member: MemberId, delta: i64, at_ms: u64, season: u64 },
    /// It was cancelled.
    Cancelled,
    /// It was cancelled before it arrived.
    Pending,
}

/// The scores of a board with the events behind them.
#[derive(Debug)]
pub(super) struct Generation {
    /// The number of the generation in a store.
    pub number: u64,
    pub all: ScoreSet,
    pub windows: BTreeMap<Slot, ScoreSet>,
    pub events: KeyedMap<EventId, Event>,
    /// Ids by the hour of their arrival.
    pub ids: BTreeMap<u64, VecDeque<EventId>>,
    /// When windows and ids are removed.
    pub due: BTreeSet<(Micros, Slot)>,
}

impl Generation {
    pub fn new(board: &BoardName, journal: &mut Journal, hash_seed: HashSeed) -> Self {
        let (number, set) = (journal.number(), journal.number());
        journal.touch_set(set, board, number, SetKind::All, 0);
        Self::restored(number, ScoreSet::new(set, hash_seed), hash_seed)
    }

    /// A generation with the set over all of its season.
    pub fn restored(number: u64, all: ScoreSet, hash_seed: HashSeed) -> Self {
        Self {
            number,
            all,
            windows: BTreeMap::new(),
            events: KeyedMap::with_hasher(hash_seed),
            ids: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }
}

/// A generation that a rebuild fills.
#[derive(Debug)]
pub(super) struct Staged {
    pub id: RebuildId,
    /// Rows of the source that were taken.
    pub rows: u64,
    pub generation: Generation,
}

/// A closed season.
#[derive(Debug)]
pub(super) struct Season {
    pub set: ScoreSet,
    pub closed_at: Micros,
    /// Whether the job that announces it was enqueued.
    pub announced: bool,
}

#[derive(Debug)]
pub(super) struct Board {
    pub settings: BoardSettings,
    /// The number of the current season, from 1.
    pub season: u64,
    /// When the current season began; 0 for the first one.
    pub since_ms: u64,
    pub seasons: BTreeMap<u64, Season>,
    pub live: Generation,
    pub staged: Option<Staged>,
    /// The last rebuild that was finished.
    pub rebuilt: Option<RebuildId>,
    pub totals: BoardTotals,
    /// The entry of this board in the deadlines.
    pub deadline: Option<Micros>,
}

impl Board {
    pub fn new(
        name: &BoardName,
        settings: BoardSettings,
        journal: &mut Journal,
        hash_seed: HashSeed,
    ) -> Self {
        Self::with(settings, Generation::new(name, journal, hash_seed))
    }

    pub fn with(settings: BoardSettings, live: Generation) -> Self {
        Self {
            settings,
            season: 1,
            since_ms: 0,
            seasons: BTreeMap::new(),
            live,
            staged: None,
            rebuilt: None,
            totals: BoardTotals::default(),
            deadline: None,
        }
    }

    /// The set that a reader asks for, if there is one.
    pub fn set(&self, standing: &Standing, now: Micros) -> Option<&ScoreSet> {
        match standing {
            Standing::All => Some(&self.live.all),
            Standing::Window { kind, at_ms } => {
                self.live.windows.get(&kind.slot(at_ms.unwrap_or(now.as_millis())))
            }
            Standing::Season { number } => self.seasons.get(number).map(|season| &season.set),
        }
    }

    /// When the next window or event is due for removal.
    pub fn next_due(&self) -> Option<Micros> {
        let staged = self.staged.as_ref().and_then(|staged| staged.generation.due.first());
        self.live.due.first().into_iter().chain(staged).map(|(at, _)| *at).min()
    }
}
