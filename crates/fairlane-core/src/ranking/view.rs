//! What callers send to a board, and what they read from it.

use serde::{Deserialize, Serialize};

use crate::kernel::Invalid;
use crate::limits::{BOARD_AT_MS_MAX, BOARD_AT_MS_MIN, BOARD_SCORE_MAX, INTEGER_MAX};
use crate::names::{BoardName, EventId, MemberId, RebuildId};
use crate::numbers::{Micros, within};

use super::settings::BoardSettings;
use super::state::{Board, BoardTotals};
use super::window::WindowKind;

/// An event that counts for a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEvent {
    /// The event, which counts once under this id.
    pub id: EventId,
    /// The id of the member.
    pub member: MemberId,
    /// The amount that it adds to the score; 1 on a board that counts.
    pub delta: i64,
    /// When it happened, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// The cancellation of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    /// The event, which may arrive after its cancellation.
    pub id: EventId,
    /// When the event happened, in milliseconds since the Unix epoch. It decides whether the board
    /// still remembers the event.
    pub at_ms: u64,
}

/// A value for a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewScore {
    /// The id of the member.
    pub member: MemberId,
    /// The value, in units of the last decimal place of the board.
    pub value: i64,
    /// The version, of which the highest counts on a board by the latest value. Other boards ignore
    /// it.
    pub version: u64,
    /// When it was reached, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// The result for an event, a cancellation or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The board has changed.
    Applied,
    /// It was taken, but a sealed window or a closed season does not show it.
    Late,
    /// It is known already, or the value is not better or newer.
    Repeated,
    /// The cancellation is remembered until its event arrives.
    Pending,
    /// It is older than the horizon: rebuild the board.
    TooOld,
    /// Its time is too far ahead of the store's clock.
    Ahead,
    /// The score would be too large, or the delta is not 1 on a board that counts.
    OutOfRange,
    /// The board has reached its limit on remembered events.
    TooManyEvents,
    /// The board has reached the limit on members.
    TooManyMembers,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: &[Self] = &[
        Self::Applied,
        Self::Late,
        Self::Repeated,
        Self::Pending,
        Self::TooOld,
        Self::Ahead,
        Self::OutOfRange,
        Self::TooManyEvents,
        Self::TooManyMembers,
    ];

    /// Whether the board accounts for it now; otherwise it was refused.
    pub const fn is_taken(self) -> bool {
        matches!(self, Self::Applied | Self::Late | Self::Repeated | Self::Pending)
    }

    /// The lower-case name of the outcome.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Late => "late",
            Self::Repeated => "repeated",
            Self::Pending => "pending",
            Self::TooOld => "too_old",
            Self::Ahead => "ahead",
            Self::OutOfRange => "out_of_range",
            Self::TooManyEvents => "too_many_events",
            Self::TooManyMembers => "too_many_members",
        }
    }
}

/// The scores to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// The current season.
    All,
    /// One window.
    Window {
        /// Its length.
        kind: WindowKind,
        /// A time within the window, in milliseconds since the Unix epoch; `None` means now.
        at_ms: Option<u64>,
    },
    /// A closed season.
    Season {
        /// The number of the season, from 1.
        number: u64,
    },
}

/// A member with its score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankEntry {
    /// The id of the member.
    pub member: MemberId,
    /// The score, in units of the last decimal place of the board.
    pub score: i64,
    /// When the score was reached, in seconds since the Unix epoch; 0 if it is not kept.
    pub reached_s: u64,
    /// The ordinal rank, from 1: every member has its own.
    pub position: u64,
    /// The competition rank, from 1: equal scores share it, and the next one is skipped.
    pub rank: u64,
}

/// A page of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPage {
    /// The members, the best first.
    pub entries: Vec<RankEntry>,
    /// The number of members in the standing.
    pub members: u64,
    /// Decimal places of the scores.
    pub decimals: u32,
}

/// The state of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardView {
    /// The name of the board.
    pub board: BoardName,
    /// Its settings.
    pub settings: BoardSettings,
    /// The number of the current season, from 1.
    pub season: u64,
    /// When the current season began, in milliseconds since the Unix epoch; 0 for the first one.
    pub since_ms: u64,
    /// The number of members in the current season.
    pub members: u64,
    /// The number of events that are remembered.
    pub events: u64,
    /// Counts since the board was made.
    pub totals: BoardTotals,
    /// The rebuild that is under way.
    pub rebuild: Option<RebuildView>,
}

/// A rebuild that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildView {
    /// Its id.
    pub id: RebuildId,
    /// Rows of the source that were taken.
    pub rows: u64,
}

/// A window of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowView {
    /// Its length.
    pub kind: WindowKind,
    /// When it begins, in seconds since the Unix epoch.
    pub start_s: u64,
    /// The number of its members.
    pub members: u64,
    /// Whether it takes no further events.
    pub sealed: bool,
}

/// A closed season of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeasonView {
    /// Its number.
    pub number: u64,
    /// The number of its members.
    pub members: u64,
    /// When it was closed.
    pub closed_at: Micros,
    /// Whether the job that announces it was enqueued.
    pub announced: bool,
}

impl NewEvent {
    /// Checks that the numbers are within their bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_time(self.at_ms)?;
        within("the delta of an event, without its sign,", self.delta.unsigned_abs(), 0, BOARD_SCORE_MAX)?;
        Ok(())
    }
}

impl NewScore {
    /// Checks that the numbers are within their bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_time(self.at_ms)?;
        within("a score, without its sign,", self.value.unsigned_abs(), 0, BOARD_SCORE_MAX)?;
        within("a version", self.version, 0, INTEGER_MAX - 1)?;
        Ok(())
    }
}

/// Checks the time of an event.
pub(super) fn check_time(at_ms: u64) -> Result<(), Invalid> {
    within("the time of an event in ms since 1970", at_ms, BOARD_AT_MS_MIN, BOARD_AT_MS_MAX)?;
    Ok(())
}

impl Standing {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Window { at_ms: Some(at_ms), .. } => check_time(*at_ms),
            Self::Season { number } => {
                within("the number of a season", *number, 1, INTEGER_MAX - 1)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Board {
    pub(super) fn view(&self, name: &BoardName) -> BoardView {
        let rebuild = self.staged.as_ref();
        BoardView {
            board: name.clone(),
            settings: self.settings.clone(),
            season: self.season,
            since_ms: self.since_ms,
            members: self.live.all.len() as u64,
            events: self.live.events.len() as u64,
            totals: self.totals,
            rebuild: rebuild.map(|staged| RebuildView { id: staged.id.clone(), rows: staged.rows }),
        }
    }

    /// The windows, in the order of their kinds and starts.
    pub(super) fn window_views(&self, now: Micros) -> Vec<WindowView> {
        let view = |(slot, set): (&super::window::Slot, &super::score::ScoreSet)| {
            let (kind, start_s) = slot.parts();
            let members = set.len() as u64;
            Some(WindowView { kind: kind?, start_s, members, sealed: slot.is_sealed(now) })
        };
        let mut views: Vec<_> = self.live.windows.iter().filter_map(view).collect();
        views.sort_by_key(|view| (view.kind, view.start_s));
        views
    }

    pub(super) fn season_views(&self) -> Vec<SeasonView> {
        let view = |(number, season): (&u64, &super::state::Season)| SeasonView {
            number: *number,
            members: season.set.len() as u64,
            closed_at: season.closed_at,
            announced: season.announced,
        };
        self.seasons.iter().map(view).collect()
    }
}
