//! `leave_room`: gives up a place, waiting or active.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::{PlaceToken, RoomName};
use crate::numbers::Micros;
use crate::room::Machine;

/// Leaves a room. A free place goes to the next waiter in the same step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveRoom {
    /// The name of the room.
    pub room: RoomName,
    /// The token of the place.
    pub token: PlaceToken,
}

/// The reply to [`LeaveRoom`] and to `revoke_place`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceLeft {
    /// Whether there was such a place.
    pub was_there: bool,
    /// Active places of the room.
    pub active: u64,
}

impl Operation for LeaveRoom {
    type Machine = Machine;
    type Reply = PlaceLeft;

    const STEM: &'static str = "leave_room";

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> PlaceLeft {
        machine.leave_room(&self, context.now)
    }
}

impl Machine {
    fn leave_room(&mut self, command: &LeaveRoom, now: Micros) -> PlaceLeft {
        let Some(mut room) = self.take(&command.room, now) else {
            return PlaceLeft { was_there: false, active: 0 };
        };
        let was_there = self.remove_place(&command.room, &mut room, &command.token);
        room.totals.left += u64::from(was_there);
        self.store(&command.room, room, now);
        PlaceLeft { was_there, active: self.active_in(&command.room, now) }
    }

    /// Active places of a room; 0 if it was forgotten.
    pub(super) fn active_in(&self, name: &crate::RoomName, now: Micros) -> u64 {
        self.rooms.get(name).map_or(0, |room| room.active_now(now))
    }
}
