//! `report_room`: adapts the admission rate to responses of the back end behind a room.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{REPORT_RESPONSES_MAX, RETRY_AFTER_MS_MAX, ROOM_FLIGHT_MS};
use crate::names::RoomName;
use crate::numbers::{Fence, Micros, within};
use crate::room::Machine;

/// Reports responses of the back end. A refusal cuts the admission rate, which then grows back. A
/// Retry-After stops admission for its duration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRoom {
    /// The name of the room.
    pub room: RoomName,
    /// Responses that were not refusals.
    pub answered: u64,
    /// Whether the back end refused a request.
    pub refused: bool,
    /// The Retry-After of a refusal, in milliseconds; 0 if there was none.
    pub retry_after_ms: u64,
}

/// The reply to [`ReportRoom`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomReported {
    /// The admission rate, in thousandths per second; `None` means unlimited.
    pub rate_milli: Option<u64>,
    /// Active places.
    pub active: u64,
}

impl Operation for ReportRoom {
    type Machine = Machine;
    type Reply = RoomReported;

    const STEM: &'static str = "report_room";

    fn validate(&self) -> Result<(), Invalid> {
        within("the responses in a report", self.answered, 0, REPORT_RESPONSES_MAX)?;
        within("a time to retry in ms", self.retry_after_ms, 0, RETRY_AFTER_MS_MAX)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RoomReported {
        machine.report_room(&self, context.now)
    }
}

impl Machine {
    fn report_room(&mut self, command: &ReportRoom, now: Micros) -> RoomReported {
        let Some(mut room) = self.take(&command.room, now) else {
            return RoomReported { rate_milli: None, active: 0 };
        };
        let (downstream, rate) = (&mut room.downstream, room.settings.rate);
        if command.answered > 0 {
            downstream.count_goodput(command.answered, now);
        }
        if command.refused {
            // Refusals that arrive soon after a cut belong to users admitted before it.
            let flight = Fence(now.0.saturating_sub(ROOM_FLIGHT_MS * 1000));
            downstream.refused(rate, flight, Fence(now.0), command.retry_after_ms, now);
        }
        let rate_milli = downstream.rate_milli(rate, now);
        room.changed = true;
        self.store(&command.room, room, now);
        RoomReported { rate_milli, active: self.active_in(&command.room, now) }
    }
}
