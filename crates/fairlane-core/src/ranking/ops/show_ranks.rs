//! `show_ranks`: the ranks of some members.

use serde::{Deserialize, Serialize};

use crate::encoding::list;
use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::SHOW_RANKS_MAX;
use crate::names::{BoardName, MemberId};
use crate::numbers::Micros;
use crate::ranking::{Machine, RankPage, RanksListed, Standing};

/// Shows the ranks of members, for instance of a user and of the user's friends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowRanks {
    /// The name of the board.
    pub board: BoardName,
    /// The scores to read.
    pub standing: Standing,
    /// The members. Those that are not in the standing are left out of the reply.
    #[serde(deserialize_with = "list::<SHOW_RANKS_MAX, _, _>")]
    pub members: Vec<MemberId>,
}

impl Operation for ShowRanks {
    type Machine = Machine;
    type Reply = RanksListed;

    const STEM: &'static str = "show_ranks";
    const READ_ONLY: bool = true;

    fn validate(&self) -> Result<(), Invalid> {
        at_most("show_ranks", self.members.len(), SHOW_RANKS_MAX)?;
        self.standing.validate()
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.members.len())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RanksListed {
        RanksListed(machine.show_ranks(&self, context.now))
    }
}

impl Machine {
    fn show_ranks(&self, command: &ShowRanks, now: Micros) -> Option<RankPage> {
        let board = self.boards.get(&command.board)?;
        let decimals = board.settings.decimals;
        let Some(set) = board.set(&command.standing, now) else {
            return Some(RankPage { entries: Vec::new(), members: 0, decimals });
        };
        let entry = |member| set.entry_of(&board.settings, member);
        let entries = command.members.iter().filter_map(entry).collect();
        Some(RankPage { entries, members: set.len() as u64, decimals })
    }
}
