//! `enqueue`: adds jobs, each at most once.

use std::sync::Arc;

use crate::limits::{DELAY_MS_MAX, ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX, PAYLOAD_BYTES_MAX, REFUSAL_RETRY_MS};
use crate::names::TypeId;
use crate::numbers::{Cost, Level, Micros, within};
use crate::queue::job::{Job, Place};
use crate::queue::lane::LaneKey;
use crate::queue::{JobRef, Machine};

use super::{Invalid, at_most, bytes_at_most};

/// A job to be added.
#[derive(Debug, Clone, PartialEq)]
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
    pub payload: Arc<[u8]>,
    /// Must not run before this much time has passed.
    pub delay_ms: u64,
}

/// Adds jobs, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Enqueue {
    /// At most 200, and at most 1 MiB of payload.
    pub jobs: Vec<NewJob>,
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its group has as many unfinished jobs as it may.
    GroupFull,
    /// All groups together have.
    WholeFull,
    /// A new type, and there are 64 already.
    TooManyTypes,
}

/// What became of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobReceipt {
    /// It is new.
    Created,
    /// A job of this group has this id already; nothing was changed.
    Exists,
    /// Not taken; try again later.
    Refused {
        /// Why.
        refusal: Refusal,
        /// When it makes sense to try again.
        retry_after_ms: u64,
    },
}

/// The reply, a receipt per job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enqueued {
    /// In the command's order.
    pub receipts: Vec<JobReceipt>,
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
        let receipts = command.jobs.into_iter().map(|job| self.enqueue_one(job, now)).collect();
        Enqueued { receipts }
    }

    fn enqueue_one(&mut self, new: NewJob, now: Micros) -> JobReceipt {
        if self.find_job(&new.job).is_some() {
            return JobReceipt::Exists;
        }
        if let Some(refusal) = self.refusal(&new) {
            return JobReceipt::Refused { refusal, retry_after_ms: REFUSAL_RETRY_MS };
        }
        let type_key = self.type_key(&new.type_id).expect("a full table was refused above");
        let group = self.group_key(&new.job.group);
        let lane = LaneKey { group, lane: self.groups[group].lane_index(type_key, new.level) };
        let due = now.plus_ms(new.delay_ms);
        let place = if new.delay_ms > 0 { Place::Waiting(due) } else { Place::Lane };
        let id = new.job.id.clone();
        self.created += 1;
        let key = self.jobs.insert(Job {
            number: self.created,
            order: 0,
            group,
            id: new.job.id,
            type_key,
            level: new.level,
            cost: new.cost,
            payload: new.payload,
            created_at: now,
            place,
            run: None,
        });
        self.groups[group].jobs.insert(id, key);
        self.groups[group].backlog += 1;
        self.backlog += 1;
        if new.delay_ms > 0 {
            self.start_waiting(key, due);
        } else {
            self.lane_mut(lane).backlog.push_back(key);
            self.lane_has_jobs(lane);
        }
        JobReceipt::Created
    }

    fn refusal(&self, new: &NewJob) -> Option<Refusal> {
        if self.backlog >= self.settings.whole_backlog_max {
            return Some(Refusal::WholeFull);
        }
        let group = self.groups_by_name.get(&new.job.group);
        let backlog = group.map_or(0, |&key| self.groups[key].backlog);
        if backlog >= self.settings.group_backlog_max {
            return Some(Refusal::GroupFull);
        }
        let unknown = !self.types_by_name.contains_key(&new.type_id);
        (unknown && self.types.len() >= crate::limits::TYPES_MAX).then_some(Refusal::TooManyTypes)
    }
}
