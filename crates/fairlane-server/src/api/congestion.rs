//! Who is kept waiting, and for how long.

use std::cmp::Reverse;

use axum::extract::State;
use axum::http::StatusCode;
use fairlane::{CongestionView, Discipline, GroupLine, WholeView};
use fairlane_core::GroupId;
use fairlane_core::congestion::CongestionLevel;
use fairlane_core::limits::LIST_GROUPS_MAX;
use fairlane_core::numbers::within;
use fairlane_core::queue::{Inspect, Inspected, Snapshot};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::Object;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::change::PAGE;
use super::groups::{GroupPath, no_such_group};
use super::shown;
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// Groups that one summary looks at.
const GROUPS_LOOKED_AT_MAX: u64 = 10_000;

const LEVELS: [CongestionLevel; 5] = [
    CongestionLevel::None,
    CongestionLevel::Low,
    CongestionLevel::Moderate,
    CongestionLevel::High,
    CongestionLevel::Critical,
];

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(summary)).routes(routes!(show, reset)).routes(routes!(history))
}

fn levels() -> Object {
    shown::one_of(LEVELS.map(CongestionLevel::as_str))
}

/// How crowded a group is.
#[derive(Serialize, ToSchema)]
#[schema(as = Congestion)]
pub(super) struct CongestionShown {
    /// Which.
    #[schema(example = "customer-7")]
    group: String,
    /// The ratio of its backoff to the least one: NONE to 1, LOW below 3, MODERATE below 10, HIGH below 30, CRITICAL.
    #[schema(schema_with = levels)]
    level: &'static str,
    /// Jobs kept away: those that wait for a time (`classic`), or all that are not in flight (`share`).
    kept_away: u64,
    /// Jobs a second it is allowed; 0 if that is not known.
    speed: u64,
    /// The newest backoff (`classic`) or predicted wait (`share`).
    backoff_ms: u64,
    /// How often a job is refused before it ends, on average since the group was last idle.
    throttles_per_job: f64,
    /// How long what is kept away will take: an estimate; absent if the speed is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_completion_ms: Option<u64>,
}

impl CongestionShown {
    pub fn new(group: &GroupId, view: CongestionView) -> Self {
        Self {
            group: group.to_string(),
            level: view.level.as_str(),
            kept_away: view.waiting,
            speed: view.speed,
            backoff_ms: view.backoff_ms,
            throttles_per_job: view.throttles_per_job(),
            estimated_completion_ms: view.estimated_completion_ms(),
        }
    }
}

