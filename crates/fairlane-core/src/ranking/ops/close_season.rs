//! `close_season`: ends the current season and begins the next one.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{BOARD_SEASONS_KEPT, INTEGER_MAX, LIST_RANKS_MAX};
use crate::names::BoardName;
use crate::numbers::{Micros, within};
use crate::ranking::rows::SetKind;
use crate::ranking::score::ScoreSet;
use crate::ranking::state::Season;
use crate::ranking::{Machine, RankEntry};

/// Closes a season by its number: its standing is sealed, and all scores begin anew. Closing it again
/// returns the same standing. A rebuild that is under way is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseSeason {
    /// The name of the board.
    pub board: BoardName,
    /// The number of the season, from 1.
    pub season: u64,
    /// The most members of the standing to return.
    pub members_max: usize,
    /// Whether to mark the season as announced, if it was closed before.
    pub announced: bool,
}

/// The reply to [`CloseSeason`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeasonClosed {
    /// The season is closed.
    Closed {
        /// When it was closed, by the clock of the store.
        closed_at: Micros,
        /// The number of members of the season.
        members: u64,
        /// The first members of the standing.
        entries: Vec<RankEntry>,
        /// Decimal places of the scores.
        decimals: u32,
        /// Whether it was announced before.
        announced: bool,
    },
    /// The season has not begun.
    NotBegun {
        /// The current season.
        season: u64,
    },
    /// The season was closed too long ago: its standing is no longer kept.
    Forgotten,
    /// There is no such board.
    UnknownBoard,
}

impl Operation for CloseSeason {
    type Machine = Machine;
    type Reply = SeasonClosed;

    const STEM: &'static str = "close_season";

    fn validate(&self) -> Result<(), Invalid> {
        within("the number of a season", self.season, 1, INTEGER_MAX - 1)?;
        within("the members of a standing", self.members_max as u64, 0, LIST_RANKS_MAX as u64)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.members_max)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> SeasonClosed {
        machine.close_season(&self, context.now)
    }
}

impl Machine {
    fn close_season(&mut self, command: &CloseSeason, now: Micros) -> SeasonClosed {
        let (name, number) = (&command.board, command.season);
        let Some(board) = self.boards.get(name) else { return SeasonClosed::UnknownBoard };
        if number > board.season {
            return SeasonClosed::NotBegun { season: board.season };
        }
        let is_current = number == board.season;
        if is_current {
            self.seal_season(name, now);
        }
        let board = self.boards.get_mut(name).expect("it was just found");
        let Some(season) = board.seasons.get_mut(&number) else { return SeasonClosed::Forgotten };
        let announced = season.announced;
        if command.announced && !is_current && !announced {
            season.announced = true;
            self.journal.touch_season(name, number, season);
        }
        SeasonClosed::Closed {
            closed_at: season.closed_at,
            members: season.set.len() as u64,
            entries: season.set.page(&board.settings, 0, command.members_max),
            decimals: board.settings.decimals,
            announced,
        }
    }

    fn seal_season(&mut self, name: &BoardName, now: Micros) {
        let Some(board) = self.boards.get_mut(name) else { return };
        let number = self.journal.number();
        self.journal.touch_set(number, name, board.live.number, SetKind::All, 0);
        let set = std::mem::replace(&mut board.live.all, ScoreSet::new(number, self.hash_seed));
        let season = Season { set, closed_at: now, announced: false };
        self.journal.touch_season(name, board.season, &season);
        board.seasons.insert(board.season, season);
        if let Some(forgotten) = board.seasons.remove(&board.season.saturating_sub(BOARD_SEASONS_KEPT)) {
            self.journal.discard_set(forgotten.set);
        }
        board.season += 1;
        board.since_ms = now.as_millis();
        if let Some(staged) = board.staged.take() {
            self.journal.discard(staged.generation);
        }
        self.store(name);
    }
}
