//! `rebuild_board`: recounts a board from a source, and then replaces its scores in one step.

use serde::{Deserialize, Serialize};

use crate::encoding::list;
use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{INTEGER_MAX, RECORD_EVENTS_MAX};
use crate::names::{BoardName, RebuildId};
use crate::numbers::{Micros, within};
use crate::ranking::apply::{Change, Item, Origin};
use crate::ranking::state::{Generation, Staged};
use crate::ranking::{Machine, NewEvent, NewScore, Outcome};

/// One step of a rebuild. Until it is finished, readers see the old scores, and commands change
/// both the old and the new ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildBoard {
    /// The name of the board.
    pub board: BoardName,
    /// The id of the rebuild.
    pub rebuild: RebuildId,
    /// The step.
    pub step: RebuildStep,
}

/// A step of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebuildStep {
    /// Begins, or continues the rebuild with this id. Another one that is under way is dropped.
    Begin,
    /// Adds events of the source. Those older than the horizon count, too.
    Events {
        /// The number of rows of the source that were sent before.
        from: u64,
        /// The next rows.
        #[serde(deserialize_with = "list::<RECORD_EVENTS_MAX, _, _>")]
        events: Vec<NewEvent>,
    },
    /// Adds values of the source.
    Scores {
        /// The number of rows of the source that were sent before.
        from: u64,
        /// The next rows.
        #[serde(deserialize_with = "list::<RECORD_EVENTS_MAX, _, _>")]
        scores: Vec<NewScore>,
    },
    /// Replaces the scores of the board by those of the rebuild.
    Finish {
        /// The number of rows of the source.
        rows: u64,
    },
    /// Drops the rebuild.
    Abort,
}

/// The reply to [`RebuildBoard`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardRebuilt {
    /// The rebuild is under way.
    Ongoing {
        /// The number of rows taken so far.
        rows: u64,
    },
    /// The board has the scores of the rebuild.
    Finished {
        /// The number of its members.
        members: u64,
    },
    /// The rebuild was dropped.
    Aborted,
    /// A row was refused; the rows before it were taken.
    Refused {
        /// The number of rows taken so far.
        rows: u64,
        /// What the board refused, such as an event that is too old.
        outcome: Outcome,
    },
    /// The rows do not continue those that were taken.
    OutOfStep {
        /// The number of rows taken so far.
        rows: u64,
    },
    /// There is no such rebuild; another one or the close of a season has dropped it.
    UnknownRebuild,
    /// The rule of the board does not take such rows.
    WrongRule,
    /// There is no such board.
    UnknownBoard,
}

impl Operation for RebuildBoard {
    type Machine = Machine;
    type Reply = BoardRebuilt;

    const STEM: &'static str = "rebuild_board";

