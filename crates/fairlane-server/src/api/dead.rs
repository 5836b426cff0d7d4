//! Dead jobs: to look at, to let run again, to remove.
//!
//! Invariant: a request looks at a bounded number of jobs and says where to go on. Requests that go on with each
//! other's cursor look at no more jobs than were dead when the first began, so jobs that die again while they are
//! requeued do not keep a client going.

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
use super::shown::JobShown;
use crate::access::Caller;
use crate::app::{App, Shared};
use crate::extract::{Json, Object, Query, object};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// Dead jobs that one request looks at.
const LOOKED_AT_MAX: u64 = 10_000;
/// Pages of the engine that one page of the list is put together from.
const PAGES_MAX: usize = 40;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(requeue)).routes(routes!(discard))
}

/// Which dead jobs; what is absent does not matter.
#[derive(Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeadFilter)]
struct Filter {
    /// Those of this group.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    group: Option<GroupId>,
    /// Those of this type.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    r#type: Option<TypeId>,
    /// Those whose last error has this code.
    #[schema(example = "timed_out")]
    code: Option<String>,
    /// Those that died longer ago than this, by the server's clock.
    #[schema(maximum = 315_360_000_000_i64)]
    older_than_ms: Option<u64>,
}

impl Filter {
    /// Refuses a key that is bound to groups unless one of them is named.
    fn check(&self, caller: &Caller) -> Result<(), Problem> {
        within("older_than_ms", self.older_than_ms.unwrap_or(0), 0, DELAY_MS_MAX)?;
        self.group.as_ref().map_or_else(|| caller.check_whole(), |group| caller.check_group(group))
    }

    fn wants(&self, line: &JobLine) -> bool {
        let died_at = line.settled_at.unwrap_or(line.created_at);
        self.older_than_ms.is_none_or(|age| died_at < ago(age))
            && self.code.as_ref().is_none_or(|code| fairlane::Problem::from_bytes(&line.note).code == *code)
    }

