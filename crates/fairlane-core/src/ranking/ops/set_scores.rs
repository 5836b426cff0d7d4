//! `set_scores`: sets the values of members.

use serde::{Deserialize, Serialize};

use crate::encoding::list;
use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::RECORD_EVENTS_MAX;
use crate::names::BoardName;
use crate::ranking::apply::Item;
use crate::ranking::{EventsRecorded, Machine, NewScore};

/// Sets values on a board by the maximum or the latest value. Values may arrive in any order and
/// repeatedly: the best value counts, or the one with the highest version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetScores {
    /// The name of the board.
    pub board: BoardName,
    /// The values.
    #[serde(deserialize_with = "list::<RECORD_EVENTS_MAX, _, _>")]
    pub scores: Vec<NewScore>,
    /// Whether to reply with the ranks of the members afterwards.
    pub ranks: bool,
}

impl Operation for SetScores {
    type Machine = Machine;
    type Reply = EventsRecorded;

    const STEM: &'static str = "set_scores";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("set_scores", self.scores.len(), RECORD_EVENTS_MAX)?;
        self.scores.iter().try_for_each(NewScore::validate)
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Produce)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.scores.len())
    }

    fn adds_data(&self) -> bool {
        true
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> EventsRecorded {
        let items: Vec<_> = self.scores.into_iter().map(Item::Set).collect();
        machine.change_board(&self.board, &items, self.ranks, context.now)
    }
}
