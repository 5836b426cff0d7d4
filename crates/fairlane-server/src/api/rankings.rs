//! Rankings: boards of members in the order of their scores.
//!
//! - `rankings/updates.rs`: events, cancellations and values. `rankings/standings.rs`: pages of a board,
//!   and the ranks of members.
//! - `rankings/source.rs`: a board is rebuilt from a source, or compared with one.
//!
//! Every change can be repeated: events count once under their ids, seasons close once under their
//! numbers, and a rebuild continues under its id.

mod source;
mod standings;
mod updates;

use axum::extract::State;
use axum::http::StatusCode;
use fairlane::views::{BoardDetailView, BoardView, ClosedSeasonView, schema};
use fairlane::{BoardName, BoardOrder, BoardRule, BoardSettings, BoardWindows, WindowKind};
use fairlane_core::limits::INTEGER_MAX;
use fairlane_core::numbers::within;
use fairlane_core::{GroupId, TypeId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::change::{self, PAGE};
use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::problem::{Problem, ProblemKind};

pub(super) fn routes() -> Routes {
    use Permission::{Operate, Produce, Read};
    Routes::default()
        .add(Pace::Brief, Read, Scope::AllGroups, routes!(list))
        .add(Pace::Brief, Read, Scope::AllGroups, routes!(show))
        .add(Pace::Brief, Operate, Scope::AllGroups, routes!(set))
        .add(Pace::Brief, Operate, Scope::AllGroups, routes!(remove))
        .add(Pace::Brief, Produce, Scope::AllGroups, routes!(updates::record))
        .add(Pace::Brief, Produce, Scope::AllGroups, routes!(updates::record_batch))
        .add(Pace::Brief, Produce, Scope::AllGroups, routes!(updates::cancel))
        .add(Pace::Brief, Produce, Scope::AllGroups, routes!(updates::set_scores))
        .add(Pace::Brief, Read, Scope::AllGroups, routes!(standings::top))
        .add(Pace::Brief, Read, Scope::AllGroups, routes!(standings::around))
        .add(Pace::Brief, Read, Scope::AllGroups, routes!(standings::rank))
        .add(Pace::Brief, Read, Scope::AllGroups, routes!(standings::ranks))
        .add(Pace::Brief, Operate, Scope::AllGroups, routes!(close_season))
        .add(Pace::Stream, Operate, Scope::AllGroups, routes!(source::rebuild))
        .add(Pace::Stream, Operate, Scope::AllGroups, routes!(source::audit))
}

/// The board in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct BoardPath {
    /// The name of the board.
    #[param(value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "popular")]
    board: BoardName,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Where the page begins: the `next` of the last page.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$")]
    cursor: Option<BoardName>,
    /// The maximum number of boards on the page; 100 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
}

/// A page of boards.
#[derive(Serialize, ToSchema)]
#[schema(as = Boards)]
struct BoardsPage {
    /// The boards by name.
    boards: Vec<BoardView>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists boards
///
/// In the order of their names, page by page.
#[utoipa::path(
    get,
    path = "/api/rankings",
    tag = "rankings",
    params(Page),
    responses((status = 200, description = "A page", body = BoardsPage)),
)]
async fn list(State(app): State<Shared>, Query(page): Query<Page>) -> Result<Json<BoardsPage>, Problem> {
    let listed = app.fairlane.rankings(page.cursor, page.limit.unwrap_or(PAGE)).await?;
    let boards = listed.boards.into_iter().map(BoardView::from).collect();
    Ok(Json(BoardsPage { boards, next: listed.next.map(|next| next.to_string()) }))
}

/// Shows a board
///
/// Its settings and counts, its readable windows, and its closed seasons. A window seals an hour
/// after its end, by itself.
#[utoipa::path(
    get,
    path = "/api/rankings/{board}",
    tag = "rankings",
    params(BoardPath),
    responses((status = 200, description = "The board", body = BoardDetailView)),
)]
async fn show(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
) -> Result<Json<BoardDetailView>, Problem> {
    let view = app.fairlane.ranking(&board).view().await?.ok_or_else(|| unknown(&board))?;
    Ok(Json(view.into()))
}

fn unknown(board: &BoardName) -> Problem {
    ProblemKind::NotFound
        .because(format!("there is no board {board}; create it with PATCH /api/rankings/{{board}}"))
}

/// The settings of a board; absent ones stay unchanged, or have their defaults on a new board.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BoardChange, example = json!({"rule": "count", "windows": ["day", "week"]}))]
struct Change {
    /// How scores follow from what is sent: `count` (the number of events, the default), `sum` (of
    /// their deltas), `maximum` (the best value), `latest` (the value with the highest version).
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = schema::board_rules, required = false)]
    rule: Option<Rule>,
    /// Which score is first; `descending` by default.
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = schema::board_orders, required = false)]
    order: Option<Order>,
    /// Decimal places of the scores; 0 by default.
    #[schema(maximum = 3)]
    decimals: Option<u32>,
    /// The windows besides the one over all of the season; none by default.
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = windows, required = false)]
    windows: Option<Vec<Window>>,
    /// How many milliseconds an event is remembered; 7 days by default.
    #[schema(minimum = 60_000, maximum = 7_776_000_000_u64)]
    horizon_ms: Option<u64>,
    /// Most events that are remembered; 1,000,000 by default. This can be changed later.
    #[schema(minimum = 1, maximum = 20_000_000)]
    events_max: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rule {
    Count,
    Sum,
    Maximum,
    Latest,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Descending,
    Ascending,
}

