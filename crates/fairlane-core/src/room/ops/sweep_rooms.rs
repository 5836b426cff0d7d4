//! `sweep_rooms`: brings rooms up to date that no other command reaches.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{ROOM_STEP_PLACES_MAX, SWEEP_ROOMS_MAX};
use crate::numbers::Micros;
use crate::room::Machine;

/// Brings rooms up to date that are due for a change: places end, silent waiters are dropped, and
/// waiters are admitted. A sweep that has moved many places leaves the other rooms to the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRooms {
    /// Most rooms to bring up to date.
    pub rooms_max: usize,
}

/// The reply to [`SweepRooms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomsSwept {
    /// Rooms that were brought up to date.
    pub rooms: usize,
    /// The time until the next room is due, in microseconds; `None` if no room is due later.
    pub next_in_us: Option<u64>,
}

impl Operation for SweepRooms {
    type Machine = Machine;
    type Reply = RoomsSwept;

    const STEM: &'static str = "sweep_rooms";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the rooms of a sweep", self.rooms_max, SWEEP_ROOMS_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::no_group(Permission::Work)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.rooms_max + ROOM_STEP_PLACES_MAX)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RoomsSwept {
        machine.sweep_rooms(self.rooms_max, context.now)
    }
}

impl Machine {
    fn sweep_rooms(&mut self, most: usize, now: Micros) -> RoomsSwept {
        let (mut swept, mut moved) = (0, 0);
        while swept < most
            && moved < ROOM_STEP_PLACES_MAX as u64
            && let Some((deadline, name)) = self.deadlines.first().cloned()
            && deadline <= now
        {
            let before = self.rooms.get(&name).map_or(0, |room| room.totals.moved());
            let room = self.take(&name, now).expect("a deadline names a room");
            self.store(&name, room, now);
            moved += self.rooms.get(&name).map_or(0, |room| room.totals.moved() - before);
            swept += 1;
        }
        let next_in_us = self.deadlines.first().map(|(deadline, _)| deadline.since(now));
        RoomsSwept { rooms: swept, next_in_us }
    }
}
