//! Reads a board: pages of its standing, and the ranks of members.

use axum::extract::State;
use fairlane::views::{MemberRankView, RankPageView, schema};
use fairlane::{BoardName, EventTime, MemberId, Standing};
use fairlane_core::limits::SHOW_RANKS_MAX;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::updates::times;
use super::{BoardPath, Window};
use crate::api::change;
use crate::api::jobs::AtMost;
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::problem::{Problem, ProblemKind};

/// Default number of members on a page.
const MEMBERS: usize = 10;
/// Default number of members before the requested one.
const BEFORE: u64 = 5;

/// The board and the member in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct MemberPath {
    /// The name of the board.
    #[param(value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "popular")]
    board: BoardName,
    /// The member.
    #[param(value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "concert-7")]
    member: MemberId,
}

/// The standing that a query names.
fn standing(window: Option<Window>, at: Option<EventTime>, season: Option<u64>) -> Result<Standing, Problem> {
    match (window, at, season) {
        (None, None, None) => Ok(Standing::All),
        (Some(window), at, None) => Ok(Standing::Window { kind: window.into(), at_ms: at.map(|at| at.ms) }),
        (None, None, Some(number)) => Ok(Standing::Season { number }),
        (None, Some(_), _) => {
            Err(ProblemKind::Invalid.because("at goes with window=hour, day or week; add it"))
        }
        (Some(_), _, Some(_)) => {
            Err(ProblemKind::Invalid
                .because("a window and a closed season exclude each other; name one of them"))
        }
    }
}

/// A query that names a standing, with further parameters.
macro_rules! standing_query {
    (pub(super) struct $query:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub(super) struct $query {
            /// A window instead of the current season: `hour`, `day` or `week`.
            #[param(schema_with = schema::window_kinds, required = false)]
            window: Option<Window>,
            /// A time within the window; now by default.
            #[param(schema_with = times, required = false)]
            at: Option<EventTime>,
            /// A closed season instead of the current one.
            #[param(minimum = 1, maximum = 9007199254740991_u64)]
            season: Option<u64>,
            $($(#[$attribute])* $field: $type,)*
        }
    };
}

standing_query! {
    pub(super) struct TopQuery {
        /// The members before the page; 0 by default.
        #[param(minimum = 0, maximum = 10_000_000)]
        behind: Option<u64>,
        /// The maximum number of members on the page; 10 by default.
        #[param(minimum = 1, maximum = 500)]
        limit: Option<usize>,
    }
}

/// Lists the first members
///
/// Of the current season, of a window or of a closed season. With `behind`, the page begins later. A
/// window without events is an empty page; one that the board does not have is refused.
#[utoipa::path(
    get,
    path = "/api/rankings/{board}/top",
    tag = "rankings",
    params(BoardPath, TopQuery),
    responses((status = 200, description = "A page", body = RankPageView)),
)]
pub(super) async fn top(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    Query(query): Query<TopQuery>,
) -> Result<Json<RankPageView>, Problem> {
    let standing = standing(query.window, query.at, query.season)?;
    let (behind, limit) = (query.behind.unwrap_or(0), query.limit.unwrap_or(MEMBERS));
    Ok(Json(app.fairlane.ranking(&board).page(standing, behind, limit).await?.into()))
}

standing_query! {
    pub(super) struct AroundQuery {
        /// The members in front of the member; 5 by default.
        #[param(minimum = 0, maximum = 500)]
        before: Option<u64>,
        /// The maximum number of members on the page; 11 by default.
        #[param(minimum = 1, maximum = 500)]
        limit: Option<usize>,
    }
}

/// Lists a member with its neighbours
///
/// The page is empty if the member is not in the standing.
#[utoipa::path(
    get,
    path = "/api/rankings/{board}/around/{member}",
    tag = "rankings",
    params(MemberPath, AroundQuery),
    responses((status = 200, description = "A page", body = RankPageView)),
)]
pub(super) async fn around(
    State(app): State<Shared>,
    Path(MemberPath { board, member }): Path<MemberPath>,
    Query(query): Query<AroundQuery>,
) -> Result<Json<RankPageView>, Problem> {
    let standing = standing(query.window, query.at, query.season)?;
    let (before, limit) = (query.before.unwrap_or(BEFORE), query.limit.unwrap_or(MEMBERS + 1));
    let ranking = app.fairlane.ranking(&board);
    Ok(Json(ranking.around(standing, &member.to_string(), before, limit).await?.into()))
}

standing_query! {
    pub(super) struct RankQuery {}
}

/// Shows the rank of a member
///
/// With its score and percentile. The position is its own; members with equal scores share the rank.
#[utoipa::path(
    get,
    path = "/api/rankings/{board}/ranks/{member}",
    tag = "rankings",
    params(MemberPath, RankQuery),
    responses((status = 200, description = "The rank", body = MemberRankView)),
)]
pub(super) async fn rank(
    State(app): State<Shared>,
    Path(MemberPath { board, member }): Path<MemberPath>,
    Query(query): Query<RankQuery>,
) -> Result<Json<MemberRankView>, Problem> {
    let standing = standing(query.window, query.at, query.season)?;
    let rank = app.fairlane.ranking(&board).rank(standing, &member.to_string()).await?;
    let rank = rank.ok_or_else(|| {
        ProblemKind::NotFound.because(format!("{member} is not in this standing of board {board}"))
    });
    Ok(Json(rank?.into()))
}

/// Members of a board.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RanksRequest, example = json!({"members": ["ada", "bob"], "window": "week"}))]
pub(super) struct RanksBody {
    /// The members, such as a user and the user's friends.
    #[schema(value_type = Vec<String>, max_items = 100)]
    members: AtMost<SHOW_RANKS_MAX, MemberId>,
    /// A window instead of the current season.
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = schema::window_kinds, required = false)]
    window: Option<Window>,
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = times, required = false)]
    at: Option<EventTime>,
    /// A closed season instead of the current one.
    #[schema(minimum = 1, maximum = 9007199254740991_u64)]
    season: Option<u64>,
}

/// Shows the ranks of some members
///
/// In the order of the request, each with its rank among all members. Members that are not in the
/// standing are left out.
#[utoipa::path(
    post,
    path = "/api/rankings/{board}/ranks",
    tag = "rankings",
    params(BoardPath),
    request_body = RanksBody,
    responses((status = 200, description = "The ranks", body = RankPageView)),
)]
pub(super) async fn ranks(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    Json(body): Json<RanksBody>,
) -> Result<Json<RankPageView>, Problem> {
    let standing = standing(body.window, body.at, body.season)?;
    let members: Vec<String> = body.members.0.iter().map(MemberId::to_string).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    Ok(Json(app.fairlane.ranking(&board).ranks(standing, &members).await?.into()))
}
