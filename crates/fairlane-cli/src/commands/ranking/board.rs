//! Boards: their settings, what they contain, and their seasons.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fairlane::views::{BoardDetailView, BoardView, ClosedSeasonView};
use fairlane::{BoardOrder, BoardRule, Ranking, WindowKind, duration_text};
use fairlane_core::limits::LIST_BOARDS_MAX;
use serde::Serialize;

use super::OneBoard;
use super::standing::table;
use crate::failure::Failure;
use crate::pages::read_pages;
use crate::tables::{self, counted, thousands};
use crate::target::{QueueTarget, list_length};

#[derive(Args)]
pub(super) struct SetArguments {
    #[command(flatten)]
    board: OneBoard,
    /// How scores follow from what is sent
    #[arg(long, value_enum)]
    rule: Option<Rule>,
    /// Which score is first
    #[arg(long, value_enum)]
    order: Option<Order>,
    /// Decimal places of the scores, at most 3
    #[arg(long, value_name = "N")]
    decimals: Option<u32>,
    /// Windows besides the one over all of the season, separated by commas
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',')]
    windows: Option<Vec<Window>>,
    /// Time for which an event is remembered, such as 7d; older events are refused
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration)]
    horizon: Option<Duration>,
    /// Maximum number of events that are remembered; this can be changed later
    #[arg(long, value_name = "N")]
    events_max: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rule {
    /// The number of events
    Count,
    /// The sum of the events' deltas
    Sum,
    /// The best value that was set
    Maximum,
    /// The value with the highest version
    Latest,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    /// The largest score first
    Descending,
    /// The smallest score first
    Ascending,
}

/// The length of a window.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Window {
    /// An hour
    Hour,
    /// A day, in UTC
    Day,
    /// A week from Monday, in UTC
    Week,
}

impl From<Window> for WindowKind {
    fn from(window: Window) -> Self {
        match window {
            Window::Hour => Self::Hour,
            Window::Day => Self::Day,
            Window::Week => Self::Week,
        }
    }
}

/// The JSON form of a board that was set.
#[derive(Serialize)]
struct BoardSet {
    created: bool,
    #[serde(flatten)]
    board: BoardDetailView,
}

/// Makes a board, or changes it.
pub(super) async fn set(arguments: SetArguments) -> Result<(), Failure> {
    let OneBoard { board: name, target } = &arguments.board;
    let ranking = target.attach().await?.ranking(name);
    let updated = ranking.update(|settings| {
        settings.rule = arguments.rule.map_or(settings.rule, |rule| match rule {
            Rule::Count => BoardRule::Count,
            Rule::Sum => BoardRule::Sum,
            Rule::Maximum => BoardRule::Maximum,
            Rule::Latest => BoardRule::Latest,
        });
        settings.order = arguments.order.map_or(settings.order, |order| match order {
            Order::Descending => BoardOrder::Descending,
            Order::Ascending => BoardOrder::Ascending,
        });
        settings.decimals = arguments.decimals.unwrap_or(settings.decimals);
        if let Some(windows) = &arguments.windows {
            settings.windows = windows.iter().copied().map(WindowKind::from).collect();
        }
        settings.horizon_ms = arguments.horizon.map_or(settings.horizon_ms, |time| time.as_millis() as u64);
        settings.events_max = arguments.events_max.unwrap_or(settings.events_max);
    });
    let created = updated.await?.1;
    let set = BoardSet { created, board: view(&ranking, name).await? };
    target.print(&set, || text(&set.board))
}

async fn view(ranking: &Ranking, board: &str) -> Result<BoardDetailView, Failure> {
    Ok(ranking.view().await?.ok_or_else(|| unknown(board))?.into())
}

fn unknown(board: &str) -> Failure {
    Failure::bad_input(format!("there is no board {board}; make it with fairlane ranking set {board}"))
}

/// Shows a board.
pub(super) async fn show(OneBoard { board, target }: &OneBoard) -> Result<(), Failure> {
    let view = view(&target.attach().await?.ranking(board), board).await?;
    target.print(&view, || text(&view))
}

