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

use super::Machine;
use crate::kernel::operations;

operations! {
    Ranking(Machine):
    record_events::RecordEvents { EventsRecorded },
    cancel_events::CancelEvents,
    set_scores::SetScores,
    list_ranks::ListRanks { PageStart, RanksListed },
    show_ranks::ShowRanks,
    set_board::SetBoard { BoardSet },
    remove_board::RemoveBoard { BoardRemoved },
    close_season::CloseSeason { SeasonClosed },
    rebuild_board::RebuildBoard { BoardRebuilt, RebuildStep },
    inspect_board::InspectBoard { BoardDetail, BoardInspected },
    list_boards::ListBoards { BoardsListed },
    sweep_boards::SweepBoards { BoardsSwept },
}
