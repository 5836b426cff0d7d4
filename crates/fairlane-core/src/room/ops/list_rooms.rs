//! `list_rooms`: rooms in the order of their names, page by page.

use serde::{Deserialize, Serialize};

use crate::kernel::page::{behind, page_of};
use crate::kernel::{Access, Context, Operation, PageSize, Permission};
use crate::limits::LIST_ROOMS_MAX;
use crate::names::RoomName;
use crate::room::{Machine, RoomView};

/// Lists rooms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRooms {
    /// Lists only rooms after this one; `None` for the first page.
    pub after: Option<RoomName>,
    /// The most rooms to return.
    pub rooms_max: usize,
}

/// The reply to [`ListRooms`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomsListed {
    /// The rooms, ordered by name.
    pub rooms: Vec<RoomView>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<RoomName>,
}

impl Operation for ListRooms {
    type Machine = Machine;
    type Reply = RoomsListed;

    const STEM: &'static str = "list_rooms";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the rooms of a page", items: self.rooms_max, items_max: LIST_ROOMS_MAX })
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RoomsListed {
        let (page, next) = page_of(machine.rooms.range(behind(self.after)), self.rooms_max);
        let rooms = page.into_iter().map(|(name, room)| room.view(name, context.now)).collect();
        RoomsListed { rooms, next }
    }
}
