//! Dead jobs: listed, requeued and discarded.
//!
//! Invariant: a request scans a bounded number of jobs, and its response says where to continue.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::State;
use fairlane::views::JobView;
use fairlane::{Dead, DeadCursor, DeadFilter, DiscardCounts, RequeueCounts};
use fairlane_core::limits::{DELAY_MS_MAX, LIST_JOBS_MAX, PICK_JOBS_MAX};
use fairlane_core::numbers::within;
use fairlane_core::queue::JobRef;
use fairlane_core::{GroupId, TypeId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::change::{self, PAGE};
use super::jobs::{AtMost, JobName, Jobs};
use crate::access::{Caller, Pace, Permission, Routes, Scope};
use crate::app::{App, Shared};
use crate::extract::{Json, Object, Query, object};
use crate::problem::{Problem, ProblemKind};

/// Most dead jobs that one request scans.
const SCANNED_MAX: u64 = 10_000;

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Brief, Permission::Read, Scope::Named, routes!(list))
        .add(Pace::Brief, Permission::Produce, Scope::Named, routes!(requeue))
        .add(Pace::Brief, Permission::Produce, Scope::Named, routes!(discard))
}

/// A filter of dead jobs; absent fields match every job.
#[derive(Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeadFilter)]
struct Filter {
    /// Jobs of this group.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    group: Option<GroupId>,
    /// Jobs of this type.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    r#type: Option<TypeId>,
    /// Jobs whose last error has this code.
    #[schema(example = "timed_out")]
    code: Option<String>,
    /// Jobs that died more than this many milliseconds ago, by the server's clock.
    #[schema(maximum = 315_360_000_000_i64)]
    older_than_ms: Option<u64>,
}

