//! Groups: their shares, limits and state.

use axum::extract::State;
use fairlane::views::{GroupLineView, GroupSettingsView, GroupView};
use fairlane_core::queue::GroupPatch;
use fairlane_core::{GroupId, Weight};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::change::{self, PAGE};
use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::problem::{Problem, ProblemKind};

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Brief, Permission::Read, Scope::AllGroups, routes!(list))
        .add(Pace::Brief, Permission::Read, Scope::Path, routes!(show))
        .add(Pace::Brief, Permission::Operate, Scope::Path, routes!(change))
        .add(Pace::Brief, Permission::Operate, Scope::Path, routes!(make_due))
}

/// The group in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct GroupPath {
    /// The name of the group.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    pub group: GroupId,
}

/// The problem of a group that does not exist.
pub(super) fn no_such_group(group: &GroupId) -> Problem {
    ProblemKind::NotFound
        .because(format!("there is no group {group}; enqueue a job for it, or change its settings, first"))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Where the page begins: the `next` of the last page.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    cursor: Option<GroupId>,
    /// The maximum number of groups on the page; 100 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// Whether to list also groups without unfinished jobs that have settings of their own; `false`
    /// by default.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    all: bool,
}

/// A page of groups.
#[derive(Serialize, ToSchema)]
#[schema(as = Groups)]
struct GroupsPage {
    /// The groups by name.
    groups: Vec<GroupLineView>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists groups with unfinished jobs
///
/// In the order of their names, page by page. With `all=true`, groups without unfinished jobs that
/// have settings of their own are listed too.
#[utoipa::path(
    get,
    path = "/api/groups",
    tag = "groups",
    params(Page),
    responses((status = 200, description = "A page", body = GroupsPage)),
)]
async fn list(State(app): State<Shared>, Query(page): Query<Page>) -> Result<Json<GroupsPage>, Problem> {
    let limit = page.limit.unwrap_or(PAGE);
    let lines = match page.all {
        true => app.fairlane.all_groups(page.cursor, limit).await?,
        false => app.fairlane.groups(page.cursor, limit).await?,
    };
    let next = (lines.len() == limit).then(|| lines.last().map(|line| line.group.to_string())).flatten();
    Ok(Json(GroupsPage { groups: lines.into_iter().map(GroupLineView::from).collect(), next }))
}

/// Shows a group
///
/// Its settings, counts, lanes and congestion. A group exists once it had a job or its settings
/// were changed.
#[utoipa::path(
    get,
    path = "/api/groups/{group}",
    tag = "groups",
    params(GroupPath),
    responses((status = 200, description = "The group", body = GroupView)),
)]
async fn show(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
) -> Result<Json<GroupView>, Problem> {
    let handle = app.fairlane.group(&group);
    let (Some(view), Some(congestion)) = (handle.view().await?, handle.congestion().await?) else {
        return Err(no_such_group(&group));
    };
    Ok(Json(GroupView::new(&group, view, &congestion)))
}

/// A change of a group's settings; absent settings stay unchanged.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GroupChange, example = json!({"weight": 3, "rate": "100/s", "concurrency": null}))]
struct Change {
    /// The share relative to other groups.
    #[schema(minimum = 1, maximum = 1000)]
    weight: Option<u32>,
    /// Added to the group's score under the discipline `classic`, in milliseconds of age.
    #[schema(minimum = -1_000_000_000_000_i64, maximum = 1_000_000_000_000_i64)]
    base_priority: Option<i64>,
    /// The rate over all types; null removes it.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(schema_with = change::rates, required = false)]
    rate: Option<Option<String>>,
    /// The maximum number of jobs in flight; null removes the limit.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    concurrency: Option<Option<u32>>,
    /// Whether the group is paused: none of its jobs are leased.
    paused: Option<bool>,
}

impl TryFrom<Change> for GroupPatch {
    type Error = Problem;

    fn try_from(change: Change) -> Result<Self, Problem> {
        let patch = Self {
            weight: change.weight.map(Weight::new).transpose()?,
            base_priority: change.base_priority,
            rate: change::rate(change.rate)?,
            concurrency: change.concurrency,
            paused: change.paused,
        };
        change::filled(patch, "weight, base_priority, rate, concurrency and paused")
    }
}

/// Changes the settings of a group
///
/// Absent settings stay unchanged; null removes a limit. The change takes effect at once, also for
/// existing jobs. The response has the settings in effect.
#[utoipa::path(
    patch,
    path = "/api/groups/{group}",
    tag = "groups",
    params(GroupPath),
    request_body = Change,
    responses(
        (status = 200, description = "The settings in effect", body = GroupSettingsView),
    )
)]
async fn change(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Json(change): Json<Change>,
) -> Result<Json<GroupSettingsView>, Problem> {
    Ok(Json(app.fairlane.group(group).patch(change.try_into()?).apply().await?.into()))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MakeDueQuery {
    /// Where to continue: the `next` of the last response.
    #[param(pattern = "^[0-9]{1,9}$")]
    cursor: Option<String>,
}

/// The jobs that were made due.
#[derive(Serialize, ToSchema)]
struct MadeDue {
    /// The number of jobs that were made due.
    moved: u64,
    /// Present if there are more waiting jobs to scan: send it as `cursor` to continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Makes waiting jobs due now
///
/// Delayed jobs and those that wait for a retry return to their lanes at once. One request scans at
/// most 100,000 waiting jobs of all groups; if there are more, the response says where to continue.
#[utoipa::path(
    post,
    path = "/api/groups/{group}/make-due",
    tag = "groups",
    params(GroupPath, MakeDueQuery),
    responses(
        (status = 200, description = "The number of jobs that were made due", body = MadeDue),
    )
)]
async fn make_due(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Query(MakeDueQuery { cursor }): Query<MakeDueQuery>,
) -> Result<Json<MadeDue>, Problem> {
    let made = app.fairlane.group(group).make_due(change::position(cursor.as_deref())?).await?;
    Ok(Json(MadeDue { moved: made.moved as u64, next: made.next.map(|next| next.to_string()) }))
}
