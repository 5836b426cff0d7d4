//! The chapters about boards.

pub(super) mod cancel_events;
pub(super) mod close_season;
pub(super) mod inspect_board;
pub(super) mod list_boards;
pub(super) mod list_ranks;
pub(super) mod rebuild_board;
pub(super) mod record_events;
pub(super) mod remove_board;
pub(super) mod set_board;
pub(super) mod set_scores;
pub(super) mod show_ranks;
pub(super) mod sweep_boards;
