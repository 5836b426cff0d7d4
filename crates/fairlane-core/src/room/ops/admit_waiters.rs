//! `admit_waiters`: brings one room up to date.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::RoomName;
use crate::numbers::Micros;
use crate::room::{Machine, RoomTotals};

/// Ends places whose time is over, drops silent waiters, and admits as many others as there are free
/// places and the rate allows. Every other command on the room does the same, so this is for a room
/// that no command reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitWaiters {
    /// The name of the room.
    pub room: RoomName,
}

/// The reply to [`AdmitWaiters`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitersAdmitted {
    /// Waiters that became active.
    pub admitted: u64,
    /// Active places that ended.
    pub expired: u64,
    /// Waiters that were dropped because they fell silent.
    pub silent: u64,
    /// The number of active places.
    pub active: u64,
    /// The number of waiters.
    pub waiting: u64,
}

impl Operation for AdmitWaiters {
    type Machine = Machine;
    type Reply = WaitersAdmitted;

    const STEM: &'static str = "admit_waiters";

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> WaitersAdmitted {
        machine.admit_waiters(&self.room, context.now)
    }
}

impl Machine {
    fn admit_waiters(&mut self, name: &RoomName, now: Micros) -> WaitersAdmitted {
        let RoomTotals { admitted, expired, silent, .. } = match self.rooms.get(name) {
            Some(room) => room.totals,
            None => return WaitersAdmitted::default(),
        };
        let room = self.take(name, now).expect("it was just found");
        self.store(name, room, now);
        let Some(room) = self.rooms.get(name) else { return WaitersAdmitted::default() };
        WaitersAdmitted {
            admitted: room.totals.admitted - admitted,
            expired: room.totals.expired - expired,
            silent: room.totals.silent - silent,
            active: room.active_now(now),
            waiting: room.waiting(),
        }
    }
}
