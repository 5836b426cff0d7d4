//! `set_room`: sets the limits of a room.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::ROOMS_MAX;
use crate::names::RoomName;
use crate::numbers::Micros;
use crate::room::state::{Class, Room};
use crate::room::{Machine, RoomSettings};

/// Sets all limits of a room. A lower limit ends no place: the room drains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRoom {
    /// The room, which is made if it does not exist. An empty room with the default limits is
    /// forgotten after an hour.
    pub room: RoomName,
    /// Its limits.
    pub settings: RoomSettings,
}

/// The reply to [`SetRoom`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoomSet {
    /// The limits are in effect.
    Set {
        /// Active places.
        active: u64,
    },
    /// A class that would be removed has waiters.
    ClassInUse,
    /// There are too many rooms.
    TooManyRooms,
}

impl Operation for SetRoom {
    type Machine = Machine;
    type Reply = RoomSet;

    const STEM: &'static str = "set_room";

    fn validate(&self) -> Result<(), Invalid> {
        self.settings.validate()
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RoomSet {
        machine.set_room(self, context.now)
    }
}

impl Machine {
    fn set_room(&mut self, command: SetRoom, now: Micros) -> RoomSet {
        let Some(mut room) = self.take_or_new(&command.room, now) else { return RoomSet::TooManyRooms };
        let classes = command.settings.weights.len();
        let is_in_use = room.classes.iter().skip(classes).any(|class| !class.waiting.is_empty());
        if !is_in_use {
            room.bucket.change_rate(room.settings.rate, command.settings.rate, now);
            room.classes.truncate(classes);
            room.classes.resize_with(classes, Class::default);
            room.settings = command.settings;
            room.changed = true;
        }
        self.store(&command.room, room, now);
        match is_in_use {
            true => RoomSet::ClassInUse,
            false => RoomSet::Set { active: self.active_in(&command.room, now) },
        }
    }

    /// A room, or a new one; `None` if there are too many.
    pub(super) fn take_or_new(&mut self, name: &RoomName, now: Micros) -> Option<Room> {
        match self.take(name, now) {
            None if self.rooms.len() >= ROOMS_MAX => None,
            room => Some(room.unwrap_or_else(|| Room::new(self.hash_seed))),
        }
    }
}