impl Filter {
    /// The dead jobs that it includes. A key bound to groups must name one of them.
    fn checked(self, app: &App, caller: &Caller) -> Result<Dead, Problem> {
        within("older_than_ms", self.older_than_ms.unwrap_or(0), 0, DELAY_MS_MAX)?;
        caller.check_group_or_all(self.group.as_ref())?;
        Ok(app.fairlane.dead().filter(DeadFilter {
            group: self.group.map(|group| group.to_string()),
            job_type: self.r#type.map(|name| name.to_string()),
            code: self.code,
            older_than: self.older_than_ms.map(Duration::from_millis),
        }))
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Jobs of this group; a key bound to groups must name one of them.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    group: Option<GroupId>,
    /// Jobs of this type.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    r#type: Option<TypeId>,
    /// Jobs whose last error has this code.
    #[param(example = "timed_out")]
    code: Option<String>,
    /// Jobs that died more than this many milliseconds ago, by the server's clock.
    #[param(maximum = 315_360_000_000_i64)]
    older_than_ms: Option<u64>,
    /// Where the page begins: the `next` of the last page.
    #[param(pattern = "^[0-9]{1,15}$")]
    cursor: Option<String>,
    /// The maximum number of jobs on the page; 100 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Lists dead jobs
///
/// Jobs that failed for good or are out of attempts, oldest first, page by page. A page may be
/// short or empty although more follow: continue until `next` is absent.
#[utoipa::path(
    get,
    path = "/api/dead",
    tag = "dead",
    params(ListQuery),
    responses((status = 200, description = "A page", body = Jobs)),
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Jobs>, Problem> {
    let ListQuery { group, r#type, code, older_than_ms, cursor, limit } = query;
    let dead = Filter { group, r#type, code, older_than_ms }.checked(&app, &caller)?;
    let limit = within("limit", limit.unwrap_or(PAGE) as u64, 1, LIST_JOBS_MAX as u64)? as usize;
    let (jobs, next) = dead.page(change::position(cursor.as_deref())?, limit).await?;
    let jobs = jobs.into_iter().map(JobView::from).collect();
    Ok(Json(Jobs { jobs, next: next.map(|next| next.to_string()) }))
}

/// A selection of dead jobs: `jobs` or `filter`, never both or neither. An empty filter requires
/// `all`; `all` and `cursor` belong to a filter.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(
    as = DeadSelection,
    example = json!({"filter": {"group": "customer-7", "code": "timed_out"}}),
)]
struct Selection {
    /// These jobs.
    #[schema(value_type = Option<Vec<JobName>>, max_items = 500)]
    jobs: Option<AtMost<PICK_JOBS_MAX, Object<JobName>>>,
    /// All jobs that match the filter; not together with `jobs`.
    #[serde(default, deserialize_with = "object")]
    filter: Option<Filter>,
    /// Must be set with an empty filter, to confirm that it selects all dead jobs.
    #[serde(default)]
    all: bool,
    /// Where to continue: the `next` of the last response for the same filter.
    #[schema(pattern = "^[0-9]{1,15}\\.[0-8]?[0-9]{1,15}$")]
    cursor: Option<String>,
}

/// The outcome of a requeue of dead jobs.
#[derive(Serialize, ToSchema)]
struct DeadRequeued {
    #[serde(flatten)]
    counts: RequeueCounts,
    /// Present if there are more dead jobs than one request scans: send the same filter again with
    /// it as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Requeues dead jobs
///
/// They get all their attempts again, and go before the rest of their lanes. A job that died in a
/// bulk action leaves it, as the bulk action has counted it already. The request names the jobs or
/// a filter; with a key bound to groups, it names one of them in either case. One request scans at
/// most 10,000 dead jobs; if there are more, the response says where to continue.
#[utoipa::path(
    post,
    path = "/api/dead/requeue",
    tag = "dead",
    request_body = Selection,
    responses(
        (status = 200, description = "The number of jobs by outcome", body = DeadRequeued),
    )
)]
async fn requeue(
    State(app): State<Shared>,
    caller: Caller,
    Json(selection): Json<Selection>,
) -> Result<Json<DeadRequeued>, Problem> {
    let (counts, next) = match selection.checked(&app, &caller)? {
        Selected::Jobs(jobs) => (app.fairlane.dead().requeue_jobs(jobs).await?, None),
        Selected::Filter(dead, cursor) => dead.requeue_part(cursor, SCANNED_MAX).await?,
    };
    Ok(Json(DeadRequeued { counts, next: next.map(|next| next.to_string()) }))
}

/// The outcome of a discard of dead jobs.
#[derive(Serialize, ToSchema)]
struct DeadDiscarded {
    #[serde(flatten)]
    counts: DiscardCounts,
    /// Present if there are more dead jobs than one request scans: send the same filter again with
    /// it as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Discards dead jobs
///
/// Deletes them before the end of their retention; their ids are free again. The request names the
/// jobs or a filter; with a key bound to groups, it names one of them in either case. One request
/// scans at most 10,000 dead jobs; if there are more, the response says where to continue.
#[utoipa::path(
    post,
    path = "/api/dead/discard",
    tag = "dead",
    request_body = Selection,
    responses(
        (status = 200, description = "The number of jobs by outcome", body = DeadDiscarded),
    )
)]
async fn discard(
    State(app): State<Shared>,
    caller: Caller,
    Json(selection): Json<Selection>,
) -> Result<Json<DeadDiscarded>, Problem> {
    let (counts, next) = match selection.checked(&app, &caller)? {
        Selected::Jobs(jobs) => (app.fairlane.dead().discard_jobs(jobs).await?, None),
        Selected::Filter(dead, cursor) => dead.discard_part(cursor, SCANNED_MAX).await?,
    };
    Ok(Json(DeadDiscarded { counts, next: next.map(|next| next.to_string()) }))
}

/// The jobs of a valid selection.
enum Selected {
    Jobs(Vec<JobRef>),
    Filter(Dead, Option<DeadCursor>),
}

impl Selection {
    fn checked(self, app: &App, caller: &Caller) -> Result<Selected, Problem> {
        match self {
            Self { jobs: Some(named), filter: None, all: false, cursor: None } => {
                // A job that is named twice counts once.
                let mut jobs = BTreeSet::new();
                for Object(JobName { group, id }) in named.0 {
                    caller.check_group(&group)?;
                    jobs.insert(JobRef { group, id });
                }
                Ok(Selected::Jobs(jobs.into_iter().collect()))
            }
            Self { jobs: None, filter: Some(filter), all, cursor } if all || filter != Filter::default() => {
                let cursor = cursor.map(|cursor| cursor.parse().map_err(|_| change::invalid_cursor(&cursor)));
                Ok(Selected::Filter(filter.checked(app, caller)?, cursor.transpose()?))
            }
            _ => Err(ProblemKind::Invalid.because(
                "send either jobs (and no other field) or a filter; an empty filter selects all dead jobs, and requires \
                 \"all\": true",
            )),
        }
    }
}