    async fn page(&self, app: &App, cursor: u64, limit: usize) -> Result<Listed, Problem> {
        let (group, type_id) = (self.group.clone(), self.r#type.clone());
        let command = ListJobs { listing: Listing::Dead, group, type_id, cursor, limit };
        let mut listed = app.engine().list_jobs(command).await?;
        listed.jobs.retain(|line| self.wants(line));
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
struct ListOf {
    /// Those of this group; a key that is bound to groups must name one of them.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    group: Option<GroupId>,
    /// Those of this type.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    r#type: Option<TypeId>,
    /// Those whose last error has this code.
    #[param(example = "timed_out")]
    code: Option<String>,
    /// Those that died longer ago than this, by the server's clock.
    #[param(maximum = 315_360_000_000_i64)]
    older_than_ms: Option<u64>,
    /// Where the page begins: the `next` of the last one.
    #[param(pattern = "^[0-9]{1,15}$")]
    cursor: Option<String>,
    /// How many jobs at most; 100 unless given.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A page of dead jobs.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadJobs)]
struct DeadPage {
    /// Oldest first, without their payloads.
    jobs: Vec<JobShown>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Dead jobs
///
/// Those that failed for good or are out of attempts, oldest first, page by page. A page may be short or empty although
/// more follow: go on until `next` is absent.
#[utoipa::path(
    get,
    path = "/api/dead",
    tag = "dead",
    params(ListOf),
    responses(
        (status = 200, description = "A page", body = DeadPage),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(asked): Query<ListOf>,
) -> Result<Json<DeadPage>, Problem> {
    let ListOf { group, r#type, code, older_than_ms, cursor, limit } = asked;
    let filter = Filter { group, r#type, code, older_than_ms };
    filter.check(&caller)?;
    let limit = within("limit", limit.unwrap_or(PAGE) as u64, 1, LIST_JOBS_MAX as u64)? as usize;
    let mut next = Some(change::position(cursor.as_deref())?);
    let mut jobs: Vec<JobShown> = Vec::new();
    for _ in 0..PAGES_MAX {
        let Some(cursor) = next.filter(|_| jobs.len() < limit) else { break };
        let page = filter.page(&app, cursor, limit - jobs.len()).await?;
        jobs.extend(page.jobs.into_iter().map(JobShown::from));
        next = page.next;
    }
    Ok(Json(DeadPage { jobs, next: next.map(|next| next.to_string()) }))
}

/// Which dead jobs are meant: `jobs` or `filter`, never both or neither. An empty filter needs `all`; `all` and
/// `cursor` belong to a filter.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(
    as = DeadSelection,
    example = json!({"filter": {"group": "customer-7", "code": "timed_out"}}),
)]
struct Selection {
    /// These.
    #[schema(value_type = Option<Vec<JobName>>, max_items = 500)]
    jobs: Option<AtMost<PICK_JOBS_MAX, Object<JobName>>>,
    /// All that it fits; not together with `jobs`.
    #[serde(default, deserialize_with = "object")]
    filter: Option<Filter>,
    /// Must be set where the filter is empty: really all dead jobs are meant.
    #[serde(default)]
    all: bool,
    /// Where to go on: the `next` of the last answer to the same filter.
    #[schema(pattern = "^[0-9]{1,15}\\.[0-9]{1,15}$")]
    cursor: Option<String>,
}

/// What became of dead jobs that were to run again.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadRequeued)]
struct RequeueAnswer {
    /// They are in their lanes again, with all their attempts.
    requeued: u64,
    /// They stay dead because their group, or the whole, has as many unfinished jobs as it may; try again later.
    full: u64,
    /// They are not dead (any more).
    not_dead: u64,
    /// There are no such jobs (any more).
    unknown: u64,
    /// There are more dead jobs than one request looks at: send the same filter again with this as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lets dead jobs run again
///
/// With all their attempts, and before the rest of their lanes. One that died in a bulk action leaves it, as that has
/// counted it already. Either the jobs are named, or all that a filter fits are taken; a key that is bound to groups
/// names one of them in either case. One request looks at no more than 10,000 dead jobs; if there are more, the answer
/// says where to go on.
#[utoipa::path(
    post,
    path = "/api/dead/requeue",
    tag = "dead",
    request_body = Selection,
    responses(
        (status = 200, description = "What became of them", body = RequeueAnswer),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn requeue(
    State(app): State<Shared>,
    caller: Caller,
    Json(selection): Json<Selection>,
) -> Result<Json<RequeueAnswer>, Problem> {
    let (counts, next) = selection.carry_out(Deed::Requeue, &app, &caller).await?;
    let Counts { done, full, not_dead, unknown } = counts;
    Ok(Json(RequeueAnswer { requeued: done, full, not_dead, unknown, next }))
}

/// What became of dead jobs that were to be removed.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadDiscarded)]
struct DiscardAnswer {
    /// They are gone, and their ids are free.
    discarded: u64,
    /// They are not dead (any more).
    not_dead: u64,
    /// There are no such jobs (any more).
    unknown: u64,
    /// There are more dead jobs than one request looks at: send the same filter again with this as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Removes dead jobs
///
/// Before their time; their ids are free again. Either the jobs are named, or all that a filter fits are taken; a key
/// that is bound to groups names one of them in either case. One request looks at no more than 10,000 dead jobs; if
/// there are more, the answer says where to go on.
#[utoipa::path(
    post,
    path = "/api/dead/discard",
    tag = "dead",
    request_body = Selection,
    responses(
        (status = 200, description = "What became of them", body = DiscardAnswer),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn discard(
    State(app): State<Shared>,
    caller: Caller,
    Json(selection): Json<Selection>,
) -> Result<Json<DiscardAnswer>, Problem> {
    let (Counts { done, not_dead, unknown, .. }, next) =
        selection.carry_out(Deed::Discard, &app, &caller).await?;
    Ok(Json(DiscardAnswer { discarded: done, not_dead, unknown, next }))
}

/// What is to be done with dead jobs.
#[derive(Clone, Copy)]
enum Deed {
    Requeue,
    Discard,
}

/// What became of them.
#[derive(Default)]
struct Counts {
    done: u64,
    full: u64,
    not_dead: u64,
    unknown: u64,
}

impl Selection {
    async fn carry_out(
        self,
        deed: Deed,
        app: &App,
        caller: &Caller,
    ) -> Result<(Counts, Option<String>), Problem> {
        let mut counts = Counts::default();
        match self {
            Self { jobs: Some(named), filter: None, all: false, cursor: None } => {
                // Named twice means the same as named once.
                let mut jobs = BTreeSet::new();
                for Object(JobName { group, id }) in named.0 {
                    caller.check_group(&group)?;
                    jobs.insert(JobRef { group, id });
                }
                deed.carry_out(app, jobs.into_iter().collect(), &mut counts).await?;
                Ok((counts, None))
            }
            Self { jobs: None, filter: Some(filter), all, cursor } if all || filter != Filter::default() => {
                filter.check(caller)?;
                let mut walk = Walk::from(app, cursor.as_deref()).await?;
                walk.carry_out(deed, app, &filter, &mut counts).await?;
                Ok((counts, walk.next()))
            }
            _ => Err(ProblemKind::Invalid.because(
                "name either jobs (nothing else beside them) or a filter; a filter that is empty means all dead jobs, and \
                 needs \"all\": true beside it",
            )),
        }
    }
}

impl Deed {
    async fn carry_out(self, app: &App, jobs: Vec<JobRef>, counts: &mut Counts) -> Result<(), Problem> {
        match self {
            Self::Requeue => {
                for answer in app.engine().requeue_dead(RequeueDead { jobs }).await?.jobs {
                    match answer {
                        Requeued::Requeued => counts.done += 1,
                        Requeued::Full => counts.full += 1,
                        Requeued::NotDead => counts.not_dead += 1,
                        Requeued::Unknown => counts.unknown += 1,
                    }
                }
            }
            Self::Discard => {
                for answer in app.engine().discard(Discard { jobs }).await?.jobs {
                    match answer {
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

/// A walk through the dead, oldest first.
struct Walk {
    /// The rank at which the next page begins.
    rank: u64,
    /// Jobs that were dead at the beginning and have not been looked at.
    left: u64,
}

impl Walk {
    async fn from(app: &App, cursor: Option<&str>) -> Result<Self, Problem> {
        let Some(cursor) = cursor else {
            return Ok(Self { rank: 0, left: app.fairlane.whole().await?.failed });
        };
        let numbers = cursor
            .split_once('.')
            .and_then(|(rank, left)| Some(Self { rank: change::number(rank)?, left: change::number(left)? }));
        numbers.ok_or_else(|| change::no_cursor(cursor))
    }

    fn next(&self) -> Option<String> {
        (self.left > 0).then(|| format!("{}.{}", self.rank, self.left))
    }

    async fn carry_out(
        &mut self,
        deed: Deed,
        app: &App,
        filter: &Filter,
        counts: &mut Counts,
    ) -> Result<(), Problem> {
        let mut looked_at = 0;
        while self.left > 0 && looked_at < LOOKED_AT_MAX {
            let limit = self.left.min(LIST_JOBS_MAX as u64) as usize;
            let page = filter.page(app, self.rank, limit).await?;
            let after = page.next.unwrap_or(self.rank + self.left);
            let step = after.saturating_sub(self.rank).clamp(1, self.left);
            looked_at += step;
            (self.rank, self.left) = (after, self.left - step);
            let stayed_before = counts.full;
            let named = page.jobs.len() as u64;
            if named > 0 {
                let jobs = page.jobs.into_iter().map(|line| line.job).collect();
                deed.carry_out(app, jobs, counts).await?;
            }
            // Those that left the list have moved the others up.
            self.rank = self.rank.saturating_sub(named - (counts.full - stayed_before));
        }
        Ok(())
    }
}