    fn validate(&self) -> Result<(), Invalid> {
        match &self.step {
            RebuildStep::Events { from, events } => {
                within("the rows of a source", *from, 0, INTEGER_MAX / 2)?;
                at_most("rebuild_board", events.len(), RECORD_EVENTS_MAX)?;
                events.iter().try_for_each(NewEvent::validate)
            }
            RebuildStep::Scores { from, scores } => {
                within("the rows of a source", *from, 0, INTEGER_MAX / 2)?;
                at_most("rebuild_board", scores.len(), RECORD_EVENTS_MAX)?;
                scores.iter().try_for_each(NewScore::validate)
            }
            RebuildStep::Finish { rows } => {
                within("the rows of a source", *rows, 0, INTEGER_MAX - 1)?;
                Ok(())
            }
            RebuildStep::Begin | RebuildStep::Abort => Ok(()),
        }
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn weight(&self) -> OperationWeight {
        match &self.step {
            RebuildStep::Events { events, .. } => OperationWeight::jobs(events.len()),
            RebuildStep::Scores { scores, .. } => OperationWeight::jobs(scores.len()),
            _ => OperationWeight::ONE,
        }
    }

    fn adds_data(&self) -> bool {
        matches!(self.step, RebuildStep::Events { .. } | RebuildStep::Scores { .. })
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BoardRebuilt {
        let reply = machine.rebuild_board(&self.board, self.rebuild, self.step, context.now);
        machine.store(&self.board);
        reply
    }
}

impl Machine {
    fn rebuild_board(
        &mut self,
        name: &BoardName,
        id: RebuildId,
        step: RebuildStep,
        now: Micros,
    ) -> BoardRebuilt {
        let Some(board) = self.boards.get_mut(name) else { return BoardRebuilt::UnknownBoard };
        let known = board.staged.take_if(|staged| staged.id == id);
        match (step, known) {
            (RebuildStep::Begin, None) => {
                let generation = Generation::new(name, &mut self.journal, self.hash_seed);
                if let Some(other) = board.staged.replace(Staged { id, rows: 0, generation }) {
                    self.journal.discard(other.generation);
                }
                BoardRebuilt::Ongoing { rows: 0 }
            }
            (RebuildStep::Finish { .. }, None) if board.rebuilt.as_ref() == Some(&id) => {
                BoardRebuilt::Finished { members: board.live.all.len() as u64 }
            }
            (_, None) => BoardRebuilt::UnknownRebuild,
            (RebuildStep::Begin, Some(staged)) => {
                let rows = staged.rows;
                board.staged = Some(staged);
                BoardRebuilt::Ongoing { rows }
            }
            (RebuildStep::Finish { rows }, Some(staged)) if rows == staged.rows => {
                self.journal.discard(std::mem::replace(&mut board.live, staged.generation));
                board.rebuilt = Some(id);
                BoardRebuilt::Finished { members: board.live.all.len() as u64 }
            }
            (RebuildStep::Finish { .. }, Some(staged)) => {
                let rows = staged.rows;
                board.staged = Some(staged);
                BoardRebuilt::OutOfStep { rows }
            }
            (RebuildStep::Abort, Some(staged)) => {
                self.journal.discard(staged.generation);
                BoardRebuilt::Aborted
            }
            (RebuildStep::Events { from, events }, Some(staged)) => {
                let items = events.into_iter().map(Item::Record).collect();
                self.add_rows(name, staged, from, items, now)
            }
            (RebuildStep::Scores { from, scores }, Some(staged)) => {
                let items = scores.into_iter().map(Item::Set).collect();
                self.add_rows(name, staged, from, items, now)
            }
        }
    }

    /// Adds rows of the source to a rebuild and puts it back.
    fn add_rows(
        &mut self,
        name: &BoardName,
        mut staged: Staged,
        from: u64,
        items: Vec<Item>,
        now: Micros,
    ) -> BoardRebuilt {
        let board = self.boards.get_mut(name).expect("the rebuild belongs to it");
        let settings = &board.settings;
        let change = Change {
            name,
            settings,
            season: board.season,
            since_ms: board.since_ms,
            now,
            origin: Origin::Source,
            hash_seed: self.hash_seed,
        };
        let end = from + items.len() as u64;
        let reply = if items.iter().any(|item| item.is_score() == settings.rule.takes_events()) {
            Some(BoardRebuilt::WrongRule)
        } else if from == staged.rows {
            items.iter().find_map(|item| {
                let outcome = match item.is_ahead(now) {
                    true => Outcome::Ahead,
                    false => item.apply(&mut staged.generation, &change, &mut self.journal),
                };
                staged.rows += u64::from(outcome.is_taken());
                (!outcome.is_taken()).then_some(BoardRebuilt::Refused { rows: staged.rows, outcome })
            })
        } else {
            (end > staged.rows).then_some(BoardRebuilt::OutOfStep { rows: staged.rows })
        };
        let rows = staged.rows;
        board.staged = Some(staged);
        reply.unwrap_or(BoardRebuilt::Ongoing { rows })
    }
}
