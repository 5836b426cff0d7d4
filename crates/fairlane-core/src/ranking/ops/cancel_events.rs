//! `cancel_events`: takes events back, each once.

use serde::{Deserialize, Serialize};

use crate::encoding::list;
use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::RECORD_EVENTS_MAX;
use crate::names::BoardName;
use crate::ranking::apply::Item;
use crate::ranking::view::check_time;
use crate::ranking::{Cancellation, EventsRecorded, Machine};

/// Cancels events of a board that counts or sums. A cancellation may arrive before its event, which
/// then counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelEvents {
    /// The name of the board.
    pub board: BoardName,
    /// The events to cancel.
    #[serde(deserialize_with = "list::<RECORD_EVENTS_MAX, _, _>")]
    pub events: Vec<Cancellation>,
}

impl Operation for CancelEvents {
    type Machine = Machine;
    type Reply = EventsRecorded;

    const STEM: &'static str = "cancel_events";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("cancel_events", self.events.len(), RECORD_EVENTS_MAX)?;
        self.events.iter().try_for_each(|event| check_time(event.at_ms))
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Produce)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.events.len())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> EventsRecorded {
        let items: Vec<_> = self.events.into_iter().map(Item::Cancel).collect();
        machine.change_board(&self.board, &items, false, context.now)
    }
}