/// How crowded a group is
///
/// What is kept away, how fast it may go, and how long that will take.
#[utoipa::path(
    get,
    path = "/api/groups/{group}/congestion",
    tag = "congestion",
    params(GroupPath),
    responses(
        (status = 200, description = "Its congestion", body = CongestionShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
) -> Result<Json<CongestionShown>, Problem> {
    let view = app.fairlane.group(&group).congestion().await?;
    view.map(|view| Json(CongestionShown::new(&group, view))).ok_or_else(|| no_such_group(&group))
}

/// Forgets a group's congestion
///
/// History, backoff and throttles are gone; jobs and their counts stay.
#[utoipa::path(
    delete,
    path = "/api/groups/{group}/congestion",
    tag = "congestion",
    params(GroupPath),
    responses(
        (status = 204, description = "It is forgotten"),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn reset(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
) -> Result<StatusCode, Problem> {
    let asked = app.fairlane.group(&group);
    if asked.congestion().await?.is_none() {
        return Err(no_such_group(&group));
    }
    asked.reset_congestion().apply().await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Newest {
    /// How many snapshots at most; 100 unless given.
    #[param(minimum = 1, maximum = 86400)]
    limit: Option<usize>,
}

/// A group's congestion over time.
#[derive(Serialize, ToSchema)]
#[schema(as = CongestionHistory)]
struct History {
    /// The newest ones, oldest first, at most one a second.
    snapshots: Vec<SnapshotShown>,
}

/// A group's congestion at one moment.
#[derive(Serialize, ToSchema)]
#[schema(as = CongestionSnapshot)]
struct SnapshotShown {
    /// When.
    #[schema(format = DateTime)]
    at: String,
    /// Jobs that were kept away.
    kept_away: u64,
    /// Jobs a second it was allowed.
    speed: u64,
    /// How long refused work was told to wait (`classic`), or was predicted to (`share`).
    backoff_ms: u64,
}

impl From<Snapshot> for SnapshotShown {
    fn from(snapshot: Snapshot) -> Self {
        let Snapshot { at, waiting, speed, backoff_ms } = snapshot;
        Self { at: shown::time(at), kept_away: waiting, speed, backoff_ms }
    }
}

/// A group's congestion over time
///
/// The newest snapshots, oldest first; none of a group that is not known.
#[utoipa::path(
    get,
    path = "/api/groups/{group}/congestion/history",
    tag = "congestion",
    params(GroupPath, Newest),
    responses(
        (status = 200, description = "Its history", body = History),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn history(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Query(Newest { limit }): Query<Newest>,
) -> Result<Json<History>, Problem> {
    match app.engine().inspect(Inspect::History { group, limit: limit.unwrap_or(PAGE) }).await? {
        Inspected::History(snapshots) => {
            Ok(Json(History { snapshots: snapshots.into_iter().map(SnapshotShown::from).collect() }))
        }
        _ => Err(ProblemKind::Broken.because("inspect was answered with something else")),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SummaryOf {
    /// Go on behind the groups that were looked at: the `next` of the last answer.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    cursor: Option<GroupId>,
    /// How many groups to name at most; 100 unless given.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// How crowded the whole queue is.
#[derive(Serialize, ToSchema)]
#[schema(as = CongestionSummary)]
struct Summary {
    /// Jobs kept away over all groups: those that wait for a time (`classic`), or all that are not in flight (`share`).
    kept_away: u64,
    /// Groups that have unfinished jobs.
    active_groups: u64,
    /// Useless tries that backoff has avoided, an estimate.
    saved_spins: u64,
    /// How many of them this answer looked at.
    groups_looked_at: u64,
    /// Of these, how many are on each level.
    levels: LevelCounts,
    /// Of these, the most crowded ones, the worst first.
    groups: Vec<Crowded>,
    /// There are more groups than one answer looks at: ask again with this as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// How many groups are on each level.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = CongestionLevels)]
#[serde(rename_all = "UPPERCASE")]
struct LevelCounts {
    none: u64,
    low: u64,
    moderate: u64,
    high: u64,
    critical: u64,
}

/// A group in the summary.
#[derive(Serialize, ToSchema)]
#[schema(as = CrowdedGroup)]
struct Crowded {
    /// Which.
    group: String,
    /// How crowded it is.
    #[schema(schema_with = levels)]
    level: &'static str,
    /// Its jobs that are kept away.
    kept_away: u64,
    /// The newest backoff (`classic`) or predicted wait (`share`).
    backoff_ms: u64,
}

impl LevelCounts {
    fn count(&mut self, level: CongestionLevel) {
        let count = match level {
            CongestionLevel::None => &mut self.none,
            CongestionLevel::Low => &mut self.low,
            CongestionLevel::Moderate => &mut self.moderate,
            CongestionLevel::High => &mut self.high,
            CongestionLevel::Critical => &mut self.critical,
        };
        *count += 1;
    }
}

/// How crowded the whole queue is
///
/// The most crowded groups, the worst first. One answer looks at no more than 10,000 groups that have unfinished jobs,
/// by name; if there are more it says so, and where to go on.
#[utoipa::path(
    get,
    path = "/api/congestion",
    tag = "congestion",
    params(SummaryOf),
    responses(
        (status = 200, description = "The summary", body = Summary),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn summary(
    State(app): State<Shared>,
    Query(SummaryOf { cursor, limit }): Query<SummaryOf>,
) -> Result<Json<Summary>, Problem> {
    let limit = limit.unwrap_or(PAGE);
    within("the limit of a page", limit as u64, 1, LIST_GROUPS_MAX as u64)?;
    let whole = app.fairlane.whole().await?;
    let (mut after, mut looked_at) = (cursor, 0);
    let (mut levels, mut groups) = (LevelCounts::default(), Vec::new());
    let mut is_cut = true;
    while looked_at < GROUPS_LOOKED_AT_MAX {
        let page = app.fairlane.groups(after.clone(), LIST_GROUPS_MAX).await?;
        looked_at += page.len() as u64;
        is_cut = page.len() == LIST_GROUPS_MAX;
        after = page.last().map(|line| line.group.clone()).or(after);
        for line in page {
            let (level, line) = judged(&whole, line);
            levels.count(level);
            groups.push((level, line));
        }
        groups.sort_by_cached_key(|(_, line)| (Reverse((line.backoff_ms, line.backlog)), line.group.clone()));
        groups.truncate(limit);
        if !is_cut {
            break;
        }
    }
    let crowded = |(level, line): (CongestionLevel, GroupLine)| Crowded {
        group: line.group.to_string(),
        level: level.as_str(),
        kept_away: kept_away(&whole, line.waiting, line.backlog),
        backoff_ms: line.backoff_ms,
    };
    Ok(Json(Summary {
        kept_away: kept_away(&whole, whole.waiting, whole.backlog),
        active_groups: whole.active_groups,
        saved_spins: whole.saved_spins,
        groups_looked_at: looked_at,
        levels,
        groups: groups.into_iter().map(crowded).collect(),
        next: after.filter(|_| is_cut).map(|group| group.to_string()),
    }))
}

/// The level of a group; where nothing is recorded there is none.
fn judged(whole: &WholeView, line: GroupLine) -> (CongestionLevel, GroupLine) {
    let settings = &whole.settings.congestion;
    let backoff_ms = if settings.enabled { line.backoff_ms } else { 0 };
    let level = CongestionLevel::classify(backoff_ms, settings.base_backoff_ms);
    (level, GroupLine { backoff_ms, ..line })
}

fn kept_away(whole: &WholeView, waiting: u64, backlog: u64) -> u64 {
    match whole.settings.discipline {
        _ if !whole.settings.congestion.enabled => 0,
        Discipline::Classic => waiting,
        Discipline::Share => backlog,
    }
}
