//! Events, cancellations and values.

use std::time::SystemTime;

use clap::Args;
use fairlane::views::BoardOutcomeView;
use fairlane::{BoardOutcome, EventTime};

use super::OneBoard;
use crate::failure::Failure;
use crate::target::QueueTarget;

#[derive(Args)]
pub(super) struct RecordArguments {
    #[command(flatten)]
    board: OneBoard,
    /// Id of the event, under which it counts once
    id: String,
    /// Member that it counts for
    member: String,
    /// What it adds to the score, on a board by sum
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    delta: i64,
    #[command(flatten)]
    time: Time,
}

#[derive(Args)]
pub(super) struct CancelArguments {
    #[command(flatten)]
    board: OneBoard,
    /// Id of the event
    id: String,
    #[command(flatten)]
    time: Time,
}

#[derive(Args)]
pub(super) struct ScoreArguments {
    #[command(flatten)]
    board: OneBoard,
    /// Member of the board
    member: String,
    /// Value in units of the board's last decimal place: 30.5 is 305 with one decimal place
    #[arg(allow_negative_numbers = true)]
    value: i64,
    /// Version, of which the highest counts on a board by the latest value
    #[arg(long, value_name = "N", default_value_t = 0)]
    version: u64,
    #[command(flatten)]
    time: Time,
}

#[derive(Args)]
struct Time {
    /// When the event happened, such as 2026-11-17T09:30:00Z; now by default
    #[arg(long, value_name = "TIME")]
    at: Option<EventTime>,
}

impl Time {
    fn system(&self) -> SystemTime {
        self.at.map_or_else(SystemTime::now, |at| {
            SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(at.ms)
        })
    }
}

/// Records an event.
pub(super) async fn record(arguments: RecordArguments) -> Result<(), Failure> {
    let RecordArguments { board: OneBoard { board, target }, id, member, delta, time } = arguments;
    let outcome = target.attach().await?.ranking(board).add(&id, &member, delta, time.system()).await?;
    print(&target, &id, outcome)
}

/// Cancels an event.
pub(super) async fn cancel(arguments: CancelArguments) -> Result<(), Failure> {
    let CancelArguments { board: OneBoard { board, target }, id, time } = arguments;
    let outcome = target.attach().await?.ranking(board).cancel(&id, time.system()).await?;
    print(&target, &id, outcome)
}

/// Sets the value of a member.
pub(super) async fn score(arguments: ScoreArguments) -> Result<(), Failure> {
    let ScoreArguments { board: OneBoard { board, target }, member, value, version, time } = arguments;
    let outcome = target.attach().await?.ranking(board).set(&member, version, value, time.system()).await?;
    print(&target, &member, outcome)
}

fn print(target: &QueueTarget, id: &str, outcome: BoardOutcome) -> Result<(), Failure> {
    let view = BoardOutcomeView::new(id, outcome);
    target.print(&view, || {
        let meaning = match outcome {
            BoardOutcome::Late => "late, a sealed window or a closed season does not show it",
            BoardOutcome::Repeated => "repeated, nothing changed",
            BoardOutcome::Pending => "pending, the event has not arrived yet",
            _ => "applied",
        };
        format!("{id}: {meaning}")
    })
}
