//! Groups: their shares and limits, and how they stand.

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
use super::congestion::CongestionShown;
use super::shown;
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// Pages of waiting jobs that one request looks through.
const MAKE_DUE_PAGES_MAX: usize = 200;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, change)).routes(routes!(make_due))
}

/// The group in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct GroupPath {
    /// Whose.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    pub group: GroupId,
}

/// What to say of a group that was never heard of.
pub(super) fn no_such_group(group: &GroupId) -> Problem {
    ProblemKind::NotFound
        .because(format!("nothing is known of {group}; enqueue a job of it, or set something for it, first"))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Where the page begins: the `next` of the last one.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    cursor: Option<GroupId>,
    /// How many groups at most; 100 unless given.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A page of groups.
#[derive(Serialize, ToSchema)]
#[schema(as = Groups)]
struct GroupsPage {
    /// By name.
    groups: Vec<GroupShort>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A group in a list.
#[derive(Serialize, ToSchema)]
struct GroupShort {
    /// Which.
    #[schema(example = "customer-7")]
    group: String,
    /// Unfinished jobs that are not in flight.
    backlog: u64,
    /// Leased jobs.
    in_flight: u64,
    /// Of the backlog, jobs that must not run yet.
    waiting: u64,
    /// Jobs enqueued since it was last idle.
    total: u64,
    /// Of these, jobs that have ended.
    done: u64,
    /// The newest backoff or predicted wait.
    backoff_ms: u64,
    /// Its share relative to other groups.
    weight: u64,
    /// Its rate over all types; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "50/s")]
    rate: Option<String>,
    /// Whether it is paused: none of its jobs start.
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

/// Groups that have unfinished jobs
///
/// By name, page by page.
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

/// What is set for a group.
#[derive(Serialize, ToSchema)]
#[schema(as = GroupSettings)]
struct SettingsShown {
    /// Its share relative to other groups.
    weight: u64,
    /// Added to its score under the discipline `classic`, in milliseconds of age.
    base_priority: i64,
    /// Its rate over all types; null: none.
    #[schema(example = "100/s")]
    rate: Option<String>,
    /// Its jobs in flight at once; null: any number.
    concurrency: Option<u32>,
    /// Nothing of it is leased while set.
    paused: bool,
}

impl From<GroupSettings> for SettingsShown {
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

/// A group as it stands.
#[derive(Serialize, ToSchema)]
#[schema(as = Group)]
struct GroupShown {
    /// Which.
    #[schema(example = "customer-7")]
    group: String,
    /// What is set for it.
    settings: SettingsShown,
    /// Unfinished jobs that are not in flight.
    backlog: u64,
    /// Leased jobs.
    in_flight: u64,
    /// Of the backlog, jobs that must not run yet.
    waiting: u64,
    /// Jobs enqueued since it was last idle.
    total: u64,
    /// Of these, jobs that have ended.
    done: u64,
    /// Bytes it has stored, finished jobs included.
    stored_bytes: u64,
    /// Its lanes with jobs, by level and type.
    lanes: Vec<LaneShown>,
    /// How crowded it is.
    congestion: CongestionShown,
}

/// A lane as it stands.
#[derive(Serialize, ToSchema)]
#[schema(as = Lane)]
struct LaneShown {
    /// Its level.
    #[schema(schema_with = shown::levels)]
    level: &'static str,
    /// Its type.
    r#type: String,
    /// Jobs never leased, or promoted for the first time.
    backlog: u64,
    /// Jobs that came back; served first.
    returned: u64,
    /// Whether it can be served: it is `active`, or its group's rate (`rate_parked`) or seats (`seat_parked`) are used
    /// up, or its group is `paused`, or held and cancelled jobs are being taken off its head (`clearing`).
    #[schema(schema_with = standings)]
    standing: &'static str,
    /// When its group's rate allows the next job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    until: Option<String>,
}

fn standings() -> Object {
    shown::one_of(["idle", "active", "rate_parked", "seat_parked", "paused", "clearing"])
}

impl From<LaneView> for LaneShown {
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
            until: until.map(shown::time),
        }
    }
}

/// How a group stands
///
/// What is set for it, its counts, its lanes and how crowded it is. A group is known once it had a job or something
/// was set for it.
#[utoipa::path(
    get,
    path = "/api/groups/{group}",
    tag = "groups",
    params(GroupPath),
    responses(
        (status = 200, description = "The group", body = GroupShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
) -> Result<Json<GroupShown>, Problem> {
    let asked = app.fairlane.group(&group);
    let (Some(view), Some(congestion)) = (asked.view().await?, asked.congestion().await?) else {
        return Err(no_such_group(&group));
    };
    let GroupView { settings, backlog, in_flight, waiting, total, done, stored_bytes, lanes } = view;
    Ok(Json(GroupShown {
        group: group.to_string(),
        settings: settings.into(),
        backlog,
        in_flight,
        waiting,
        total,
        done,
        stored_bytes,
        lanes: lanes.into_iter().map(LaneShown::from).collect(),
        congestion: CongestionShown::new(&group, congestion),
    }))
}

/// What is to be changed for a group; what is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GroupChange, example = json!({"weight": 3, "rate": "100/s", "concurrency": null}))]
struct Change {
    /// Its share relative to other groups.
    #[schema(minimum = 1, maximum = 1000)]
    weight: Option<u32>,
    /// Added to its score under the discipline `classic`, in milliseconds of age.
    #[schema(minimum = -1_000_000_000_000_i64, maximum = 1_000_000_000_000_i64)]
    base_priority: Option<i64>,
    /// Its rate over all types; null removes it.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(schema_with = change::rates, required = false)]
    rate: Option<Option<String>>,
    /// Its jobs in flight at once; null removes the limit.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    concurrency: Option<Option<u32>>,
    /// Whether nothing of it is leased.
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

/// Changes what is set for a group
///
/// What is absent stays as it is; null removes a limit. It holds at once, for jobs that are there already too. The
/// answer is what holds now.
#[utoipa::path(
    patch,
    path = "/api/groups/{group}",
    tag = "groups",
    params(GroupPath),
    request_body = Change,
    responses(
        (status = 200, description = "What holds now", body = SettingsShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn change(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Json(change): Json<Change>,
) -> Result<Json<SettingsShown>, Problem> {
    let command = SetGroup { group, patch: change.try_into()?, reset_congestion: false };
    Ok(Json(app.engine().set_group(command).await?.settings.into()))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MakeDueFrom {
    /// Where to go on: the `next` of the last answer.
    #[param(pattern = "^[0-9]{1,9}$")]
    cursor: Option<String>,
}

/// What was made due.
#[derive(Serialize, ToSchema)]
struct MadeDue {
    /// Jobs that are due now.
    moved: u64,
    /// There are more waiting jobs to look through: ask again with this as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Makes waiting jobs due now
///
/// Delayed jobs and those that wait for a retry go back to their lanes at once: the way out in a hurry. One request
/// looks through at most 100,000 waiting jobs of all groups; if there are more, the answer says where to go on.
#[utoipa::path(
    post,
    path = "/api/groups/{group}/make-due",
    tag = "groups",
    params(GroupPath, MakeDueFrom),
    responses(
        (status = 200, description = "How many were moved", body = MadeDue),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn make_due(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Query(MakeDueFrom { cursor }): Query<MakeDueFrom>,
) -> Result<Json<MadeDue>, Problem> {
    let (mut moved, mut next) = (0, Some(change::position(cursor.as_deref())?));
    for _ in 0..MAKE_DUE_PAGES_MAX {
        let Some(cursor) = next else { break };
        let command = MakeDue { group: Some(group.clone()), cursor, jobs_max: MAKE_DUE_JOBS_MAX };
        let made = app.engine().make_due(command).await?;
        moved += made.moved as u64;
        next = made.next;
    }
    Ok(Json(MadeDue { moved, next: next.map(|next| next.to_string()) }))
}
