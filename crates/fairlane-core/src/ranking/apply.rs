//! How events, cancellations and values change the sets of a generation.
//!
//! Invariant: the sets depend on which events and cancellations have arrived, not on their order. A
//! score is a sum or an extreme, and the time at which it was reached is that of the member's latest
//! event, cancelled or not.

use crate::hashing::HashSeed;
use crate::limits::{BOARD_AHEAD_MS, BOARD_MEMBERS_MAX, BOARD_SCORE_MAX};
use crate::names::{BoardName, EventId, MemberId};
use crate::numbers::Micros;

use super::journal::Journal;
use super::score::{Score, ScoreSet};
use super::settings::{BoardRule, BoardSettings};
use super::state::{Board, BoardTotals, Event, Generation, Mark};
use super::view::{Cancellation, NewEvent, NewScore, Outcome};
use super::window::Slot;

/// Where a change comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A command on the live generation.
    Live,
    /// The same command on the generation that a rebuild fills.
    Copied,
    /// The source of a rebuild.
    Source,
}

/// One event, cancellation or value.
pub(super) enum Item {
    Record(NewEvent),
    Cancel(Cancellation),
    Set(NewScore),
}

/// The inputs of a change besides the generation.
pub(super) struct Change<'a> {
    pub name: &'a BoardName,
    pub settings: &'a BoardSettings,
    pub season: u64,
    pub since_ms: u64,
    pub now: Micros,
    pub origin: Origin,
    pub hash_seed: HashSeed,
}

impl Change<'_> {
    /// Whether an event of this time is older than the horizon.
    fn is_too_old(&self, at_ms: u64) -> bool {
        at_ms + self.settings.horizon_ms < self.now.as_millis()
    }

    /// Whether a window still takes events. In a rebuild, sealed windows do.
    fn is_open(&self, slot: Slot) -> bool {
        match self.origin {
            Origin::Live => !slot.is_sealed(self.now),
            Origin::Copied | Origin::Source => self.now < slot.removed_at(self.settings.horizon_ms),
        }
    }

    /// The windows of this time that take events, and whether another one is sealed.
    fn slots(&self, at_ms: u64) -> (Vec<Slot>, bool) {
        let slots = self.settings.windows.kinds().map(|kind| kind.slot(at_ms));
        let (open, sealed): (Vec<_>, Vec<_>) = slots.partition(|slot| self.is_open(*slot));
        (open, !sealed.is_empty())
    }
}

/// A change to a score.
#[derive(Debug, Clone, Copy)]
enum Edit {
    /// Adds to the score and counts as reached at this time.
    Add { delta: i64, at_ms: u64 },
    /// Takes a value if it is better, or newer on a board by the latest value.
    Set { value: i64, version: u64, at_ms: u64 },
}

impl Generation {
    pub fn record(&mut self, change: &Change, journal: &mut Journal, event: &NewEvent) -> Outcome {
        let is_pending = match self.events.get(&event.id).map(|known| &known.mark) {
            Some(Mark::Pending) => true,
            Some(_) => return Outcome::Repeated,
            None => false,
        };
        let is_old = !is_pending && change.is_too_old(event.at_ms);
        if is_old && change.origin != Origin::Source {
            return Outcome::TooOld;
        }
        if change.settings.rule == BoardRule::Count && event.delta != 1 {
            return Outcome::OutOfRange;
        }
        if !is_pending && !is_old && self.is_full(change) {
            return Outcome::TooManyEvents;
        }
        let delta = if is_pending { 0 } else { event.delta };
        let is_in_season = event.at_ms >= change.since_ms;
        let (slots, is_late) = change.slots(event.at_ms);
        let edit = Edit::Add { delta, at_ms: event.at_ms };
        if let Err(refused) = self.edit(change, journal, &event.member, is_in_season, &slots, edit) {
            return refused;
        }
        if is_pending {
            self.mark(journal, &event.id, Mark::Cancelled);
        } else if !is_old {
            let season = if is_in_season { change.season } else { 0 };
            let (member, at_ms) = (event.member.clone(), event.at_ms);
            self.remember(change, journal, &event.id, Mark::Counted { member, delta, at_ms, season });
        }
        if is_late || !is_in_season { Outcome::Late } else { Outcome::Applied }
    }

