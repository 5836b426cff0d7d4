//! One room: its settings, its waiters in order, and its active places.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::settings::RoomSettings;
use crate::hashing::{HashSeed, KeyedMap};
use crate::kernel::downstream::Downstream;
use crate::kernel::ranked_set::RankedSet;
use crate::kernel::row::stored_words;
use crate::limits::ROOM_WINDOW_MS;
use crate::names::{PlaceToken, UserId};
use crate::numbers::Micros;
use crate::rate::Bucket;

/// Whether users may join a room, and whether it admits them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoomPhase {
    /// Users join and are admitted.
    #[default]
    Open,
    /// No user joins; those who wait are admitted.
    Closed,
    /// Users draw tickets before the room opens; none is admitted yet.
    Prequeue,
    /// The tickets are drawn: no user joins, and none is admitted before the room opens.
    Frozen,
}

impl RoomPhase {
    /// All phases.
    pub const ALL: &[Self] = &[Self::Open, Self::Closed, Self::Prequeue, Self::Frozen];

    /// The lower-case name of the phase.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Prequeue => "prequeue",
            Self::Frozen => "frozen",
        }
    }

    /// Whether users may join.
    pub const fn accepts(self) -> bool {
        matches!(self, Self::Open | Self::Prequeue)
    }

    /// Whether the room has not opened yet.
    pub const fn is_before_opening(self) -> bool {
        matches!(self, Self::Prequeue | Self::Frozen)
    }
}

stored_words!(RoomPhase);

/// Counts since the room was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomTotals {
    /// Places that were given to users who joined.
    pub joined: u64,
    /// Places that became active.
    pub admitted: u64,
    /// Places that their users left.
    pub left: u64,
    /// Places that an operator took away.
    pub revoked: u64,
    /// Active places whose time ran out.
    pub expired: u64,
    /// Waiters that were dropped because they fell silent.
    pub silent: u64,
}

impl RoomTotals {
    /// The number of places that became active, expired or were dropped.
    pub(super) const fn moved(self) -> u64 {
        self.admitted + self.expired + self.silent
    }

    /// The counts in the order of the fields.
    pub(super) const fn to_array(self) -> [u64; 6] {
        [self.joined, self.admitted, self.left, self.revoked, self.expired, self.silent]
    }

    pub(super) const fn from_array([joined, admitted, left, revoked, expired, silent]: [u64; 6]) -> Self {
        Self { joined, admitted, left, revoked, expired, silent }
    }
}

/// Admissions of the current and the previous window of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// When the current window began.
    pub at: Micros,
    pub count: u64,
    pub count_before: u64,
    /// The length of the previous window; 0 without one.
    pub before_ms: u64,
}

impl Window {
    /// The windows at this time.
    pub fn turned(self, now: Micros) -> Self {
        let elapsed_ms = now.since(self.at) / 1000;
        if elapsed_ms < ROOM_WINDOW_MS {
            return self;
        }
        if elapsed_ms < 2 * ROOM_WINDOW_MS {
            let at = self.at.plus_ms(ROOM_WINDOW_MS);
            return Self { at, count: 0, count_before: self.count, before_ms: ROOM_WINDOW_MS };
        }
        Self { at: now, ..Self::default() }
    }

    /// Admissions that were measured, and in how many milliseconds. A window that has just begun
    /// counts as a whole one, so that the first admissions do not look like a high rate.
    pub fn measured(self, now: Micros) -> (u64, u64) {
        let turned = self.turned(now);
        let ms = turned.before_ms + now.since(turned.at) / 1000;
        (turned.count + turned.count_before, ms.max(ROOM_WINDOW_MS))
    }
}

/// The published facts about a draw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DrawState {
    pub seed: String,
    pub commitment: String,
    /// The digest of the list of tickets, known at opening.
    pub digest: String,
    /// Tickets at opening.
    pub tickets: u64,
}

/// A user's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of its row in a store.
    pub row: u64,
    pub user: UserId,
    pub class: usize,
    pub state: PlaceState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceState {
    /// Its number orders it among the waiters of its class. `silent_at` is when it is dropped unless
    /// it polls before.
    Waiting {
        number: u64,
        silent_at: Micros,
    },
    Active {
        until: Micros,
    },
}

/// The waiters of one priority class.
#[derive(Debug, Default)]
pub(super) struct Class {
    /// By number, then by token.
    pub waiting: RankedSet<(u64, PlaceToken)>,
    /// The virtual time at which its first waiter is due.
    pub tag: u64,
}