/// The length of a window.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Window {
    Hour,
    Day,
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

/// The schema of the windows of a board.
fn windows() -> utoipa::openapi::schema::Array {
    utoipa::openapi::schema::ArrayBuilder::new().items(schema::window_kinds()).max_items(Some(3)).build()
}

impl Change {
    /// Applies the settings that are present.
    fn apply(self, settings: &mut BoardSettings) {
        settings.rule = self.rule.map_or(settings.rule, |rule| match rule {
            Rule::Count => BoardRule::Count,
            Rule::Sum => BoardRule::Sum,
            Rule::Maximum => BoardRule::Maximum,
            Rule::Latest => BoardRule::Latest,
        });
        settings.order = self.order.map_or(settings.order, |order| match order {
            Order::Descending => BoardOrder::Descending,
            Order::Ascending => BoardOrder::Ascending,
        });
        settings.decimals = self.decimals.unwrap_or(settings.decimals);
        if let Some(windows) = self.windows {
            settings.windows = windows.into_iter().map(WindowKind::from).collect::<BoardWindows>();
        }
        settings.horizon_ms = self.horizon_ms.unwrap_or(settings.horizon_ms);
        settings.events_max = self.events_max.unwrap_or(settings.events_max);
    }
}

/// A board that was created or changed.
#[derive(Serialize, ToSchema)]
#[schema(as = BoardSet)]
struct SetResponse {
    /// Whether the board is new.
    created: bool,
    /// The board.
    #[serde(flatten)]
    board: BoardDetailView,
}

/// Creates a board, or changes how many events it remembers
///
/// Rule, order, decimal places, windows and horizon are fixed when the board is made, because its
/// scores follow from them: other ones are refused (409). A request can be repeated.
#[utoipa::path(
    patch,
    path = "/api/rankings/{board}",
    tag = "rankings",
    params(BoardPath),
    request_body = Change,
    responses((status = 200, description = "The board", body = SetResponse)),
)]
async fn set(
    State(app): State<Shared>,
    Path(BoardPath { board: name }): Path<BoardPath>,
    Json(change): Json<Change>,
) -> Result<Json<SetResponse>, Problem> {
    if change.windows.as_ref().is_some_and(|windows| windows.len() > WindowKind::ALL.len()) {
        return Err(ProblemKind::Invalid.because("name each window once: hour, day, week").at("/windows"));
    }
    let _one_at_a_time = app.changing_settings.lock().await;
    let board = app.fairlane.ranking(&name);
    let (_, created) = board.update(|settings| change.apply(settings)).await?;
    let board = board.view().await?.ok_or_else(|| unknown(&name))?;
    Ok(Json(SetResponse { created, board: board.into() }))
}

/// Removes a board
///
/// With its windows, its seasons and the ids of its events. A new board of this name begins empty.
#[utoipa::path(
    delete,
    path = "/api/rankings/{board}",
    tag = "rankings",
    params(BoardPath),
    responses((status = 204, description = "The board is removed")),
)]
async fn remove(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
) -> Result<StatusCode, Problem> {
    match app.fairlane.ranking(&board).remove().await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(unknown(&board)),
    }
}

/// The season in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct SeasonPath {
    /// The name of the board.
    #[param(value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "popular")]
    board: BoardName,
    /// The number of the season, from 1. `GET /api/rankings/{board}` has the current one.
    #[param(minimum = 1, maximum = 9007199254740991_u64, example = 1)]
    season: u64,
}

/// The job that announces a closed season; without one, no job is enqueued.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CloseSeasonRequest, example = json!({"group": "system", "type": "season-closed"}))]
struct CloseRequest {
    /// The group of the job.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    group: Option<GroupId>,
    /// The type of the job.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    r#type: Option<TypeId>,
}

/// Closes a season
///
/// Its standing is sealed and all scores begin anew. A closed season stays closed: repeating the
/// request returns the same standing. With `group` and `type`, one job with the first 100 members is
/// enqueued under the id `season-<board>-<season>`, once, whatever fails in between.
#[utoipa::path(
    post,
    path = "/api/rankings/{board}/seasons/{season}/close",
    tag = "rankings",
    params(SeasonPath),
    request_body = CloseRequest,
    responses((status = 200, description = "The standing of the season", body = ClosedSeasonView)),
)]
async fn close_season(
    State(app): State<Shared>,
    Path(SeasonPath { board, season }): Path<SeasonPath>,
    Json(CloseRequest { group, r#type }): Json<CloseRequest>,
) -> Result<Json<ClosedSeasonView>, Problem> {
    let season = within("the number of a season", season, 1, INTEGER_MAX - 1)?;
    let ranking = app.fairlane.ranking(&board);
    let closed = match (group, r#type) {
        (None, None) => ranking.close_season(season).await?,
        (Some(group), Some(r#type)) => {
            ranking.close_season_with_job(season, &group.to_string(), &r#type.to_string()).await?
        }
        _ => {
            return Err(ProblemKind::Invalid.because(
                "the job that announces a season needs both a group and a type; name both or neither",
            ));
        }
    };
    Ok(Json(ClosedSeasonView::new(season, &closed)))
}
