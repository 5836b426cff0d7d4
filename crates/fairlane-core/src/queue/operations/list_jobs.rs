//! `list_jobs`: jobs page by page, in the order of the place they stand in; looks and changes nothing.
//!
//! A cursor is a position in that order, so a page costs the same wherever it lies and however many jobs there
//! are. When jobs move between two pages positions shift: a job may then be listed twice or not at all.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{INTEGER_MAX, LIST_BYTES_MAX, LIST_JOBS_MAX, LIST_STRIDE};
use crate::names::{BulkId, GroupId, JobId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros, within};
use crate::queue::job::JobKey;
use crate::queue::lane::GroupKey;
use crate::queue::{BulkRef, JobRef, JobState, Machine};
use crate::trace::Trace;

use super::{Invalid, JobView};

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listing {
    /// A group's lanes by level and type; in each, jobs that came back before the others.
    Pending(GroupId),
    /// Admitted jobs (`classic`) by type, first in, first out.
    Ready,
    /// Jobs that must not run yet, by the time they are due.
    Waiting,
    /// Leased jobs, by the end of their leases.
    InFlight,
    /// Dead jobs, oldest first.
    Dead,
    /// Completed and cancelled jobs that belong to no bulk action, oldest first.
    Finished,
    /// Jobs of a bulk action that have ended, oldest first.
    OfBulk(BulkRef),
    /// Jobs of a bulk action that are set aside.
    OnHold(BulkRef),
}

/// Asks for one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListJobs {
    /// Where to look.
    pub listing: Listing,
    /// Jobs of this group only. What a filter drops still counts as looked at: a page may be short or empty
    /// although more follow.
    pub group: Option<GroupId>,
    /// Jobs of this type only. Lanes and lists of other types are not looked at.
    pub type_id: Option<TypeId>,
    /// 0 for the first page, then as the reply says.
    pub cursor: u64,
    /// Looks at this many jobs, at most 500.
    pub limit: usize,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// In the order of the listing. Fewer than asked for where payloads and notes are large.
    pub jobs: Vec<JobLine>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<u64>,
}

/// A job as it stands, without its payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobLine {
    /// Whose and which.
    pub job: JobRef,
    /// Its type.
    pub type_id: TypeId,
    /// Its level.
    pub level: Level,
    /// Its cost.
    pub cost: Cost,
    /// When it was enqueued.
    pub created_at: Micros,
    /// Where it is.
    pub state: JobState,
    /// When it is due (waiting) or its lease ends (processing).
    pub until: Option<Micros>,
    /// Attempts charged so far, the running one included.
    pub attempts: u32,
    /// Times the downstream refused it.
    pub throttles: u32,
    /// Leases it lost.
    pub losses: u32,
    /// The fence of its lease, else the one settled last.
    pub fence: Option<Fence>,
    /// Who leased it last.
    pub worker: Option<WorkerId>,
    /// When it was last settled.
    pub settled_at: Option<Micros>,
    /// Its result, or why it last failed.
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

impl ListJobs {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        within("the limit of a page", self.limit as u64, 1, LIST_JOBS_MAX as u64)?;
        within("the cursor of list_jobs", self.cursor, 0, INTEGER_MAX - 1)?;
        Ok(())
    }
}

/// A position and the job there, unless it has gone elsewhere.
type Entry = (u64, Option<JobKey>);

impl Machine {
    pub(in crate::queue) fn list_jobs(&self, command: &ListJobs) -> Listed {
        let mut listed = Listed { jobs: Vec::new(), next: None };
        let mut bytes = 0;
        for (looked, (position, key)) in self.entries(command).into_iter().enumerate() {
            if looked == command.limit || bytes >= LIST_BYTES_MAX {
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

    /// A job, if it is of the wanted group.
    fn view_of(&self, key: JobKey, wanted: Option<&GroupId>) -> Option<JobView> {
        let job = &self.jobs[key];
        let group = &self.groups[job.group].name;
        if wanted.is_some_and(|wanted| wanted != group) {
            return None;
        }
        self.job_view(&JobRef { group: group.clone(), id: job.id.clone() })
    }

    /// What the page looks at, and the entry after it, which says where the next begins.
    fn entries(&self, command: &ListJobs) -> Vec<Entry> {
        let (cursor, most) = (command.cursor, command.limit + 1);
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

    /// The jobs of a batch; those whose lease has ended, or has a later end by now, are not its own any more.
    fn held_by(&self, batch: Fence) -> Vec<Option<JobKey>> {
        let jobs = &self.batches[&batch].jobs;
        let is_held = |key: JobKey, fence: Fence| {
            let held = self.jobs.get(key).and_then(|job| job.held_under(fence));
            held.is_some_and(|held| held.batch == batch)
        };
        jobs.iter().map(|&(key, fence)| Some(key).filter(|key| is_held(*key, fence))).collect()
    }

    /// A job that has ended in this bulk action, unless it was removed or has left it since.
    fn ended_of(&self, group: GroupKey, id: &JobId, number: u64) -> Option<JobKey> {
        let key = *self.groups[group].jobs.get(id)?;
        self.is_ended_of(key, number).then_some(key)
    }
}

/// Positions run through the lists one after the other.
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

/// Positions are ranks.
fn in_order<'a>(keys: impl Iterator<Item = &'a JobKey>, cursor: u64, most: usize) -> Vec<Entry> {
    let page = keys.skip(cursor as usize).take(most);
    (cursor..).zip(page).map(|(position, key)| (position, Some(*key))).collect()
}

/// A position is the number of a chunk times [`LIST_STRIDE`] and the place in it; the chunks given begin with
/// the cursor's.
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