    pub fn cancel(&mut self, change: &Change, journal: &mut Journal, id: &EventId, at_ms: u64) -> Outcome {
        let Some(known) = self.events.get(id) else {
            if change.is_too_old(at_ms) {
                return Outcome::TooOld;
            }
            if self.is_full(change) {
                return Outcome::TooManyEvents;
            }
            self.remember(change, journal, id, Mark::Pending);
            return Outcome::Pending;
        };
        let Mark::Counted { member, delta, at_ms, season } = known.mark.clone() else {
            return Outcome::Repeated;
        };
        let is_in_season = season == change.season;
        let (slots, is_late) = change.slots(at_ms);
        for slot in is_in_season.then_some(None).into_iter().chain(slots.into_iter().map(Some)) {
            let set = match slot {
                None => Some(&mut self.all),
                Some(slot) => self.windows.get_mut(&slot),
            };
            if let Some(set) = set
                && let Some(old) = set.get(&member)
            {
                let value = old.value - delta;
                let tie = change.settings.tie(value, change.settings.reached_s(old.tie));
                put(set, journal, &member, Score { value, tie, ..old });
            }
        }
        self.mark(journal, id, Mark::Cancelled);
        if is_late || !is_in_season { Outcome::Late } else { Outcome::Applied }
    }

    pub fn set_score(&mut self, change: &Change, journal: &mut Journal, score: &NewScore) -> Outcome {
        let is_in_season = score.at_ms >= change.since_ms;
        let (slots, is_late) = change.slots(score.at_ms);
        let NewScore { member, value, version, at_ms } = score;
        let edit = Edit::Set { value: *value, version: *version, at_ms: *at_ms };
        match self.edit(change, journal, member, is_in_season, &slots, edit) {
            Err(refused) => refused,
            Ok(_) if !is_in_season && slots.is_empty() => Outcome::Late,
            Ok(false) => Outcome::Repeated,
            Ok(true) if is_late || !is_in_season => Outcome::Late,
            Ok(true) => Outcome::Applied,
        }
    }

    /// Edits the score of a member in every set that takes the event, or in none; returns whether one
    /// has changed.
    fn edit(
        &mut self,
        change: &Change,
        journal: &mut Journal,
        member: &MemberId,
        is_in_season: bool,
        slots: &[Slot],
        edit: Edit,
    ) -> Result<bool, Outcome> {
        let mut edited = Vec::with_capacity(1 + slots.len());
        for slot in is_in_season.then_some(None).into_iter().chain(slots.iter().copied().map(Some)) {
            let set = match slot {
                None => Some(&self.all),
                Some(slot) => self.windows.get(&slot),
            };
            let old = set.and_then(|set| set.get(member));
            if old.is_none() && set.is_some_and(|set| set.len() >= BOARD_MEMBERS_MAX) {
                return Err(Outcome::TooManyMembers);
            }
            let Some((value, tie, version)) = edit.applied(change.settings, old) else { continue };
            if value.unsigned_abs() > BOARD_SCORE_MAX {
                return Err(Outcome::OutOfRange);
            }
            edited.push((slot, old.map(|old| old.row), value, tie, version));
        }
        let has_changed = !edited.is_empty();
        for (slot, row, value, tie, version) in edited {
            let row = row.unwrap_or_else(|| journal.number());
            let set = match slot {
                None => &mut self.all,
                Some(slot) => self.window(change, journal, slot),
            };
            put(set, journal, member, Score { value, tie, version, row });
        }
        Ok(has_changed)
    }

    /// The set of a window, which is made if it does not exist.
    fn window(&mut self, change: &Change, journal: &mut Journal, slot: Slot) -> &mut ScoreSet {
        self.due.insert((slot.removed_at(change.settings.horizon_ms), slot));
        self.windows.entry(slot).or_insert_with(|| {
            let number = journal.number();
            let (kind, start) = slot.set_kind();
            journal.touch_set(number, change.name, self.number, kind, start);
            ScoreSet::new(number, change.hash_seed)
        })
    }

    /// Whether no further event can be remembered. A command that the live generation has taken is
    /// always taken by the other one.
    fn is_full(&self, change: &Change) -> bool {
        change.origin != Origin::Copied && self.events.len() as u64 >= change.settings.events_max
    }

    fn remember(&mut self, change: &Change, journal: &mut Journal, id: &EventId, mark: Mark) {
        let slot = Slot::ids(change.now);
        let (_, arrived_s) = slot.parts();
        let event = Event { row: journal.number(), arrived_s, mark };
        journal.touch_event(self.number, id, &event);
        self.restore_event(change.settings.horizon_ms, id, event);
    }

