//! `fairlane ranking`: makes boards, changes and reads them, closes seasons, and compares boards with
//! their sources.
//!
//! - `ranking/board.rs`: boards, their settings and seasons. `ranking/update.rs`: events and values.
//! - `ranking/standing.rs`: pages and ranks. `ranking/source.rs`: rebuilds and audits.

mod board;
mod source;
mod standing;
mod update;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane ranking set popular --windows day,week
  fairlane ranking record popular reservation-1 concert-7
  fairlane ranking top popular --limit 10 --window day
  fairlane ranking rank popular concert-7
  fairlane ranking set fastest --rule latest --order ascending --decimals 3
  fairlane ranking score fastest schedule-1 30500 --version 1
  fairlane ranking close-season popular 1 --group system --type season-closed
  fairlane ranking rebuild popular reservations.ndjson --id nightly-1
  fairlane ranking audit popular reservations.ndjson

An event counts once under its id, however often it is recorded; see docs/rankings.md.
Exit codes: 0 success; 1 failure; 2 unknown board or window, refused update or bad input; 3 a board \
differs from its source.";

/// Makes boards, changes and reads them, closes seasons, and compares boards with their sources
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Makes a board, or changes how many events it remembers
    #[command(after_help = "Example:\n  fairlane ranking set popular --windows day,week --horizon 30d")]
    Set(board::SetArguments),
    /// Shows a board with its windows and seasons
    #[command(after_help = "Example:\n  fairlane ranking show popular")]
    Show(OneBoard),
    /// Lists boards
    #[command(after_help = "Example:\n  fairlane ranking list --json")]
    List(board::ListArguments),
    /// Removes a board with its windows and seasons
    #[command(after_help = "Example:\n  fairlane ranking remove popular")]
    Remove(OneBoard),
    /// Records an event, which counts once under its id
    #[command(
        after_help = "Example:\n  fairlane ranking record popular reservation-1 concert-7 --at 2026-11-17T09:30:00Z"
    )]
    Record(update::RecordArguments),
    /// Cancels an event
    #[command(after_help = "Example:\n  fairlane ranking cancel popular reservation-1")]
    Cancel(update::CancelArguments),
    /// Sets the value of a member, on a board by the maximum or the latest value
    #[command(after_help = "Example:\n  fairlane ranking score fastest schedule-1 30500 --version 1")]
    Score(update::ScoreArguments),
    /// Lists the first members
    #[command(after_help = "Example:\n  fairlane ranking top popular --limit 10 --window week")]
    Top(standing::TopArguments),
    /// Lists a member with its neighbours
    #[command(after_help = "Example:\n  fairlane ranking around popular concert-7 --before 5")]
    Around(standing::AroundArguments),
    /// Shows the rank and percentile of a member
    #[command(after_help = "Example:\n  fairlane ranking rank popular concert-7")]
    Rank(standing::RankArguments),
    /// Closes a season; all scores begin anew
    #[command(
        after_help = "Example:\n  fairlane ranking close-season popular 1 --group system --type season-closed"
    )]
    CloseSeason(board::CloseArguments),
    /// Rebuilds a board from lines of JSON
    #[command(after_help = source::REBUILD_HELP)]
    Rebuild(source::RebuildArguments),
    /// Compares a board with lines of JSON, and lists the members that differ
    #[command(after_help = source::AUDIT_HELP)]
    Audit(source::AuditArguments),
}

#[derive(Args)]
struct OneBoard {
    /// Name of the board
    board: String,
    #[command(flatten)]
    target: QueueTarget,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Set(arguments) => board::set(arguments).await,
        Action::Show(board) => board::show(&board).await,
        Action::List(arguments) => board::list(arguments).await,
        Action::Remove(board) => board::remove(&board).await,
        Action::Record(arguments) => update::record(arguments).await,
        Action::Cancel(arguments) => update::cancel(arguments).await,
        Action::Score(arguments) => update::score(arguments).await,
        Action::Top(arguments) => standing::top(arguments).await,
        Action::Around(arguments) => standing::around(arguments).await,
        Action::Rank(arguments) => standing::rank(arguments).await,
        Action::CloseSeason(arguments) => board::close_season(arguments).await,
        Action::Rebuild(arguments) => source::rebuild(arguments).await,
        Action::Audit(arguments) => source::audit(arguments).await,
    }
}
