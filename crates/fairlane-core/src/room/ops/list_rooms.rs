//! `list_rooms`: rooms in the order of their names, page by page.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::LIST_ROOMS_MAX;
use crate::names::RoomName;
use crate::numbers::within;
use crate::room::{Machine, RoomView};

/// Lists rooms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRooms {
    /// Only rooms behind this one.
    pub after: Option<RoomName>,
    /// Most rooms on the page.
    pub rooms_max: usize,
}

/// The reply to [`ListRooms`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomsListed {
    /// The rooms.
    pub rooms: Vec<RoomView>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<RoomName>,
}

impl Operation for ListRooms {
    type Machine = Machine;
    type Reply = RoomsListed;

    const STEM: &'static str = "list_rooms";

    fn validate(&self) -> Result<(), Invalid> {
        within("the rooms of a page", self.rooms_max as u64, 1, LIST_ROOMS_MAX as u64)?;
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.rooms_max)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RoomsListed {
        let from = self.after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = machine.rooms.range((from, Bound::Unbounded));
        let page = behind.by_ref().take(self.rooms_max);
        let rooms: Vec<_> = page.map(|(name, room)| room.view(name, context.now)).collect();
        let next = behind.next().and(rooms.last()).map(|room| room.room.clone());
        RoomsListed { rooms, next }
    }
}
