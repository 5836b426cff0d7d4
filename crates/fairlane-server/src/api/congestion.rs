//! Congestion: which groups wait, and for how long.

use std::cmp::Reverse;

use axum::extract::State;
use axum::http::StatusCode;
use fairlane::views::{CongestionView, SnapshotView, schema};
use fairlane::{Discipline, GroupLine, QueueView};
use fairlane_core::GroupId;
use fairlane_core::congestion::CongestionLevel;
use fairlane_core::limits::LIST_GROUPS_MAX;
use fairlane_core::numbers::within;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::change::PAGE;
use super::groups::{GroupPath, no_such_group};
use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::problem::Problem;

/// Most groups that one summary scans.
const GROUPS_SCANNED_MAX: u64 = 10_000;

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Brief, Permission::Read, Scope::AllGroups, routes!(summary))
        .add(Pace::Brief, Permission::Read, Scope::Path, routes!(show))
        .add(Pace::Brief, Permission::Operate, Scope::Path, routes!(reset))
        .add(Pace::Brief, Permission::Read, Scope::Path, routes!(history))
}

/// Shows the congestion of a group
///
/// How many jobs wait, the speed of the group, and how long the waiting jobs will take.
#[utoipa::path(
    get,
    path = "/api/groups/{group}/congestion",
    tag = "congestion",
    params(GroupPath),
    responses(
        (status = 200, description = "The congestion of the group", body = CongestionView),
    )
)]
async fn show(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
) -> Result<Json<CongestionView>, Problem> {
    let view = app.fairlane.group(&group).congestion().await?;
    view.map(|view| Json(CongestionView::new(&group, &view))).ok_or_else(|| no_such_group(&group))
}

/// Resets the congestion of a group
///
/// Deletes its history, backoff and throttles; jobs and their counts stay.
#[utoipa::path(
    delete,
    path = "/api/groups/{group}/congestion",
    tag = "congestion",
    params(GroupPath),
    responses((status = 204, description = "The congestion is reset")),
)]
async fn reset(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
) -> Result<StatusCode, Problem> {
    let handle = app.fairlane.group(&group);
    if handle.congestion().await?.is_none() {
        return Err(no_such_group(&group));
    }
    handle.reset_congestion().apply().await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HistoryQuery {
    /// The maximum number of snapshots; 100 by default.
    #[param(minimum = 1, maximum = 86400)]
    limit: Option<usize>,
}

/// The congestion of a group over time.
#[derive(Serialize, ToSchema)]
#[schema(as = CongestionHistory)]
struct HistoryResponse {
    /// The latest snapshots, oldest first, at most one a second.
    snapshots: Vec<SnapshotView>,
}

/// Lists the congestion of a group over time
///
/// The latest snapshots, oldest first; empty for an unknown group.
#[utoipa::path(
    get,
    path = "/api/groups/{group}/congestion/history",
    tag = "congestion",
    params(GroupPath, HistoryQuery),
    responses((status = 200, description = "The snapshots", body = HistoryResponse)),
)]
async fn history(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Query(HistoryQuery { limit }): Query<HistoryQuery>,
) -> Result<Json<HistoryResponse>, Problem> {
    let snapshots = app.fairlane.group(group).congestion_history(limit.unwrap_or(PAGE)).await?;
    Ok(Json(HistoryResponse { snapshots: snapshots.into_iter().map(SnapshotView::from).collect() }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SummaryQuery {
    /// Where to continue: the `next` of the last response.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    cursor: Option<GroupId>,
    /// The maximum number of groups in the response; 100 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// The congestion of the queue.
#[derive(Serialize, ToSchema)]
#[schema(as = CongestionSummary)]
struct SummaryResponse {
    /// Jobs of all groups that are held back: those that wait for a time (`classic`), or all that
    /// are not in flight (`share`).
    held_back: u64,
    /// Groups with unfinished jobs.
    active_groups: u64,
    /// Useless attempts that backoff has avoided, an estimate.
    saved_spins: u64,
    /// The number of groups with unfinished jobs that were scanned for this response.
    groups_scanned: u64,
    /// Of these, the number of groups on each level.
    levels: LevelCounts,
    /// Of these, the most congested groups, the worst first.
    groups: Vec<CongestedGroup>,
    /// Present if there are more groups than one request scans: send it as `cursor` to continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The number of groups on each level.
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
struct CongestedGroup {
    /// The name of the group.
    group: String,
    /// The level of its congestion.
    #[schema(schema_with = schema::congestion_levels)]
    level: &'static str,
    /// Its jobs that are held back.
    held_back: u64,
    /// The latest backoff (`classic`) or predicted wait (`share`).
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

/// Summarizes congestion
///
/// The most congested groups, the worst first. One request scans at most 10,000 groups with
/// unfinished jobs, in the order of their names; if there are more, the response says where to
/// continue.
#[utoipa::path(
    get,
    path = "/api/congestion",
    tag = "congestion",
    params(SummaryQuery),
    responses((status = 200, description = "The summary", body = SummaryResponse)),
)]
async fn summary(
    State(app): State<Shared>,
    Query(SummaryQuery { cursor, limit }): Query<SummaryQuery>,
) -> Result<Json<SummaryResponse>, Problem> {
    let limit = limit.unwrap_or(PAGE);
    within("the limit of a page", limit as u64, 1, LIST_GROUPS_MAX as u64)?;
    let queue = app.fairlane.queue_view().await?;
    let (mut after, mut scanned) = (cursor, 0);
    let (mut levels, mut groups) = (LevelCounts::default(), Vec::new());
    let mut has_more = true;
    while scanned < GROUPS_SCANNED_MAX {
        let page = app.fairlane.groups(after.clone(), LIST_GROUPS_MAX).await?;
        scanned += page.len() as u64;
        has_more = page.len() == LIST_GROUPS_MAX;
        after = page.last().map(|line| line.group.clone()).or(after);
        for line in page {
            let (level, line) = classify(&queue, line);
            levels.count(level);
            groups.push((level, line));
        }
        groups.sort_by_cached_key(|(_, line)| (Reverse((line.backoff_ms, line.backlog)), line.group.clone()));
        groups.truncate(limit);
        if !has_more {
            break;
        }
    }
    let congested = |(level, line): (CongestionLevel, GroupLine)| CongestedGroup {
        group: line.group.to_string(),
        level: level.as_str(),
        held_back: held_back(&queue, line.waiting, line.backlog),
        backoff_ms: line.backoff_ms,
    };
    Ok(Json(SummaryResponse {
        held_back: held_back(&queue, queue.waiting, queue.backlog),
        active_groups: queue.active_groups,
        saved_spins: queue.saved_spins,
        groups_scanned: scanned,
        levels,
        groups: groups.into_iter().map(congested).collect(),
        next: after.filter(|_| has_more).map(|group| group.to_string()),
    }))
}

/// The congestion level of a group; NONE if congestion is not recorded.
fn classify(queue: &QueueView, line: GroupLine) -> (CongestionLevel, GroupLine) {
    let settings = &queue.settings.congestion;
    let backoff_ms = if settings.enabled { line.backoff_ms } else { 0 };
    let level = CongestionLevel::classify(backoff_ms, settings.base_backoff_ms);
    (level, GroupLine { backoff_ms, ..line })
}

/// Jobs that are held back, by the discipline of the queue.
fn held_back(queue: &QueueView, waiting: u64, backlog: u64) -> u64 {
    match queue.settings.discipline {
        _ if !queue.settings.congestion.enabled => 0,
        Discipline::Classic => waiting,
        Discipline::Share => backlog,
    }
}
