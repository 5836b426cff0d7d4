//! `revoke_place`: takes a user's place away.

use serde::{Deserialize, Serialize};

use super::leave_room::PlaceLeft;
use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::{RoomName, UserId};
use crate::numbers::Micros;
use crate::room::Machine;

/// Takes a place away, for operators. The user may join again, behind all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokePlace {
    /// The name of the room.
    pub room: RoomName,
    /// The id of the user.
    pub user: UserId,
}

impl Operation for RevokePlace {
    type Machine = Machine;
    type Reply = PlaceLeft;

    const STEM: &'static str = "revoke_place";

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> PlaceLeft {
        machine.revoke_place(&self, context.now)
    }
}

impl Machine {
    fn revoke_place(&mut self, command: &RevokePlace, now: Micros) -> PlaceLeft {
        let Some(mut room) = self.take(&command.room, now) else {
            return PlaceLeft { was_there: false, active: 0 };
        };
        let token = room.users.get(&command.user).cloned();
        let was_there = token.is_some_and(|token| self.remove_place(&command.room, &mut room, &token));
        room.totals.revoked += u64::from(was_there);
        self.store(&command.room, room, now);
        PlaceLeft { was_there, active: self.active_in(&command.room, now) }
    }
}
