//! Jobs page by page.

use axum::extract::State;
use fairlane_core::limits::LIST_JOBS_MAX;
use fairlane_core::numbers::within;
use fairlane_core::queue::{BulkRef, JobState, ListJobs, Listing};
use fairlane_core::{BulkId, GroupId, TypeId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::Caller;
use crate::api::change::{self, PAGE};
use crate::api::shown::JobShown;
use crate::app::Shared;
use crate::extract::{Json, Named, Query};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// Which jobs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Where they stand, also as jobs show it: `PROCESSING` is `processing`, `FAILED` is `dead`. May be left out with a
    /// bulk action, whose jobs that have ended are then listed, and no others.
    #[param(inline)]
    state: Option<Standing>,
    /// Of this group only; needed for `pending` and with a bulk action.
    #[param(min_length = 1, max_length = 128)]
    group: Option<String>,
    /// Of this type only.
    #[param(min_length = 1, max_length = 128)]
    r#type: Option<String>,
    /// Of this bulk action of the group: only its jobs that have ended, dead ones too (with `completed`, `cancelled` or
    /// `dead` those alone), or with `held` those that are set aside.
    #[param(min_length = 1, max_length = 128)]
    bulk: Option<String>,
    /// Where the page begins: what the page before gave as `next`.
    #[param(pattern = "^[0-9]{1,15}$")]
    cursor: Option<String>,
    /// Looks at so many jobs; 100 unless said.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Where jobs stand: `pending` in the lanes of a group; `ready`, admitted and waiting for a worker (`classic`); `waiting`,
/// by the time they are due; `processing`, by the end of their leases; `dead`, oldest first; `finished`, completed or
/// cancelled, oldest first, or one of these (`completed`, `cancelled`); `held`, set aside with their bulk action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Standing {
    #[serde(alias = "PENDING")]
    Pending,
    #[serde(alias = "READY")]
    Ready,
    #[serde(alias = "WAITING")]
    Waiting,
    #[serde(alias = "PROCESSING")]
    Processing,
    #[serde(alias = "FAILED", alias = "failed")]
    Dead,
    Finished,
    #[serde(alias = "COMPLETED")]
    Completed,
    #[serde(alias = "CANCELLED")]
    Cancelled,
    Held,
}

impl Standing {
    /// The state of a job that a listing of more than one is to be reduced to.
    fn only(self) -> Option<JobState> {
        match self {
            Self::Dead => Some(JobState::Failed),
            Self::Completed => Some(JobState::Completed),
            Self::Cancelled => Some(JobState::Cancelled),
            _ => None,
        }
    }
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
///
/// Of a bulk action, jobs that have not ended are not listed, except those set aside (`state=held`): look for them in
/// their group with `state=pending`, `waiting` or `processing`.
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
        cursor: change::position(which.cursor.as_deref())?,
        limit: within("limit", which.limit.unwrap_or(PAGE) as u64, 1, LIST_JOBS_MAX as u64)? as usize,
    };
    let listed = app.engine().list_jobs(command).await?;
    let next = listed.next.map(|next| next.to_string());
    let only = which.state.and_then(Standing::only);
    let jobs = listed.jobs.into_iter().filter(|job| only.is_none_or(|state| job.state == state));
    Ok(Json(Jobs { jobs: jobs.map(JobShown::from).collect(), next }))
}

fn listing(state: Option<Standing>, group: Option<&GroupId>, bulk: Option<&str>) -> Result<Listing, Problem> {
    let invalid = |detail: &str| ProblemKind::Invalid.because(detail);
    if let Some(bulk) = bulk {
        let group = group.ok_or_else(|| invalid("a bulk action belongs to a group; name it with group="))?;
        let bulk = BulkRef { group: group.clone(), id: BulkId::named(bulk)? };
        return match state {
            None | Some(Standing::Finished | Standing::Completed | Standing::Cancelled | Standing::Dead) => {
                Ok(Listing::OfBulk(bulk))
            }
            Some(Standing::Held) => Ok(Listing::OnHold(bulk)),
            Some(_) => Err(invalid(
                "of a bulk action, jobs that have ended (state=finished, completed, cancelled or dead) or are set \
                 aside (state=held) can be listed; for others leave bulk= out, and name their group",
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
        Some(Standing::Finished | Standing::Completed | Standing::Cancelled) => Ok(Listing::Finished),
        Some(Standing::Held) => {
            Err(invalid("jobs are set aside with their bulk action; name it with group= and bulk="))
        }
        None => Err(invalid(
            "name a state: state=pending (with group=), ready, waiting, processing, dead, finished, completed, cancelled or \
             held (with group= and bulk=); or a bulk action with bulk=, whose jobs that have ended are then listed",
        )),
    }
}
