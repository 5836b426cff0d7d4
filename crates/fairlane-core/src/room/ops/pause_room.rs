//! `pause_room`: stops and resumes admission.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::ROOM_REASON_BYTES_MAX;
use crate::names::RoomName;
use crate::numbers::{Micros, within};
use crate::room::Machine;

/// Pauses a room with a reason that its waiters see, or resumes it. Users still join, and active
/// places stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseRoom {
    /// The room, which is made if it does not exist.
    pub room: RoomName,
    /// The reason; `None` resumes.
    pub reason: Option<String>,
}

/// The reply to [`PauseRoom`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoomPaused {
    /// The room is paused or resumed, as requested.
    Set {
        /// Active places.
        active: u64,
    },
    /// There are too many rooms.
    TooManyRooms,
}

impl Operation for PauseRoom {
    type Machine = Machine;
    type Reply = RoomPaused;

    const STEM: &'static str = "pause_room";

    fn validate(&self) -> Result<(), Invalid> {
        let bytes = self.reason.as_ref().map_or(0, String::len);
        within("the bytes in the reason of a pause", bytes as u64, 0, ROOM_REASON_BYTES_MAX as u64)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RoomPaused {
        machine.pause_room(self, context.now)
    }
}

impl Machine {
    fn pause_room(&mut self, command: PauseRoom, now: Micros) -> RoomPaused {
        let Some(mut room) = self.take_or_new(&command.room, now) else { return RoomPaused::TooManyRooms };
        room.paused = command.reason;
        room.changed = true;
        self.store(&command.room, room, now);
        RoomPaused::Set { active: self.active_in(&command.room, now) }
    }
}
