//! `keep_place`: a waiter's poll, which keeps its place.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::{PlaceToken, RoomName};
use crate::numbers::Micros;
use crate::room::{Machine, PlaceStatus, PlaceView};

/// Keeps a waiter's place until it has missed its next poll by the room's retention, and shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepPlace {
    /// The name of the room.
    pub room: RoomName,
    /// The token of the place.
    pub token: PlaceToken,
}

impl Operation for KeepPlace {
    type Machine = Machine;
    type Reply = PlaceStatus;

    const STEM: &'static str = "keep_place";

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> PlaceStatus {
        machine.keep_place(&self, context.now)
    }
}

impl Machine {
    fn keep_place(&mut self, command: &KeepPlace, now: Micros) -> PlaceStatus {
        let Some(mut room) = self.take(&command.room, now) else {
            return PlaceStatus { place: PlaceView::Unknown, active: 0 };
        };
        if let Some(silent_at) = room.silent_at(&command.token, now) {
            room.keep(&command.token, silent_at);
        }
        let status = room.status(&command.token, now);
        self.store(&command.room, room, now);
        status
    }
}
