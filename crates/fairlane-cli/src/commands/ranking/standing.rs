//! Pages of a board and the ranks of members.

use clap::Args;
use fairlane::views::{MemberRankView, RankEntryView, RankPageView};
use fairlane::{EventTime, Standing};

use super::OneBoard;
use super::board::Window;
use crate::failure::Failure;
use crate::tables::{self, counted, thousands};

#[derive(Args)]
struct Scores {
    /// Window instead of the current season
    #[arg(long, value_enum, conflicts_with = "season")]
    window: Option<Window>,
    /// Time within the window, such as 2026-11-17T09:30:00Z; now by default
    #[arg(long, value_name = "TIME", requires = "window")]
    at: Option<EventTime>,
    /// Closed season instead of the current one
    #[arg(long, value_name = "N")]
    season: Option<u64>,
}

impl From<Scores> for Standing {
    fn from(scores: Scores) -> Self {
        match (scores.window, scores.season) {
            (Some(window), _) => Self::Window { kind: window.into(), at_ms: scores.at.map(|at| at.ms) },
            (None, Some(number)) => Self::Season { number },
            (None, None) => Self::All,
        }
    }
}

#[derive(Args)]
pub(super) struct TopArguments {
    #[command(flatten)]
    board: OneBoard,
    #[command(flatten)]
    scores: Scores,
    /// Maximum number of members to list, at most 500
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Number of members before the first one that is listed
    #[arg(long, value_name = "N", default_value_t = 0)]
    behind: u64,
}

#[derive(Args)]
pub(super) struct AroundArguments {
    #[command(flatten)]
    board: OneBoard,
    /// Member of the board
    member: String,
    #[command(flatten)]
    scores: Scores,
    /// Number of members to list before it
    #[arg(long, value_name = "N", default_value_t = 5)]
    before: u64,
    /// Maximum number of members to list, at most 500
    #[arg(long, value_name = "N", default_value_t = 11)]
    limit: usize,
}

#[derive(Args)]
pub(super) struct RankArguments {
    #[command(flatten)]
    board: OneBoard,
    /// Member of the board
    member: String,
    #[command(flatten)]
    scores: Scores,
}

/// Lists the first members.
pub(super) async fn top(arguments: TopArguments) -> Result<(), Failure> {
    let TopArguments { board: OneBoard { board, target }, scores, limit, behind } = arguments;
    let page = target.attach().await?.ranking(board).page(scores.into(), behind, limit).await?;
    let page = RankPageView::from(page);
    target.print(&page, || text(&page))
}

/// Lists a member with its neighbours.
pub(super) async fn around(arguments: AroundArguments) -> Result<(), Failure> {
    let AroundArguments { board: OneBoard { board, target }, member, scores, before, limit } = arguments;
    let ranking = target.attach().await?.ranking(&board);
    let page = RankPageView::from(ranking.around(scores.into(), &member, before, limit).await?);
    if page.entries.is_empty() {
        return Err(absent(&member, &board));
    }
    target.print(&page, || text(&page))
}

/// Shows the rank of a member.
pub(super) async fn rank(arguments: RankArguments) -> Result<(), Failure> {
    let RankArguments { board: OneBoard { board, target }, member, scores } = arguments;
    let rank = target.attach().await?.ranking(&board).rank(scores.into(), &member).await?;
    let view = MemberRankView::from(rank.ok_or_else(|| absent(&member, &board))?);
    target.print(&view, || {
        format!(
            "{member}: rank {} of {}, score {}, percentile {:.1}",
            thousands(view.entry.rank),
            counted(view.members, "member"),
            view.entry.score,
            view.percentile
        )
    })
}

fn absent(member: &str, board: &str) -> Failure {
    Failure::bad_input(format!("{member} is not in this standing of board {board}"))
}

fn text(page: &RankPageView) -> String {
    match page.entries.is_empty() {
        true => "The board has no members here.".to_owned(),
        false => format!("{}\nof {}", table(&page.entries), counted(page.members, "member")),
    }
}

/// Members as a table.
pub(super) fn table(entries: &[RankEntryView]) -> String {
    let rows = entries.iter().map(|entry| {
        let reached = entry.reached_at.clone().unwrap_or_else(|| "–".to_owned());
        vec![thousands(entry.rank), entry.member.clone(), entry.score.to_string(), reached]
    });
    tables::texts(&["rank", "member", "score", "reached at"], rows)
}
