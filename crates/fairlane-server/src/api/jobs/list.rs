//! Jobs page by page.

use axum::extract::State;
use fairlane_core::limits::{INTEGER_MAX, LIST_JOBS_MAX};
use fairlane_core::queue::{BulkRef, ListJobs, Listing};
use fairlane_core::{BulkId, GroupId, TypeId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::Caller;
use crate::api::shown::JobShown;
use crate::app::Shared;
use crate::extract::{Json, Named, Query};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// Jobs on a page unless said otherwise.
const LIMIT: usize = 100;

/// Which jobs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Where they stand. May be left out with a bulk action.
    state: Option<Standing>,
    /// Of this group only; needed for `pending` and with a bulk action.
    #[param(min_length = 1, max_length = 128)]
    group: Option<String>,
    /// Of this type only.
    #[param(min_length = 1, max_length = 128)]
    r#type: Option<String>,
    /// Of this bulk action of the group: its jobs that have ended, or with `held` those that are set aside.
    #[param(min_length = 1, max_length = 128)]
    bulk: Option<String>,
    /// Where the page begins: what the page before gave as `next`.
    #[param(pattern = "^[0-9]{1,15}$")]
    cursor: Option<String>,
    /// Looks at so many jobs; 100 unless said.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Where jobs stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Standing {
    /// In the lanes of a group.
    Pending,
    /// Admitted, waiting for a worker (`classic`).
    Ready,
    /// Must not run yet, by the time they are due.
    Waiting,
    /// Leased, by the end of their leases.
    Processing,
    /// Dead, oldest first.
    Dead,
    /// Completed or cancelled, oldest first.
    Finished,
    /// Set aside with their bulk action.
    Held,
}

/// A page of jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct Jobs {
    /// Without their payloads.
    jobs: Vec<JobShown>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists jobs
///
/// In the order of the place they stand in, without their payloads. What a filter drops counts as looked at: a page may
/// be short, or empty, although more follow; go on until there is no `next`. When jobs move between two pages, one may
/// be listed twice or not at all. A key that is bound to groups must name one of them.
#[utoipa::path(
    get,
    path = "/api/jobs",
    tag = "jobs",
    params(Which),
    responses(
        (status = 200, description = "A page", body = Jobs),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Jobs>, Problem> {
    let group = which.group.as_deref().map(GroupId::named).transpose()?;
    match &group {
        Some(group) => caller.check_group(group)?,
        None if caller.groups.is_some() => {
            return Err(
                ProblemKind::Forbidden.because("this key is bound to groups; name one of them with group=")
            );
        }
        None => {}
    }
    let command = ListJobs {
        listing: listing(which.state, group.as_ref(), which.bulk.as_deref())?,
        type_id: which.r#type.as_deref().map(TypeId::named).transpose()?,
        group,
        cursor: cursor(which.cursor.as_deref())?,
        limit: limit(which.limit)?,
    };
    let listed = app.engine().list_jobs(command).await?;
    let next = listed.next.map(|next| next.to_string());
    Ok(Json(Jobs { jobs: listed.jobs.into_iter().map(JobShown::from).collect(), next }))
}

fn listing(state: Option<Standing>, group: Option<&GroupId>, bulk: Option<&str>) -> Result<Listing, Problem> {
    let invalid = |detail: &str| ProblemKind::Invalid.because(detail);
    if let Some(bulk) = bulk {
        let group = group.ok_or_else(|| invalid("a bulk action belongs to a group; name it with group="))?;
        let bulk = BulkRef { group: group.clone(), id: BulkId::named(bulk)? };
        return match state {
            None | Some(Standing::Finished) => Ok(Listing::OfBulk(bulk)),
            Some(Standing::Held) => Ok(Listing::OnHold(bulk)),
            Some(_) => Err(invalid(
                "of a bulk action, jobs that have ended (state=finished) or are set aside (state=held) can be listed",
            )),
        };
    }
    match state {
        Some(Standing::Pending) => {
            let group =
                group.ok_or_else(|| invalid("state=pending lists a group's lanes; name it with group="))?;
            Ok(Listing::Pending(group.clone()))
        }
        Some(Standing::Ready) => Ok(Listing::Ready),
        Some(Standing::Waiting) => Ok(Listing::Waiting),
        Some(Standing::Processing) => Ok(Listing::InFlight),
        Some(Standing::Dead) => Ok(Listing::Dead),
        Some(Standing::Finished) => Ok(Listing::Finished),
        Some(Standing::Held) => Err(invalid("jobs are set aside with their bulk action; name it with bulk=")),
        None => Err(invalid(
            "name a state: state=pending, ready, waiting, processing, dead or finished; or a bulk action with bulk=",
        )),
    }
}

fn cursor(text: Option<&str>) -> Result<u64, Problem> {
    let Some(text) = text else { return Ok(0) };
    let number = text.parse().ok().filter(|number: &u64| *number < INTEGER_MAX);
    number.ok_or_else(|| {
        ProblemKind::Invalid.because("a cursor is what another page gave as next; leave it out to begin")
    })
}

fn limit(limit: Option<usize>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(LIMIT);
    if (1..=LIST_JOBS_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(ProblemKind::Invalid.because(format!("a limit is between 1 and {LIST_JOBS_MAX}, not {limit}")))
}
