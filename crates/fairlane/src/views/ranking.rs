//! Boards and their members.

use fairlane_core::ranking::{self, Outcome, RankEntry, RankPage};
use serde::Serialize;

#[cfg(feature = "openapi")]
use super::schema;
use crate::ranking::{ClosedSeason, MemberRank, RankingAudit, RankingDifference, reason};
use crate::time::time_text;

/// A score as people read it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ScoreView {
    /// A score without decimal places.
    Whole(i64),
    /// A score with decimal places.
    Decimal(f64),
}

/// A member of a board.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RankEntry))]
pub struct RankEntryView {
    /// The member.
    #[cfg_attr(feature = "openapi", schema(example = "concert-7"))]
    pub member: String,
    /// The score.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub score: ScoreView,
    /// The ordinal rank, from 1: every member has its own.
    pub position: u64,
    /// The competition rank, from 1: equal scores share it.
    pub rank: u64,
    /// When the score was reached; absent on boards with decimal places and for very large scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_at: Option<String>,
}

/// A page of a board.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RankPage))]
pub struct RankPageView {
    /// The members, the best first.
    pub entries: Vec<RankEntryView>,
    /// All members.
    pub members: u64,
}

/// What became of an event, a cancellation or a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BoardOutcome))]
pub struct BoardOutcomeView {
    /// The id of the event, or the member of the value.
    pub id: String,
    /// `applied`, `late`, `repeated` and `pending` were taken; the others were refused.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::board_outcomes))]
    pub outcome: &'static str,
    /// Why it was refused, and what to do; absent if it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// The rank of one member.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MemberRank))]
pub struct MemberRankView {
    /// The member with its score, position and rank.
    #[serde(flatten)]
    pub entry: RankEntryView,
    /// All members.
    pub members: u64,
    /// The share of the members that are not in front, in percent: 100 for the first.
    #[cfg_attr(feature = "openapi", schema(example = 99.5))]
    pub percentile: f64,
}

/// The standing of a closed season.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ClosedSeason))]
pub struct ClosedSeasonView {
    /// The number of the season.
    pub season: u64,
    /// When it was closed.
    pub closed_at: String,
    /// Its members.
    pub members: u64,
    /// The first 100 members, the best first.
    pub entries: Vec<RankEntryView>,
    /// Whether this request has enqueued the job that announces it.
    pub announced_now: bool,
}

/// The result of comparing a board with its source.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BoardAudit))]
pub struct BoardAuditView {
    /// Rows of the source.
    pub rows: u64,
    /// Members of the source.
    pub members: u64,
    /// The number of members whose score differs.
    pub differing: u64,
    /// The first 100 of them by name.
    pub differences: Vec<BoardDifferenceView>,
}

/// A member whose score is not that of the source.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BoardDifference))]
pub struct BoardDifferenceView {
    /// The member.
    pub member: String,
    /// Its score on the board, in units of the last decimal place; absent if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<i64>,
    /// Its score in the source, in units of the last decimal place; absent if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<i64>,
}

/// A board.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Board))]
pub struct BoardView {
    /// The name of the board.
    #[cfg_attr(feature = "openapi", schema(example = "popular"))]
    pub board: String,
    /// How scores follow from what is sent.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::board_rules))]
    pub rule: &'static str,
    /// Which score is first.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::board_orders))]
    pub order: &'static str,
    /// Decimal places of the scores.
    pub decimals: u32,
    /// The windows that the board has.
    pub windows: Vec<&'static str>,
    /// How many milliseconds an event is remembered.
    pub horizon_ms: u64,
    /// Most events that are remembered.
    pub events_max: u64,
    /// The number of the current season.
    pub season: u64,
    /// Members of the current season.
    pub members: u64,
    /// Events that are remembered.
    pub events: u64,
    /// Counts since the board was made.
    pub totals: BoardTotalsView,
    /// Rows that a rebuild has taken, while one is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild_rows: Option<u64>,
}

/// Counts since a board was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BoardTotals))]
pub struct BoardTotalsView {
    /// Events and values that were taken.
    pub recorded: u64,
    /// Cancellations that were taken.
    pub cancelled: u64,
    /// Repeated events and cancellations, and values that changed nothing.
    pub repeated: u64,
    /// Those taken too late for a sealed window or a closed season.
    pub late: u64,
    /// Those refused because they are older than the horizon.
    pub too_old: u64,
    /// Those refused for another reason.
    pub refused: u64,
}

/// A window of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BoardWindow))]
pub struct BoardWindowView {
    /// Its length.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::window_kinds))]
    pub window: &'static str,
    /// When it begins.
    pub start: String,
    /// Its members.
    pub members: u64,
    /// Whether it takes no further events.
    pub sealed: bool,
}

/// A closed season of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BoardSeason))]
pub struct BoardSeasonView {
    /// Its number.
    pub season: u64,
    /// Its members.
    pub members: u64,
    /// When it was closed.
    pub closed_at: String,
    /// Whether the job that announces it was enqueued.
    pub announced: bool,
}

/// A board with its windows and seasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BoardDetail))]
pub struct BoardDetailView {
    /// The board.
    #[serde(flatten)]
    pub board: BoardView,
    /// Its windows that are readable.
    pub readable: Vec<BoardWindowView>,
    /// Its closed seasons that are readable.
    pub seasons: Vec<BoardSeasonView>,
}

impl ScoreView {
    /// A score in units of the last of these decimal places.
    pub fn new(score: i64, decimals: u32) -> Self {
        match decimals {
            0 => Self::Whole(score),
            _ => Self::Decimal(score as f64 / 10_f64.powi(decimals as i32)),
        }
    }
}

impl std::fmt::Display for ScoreView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(score) => score.fmt(f),
            Self::Decimal(score) => score.fmt(f),
        }
    }
}

