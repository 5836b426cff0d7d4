//! `list_jobs`: lists jobs page by page, in the order of the place they are in. Read-only.
//!
//! A cursor is a position in that order, so the cost of a page does not depend on its position or
//! on the number of jobs. Positions shift when jobs move between two pages: a job may then be
//! listed twice or not at all.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, PageSize, Permission};
use crate::limits::{INTEGER_MAX, LIST_BYTES_MAX, LIST_JOBS_MAX, LIST_STEP_JOBS, LIST_STRIDE};
use crate::names::{BulkId, GroupId, JobId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros, within};
use crate::queue::job::JobKey;
use crate::queue::lane::GroupKey;
use crate::queue::{BulkRef, JobRef, JobState, Machine};
use crate::trace::Trace;

use super::JobView;

/// The place to list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listing {
    /// A group's lanes, by level and type. Within a lane, returned jobs come before the others.
    Pending(GroupId),
    /// Admitted jobs (`classic`), by type and then by time of admission.
    Ready,
    /// Jobs that must not run yet, by due time.
    Waiting,
    /// Leased jobs, by deadline.
    InFlight,
    /// Dead jobs, oldest first.
    Dead,
    /// Completed and cancelled jobs that belong to no bulk action, oldest first.
    Finished,
    /// Jobs of a bulk action that have ended, oldest first.
    OfBulk(BulkRef),
    /// Jobs of a bulk action that are on hold.
    OnHold(BulkRef),
}

/// Reads one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListJobs {
    /// The place to list.
    pub listing: Listing,
    /// Only jobs of this group. Jobs that the filter drops count towards `limit`: a page may be
    /// short or empty although more pages follow.
    pub group: Option<GroupId>,
    /// Only jobs of this type. Lanes and lists of other types are not read.
    pub type_id: Option<TypeId>,
    /// The cursor: 0 for the first page, then [`Listed::next`].
    pub cursor: u64,
    /// The most jobs to read, at most 500. One call reads at most [`LIST_STEP_JOBS`].
    pub limit: usize,
}

/// The reply to [`ListJobs`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The jobs, in the order of the listing; fewer if payloads and notes are large.
    pub jobs: Vec<JobLine>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<u64>,
}

/// The current state of a job, without its payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobLine {
    /// The job, by group and id.
    pub job: JobRef,
    /// The type of the job.
    pub type_id: TypeId,
    /// The level of the job within its type.
    pub level: Level,
    /// The cost of the job in its group's share.
    pub cost: Cost,
    /// When it was enqueued.
    pub created_at: Micros,
    /// The state of the job.
    pub state: JobState,
    /// When the job is due (waiting), or when its lease ends (processing).
    pub until: Option<Micros>,
    /// Attempts charged so far, the running one included.
    pub attempts: u32,
    /// How often the downstream refused the job.
    pub throttles: u32,
    /// Leases that the job lost.
    pub losses: u32,
    /// The fence of the current lease, else the fence that was settled last.
    pub fence: Option<Fence>,
    /// The worker that leased it last.
    pub worker: Option<WorkerId>,
    /// When it was last settled.
    pub settled_at: Option<Micros>,
    /// The result of the job, or the reason of its last failure.
    #[serde(with = "crate::encoding::bytes")]
    pub note: Arc<[u8]>,
    /// The bulk action it belongs to.
    pub bulk: Option<BulkId>,
    /// The trace it was enqueued with.
    pub trace: Option<Trace>,
}

impl From<JobView> for JobLine {
    fn from(view: JobView) -> Self {
        Self {
            job: view.job,
            type_id: view.type_id,
            level: view.level,
            cost: view.cost,
            created_at: view.created_at,
            state: view.state,
            until: view.until,
            attempts: view.attempts,
            throttles: view.throttles,
            losses: view.losses,
            fence: view.fence,
            worker: view.worker,
            settled_at: view.settled_at,
            note: view.note,
            bulk: view.bulk,
            trace: view.trace,
        }
    }
}

impl Operation for ListJobs {
    type Machine = Machine;
    type Reply = Listed;

    const STEM: &'static str = "list_jobs";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the limit of a page", items: self.limit, items_max: LIST_JOBS_MAX })
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate_page()?;
        within("the cursor of list_jobs", self.cursor, 0, INTEGER_MAX - 1)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        match &self.listing {
            Listing::Pending(group) => Access::group(Permission::Read, group),
            Listing::OfBulk(bulk) | Listing::OnHold(bulk) => Access::group(Permission::Read, &bulk.group),
            Listing::Ready | Listing::Waiting | Listing::InFlight | Listing::Dead | Listing::Finished => {
                Access::group_or_all(Permission::Read, self.group.as_ref())
            }
        }
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Listed {
        machine.list_jobs(&self)
    }
}

/// A position and its job, unless the job has moved elsewhere.
type Entry = (u64, Option<JobKey>);

impl Machine {
    pub(in crate::queue) fn list_jobs(&self, command: &ListJobs) -> Listed {
        let mut listed = Listed { jobs: Vec::new(), next: None };
        let mut bytes = 0;
        for (index, (position, key)) in self.entries(command).into_iter().enumerate() {
            if index == command.limit.min(LIST_STEP_JOBS) || bytes >= LIST_BYTES_MAX {
                listed.next = Some(position);
                break;
            }
            let Some(view) = key.and_then(|key| self.view_of(key, command.group.as_ref())) else { continue };
            bytes += view.payload.len() + view.note.len();
            if command.type_id.as_ref().is_none_or(|wanted| *wanted == view.type_id) {
                listed.jobs.push(view.into());
            }
        }
        listed
    }

