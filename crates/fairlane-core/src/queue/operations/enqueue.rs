//! `enqueue`: adds jobs, each at most once.
//!
//! A job whose id is there is compared with the one that is, in the same step: whoever repeats a request learns whether
//! it was the same one. Its trace and its delay are not compared: the one may be another in each attempt to send it, the
//! other counts from the first.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{DELAY_MS_MAX, ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX, PAYLOAD_BYTES_MAX, REFUSAL_RETRY_MS};
use crate::names::{BulkId, GroupId, TypeId};
use crate::numbers::{Cost, Level, Micros, within};
use crate::queue::job::{Job, JobKey, NO_ORDER, Place};
use crate::queue::lane::LaneKey;
use crate::queue::{BulkRef, JobRef, Machine};
use crate::trace::Trace;

use super::{Invalid, at_most, bytes_at_most};

/// A job to be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// Whose and which.
    pub job: JobRef,
    /// Its type.
    pub type_id: TypeId,
    /// Its level.
    pub level: Level,
    /// Its cost.
    pub cost: Cost,
    /// Opaque bytes for the processor.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
    /// Must not run before this much time has passed.
    pub delay_ms: u64,
    /// The bulk action it belongs to.
    pub bulk: Option<BulkId>,
    /// The trace it belongs to.
    pub trace: Option<Trace>,
}

/// Adds jobs, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Enqueue {
    /// At most 200, and at most 1 MiB of payload.
    #[serde(deserialize_with = "crate::encoding::list::<ENQUEUE_JOBS_MAX, _, _>")]
    pub jobs: Vec<NewJob>,
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Its group has as many unfinished jobs as it may.
    GroupFull,
    /// All groups together have.
    WholeFull,
    /// A new type, and there are 64 already.
    TooManyTypes,
    /// Its bulk action takes no more jobs: it is sealed, or has ended.
    BulkSealed,
    /// There is no such bulk action; open it first.
    BulkUnknown,
    /// Its group has as many bytes stored as it may, finished jobs included.
    GroupBytesFull,
    /// All groups together have as many bytes stored as they may, finished jobs included.
    QueueBytesFull,
}

impl Refusal {
    /// Whether there may be room for the job later.
    pub const fn is_full(self) -> bool {
        matches!(self, Self::GroupFull | Self::WholeFull | Self::GroupBytesFull | Self::QueueBytesFull)
    }
}

/// What a job that is there has otherwise than one that was to be added under its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Difference {
    /// It belongs to another bulk action, or one of both to none. A dead job leaves its own when it is requeued.
    Bulk,
    /// Another type.
    Type,
    /// Another level.
    Level,
    /// Another cost.
    Cost,
    /// Another payload.
    Payload,
}

impl Difference {
    /// The word shown to people: what is another.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bulk => "bulk action",
            Self::Type => "type",
            Self::Level => "level",
            Self::Cost => "cost",
            Self::Payload => "payload",
        }
    }
}

/// What became of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobReceipt {
    /// It is new.
    Created,
    /// This group has this very job already, as far as is still known; nothing was changed.
    Exists {
        /// The bulk action that job belongs to.
        bulk: Option<BulkId>,
    },
    /// This group has another job of this id; nothing was changed.
    Differs {
        /// The first of the things that are another.
        difference: Difference,
        /// The bulk action that job belongs to.
        bulk: Option<BulkId>,
    },
    /// Not taken; try again later.
    Refused {
        /// Why.
        refusal: Refusal,
        /// When it makes sense to try again.
        retry_after_ms: u64,
    },
}

/// The reply, a receipt per job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    /// In the command's order.
    pub receipts: Vec<JobReceipt>,
    /// For each job the backlog of its group right after it: unfinished jobs that nobody has leased.
    pub backlogs: Vec<u64>,
}

impl Enqueue {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        at_most("enqueue", self.jobs.len(), ENQUEUE_JOBS_MAX)?;
        let mut bytes = 0;
        for job in &self.jobs {
            bytes_at_most("a payload", job.payload.len(), PAYLOAD_BYTES_MAX)?;
            within("a delay in ms", job.delay_ms, 0, DELAY_MS_MAX)?;
            bytes += job.payload.len();
        }
        bytes_at_most("the payloads of one enqueue", bytes, ENQUEUE_BYTES_MAX)
    }
}

