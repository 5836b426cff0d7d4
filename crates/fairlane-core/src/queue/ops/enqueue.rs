//! `enqueue`: adds jobs, each at most once.
//!
//! A job with an id that exists is compared with the existing job in the same step, so a caller
//! that repeats a request learns whether it was the same request. Trace and delay are not compared:
//! the trace may differ with each attempt to send the job, and the delay counts from the first one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::operation::{at_most, bytes_at_most};
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{DELAY_MS_MAX, ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX, PAYLOAD_BYTES_MAX, REFUSAL_RETRY_MS};
use crate::names::{BulkId, GroupId, TypeId};
use crate::numbers::{Cost, Level, Micros, within};
use crate::queue::job::{Job, JobKey, NO_ORDER, Place};
use crate::queue::lane::{GroupKey, LaneKey};
use crate::queue::{BulkRef, JobRef, Machine};
use crate::trace::Trace;

/// A job to add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// The job, by group and id.
    pub job: JobRef,
    /// The type of the job.
    pub type_id: TypeId,
    /// The level of the job within its type.
    pub level: Level,
    /// The cost of the job in its group's share.
    pub cost: Cost,
    /// Opaque bytes for the processor.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
    /// The time in milliseconds before which the job must not run.
    pub delay_ms: u64,
    /// The bulk action it belongs to.
    pub bulk: Option<BulkId>,
    /// The trace it belongs to.
    pub trace: Option<Trace>,
}

impl NewJob {
    /// A job of normal level and cost that may run at once.
    pub fn new(job: JobRef, type_id: TypeId, payload: Arc<[u8]>) -> Self {
        let (level, cost) = (Level::Normal, Cost::default());
        Self { job, type_id, level, cost, payload, delay_ms: 0, bulk: None, trace: None }
    }
}

/// Adds jobs in the given order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Enqueue {
    /// The jobs, at most 200 with at most 1 MiB of payload.
    #[serde(deserialize_with = "crate::encoding::list::<ENQUEUE_JOBS_MAX, _, _>")]
    pub jobs: Vec<NewJob>,
}

/// Why a job was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Its group has reached the limit on unfinished jobs.
    GroupFull,
    /// The queue has reached the limit on unfinished jobs.
    QueueFull,
    /// Its type is new, and there are 64 types already.
    TooManyTypes,
    /// Its bulk action accepts no more jobs: it is sealed or has ended.
    BulkSealed,
    /// Its bulk action does not exist; open it first.
    BulkUnknown,
    /// Its group has reached the limit on stored bytes, finished jobs included.
    GroupBytesFull,
    /// The queue has reached the limit on stored bytes, finished jobs included.
    QueueBytesFull,
}

impl Refusal {
    /// Whether a later attempt may succeed.
    pub const fn is_full(self) -> bool {
        matches!(self, Self::GroupFull | Self::QueueFull | Self::GroupBytesFull | Self::QueueBytesFull)
    }
}

/// The first field in which an existing job differs from a new one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Difference {
    /// The bulk action; also if only one of the jobs has one. A requeued dead job has left
    /// its bulk action.
    Bulk,
    /// The type of the job.
    Type,
    /// The level of the job.
    Level,
    /// The cost of the job.
    Cost,
    /// The payload of the job.
    Payload,
}

impl Difference {
    /// The name of the field as shown to users.
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

/// The result for one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobReceipt {
    /// The job was created.
    Created,
    /// The group already has this job, as far as can still be compared; nothing was changed.
    Exists {
        /// The bulk action of the existing job.
        bulk: Option<BulkId>,
    },
    /// The group has a different job with this id; nothing was changed.
    Differs {
        /// The first field that differs.
        difference: Difference,
        /// The bulk action of the existing job.
        bulk: Option<BulkId>,
    },
    /// The job was refused; try again later.
    Refused {
        /// The reason for the refusal.
        refusal: Refusal,
        /// The suggested retry delay, in milliseconds.
        retry_after_ms: u64,
    },
}

/// The reply to [`Enqueue`]: a receipt per job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    /// The receipts, in the order of the command's jobs.
    pub receipts: Vec<JobReceipt>,
    /// The backlog of the group right after each job: its unfinished jobs that are not leased.
    pub backlogs: Vec<u64>,
}

impl Operation for Enqueue {
    type Machine = Machine;
    type Reply = Enqueued;

    const STEM: &'static str = "enqueue";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("enqueue", self.jobs.len(), ENQUEUE_JOBS_MAX)?;
        let mut bytes = 0;
        for job in &self.jobs {
            bytes_at_most("a payload", job.payload.len(), PAYLOAD_BYTES_MAX)?;
            within("a delay in ms", job.delay_ms, 0, DELAY_MS_MAX)?;
            bytes += job.payload.len();
        }
        bytes_at_most("the payloads of one enqueue", bytes, ENQUEUE_BYTES_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::groups(Permission::Produce, self.jobs.iter().map(|new| &new.job.group))
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight { jobs: self.jobs.len(), bytes: self.jobs.iter().map(|job| job.payload.len()).sum() }
    }

    fn adds_data(&self) -> bool {
        true
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Enqueued {
        machine.enqueue(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn enqueue(&mut self, command: Enqueue, now: Micros) -> Enqueued {
        let (receipts, backlogs) = command.jobs.into_iter().map(|job| self.enqueue_one(job, now)).unzip();
        Enqueued { receipts, backlogs }
    }

    /// The receipt for the job, and the backlog of its group after it.
    fn enqueue_one(&mut self, new: NewJob, now: Micros) -> (JobReceipt, u64) {
        if let Some(key) = self.find_job(&new.job) {
            return (self.compared(key, &new), self.groups[self.jobs[key].group].backlog);
        }
        if let Some(refusal) = self.refusal(&new) {
            let receipt = JobReceipt::Refused { refusal, retry_after_ms: REFUSAL_RETRY_MS };
            return (receipt, self.backlog_of(&new.job.group));
        }
        let group = self.add_job(new, now);
        (JobReceipt::Created, self.groups[group].backlog)
    }

    /// Adds a job that does not exist and that no limit refuses; returns its group.
    pub(in crate::queue) fn add_job(&mut self, new: NewJob, now: Micros) -> GroupKey {
        let type_key = self.type_key(&new.type_id).expect("a type that does not fit is refused before");
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
        group
    }

    /// The receipt for a job with an id that exists.
    fn compared(&self, key: JobKey, new: &NewJob) -> JobReceipt {
        let job = &self.jobs[key];
        let bulk = self.bulk_name(job.bulk);
        // The name of a bulk action that no longer exists is unknown.
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

    /// The name of the bulk action with this number, if it still exists.
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
        if self.backlog >= self.settings.queue_backlog_max {
            return Some(Refusal::QueueFull);
        }
        if self.backlog_of(&new.job.group) >= self.settings.group_backlog_max {
            return Some(Refusal::GroupFull);
        }
        if let Some(refusal) = self.bytes_refusal(&new.job.group, &new.payload) {
            return Some(refusal);
        }
        let is_known = self.types_by_name.contains_key(&new.type_id);
        (!is_known && !self.has_room_for_type(&new.type_id)).then_some(Refusal::TooManyTypes)
    }
}
