//! The invariants of boards, which hold after every command.

use std::collections::BTreeSet;

use super::Machine;
use super::settings::BoardSettings;
use super::state::{Board, Generation, Mark};
use super::window::Slot;
use crate::names::BoardName;

impl Machine {
    /// Recounts everything; an error describes the first mismatch.
    pub fn check(&self) -> Result<(), String> {
        for (name, board) in &self.boards {
            check_board(board).map_err(|found| format!("{name}: {found}"))?;
        }
        let entry = |(name, board): (&BoardName, &Board)| board.deadline.map(|at| (at, name.clone()));
        let deadlines: BTreeSet<_> = self.boards.iter().filter_map(entry).collect();
        ensure(deadlines == self.deadlines, || "deadlines differ".into())
    }
}

fn check_board(board: &Board) -> Result<(), String> {
    ensure(board.deadline == board.next_due(), || "the deadline is not that of the next removal".into())?;
    for (number, season) in &board.seasons {
        ensure(*number < board.season, || format!("season {number} is not over"))?;
        ensure(season.set.is_consistent(), || format!("season {number} is out of order"))?;
    }
    check_generation(&board.live, &board.settings, board.season)?;
    match &board.staged {
        Some(staged) => check_generation(&staged.generation, &board.settings, board.season),
        None => Ok(()),
    }
}

fn check_generation(generation: &Generation, settings: &BoardSettings, current: u64) -> Result<(), String> {
    for set in std::iter::once(&generation.all).chain(generation.windows.values()) {
        ensure(set.is_consistent(), || format!("set {} is out of order", set.number))?;
    }
    let ids: usize = generation.ids.values().map(|ids| ids.len()).sum();
    ensure(ids == generation.events.len(), || {
        "an event is remembered without an end, or the other way".into()
    })?;
    for (arrived_s, ids) in &generation.ids {
        ensure(!ids.is_empty(), || format!("no event arrived at {arrived_s}"))?;
        for id in ids {
            let event = generation.events.get(id);
            ensure(event.is_some_and(|event| event.arrived_s == *arrived_s), || format!("{id} is lost"))?;
        }
    }
    for event in generation.events.values() {
        if let Mark::Counted { member, season, .. } = &event.mark {
            let is_shown = *season != current || generation.all.get(member).is_some();
            ensure(is_shown, || format!("{member} has an event but no score"))?;
        }
    }
    let slots = generation.windows.keys().copied();
    let slots = slots.chain(generation.ids.keys().map(|arrived_s| Slot::Ids(*arrived_s)));
    let due: BTreeSet<_> = slots.map(|slot| (slot.removed_at(settings.horizon_ms), slot)).collect();
    ensure(due == generation.due, || "the times of removal differ".into())
}

fn ensure(holds: bool, found: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(found()) }
}
