//! The invariants of waiting rooms, which hold after every command.

use std::collections::BTreeSet;

use super::Machine;
use super::state::{PlaceState, Room};
use crate::names::RoomName;

impl Machine {
    /// Recounts everything; an error describes the first mismatch.
    pub fn check(&self) -> Result<(), String> {
        let mut rows = BTreeSet::new();
        for (name, room) in &self.rooms {
            check_room(room).map_err(|found| format!("{name}: {found}"))?;
            for place in room.places.values() {
                ensure(place.row < self.next_row, || format!("{name}: a row beyond the last"))?;
                ensure(rows.insert(place.row), || format!("{name}: two places have row {}", place.row))?;
            }
        }
        let entry = |(name, room): (&RoomName, &Room)| room.deadline.map(|at| (at, name.clone()));
        let deadlines: BTreeSet<_> = self.rooms.iter().filter_map(entry).collect();
        ensure(deadlines == self.deadlines, || "deadlines differ".into())
    }
}

fn check_room(room: &Room) -> Result<(), String> {
    let (mut waiting, mut silent, mut active) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (token, place) in &room.places {
        ensure(room.users.get(&place.user) == Some(token), || format!("{} has another token", place.user))?;
        match place.state {
            PlaceState::Waiting { number, silent_at } => {
                waiting.insert((place.class, number, token.clone()));
                silent.insert((silent_at, token.clone()));
            }
            PlaceState::Active { until } => {
                active.insert((until, token.clone()));
            }
        }
    }
    ensure(room.users.len() == room.places.len(), || "users and places differ in number".into())?;
    let classes = room.classes.iter().enumerate();
    let listed = classes.flat_map(|(index, class)| {
        class.waiting.iter_from(0).map(move |(number, token)| (index, *number, token.clone()))
    });
    ensure(listed.eq(waiting), || "the order of the waiters differs".into())?;
    ensure(silent == room.silent, || "times of silence differ".into())?;
    ensure(room.active.iter_from(0).eq(active.iter()), || "active places differ".into())?;
    ensure(room.classes.len() == room.settings.weights.len(), || "classes and weights differ".into())?;
    let totals = room.totals;
    let ended = totals.left + totals.revoked + totals.expired + totals.silent;
    ensure(totals.joined == ended + room.places.len() as u64, || format!("{totals:?} do not add up"))?;
    ensure(room.is_idle() == (room.idle_since.0 > 0), || "idle or not".into())?;
    let can_admit = room.paused.is_none() && !room.phase.is_before_opening() && room.waiting() > 0;
    let has_free = (room.active.len() as u64) < u64::from(room.settings.max_active);
    ensure(!can_admit || !has_free || room.deadline.is_some(), || "no sweep admits its waiters".into())?;
    let has_end = !room.active.is_empty() || !room.silent.is_empty();
    ensure(!has_end || room.deadline.is_some(), || "no sweep ends its places".into())
}

fn ensure(holds: bool, found: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(found()) }
}