impl RankEntryView {
    /// A member of a board with these decimal places.
    pub fn new(entry: &RankEntry, decimals: u32) -> Self {
        Self {
            member: entry.member.to_string(),
            score: ScoreView::new(entry.score, decimals),
            position: entry.position,
            rank: entry.rank,
            reached_at: (entry.reached_s > 0).then(|| time_text(entry.reached_s * 1000)),
        }
    }
}

impl From<RankPage> for RankPageView {
    fn from(page: RankPage) -> Self {
        let entries = page.entries.iter().map(|entry| RankEntryView::new(entry, page.decimals)).collect();
        Self { entries, members: page.members }
    }
}

impl BoardOutcomeView {
    /// The outcome of what has this id.
    pub fn new(id: impl std::fmt::Display, outcome: Outcome) -> Self {
        let reason = (!outcome.is_taken()).then(|| reason(outcome));
        Self { id: id.to_string(), outcome: outcome.as_str(), reason }
    }
}

impl From<MemberRank> for MemberRankView {
    fn from(rank: MemberRank) -> Self {
        let entry = RankEntryView::new(&rank.entry, rank.decimals);
        Self { entry, members: rank.members, percentile: rank.percentile }
    }
}

impl ClosedSeasonView {
    /// A closed season with this number.
    pub fn new(season: u64, closed: &ClosedSeason) -> Self {
        Self {
            season,
            closed_at: time_text(closed.closed_at.as_millis()),
            members: closed.members,
            entries: closed.entries.iter().map(|entry| RankEntryView::new(entry, closed.decimals)).collect(),
            announced_now: closed.is_announced_now,
        }
    }
}

impl From<RankingAudit> for BoardAuditView {
    fn from(audit: RankingAudit) -> Self {
        let difference = |one: RankingDifference| BoardDifferenceView {
            member: one.member,
            board: one.board,
            source: one.source,
        };
        Self {
            rows: audit.rows,
            members: audit.members,
            differing: audit.differing,
            differences: audit.differences.into_iter().map(difference).collect(),
        }
    }
}

impl From<ranking::BoardView> for BoardView {
    fn from(view: ranking::BoardView) -> Self {
        let settings = view.settings;
        let totals = view.totals;
        Self {
            board: view.board.to_string(),
            rule: settings.rule.as_str(),
            order: settings.order.as_str(),
            decimals: settings.decimals,
            windows: settings.windows.kinds().map(ranking::WindowKind::as_str).collect(),
            horizon_ms: settings.horizon_ms,
            events_max: settings.events_max,
            season: view.season,
            members: view.members,
            events: view.events,
            totals: BoardTotalsView {
                recorded: totals.recorded,
                cancelled: totals.cancelled,
                repeated: totals.repeated,
                late: totals.late,
                too_old: totals.too_old,
                refused: totals.refused,
            },
            rebuild_rows: view.rebuild.map(|rebuild| rebuild.rows),
        }
    }
}

impl From<ranking::BoardDetail> for BoardDetailView {
    fn from(detail: ranking::BoardDetail) -> Self {
        let window = |window: ranking::WindowView| BoardWindowView {
            window: window.kind.as_str(),
            start: time_text(window.start_s * 1000),
            members: window.members,
            sealed: window.sealed,
        };
        let season = |season: ranking::SeasonView| BoardSeasonView {
            season: season.number,
            members: season.members,
            closed_at: time_text(season.closed_at.as_millis()),
            announced: season.announced,
        };
        Self {
            board: detail.board.into(),
            readable: detail.windows.into_iter().map(window).collect(),
            seasons: detail.seasons.into_iter().map(season).collect(),
        }
    }
}
