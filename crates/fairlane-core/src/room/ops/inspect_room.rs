//! `inspect_room`: the state of one room.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::RoomName;
use crate::room::{Machine, RoomView};

/// Shows a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectRoom {
    /// The name of the room.
    pub room: RoomName,
}

/// The reply: the room, or `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomInspected(pub Option<RoomView>);

impl Operation for InspectRoom {
    type Machine = Machine;
    type Reply = RoomInspected;

    const STEM: &'static str = "inspect_room";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RoomInspected {
        RoomInspected(machine.rooms.get(&self.room).map(|room| room.view(&self.room, context.now)))
    }
}