fn text(detail: &BoardDetailView) -> String {
    let board = &detail.board;
    let windows = match board.windows.is_empty() {
        true => String::new(),
        false => format!(", windows {}", board.windows.join(", ")),
    };
    let totals = board.totals;
    let mut text = format!(
        "{}: {}, {}, season {}, {}{windows}\n  remembers {} of at most {} events for {}\n  so far {} recorded, {} \
         cancelled, {} repeated, {} late, {} too old, {} refused",
        board.board,
        board.rule,
        board.order,
        board.season,
        counted(board.members, "member"),
        thousands(board.events),
        thousands(board.events_max),
        duration_text(Duration::from_millis(board.horizon_ms)),
        thousands(totals.recorded),
        thousands(totals.cancelled),
        thousands(totals.repeated),
        thousands(totals.late),
        thousands(totals.too_old),
        thousands(totals.refused),
    );
    if let Some(rows) = board.rebuild_rows {
        text.push_str(&format!("\n  a rebuild has taken {}", counted(rows, "row")));
    }
    for window in &detail.readable {
        let sealed = if window.sealed { ", sealed" } else { "" };
        let members = counted(window.members, "member");
        text.push_str(&format!("\n  {} from {}: {members}{sealed}", window.window, window.start));
    }
    for season in &detail.seasons {
        let announced = if season.announced { ", announced" } else { "" };
        let members = counted(season.members, "member");
        text.push_str(&format!(
            "\n  season {} closed at {}: {members}{announced}",
            season.season, season.closed_at
        ));
    }
    text
}

#[derive(Args)]
pub(super) struct ListArguments {
    /// Maximum number of boards to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = list_length, allow_negative_numbers = true)]
    limit: usize,
    #[command(flatten)]
    target: QueueTarget,
}

/// The JSON form of the list.
#[derive(Serialize)]
struct BoardList {
    boards: Vec<BoardView>,
}

/// Lists boards.
pub(super) async fn list(ListArguments { limit, target }: ListArguments) -> Result<(), Failure> {
    let fairlane = target.attach().await?;
    let read = async |after, most| {
        let page = fairlane.rankings(after, most).await?;
        Ok::<_, Failure>((page.boards, page.next))
    };
    let boards = read_pages(limit, LIST_BOARDS_MAX, read).await?;
    let list = BoardList { boards: boards.into_iter().map(BoardView::from).collect() };
    target.print(&list, || list.text())
}

impl BoardList {
    fn text(&self) -> String {
        if self.boards.is_empty() {
            return "There is no board.".to_owned();
        }
        let rows = self.boards.iter().map(|view| {
            let words = [&view.board, view.rule, view.order].map(str::to_owned);
            [words.to_vec(), [view.season, view.members, view.events].map(thousands).to_vec()].concat()
        });
        tables::texts(&["board", "rule", "order", "season", "members", "events"], rows)
    }
}

/// The JSON form of a board that was removed.
#[derive(Serialize)]
struct Removed<'a> {
    removed: &'a str,
}

/// Removes a board.
pub(super) async fn remove(OneBoard { board, target }: &OneBoard) -> Result<(), Failure> {
    match target.attach().await?.ranking(board).remove().await? {
        true => target.print(&Removed { removed: board }, || format!("board {board} is removed")),
        false => Err(unknown(board)),
    }
}

#[derive(Args)]
pub(super) struct CloseArguments {
    /// Name of the board
    board: String,
    /// Number of the season, as ranking show prints it
    season: u64,
    /// Group of the job that announces the season
    #[arg(long, requires = "job_type")]
    group: Option<String>,
    /// Type of the job that announces the season
    #[arg(long = "type", value_name = "TYPE", requires = "group")]
    job_type: Option<String>,
    #[command(flatten)]
    target: QueueTarget,
}

/// Closes a season, and enqueues the job that announces it if there is one.
pub(super) async fn close_season(arguments: CloseArguments) -> Result<(), Failure> {
    let CloseArguments { board, season, group, job_type, target } = arguments;
    let ranking = target.attach().await?.ranking(&board);
    let closed = match group.zip(job_type) {
        None => ranking.close_season(season).await?,
        Some((group, job_type)) => ranking.close_season_with_job(season, &group, &job_type).await?,
    };
    let view = ClosedSeasonView::new(season, &closed);
    target.print(&view, || {
        let announced = if view.announced_now { "; its job is enqueued" } else { "" };
        let members = counted(view.members, "member");
        format!("season {season} of {board} is closed with {members}{announced}\n{}", table(&view.entries))
    })
}
