//! Lists of jobs, page by page.

use axum::extract::State;
use fairlane::views::JobView;
use fairlane_core::limits::LIST_JOBS_MAX;
use fairlane_core::numbers::within;
use fairlane_core::queue::{BulkRef, JobState, ListJobs, Listing};
use fairlane_core::{BulkId, GroupId, TypeId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::Caller;
use crate::api::change::{self, PAGE};
use crate::app::Shared;
use crate::extract::{Json, Named, Query};
use crate::problem::{Problem, ProblemKind};

/// The filter of a list of jobs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Jobs in this state. May be omitted with a bulk action, whose jobs that have ended are then
    /// listed, and no others.
    #[param(inline)]
    state: Option<ListState>,
    /// Jobs of this group; required for `pending` and with a bulk action.
    #[param(min_length = 1, max_length = 128)]
    group: Option<String>,
    /// Jobs of this type.
    #[param(min_length = 1, max_length = 128)]
    r#type: Option<String>,
    /// Jobs of this bulk action of the group: only those that have ended, including dead ones (with
    /// `completed`, `cancelled` or `dead` only these), or with `held` those that are set aside.
    #[param(min_length = 1, max_length = 128)]
    bulk: Option<String>,
    /// Where the page begins: the `next` of the last page.
    #[param(pattern = "^[0-9]{1,15}$")]
    cursor: Option<String>,
    /// The number of jobs to scan; 100 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// The state and order of listed jobs: `pending`, in the lanes of a group; `ready`, admitted and
/// waiting for a worker (`classic`); `waiting`, by the time they are due; `in_flight`, by the end
/// of their leases; `dead`, oldest first; `finished`, completed or cancelled, oldest first, or one
/// of these (`completed`, `cancelled`); `held`, set aside with their bulk action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ListState {
    Pending,
    Ready,
    Waiting,
    InFlight,
    Dead,
    Finished,
    Completed,
    Cancelled,
    Held,
}

impl ListState {
    /// The state by which to filter a listing of several states.
    fn filter(self) -> Option<JobState> {
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
pub(in crate::api) struct Jobs {
    /// The jobs, without their payloads.
    pub jobs: Vec<JobView>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Lists jobs
///
/// In the order of their state, without their payloads. Jobs that a filter excludes count as
/// scanned: a page may be short or empty although more follow; continue until `next` is absent.
/// When jobs move between two pages, one may be listed twice or not at all. A key bound to groups
/// must name one of them.
///
/// Of a bulk action, jobs that have not ended are not listed, except those set aside
/// (`state=held`): list those of its group with `state=pending`, `waiting` or `in_flight`.
#[utoipa::path(
    get,
    path = "/api/jobs",
    tag = "jobs",
    params(ListQuery),
    responses((status = 200, description = "A page", body = Jobs)),
)]
pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Jobs>, Problem> {
    let group = query.group.as_deref().map(GroupId::named).transpose()?;
    match &group {
        Some(group) => caller.check_group(group)?,
        None if caller.groups.is_some() => {
            return Err(
                ProblemKind::Forbidden.because("this key is bound to groups; name one of them with group=")
            );
        }
        None => {}
    }
    let page = ListJobs {
        listing: listing(query.state, group.as_ref(), query.bulk.as_deref())?,
        type_id: query.r#type.as_deref().map(TypeId::named).transpose()?,
        group,
        cursor: change::position(query.cursor.as_deref())?,
        limit: within("limit", query.limit.unwrap_or(PAGE) as u64, 1, LIST_JOBS_MAX as u64)? as usize,
    };
    let listed = app.fairlane.jobs(page).await?;
    let next = listed.next.map(|next| next.to_string());
    let filter = query.state.and_then(ListState::filter);
    let jobs = listed.jobs.into_iter().filter(|job| filter.is_none_or(|state| job.state == state));
    Ok(Json(Jobs { jobs: jobs.map(JobView::from).collect(), next }))
}

fn listing(
    state: Option<ListState>,
    group: Option<&GroupId>,
    bulk: Option<&str>,
) -> Result<Listing, Problem> {
    let invalid = |detail: &str| ProblemKind::Invalid.because(detail);
    if let Some(bulk) = bulk {
        let group = group.ok_or_else(|| invalid("a bulk action belongs to a group; name it with group="))?;
        let bulk = BulkRef { group: group.clone(), id: BulkId::named(bulk)? };
        return match state {
            None
            | Some(ListState::Finished | ListState::Completed | ListState::Cancelled | ListState::Dead) => {
                Ok(Listing::OfBulk(bulk))
            }
            Some(ListState::Held) => Ok(Listing::OnHold(bulk)),
            Some(_) => Err(invalid(
                "of a bulk action, only jobs that have ended (state=finished, completed, cancelled or dead) or are set \
                 aside (state=held) can be listed; for others omit bulk=, and name their group",
            )),
        };
    }
    match state {
        Some(ListState::Pending) => {
            let group =
                group.ok_or_else(|| invalid("state=pending lists a group's lanes; name it with group="))?;
            Ok(Listing::Pending(group.clone()))
        }
        Some(ListState::Ready) => Ok(Listing::Ready),
        Some(ListState::Waiting) => Ok(Listing::Waiting),
        Some(ListState::InFlight) => Ok(Listing::InFlight),
        Some(ListState::Dead) => Ok(Listing::Dead),
        Some(ListState::Finished | ListState::Completed | ListState::Cancelled) => Ok(Listing::Finished),
        Some(ListState::Held) => {
            Err(invalid("jobs are set aside with their bulk action; name it with group= and bulk="))
        }
        None => Err(invalid(
            "name a state: state=pending (with group=), ready, waiting, in_flight, dead, finished, completed, cancelled or \
             held (with group= and bulk=); or name a bulk action with bulk= to list its jobs that have ended",
        )),
    }
}