    /// A job, if it belongs to the wanted group.
    fn view_of(&self, key: JobKey, wanted: Option<&GroupId>) -> Option<JobView> {
        let job = &self.jobs[key];
        let group = &self.groups[job.group].name;
        if wanted.is_some_and(|wanted| wanted != group) {
            return None;
        }
        self.job_view(&JobRef { group: group.clone(), id: job.id.clone() })
    }

    /// The entries of the page, and the entry after it, at which the next page starts.
    fn entries(&self, command: &ListJobs) -> Vec<Entry> {
        let (cursor, most) = (command.cursor, command.limit.min(LIST_STEP_JOBS) + 1);
        let first_chunk = (cursor / LIST_STRIDE) as usize;
        match &command.listing {
            Listing::Pending(group) => in_lists(self.lists_of(group, command.type_id.as_ref()), cursor, most),
            Listing::Ready => {
                let wanted = |name: &TypeId| command.type_id.as_ref().is_none_or(|wanted| wanted == name);
                let types = self.types_by_name.iter().filter(|(name, _)| wanted(name));
                in_lists(types.map(|(_, key)| &self.types[*key].ready), cursor, most)
            }
            Listing::OnHold(bulk) => {
                let number = self.find_bulk(bulk);
                in_lists(number.map(|number| &self.bulks[&number].on_hold), cursor, most)
            }
            Listing::Waiting => in_order(self.waiting.values(), cursor, most),
            Listing::Dead => in_order(self.dead.values(), cursor, most),
            Listing::InFlight => {
                let batches = self.deadlines.iter().skip(first_chunk);
                in_chunks(batches.map(|(_, batch)| self.held_by(*batch)), cursor, most)
            }
            Listing::Finished => {
                let chunks = self.completed.chunks.iter().skip(first_chunk);
                in_chunks(chunks.map(|(_, keys)| keys.iter().copied().map(Some).collect()), cursor, most)
            }
            Listing::OfBulk(bulk) => {
                let number = self.find_bulk(bulk);
                let chunks = number.iter().flat_map(|number| {
                    let bulk = &self.bulks[number];
                    bulk.ended.iter().skip(first_chunk).map(move |(_, ids)| {
                        ids.iter().map(|id| self.ended_of(bulk.group, id, *number)).collect()
                    })
                });
                in_chunks(chunks, cursor, most)
            }
        }
    }

    fn lists_of<'a>(
        &'a self,
        group: &GroupId,
        wanted: Option<&TypeId>,
    ) -> impl Iterator<Item = &'a VecDeque<JobKey>> {
        let wanted = wanted.map(|name| self.types_by_name.get(name).copied());
        let group = self.groups_by_name.get(group).copied();
        let lanes = group.map_or(Vec::new(), |group| self.lanes_by_place(group));
        let lanes = lanes.into_iter().map(move |lane| {
            let group = group.expect("a group that has lanes");
            &self.groups[group].lanes[lane as usize]
        });
        let lanes = lanes.filter(move |lane| wanted.is_none_or(|wanted| wanted == Some(lane.type_key)));
        lanes.flat_map(|lane| [&lane.returned, &lane.backlog])
    }

    /// The jobs of a batch; `None` for those with a lease that has ended or moved to a later batch.
    fn held_by(&self, batch: Fence) -> Vec<Option<JobKey>> {
        let jobs = &self.batches[&batch].jobs;
        let is_held = |key: JobKey, fence: Fence| {
            let held = self.jobs.get(key).and_then(|job| job.held_under(fence));
            held.is_some_and(|held| held.batch == batch)
        };
        jobs.iter().map(|&(key, fence)| Some(key).filter(|key| is_held(*key, fence))).collect()
    }

    /// A job that has ended in this bulk action, unless it was removed or has left the
    /// bulk action since.
    fn ended_of(&self, group: GroupKey, id: &JobId, number: u64) -> Option<JobKey> {
        let key = *self.groups[group].jobs.get(id)?;
        self.is_ended_of(key, number).then_some(key)
    }
}

/// Entries with positions that continue from list to list.
fn in_lists<'a>(
    lists: impl IntoIterator<Item = &'a VecDeque<JobKey>>,
    cursor: u64,
    most: usize,
) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut before = 0;
    for list in lists {
        let first = (cursor.saturating_sub(before) as usize).min(list.len());
        let rest = list.range(first..).enumerate().take(most - entries.len());
        entries.extend(rest.map(|(index, key)| (before + (first + index) as u64, Some(*key))));
        before += list.len() as u64;
    }
    entries
}

/// Entries with their ranks as positions.
fn in_order<'a>(keys: impl Iterator<Item = &'a JobKey>, cursor: u64, most: usize) -> Vec<Entry> {
    let page = keys.skip(cursor as usize).take(most);
    (cursor..).zip(page).map(|(position, key)| (position, Some(*key))).collect()
}

/// Entries with positions composed of the number of the chunk times [`LIST_STRIDE`] and the index
/// within it. The first chunk given is that of the cursor.
fn in_chunks(chunks: impl Iterator<Item = Vec<Option<JobKey>>>, cursor: u64, most: usize) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut skipped = (cursor % LIST_STRIDE) as usize;
    for (number, chunk) in (cursor / LIST_STRIDE..).zip(chunks) {
        let rest = (0..).zip(chunk).skip(skipped).take(most - entries.len());
        entries.extend(rest.map(|(place, key): (u64, _)| (number * LIST_STRIDE + place, key)));
        skipped = 0;
        if entries.len() == most {
            break;
        }
    }
    entries
}
