//! `list_places`: the places of a room in order, page by page.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, PageSize, Permission};
use crate::limits::{LIST_PLACES_MAX, ROOM_CLASSES_MAX, ROOM_PLACES_MAX};
use crate::names::RoomName;
use crate::numbers::{Micros, within};
use crate::room::state::Room;
use crate::room::{Machine, PlaceEntry};

/// Lists places. The list of waiters of a frozen room is the list of its tickets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPlaces {
    /// The name of the room.
    pub room: RoomName,
    /// Which places to list.
    pub listing: PlaceListing,
    /// The rank of the first place on the page, from 0.
    pub from: u64,
    /// The most places to return.
    pub places_max: usize,
}

/// Which places to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaceListing {
    /// Active places by their end.
    Active,
    /// The waiters of a class in order.
    Waiting {
        /// The class, from 0.
        class: u32,
    },
}

/// The reply to [`ListPlaces`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacesListed {
    /// The places.
    pub places: Vec<PlaceEntry>,
    /// The rank at which the next page begins; `None` on the last page.
    pub next: Option<u64>,
}

impl Operation for ListPlaces {
    type Machine = Machine;
    type Reply = PlacesListed;

    const STEM: &'static str = "list_places";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the places of a page", items: self.places_max, items_max: LIST_PLACES_MAX })
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate_page()?;
        within("the rank of a place", self.from, 0, ROOM_PLACES_MAX as u64)?;
        if let PlaceListing::Waiting { class } = self.listing {
            within("a priority class", class.into(), 0, ROOM_CLASSES_MAX as u64 - 1)?;
        }
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> PlacesListed {
        let room = machine.rooms.get(&self.room);
        let (places, total) = room.map_or((Vec::new(), 0), |room| room.page(&self, context.now));
        let end = self.from + places.len() as u64;
        PlacesListed { next: (end < total).then_some(end), places }
    }
}

impl Room {
    /// The places of a page, and how many places the listing has.
    fn page(&self, command: &ListPlaces, now: Micros) -> (Vec<PlaceEntry>, u64) {
        let (from, most) = (command.from as usize, command.places_max);
        match command.listing {
            PlaceListing::Active => {
                let ended = self.ended(now);
                let entry = |(until, token): &(Micros, crate::PlaceToken)| PlaceEntry {
                    user: self.places[token].user.clone(),
                    number: 0,
                    remaining_us: until.since(now),
                };
                let places = self.active.iter_from(ended + from).take(most).map(entry).collect();
                (places, (self.active.len() - ended) as u64)
            }
            PlaceListing::Waiting { class } => {
                let Some(class) = self.classes.get(class as usize) else { return (Vec::new(), 0) };
                let entry = |(number, token): &(u64, crate::PlaceToken)| PlaceEntry {
                    user: self.places[token].user.clone(),
                    number: *number,
                    remaining_us: 0,
                };
                let places = class.waiting.iter_from(from).take(most).map(entry).collect();
                (places, class.waiting.len() as u64)
            }
        }
    }
}
