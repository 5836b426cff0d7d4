//! `show_place`: the state of a place. It does not count as a poll.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::{PlaceToken, RoomName};
use crate::room::{Machine, PlaceStatus, PlaceView};

/// Shows a place. Only [`PlaceView::Active`] lets its user pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowPlace {
    /// The name of the room.
    pub room: RoomName,
    /// The token of the place.
    pub token: PlaceToken,
}

impl Operation for ShowPlace {
    type Machine = Machine;
    type Reply = PlaceStatus;

    const STEM: &'static str = "show_place";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> PlaceStatus {
        let room = machine.rooms.get(&self.room);
        let unknown = PlaceStatus { place: PlaceView::Unknown, active: 0 };
        room.map_or(unknown, |room| room.status(&self.token, context.now))
    }
}
