//! Dead jobs: listed, requeued and discarded.
//!
//! Invariant: a request scans a bounded number of jobs, and its response says where to continue.
//! Requests that continue with each other's cursor scan no more jobs than were dead when the first
//! one began, so jobs that die again while they are requeued do not keep a client in a loop.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use fairlane_core::limits::{DELAY_MS_MAX, LIST_JOBS_MAX, PICK_JOBS_MAX};
use fairlane_core::numbers::within;
use fairlane_core::queue::{
    Discard, Disposal, JobLine, JobRef, ListJobs, Listed, Listing, RequeueDead, Requeued,
};
use fairlane_core::{GroupId, Micros, TypeId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::change::{self, PAGE};
use super::jobs::{AtMost, JobName};
use super::views::JobResponse;
use crate::access::Caller;
use crate::app::{App, Shared};
use crate::extract::{Json, Object, Query, object};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// Dead jobs that one request scans.
const SCANNED_MAX: u64 = 10_000;
/// Pages of the engine that one page of the list consists of.
const PAGES_MAX: usize = 40;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(requeue)).routes(routes!(discard))
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
    /// Refuses a key bound to groups, unless the filter names one of them.
    fn check(&self, caller: &Caller) -> Result<(), Problem> {
        within("older_than_ms", self.older_than_ms.unwrap_or(0), 0, DELAY_MS_MAX)?;
        self.group.as_ref().map_or_else(|| caller.check_all_groups(), |group| caller.check_group(group))
    }

    fn matches(&self, line: &JobLine) -> bool {
        let died_at = line.settled_at.unwrap_or(line.created_at);
        self.older_than_ms.is_none_or(|age| died_at < ago(age))
            && self.code.as_ref().is_none_or(|code| fairlane::Problem::from_bytes(&line.note).code == *code)
    }

    async fn page(&self, app: &App, cursor: u64, limit: usize) -> Result<Listed, Problem> {
        let (group, type_id) = (self.group.clone(), self.r#type.clone());
        let operation = ListJobs { listing: Listing::Dead, group, type_id, cursor, limit };
        let mut listed = app.engine().call(operation).await?;
        listed.jobs.retain(|line| self.matches(line));
        Ok(listed)
    }
}