#[derive(Debug)]
pub(super) struct Room {
    pub settings: RoomSettings,
    pub phase: RoomPhase,
    /// The reason for a pause, shown to waiters.
    pub paused: Option<String>,
    pub draw: DrawState,
    pub classes: Vec<Class>,
    /// The tag of the class that was admitted from last.
    pub virtual_time: u64,
    pub places: KeyedMap<PlaceToken, Place>,
    pub users: KeyedMap<UserId, PlaceToken>,
    /// Active places by their end.
    pub active: RankedSet<(Micros, PlaceToken)>,
    /// Waiters by the time at which they are dropped.
    pub silent: BTreeSet<(Micros, PlaceToken)>,
    /// The number of the next user that joins.
    pub next_number: u64,
    pub bucket: Bucket,
    pub downstream: Downstream,
    pub window: Window,
    pub totals: RoomTotals,
    /// The time since which the room has been empty with default settings; 0 if it is not.
    pub idle_since: Micros,
    /// After a restart, waiters are not dropped before this time.
    pub grace_until: Micros,
    /// Whether the room was restored and no command has reached it since.
    pub is_restored: bool,
    /// The entry of this room in the deadlines.
    pub deadline: Option<Micros>,
    /// Whether the row of the room has changed.
    pub changed: bool,
}

impl Room {
    pub fn new(hash_seed: HashSeed) -> Self {
        Self {
            settings: RoomSettings::default(),
            phase: RoomPhase::Open,
            paused: None,
            draw: DrawState::default(),
            classes: vec![Class::default()],
            virtual_time: 0,
            places: KeyedMap::with_hasher(hash_seed),
            users: KeyedMap::with_hasher(hash_seed),
            active: RankedSet::default(),
            silent: BTreeSet::new(),
            next_number: 1,
            bucket: Bucket::default(),
            downstream: Downstream::default(),
            window: Window::default(),
            totals: RoomTotals::default(),
            idle_since: Micros::default(),
            grace_until: Micros::default(),
            is_restored: false,
            deadline: None,
            changed: true,
        }
    }

    /// The number of waiters.
    pub fn waiting(&self) -> u64 {
        self.classes.iter().map(|class| class.waiting.len() as u64).sum()
    }

    /// Whether the room has no places and nothing was set.
    pub fn is_idle(&self) -> bool {
        let is_default = self.settings == RoomSettings::default() && self.phase == RoomPhase::Open;
        self.places.is_empty() && is_default && self.paused.is_none()
    }

    /// Adds a place.
    pub fn add(&mut self, token: PlaceToken, place: Place) {
        match place.state {
            PlaceState::Waiting { number, silent_at } => {
                let class = &mut self.classes[place.class];
                if class.waiting.is_empty() {
                    class.tag = class.tag.max(self.virtual_time);
                }
                class.waiting.insert((number, token.clone()));
                self.silent.insert((silent_at, token.clone()));
            }
            PlaceState::Active { until } => {
                self.active.insert((until, token.clone()));
            }
        }
        self.users.insert(place.user.clone(), token.clone());
        self.places.insert(token, place);
        self.changed = true;
    }

    /// Removes a place.
    pub fn remove(&mut self, token: &PlaceToken) -> Option<Place> {
        let place = self.places.remove(token)?;
        match place.state {
            PlaceState::Waiting { number, silent_at } => {
                self.classes[place.class].waiting.remove(&(number, token.clone()));
                self.silent.remove(&(silent_at, token.clone()));
            }
            PlaceState::Active { until } => {
                self.active.remove(&(until, token.clone()));
            }
        }
        self.users.remove(&place.user);
        self.changed = true;
        Some(place)
    }

    /// Whether a waiter has fallen silent and not been dropped yet.
    pub fn is_silent(&self, token: &PlaceToken, now: Micros) -> bool {
        let state = self.places.get(token).map(|place| place.state);
        let is_due = matches!(state, Some(PlaceState::Waiting { silent_at, .. }) if silent_at <= now);
        is_due && self.grace_until <= now
    }

    /// Moves the time at which a waiter is dropped; returns false if the place is not waiting.
    pub fn keep(&mut self, token: &PlaceToken, until: Micros) -> bool {
        let Some(Place { state: PlaceState::Waiting { silent_at, .. }, .. }) = self.places.get_mut(token)
        else {
            return false;
        };
        self.silent.remove(&(*silent_at, token.clone()));
        *silent_at = until;
        self.silent.insert((until, token.clone()));
        true
    }
}