impl Machine {
    pub(in crate::queue) fn enqueue(&mut self, command: Enqueue, now: Micros) -> Enqueued {
        let (receipts, backlogs) = command.jobs.into_iter().map(|job| self.enqueue_one(job, now)).unzip();
        Enqueued { receipts, backlogs }
    }

    /// What became of the job, and the backlog of its group then.
    fn enqueue_one(&mut self, new: NewJob, now: Micros) -> (JobReceipt, u64) {
        if let Some(key) = self.find_job(&new.job) {
            return (self.compared(key, &new), self.groups[self.jobs[key].group].backlog);
        }
        if let Some(refusal) = self.refusal(&new) {
            let receipt = JobReceipt::Refused { refusal, retry_after_ms: REFUSAL_RETRY_MS };
            return (receipt, self.backlog_of(&new.job.group));
        }
        let type_key = self.type_key(&new.type_id).expect("a full table was refused above");
        let group = self.group_key(&new.job.group);
        let lane = LaneKey { group, lane: self.groups[group].lane_index(type_key, new.level) };
        let bulk = new.bulk.and_then(|id| self.groups[group].bulks.get(&id).copied());
        let due = now.plus_ms(new.delay_ms);
        let place = if new.delay_ms > 0 { Place::Waiting(due) } else { Place::Lane };
        let id = new.job.id.clone();
        self.created += 1;
        let key = self.jobs.insert(Job {
            number: self.created,
            order: NO_ORDER,
            group,
            id: new.job.id,
            type_key,
            level: new.level,
            cost: new.cost,
            payload: new.payload,
            created_at: now,
            bulk,
            trace: new.trace,
            cancelled: false,
            place,
            run: None,
        });
        self.groups[group].jobs.insert(id, key);
        self.add_bytes(group, self.jobs[key].stored_bytes());
        self.types[type_key].jobs += 1;
        self.groups[group].record.total += 1;
        self.count_backlog(group, 1);
        if let Some(bulk) = bulk.and_then(|number| self.bulk_mut(number)) {
            bulk.total += 1;
        }
        if new.delay_ms > 0 {
            self.start_waiting(key, due);
        } else {
            self.lane_mut(lane).backlog.push_back(key);
            self.lane_has_jobs(lane);
        }
        (JobReceipt::Created, self.groups[group].backlog)
    }

    /// The receipt for a job whose id is there.
    fn compared(&self, key: JobKey, new: &NewJob) -> JobReceipt {
        let job = &self.jobs[key];
        let bulk = self.bulk_name(job.bulk);
        // Of a bulk action that is gone nobody knows what it was called.
        let is_bulk_known = job.bulk.is_none() || bulk.is_some();
        let difference = if is_bulk_known && bulk != new.bulk {
            Difference::Bulk
        } else if self.types[job.type_key].name != new.type_id {
            Difference::Type
        } else if job.level != new.level {
            Difference::Level
        } else if job.cost != new.cost {
            Difference::Cost
        } else if job.payload != new.payload {
            Difference::Payload
        } else {
            return JobReceipt::Exists { bulk };
        };
        JobReceipt::Differs { difference, bulk }
    }

    fn backlog_of(&self, group: &GroupId) -> u64 {
        self.groups_by_name.get(group).map_or(0, |&key| self.groups[key].backlog)
    }

    /// What the bulk action with this number is called, if it is still there.
    pub(in crate::queue) fn bulk_name(&self, number: Option<u64>) -> Option<BulkId> {
        self.bulks.get(&number?).map(|bulk| bulk.name.clone())
    }

    fn refusal(&self, new: &NewJob) -> Option<Refusal> {
        if let Some(id) = &new.bulk {
            let name = BulkRef { group: new.job.group.clone(), id: id.clone() };
            let Some(number) = self.find_bulk(&name) else { return Some(Refusal::BulkUnknown) };
            let bulk = &self.bulks[&number];
            if bulk.sealed || bulk.state.is_final() {
                return Some(Refusal::BulkSealed);
            }
        }
        if self.backlog >= self.settings.whole_backlog_max {
            return Some(Refusal::WholeFull);
        }
        if self.backlog_of(&new.job.group) >= self.settings.group_backlog_max {
            return Some(Refusal::GroupFull);
        }
        if let Some(refusal) = self.bytes_refusal(&new.job.group, &new.payload) {
            return Some(refusal);
        }
        let unknown = !self.types_by_name.contains_key(&new.type_id);
        (unknown && self.types_by_name.len() >= crate::limits::TYPES_MAX).then_some(Refusal::TooManyTypes)
    }
}
