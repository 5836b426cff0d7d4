//! The operations on boards. A file per operation; this list is the wire format.

mod cancel_events;
mod close_season;
mod inspect_board;
mod list_boards;
mod list_ranks;
mod rebuild_board;
mod record_events;
mod remove_board;
mod set_board;
mod set_scores;
mod show_ranks;
mod sweep_boards;

pub use cancel_events::CancelEvents;
pub use close_season::{CloseSeason, SeasonClosed};
pub use inspect_board::{BoardDetail, BoardInspected, InspectBoard};
pub use list_boards::{BoardsListed, ListBoards};
pub use list_ranks::{ListRanks, PageStart, RanksListed};
pub use rebuild_board::{BoardRebuilt, RebuildBoard, RebuildStep};
pub use record_events::{EventsRecorded, RecordEvents};
pub use remove_board::{BoardRemoved, RemoveBoard};
pub use set_board::{BoardSet, SetBoard};
pub use set_scores::SetScores;
pub use show_ranks::ShowRanks;
pub use sweep_boards::{BoardsSwept, SweepBoards};

use super::Machine;
use crate::kernel::operations;

operations! {
    Ranking(Machine):
    RecordEvents,
    CancelEvents,
    SetScores,
    ListRanks,
    ShowRanks,
    SetBoard,
    RemoveBoard,
    CloseSeason,
    RebuildBoard,
    InspectBoard,
    ListBoards,
    SweepBoards,
}
