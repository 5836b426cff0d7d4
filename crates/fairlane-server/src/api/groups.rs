//! Groups: their shares, limits and state.

use axum::extract::State;
use fairlane::{GroupLine, GroupSettings, GroupView, rate_text};
use fairlane_core::limits::MAKE_DUE_JOBS_MAX;
use fairlane_core::queue::{GroupPatch, LaneStanding, LaneView, MakeDue, SetGroup};
use fairlane_core::{GroupId, Weight};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::Object;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::change::{self, PAGE};
use super::congestion::CongestionResponse;
use super::views;
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// Pages of waiting jobs that one request scans.
const MAKE_DUE_PAGES_MAX: usize = 200;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, change)).routes(routes!(make_due))
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
}

/// A page of groups.
#[derive(Serialize, ToSchema)]
#[schema(as = Groups)]
struct GroupsPage {
    /// The groups by name.
    groups: Vec<GroupShort>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A group in a list.
#[derive(Serialize, ToSchema)]
struct GroupShort {
    /// The name of the group.
    #[schema(example = "customer-7")]
    group: String,
    /// Unfinished jobs that are not in flight.
    backlog: u64,
    /// Leased jobs.
    in_flight: u64,
    /// Of the backlog, jobs that must not run yet.
    waiting: u64,
    /// Jobs enqueued since the group was last idle.
    total: u64,
    /// Of these, jobs that have ended.
    done: u64,
    /// The latest backoff or predicted wait.
    backoff_ms: u64,
    /// The share relative to other groups.
    weight: u64,
    /// The rate over all types; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "50/s")]
    rate: Option<String>,
    /// Whether the group is paused: none of its jobs start.
    paused: bool,
}

impl From<GroupLine> for GroupShort {
    fn from(line: GroupLine) -> Self {
        let GroupLine { group, backlog, in_flight, waiting, total, done, backoff_ms, settings } = line;
        let (weight, rate) = (settings.weight.get(), settings.rate.map(rate_text));
        let (group, paused) = (group.to_string(), settings.paused);
        Self { group, backlog, in_flight, waiting, total, done, backoff_ms, weight, rate, paused }
    }
}

/// Lists groups with unfinished jobs
///
/// In the order of their names, page by page.
#[utoipa::path(
    get,
    path = "/api/groups",
    tag = "groups",
    params(Page),
    responses(
        (status = 200, description = "A page", body = GroupsPage),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn list(State(app): State<Shared>, Query(page): Query<Page>) -> Result<Json<GroupsPage>, Problem> {
    let limit = page.limit.unwrap_or(PAGE);
    let lines = app.fairlane.groups(page.cursor, limit).await?;
    let next = (lines.len() == limit).then(|| lines.last().map(|line| line.group.to_string())).flatten();
    Ok(Json(GroupsPage { groups: lines.into_iter().map(GroupShort::from).collect(), next }))
}

/// The settings of a group.
#[derive(Serialize, ToSchema)]
#[schema(as = GroupSettings)]
struct SettingsResponse {
    /// The share relative to other groups.
    weight: u64,
    /// Added to the group's score under the discipline `classic`, in milliseconds of age.
    base_priority: i64,
    /// The rate over all types; null without a limit.
    #[schema(example = "100/s")]
    rate: Option<String>,
    /// The maximum number of jobs in flight; null without a limit.
    concurrency: Option<u32>,
    /// Whether the group is paused: none of its jobs are leased.
    paused: bool,
}

impl From<GroupSettings> for SettingsResponse {
    fn from(settings: GroupSettings) -> Self {
        Self {
            weight: settings.weight.get(),
            base_priority: settings.base_priority,
            rate: settings.rate.map(rate_text),
            concurrency: settings.concurrency,
            paused: settings.paused,
        }
    }
}

/// A group.
#[derive(Serialize, ToSchema)]
#[schema(as = Group)]
struct GroupResponse {
    /// The name of the group.
    #[schema(example = "customer-7")]
    group: String,
    /// The settings of the group.
    settings: SettingsResponse,
    /// Unfinished jobs that are not in flight.
    backlog: u64,
    /// Leased jobs.
    in_flight: u64,
    /// Of the backlog, jobs that must not run yet.
    waiting: u64,
    /// Jobs enqueued since the group was last idle.
    total: u64,
    /// Of these, jobs that have ended.
    done: u64,
    /// Bytes stored for the group, including finished jobs.
    stored_bytes: u64,
    /// The lanes with jobs, by level and type.
    lanes: Vec<LaneResponse>,
    /// The congestion of the group.
    congestion: CongestionResponse,
}

/// A lane.
#[derive(Serialize, ToSchema)]
#[schema(as = Lane)]
struct LaneResponse {
    /// The level of the lane.
    #[schema(schema_with = views::levels)]
    level: &'static str,
    /// The type of the lane.
    r#type: String,
    /// Jobs that were never leased, or promoted for the first time.
    backlog: u64,
    /// Jobs that were returned; they are served first.
    returned: u64,
    /// Whether the lane can be served: it is `active`, or the rate (`rate_parked`) or seats
    /// (`seat_parked`) of its group are used up, or its group is `paused`, or held and cancelled
    /// jobs are being removed from its head (`clearing`).
    #[schema(schema_with = standings)]
    standing: &'static str,
    /// When the group's rate allows the next job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    until: Option<String>,
}

fn standings() -> Object {
    views::one_of(["idle", "active", "rate_parked", "seat_parked", "paused", "clearing"])
}

impl From<LaneView> for LaneResponse {
    fn from(view: LaneView) -> Self {
        let (standing, until) = match view.standing {
            LaneStanding::Idle => ("idle", None),
            LaneStanding::Active => ("active", None),
            LaneStanding::RateParked(until) => ("rate_parked", Some(until)),
            LaneStanding::SeatParked => ("seat_parked", None),
            LaneStanding::Paused => ("paused", None),
            LaneStanding::Clearing(_) => ("clearing", None),
        };
        Self {
            level: view.level.as_str(),
            r#type: view.type_id.to_string(),
            backlog: view.backlog,
            returned: view.returned,
            standing,
            until: until.map(views::time),
        }
    }
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
    responses(
        (status = 200, description = "The group", body = GroupResponse),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
) -> Result<Json<GroupResponse>, Problem> {
    let handle = app.fairlane.group(&group);
    let (Some(view), Some(congestion)) = (handle.view().await?, handle.congestion().await?) else {
        return Err(no_such_group(&group));
    };
    let GroupView { settings, backlog, in_flight, waiting, total, done, stored_bytes, lanes } = view;
    Ok(Json(GroupResponse {
        group: group.to_string(),
        settings: settings.into(),
        backlog,
        in_flight,
        waiting,
        total,
        done,
        stored_bytes,
        lanes: lanes.into_iter().map(LaneResponse::from).collect(),
        congestion: CongestionResponse::new(&group, congestion),
    }))
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
        if patch == Self::default() {
            return Err(change::nothing_to_change("weight, base_priority, rate, concurrency and paused"));
        }
        Ok(patch)
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
        (status = 200, description = "The settings in effect", body = SettingsResponse),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn change(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Json(change): Json<Change>,
) -> Result<Json<SettingsResponse>, Problem> {
    let operation = SetGroup { group, patch: change.try_into()?, reset_congestion: false };
    Ok(Json(app.engine().call(operation).await?.settings.into()))
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
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn make_due(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Query(MakeDueQuery { cursor }): Query<MakeDueQuery>,
) -> Result<Json<MadeDue>, Problem> {
    let (mut moved, mut next) = (0, Some(change::position(cursor.as_deref())?));
    for _ in 0..MAKE_DUE_PAGES_MAX {
        let Some(cursor) = next else { break };
        let operation = MakeDue { group: Some(group.clone()), cursor, jobs_max: MAKE_DUE_JOBS_MAX };
        let made = app.engine().call(operation).await?;
        moved += made.moved as u64;
        next = made.next;
    }
    Ok(Json(MadeDue { moved, next: next.map(|next| next.to_string()) }))
}