    /// Adds an event under the hour of its arrival.
    pub fn restore_event(&mut self, horizon_ms: u64, id: &EventId, event: Event) {
        let slot = Slot::Ids(event.arrived_s);
        self.due.insert((slot.removed_at(horizon_ms), slot));
        self.ids.entry(event.arrived_s).or_default().push_back(id.clone());
        self.events.insert(id.clone(), event);
    }

    fn mark(&mut self, journal: &mut Journal, id: &EventId, mark: Mark) {
        if let Some(event) = self.events.get_mut(id) {
            event.mark = mark;
            journal.touch_event(self.number, id, event);
        }
    }
}

impl Edit {
    /// The value, tie and version after the edit, or `None` if the score stays.
    fn applied(self, settings: &BoardSettings, old: Option<Score>) -> Option<(i64, u32, u64)> {
        match self {
            Self::Add { delta, at_ms } => {
                let value = old.map_or(0, |old| old.value) + delta;
                let before_s = old.map_or(0, |old| settings.reached_s(old.tie));
                Some((value, settings.tie(value, before_s.max(at_ms / 1000)), 0))
            }
            Self::Set { value, version, at_ms } => {
                let tie = settings.tie(value, at_ms / 1000);
                let is_taken = match (settings.rule, old) {
                    (_, None) => true,
                    (BoardRule::Latest, Some(old)) => version > old.version,
                    (_, Some(old)) => settings.is_better((value, tie), (old.value, old.tie)),
                };
                let version = if settings.rule == BoardRule::Latest { version } else { 0 };
                is_taken.then_some((value, tie, version))
            }
        }
    }
}

fn put(set: &mut ScoreSet, journal: &mut Journal, member: &MemberId, score: Score) {
    set.put(member, score);
    journal.touch_score(set.number, member, score);
}

impl Item {
    fn at_ms(&self) -> u64 {
        match self {
            Self::Record(event) => event.at_ms,
            Self::Cancel(cancellation) => cancellation.at_ms,
            Self::Set(score) => score.at_ms,
        }
    }

    pub const fn is_score(&self) -> bool {
        matches!(self, Self::Set(_))
    }

    /// The member; `None` for a cancellation, which names only the event.
    pub const fn member(&self) -> Option<&MemberId> {
        match self {
            Self::Record(event) => Some(&event.member),
            Self::Cancel(_) => None,
            Self::Set(score) => Some(&score.member),
        }
    }

    pub fn is_ahead(&self, now: Micros) -> bool {
        self.at_ms() > now.as_millis() + BOARD_AHEAD_MS
    }

    pub fn apply(&self, generation: &mut Generation, change: &Change, journal: &mut Journal) -> Outcome {
        match self {
            Self::Record(event) => generation.record(change, journal, event),
            Self::Cancel(cancelled) => generation.cancel(change, journal, &cancelled.id, cancelled.at_ms),
            Self::Set(score) => generation.set_score(change, journal, score),
        }
    }
}

impl Board {
    /// Applies an item to the live generation and, if it was taken, to the one that a rebuild fills.
    pub fn change(
        &mut self,
        (name, now, hash_seed): (&BoardName, Micros, HashSeed),
        journal: &mut Journal,
        item: &Item,
    ) -> Outcome {
        if item.is_ahead(now) {
            return Outcome::Ahead;
        }
        let (settings, season, since_ms) = (&self.settings, self.season, self.since_ms);
        let live = Change { name, settings, season, since_ms, now, origin: Origin::Live, hash_seed };
        let outcome = item.apply(&mut self.live, &live, journal);
        if let Some(staged) = self.staged.as_mut().filter(|_| outcome.is_taken()) {
            item.apply(&mut staged.generation, &Change { origin: Origin::Copied, ..live }, journal);
        }
        outcome
    }
}

impl BoardTotals {
    /// Counts an outcome.
    pub(super) fn count(&mut self, outcome: Outcome, is_cancellation: bool) {
        let taken = if is_cancellation { &mut self.cancelled } else { &mut self.recorded };
        match outcome {
            Outcome::Applied | Outcome::Pending => *taken += 1,
            Outcome::Late => {
                *taken += 1;
                self.late += 1;
            }
            Outcome::Repeated => self.repeated += 1,
            Outcome::TooOld => self.too_old += 1,
            _ => self.refused += 1,
        }
    }
}
