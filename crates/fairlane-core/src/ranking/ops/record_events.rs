//! `record_events`: counts events, each once.

use serde::{Deserialize, Serialize};

use crate::encoding::list;
use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::RECORD_EVENTS_MAX;
use crate::names::BoardName;
use crate::numbers::Micros;
use crate::ranking::apply::Item;
use crate::ranking::{Machine, NewEvent, Outcome, RankEntry};

/// Adds events to a board that counts or sums. An event that was recorded before changes nothing, and
/// events may arrive in any order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordEvents {
    /// The name of the board.
    pub board: BoardName,
    /// The events.
    #[serde(deserialize_with = "list::<RECORD_EVENTS_MAX, _, _>")]
    pub events: Vec<NewEvent>,
    /// Whether to reply with the ranks of the members afterwards.
    pub ranks: bool,
}

/// The reply to [`RecordEvents`], to `cancel_events` and to `set_scores`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventsRecorded {
    /// The events were applied or refused, each with an outcome.
    Recorded {
        /// The outcomes, in the order of the command.
        outcomes: Vec<Outcome>,
        /// The members in the current season, in the order of the command, if that was asked for.
        /// Members that are not in it are left out.
        ranks: Vec<RankEntry>,
    },
    /// There is no such board; create it first.
    UnknownBoard,
    /// The rule of the board does not allow the operation: boards that count or sum take events and
    /// cancellations, the others take scores.
    WrongRule,
}

impl Operation for RecordEvents {
    type Machine = Machine;
    type Reply = EventsRecorded;

    const STEM: &'static str = "record_events";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("record_events", self.events.len(), RECORD_EVENTS_MAX)?;
        self.events.iter().try_for_each(NewEvent::validate)
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Produce)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.events.len())
    }

    fn adds_data(&self) -> bool {
        true
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> EventsRecorded {
        let items: Vec<_> = self.events.into_iter().map(Item::Record).collect();
        machine.change_board(&self.board, &items, self.ranks, context.now)
    }
}

impl Machine {
    /// Applies items of one kind to a board and counts the outcomes.
    pub(super) fn change_board(
        &mut self,
        name: &BoardName,
        items: &[Item],
        with_ranks: bool,
        now: Micros,
    ) -> EventsRecorded {
        let Some(board) = self.boards.get_mut(name) else { return EventsRecorded::UnknownBoard };
        if items.iter().any(|item| item.is_score() == board.settings.rule.takes_events()) {
            return EventsRecorded::WrongRule;
        }
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            let outcome = board.change((name, now, self.hash_seed), &mut self.journal, item);
            board.totals.count(outcome, matches!(item, Item::Cancel(_)));
            outcomes.push(outcome);
        }
        let members = items.iter().filter_map(Item::member).filter(|_| with_ranks);
        let ranks = members.filter_map(|member| board.live.all.entry_of(&board.settings, member)).collect();
        self.store(name);
        EventsRecorded::Recorded { outcomes, ranks }
    }
}
