//! `list_ranks`: a page of a board: its top, any other part, or the neighbours of a member.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, PageSize, Permission};
use crate::limits::{BOARD_MEMBERS_MAX, LIST_RANKS_MAX};
use crate::names::{BoardName, MemberId};
use crate::numbers::{Micros, within};
use crate::ranking::{Machine, RankPage, Standing};

/// Lists members in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRanks {
    /// The name of the board.
    pub board: BoardName,
    /// The scores to read.
    pub standing: Standing,
    /// Where the page begins.
    pub start: PageStart,
    /// The most members to return.
    pub members_max: usize,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageStart {
    /// After this many members.
    Behind(u64),
    /// At a number of members before a given one; the page is empty if that one is not in the
    /// standing.
    Around {
        /// The id of the member.
        member: MemberId,
        /// The number of members to list before it.
        before: u64,
    },
}

/// The reply: the page, or `None` if the board does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanksListed(pub Option<RankPage>);

impl Operation for ListRanks {
    type Machine = Machine;
    type Reply = RanksListed;

    const STEM: &'static str = "list_ranks";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the members of a page", items: self.members_max, items_max: LIST_RANKS_MAX })
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate_page()?;
        self.standing.validate()?;
        match self.start {
            PageStart::Behind(members) => {
                within("the members before a page", members, 0, BOARD_MEMBERS_MAX as u64)?
            }
            PageStart::Around { before, .. } => {
                within("the members in front of a member", before, 0, LIST_RANKS_MAX as u64)?
            }
        };
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> RanksListed {
        RanksListed(machine.list_ranks(&self, context.now))
    }
}

impl Machine {
    fn list_ranks(&self, command: &ListRanks, now: Micros) -> Option<RankPage> {
        let board = self.boards.get(&command.board)?;
        let settings = &board.settings;
        let mut page = RankPage { entries: Vec::new(), members: 0, decimals: settings.decimals };
        let Some(set) = board.set(&command.standing, now) else { return Some(page) };
        page.members = set.len() as u64;
        let from = match &command.start {
            PageStart::Behind(members) => Some(*members as usize),
            PageStart::Around { member, before } => {
                set.position(settings, member).map(|position| position.saturating_sub(*before as usize))
            }
        };
        if let Some(from) = from {
            page.entries = set.page(settings, from, command.members_max);
        }
        Some(page)
    }
}