fn ago(age_ms: u64) -> Micros {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Micros(now.saturating_sub(Duration::from_millis(age_ms)).as_micros() as u64)
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

/// A page of dead jobs.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadJobs)]
struct DeadPage {
    /// The jobs, oldest first, without their payloads.
    jobs: Vec<JobResponse>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
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
    responses(
        (status = 200, description = "A page", body = DeadPage),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<DeadPage>, Problem> {
    let ListQuery { group, r#type, code, older_than_ms, cursor, limit } = query;
    let filter = Filter { group, r#type, code, older_than_ms };
    filter.check(&caller)?;
    let limit = within("limit", limit.unwrap_or(PAGE) as u64, 1, LIST_JOBS_MAX as u64)? as usize;
    let mut next = Some(change::position(cursor.as_deref())?);
    let mut jobs: Vec<JobResponse> = Vec::new();
    for _ in 0..PAGES_MAX {
        let Some(cursor) = next.filter(|_| jobs.len() < limit) else { break };
        let page = filter.page(&app, cursor, limit - jobs.len()).await?;
        jobs.extend(page.jobs.into_iter().map(JobResponse::from));
        next = page.next;
    }
    Ok(Json(DeadPage { jobs, next: next.map(|next| next.to_string()) }))
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
    #[schema(pattern = "^[0-9]{1,15}\\.[0-9]{1,15}$")]
    cursor: Option<String>,
}

/// The outcome of a requeue of dead jobs.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadRequeued)]
struct RequeueResponse {
    /// Jobs that are in their lanes again, with all their attempts.
    requeued: u64,
    /// Jobs that stay dead because their group or the queue has reached its maximum of unfinished
    /// jobs; try again later.
    full: u64,
    /// Jobs that are not dead, or not any more.
    not_dead: u64,
    /// Jobs that do not exist, or not any more.
    unknown: u64,
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
        (status = 200, description = "The number of jobs by outcome", body = RequeueResponse),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn requeue(
    State(app): State<Shared>,
    caller: Caller,
    Json(selection): Json<Selection>,
) -> Result<Json<RequeueResponse>, Problem> {
    let (counts, next) = selection.apply(Action::Requeue, &app, &caller).await?;
    let Counts { done, full, not_dead, unknown } = counts;
    Ok(Json(RequeueResponse { requeued: done, full, not_dead, unknown, next }))
}

/// The outcome of a discard of dead jobs.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadDiscarded)]
struct DiscardResponse {
    /// Jobs that are deleted; their ids are free.
    discarded: u64,
    /// Jobs that are not dead, or not any more.
    not_dead: u64,
    /// Jobs that do not exist, or not any more.
    unknown: u64,
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
        (status = 200, description = "The number of jobs by outcome", body = DiscardResponse),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn discard(
    State(app): State<Shared>,
    caller: Caller,
    Json(selection): Json<Selection>,
) -> Result<Json<DiscardResponse>, Problem> {
    let (Counts { done, not_dead, unknown, .. }, next) =
        selection.apply(Action::Discard, &app, &caller).await?;
    Ok(Json(DiscardResponse { discarded: done, not_dead, unknown, next }))
}

/// What to do with dead jobs.
#[derive(Clone, Copy)]
enum Action {
    Requeue,
    Discard,
}

/// The number of jobs by outcome.
#[derive(Default)]
struct Counts {
    done: u64,
    full: u64,
    not_dead: u64,
    unknown: u64,
}

impl Selection {
    async fn apply(
        self,
        action: Action,
        app: &App,
        caller: &Caller,
    ) -> Result<(Counts, Option<String>), Problem> {
        let mut counts = Counts::default();
        match self {
            Self { jobs: Some(named), filter: None, all: false, cursor: None } => {
                // A job that is named twice counts once.
                let mut jobs = BTreeSet::new();
                for Object(JobName { group, id }) in named.0 {
                    caller.check_group(&group)?;
                    jobs.insert(JobRef { group, id });
                }
                action.apply(app, jobs.into_iter().collect(), &mut counts).await?;
                Ok((counts, None))
            }
            Self { jobs: None, filter: Some(filter), all, cursor } if all || filter != Filter::default() => {
                filter.check(caller)?;
                let mut scan = Scan::from(app, cursor.as_deref()).await?;
                scan.apply(action, app, &filter, &mut counts).await?;
                Ok((counts, scan.next()))
            }
            _ => Err(ProblemKind::Invalid.because(
                "send either jobs (and no other field) or a filter; an empty filter selects all dead jobs, and requires \
                 \"all\": true",
            )),
        }
    }
}

impl Action {
    async fn apply(self, app: &App, jobs: Vec<JobRef>, counts: &mut Counts) -> Result<(), Problem> {
        match self {
            Self::Requeue => {
                for outcome in app.engine().call(RequeueDead { jobs }).await?.jobs {
                    match outcome {
                        Requeued::Requeued => counts.done += 1,
                        Requeued::Full => counts.full += 1,
                        Requeued::NotDead => counts.not_dead += 1,
                        Requeued::Unknown => counts.unknown += 1,
                    }
                }
            }
            Self::Discard => {
                for outcome in app.engine().call(Discard { jobs }).await?.jobs {
                    match outcome {
                        Disposal::Discarded => counts.done += 1,
                        Disposal::NotDead => counts.not_dead += 1,
                        Disposal::Unknown => counts.unknown += 1,
                    }
                }
            }
        }
        Ok(())
    }
}

/// A scan of dead jobs, oldest first.
struct Scan {
    /// The rank at which the next page begins.
    rank: u64,
    /// Jobs that were dead at the beginning and have not been scanned.
    left: u64,
}

impl Scan {
    async fn from(app: &App, cursor: Option<&str>) -> Result<Self, Problem> {
        let Some(cursor) = cursor else {
            return Ok(Self { rank: 0, left: app.fairlane.queue_view().await?.failed });
        };
        let numbers = cursor
            .split_once('.')
            .and_then(|(rank, left)| Some(Self { rank: change::number(rank)?, left: change::number(left)? }));
        numbers.ok_or_else(|| change::invalid_cursor(cursor))
    }

    fn next(&self) -> Option<String> {
        (self.left > 0).then(|| format!("{}.{}", self.rank, self.left))
    }

    async fn apply(
        &mut self,
        action: Action,
        app: &App,
        filter: &Filter,
        counts: &mut Counts,
    ) -> Result<(), Problem> {
        let mut scanned = 0;
        while self.left > 0 && scanned < SCANNED_MAX {
            let limit = self.left.min(LIST_JOBS_MAX as u64) as usize;
            let page = filter.page(app, self.rank, limit).await?;
            let after = page.next.unwrap_or(self.rank + self.left);
            let step = after.saturating_sub(self.rank).clamp(1, self.left);
            scanned += step;
            (self.rank, self.left) = (after, self.left - step);
            let full_before = counts.full;
            let selected = page.jobs.len() as u64;
            if selected > 0 {
                let jobs = page.jobs.into_iter().map(|line| line.job).collect();
                action.apply(app, jobs, counts).await?;
            }
            // Jobs that left the list have moved the others up.
            self.rank = self.rank.saturating_sub(selected - (counts.full - full_before));
        }
        Ok(())
    }
}
