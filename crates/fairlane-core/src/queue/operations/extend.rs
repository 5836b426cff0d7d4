//! `extend`: keeps leases alive; a lost lease is said so, never recreated.
//!
//! Jobs leased together are a batch with one deadline; those extended together become a batch of their own.

use serde::{Deserialize, Serialize};

use crate::limits::{EXTEND_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use crate::numbers::{Fence, Micros, within};
use crate::queue::job::{Batch, Held, JobKey, Place};
use crate::queue::{JobRef, Machine};

use super::{Invalid, at_most, each_once};

/// Moves the deadlines of leases to `lease_ms` from now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    /// At most 500 leases.
    #[serde(deserialize_with = "crate::encoding::list::<EXTEND_JOBS_MAX, _, _>")]
    pub leases: Vec<(JobRef, Fence)>,
    /// The new length of each.
    pub lease_ms: u64,
}

/// What became of one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extension {
    /// It ends then.
    Until(Micros),
    /// The job is no longer leased under this fence; stop working on it.
    Lost,
    /// Extended, but nobody wants the job any more: stop working on it and settle it.
    Cancelled(Micros),
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    /// In the command's order.
    pub extensions: Vec<Extension>,
}

impl Extend {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        at_most("extend", self.leases.len(), EXTEND_JOBS_MAX)?;
        within("the length of a lease in ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        each_once(self.leases.iter().map(|(job, _)| job))
    }
}

impl Machine {
    pub(in crate::queue) fn extend(&mut self, command: Extend, now: Micros) -> Extended {
        let until = now.plus_ms(command.lease_ms);
        let mut held = Vec::new();
        let mut extensions = Vec::with_capacity(command.leases.len());
        for (job, fence) in &command.leases {
            let key = self.find_job(job).filter(|key| self.jobs[*key].held_under(*fence).is_some());
            held.extend(key.map(|key| (key, *fence)));
            extensions.push(match key {
                None => Extension::Lost,
                Some(key) if self.is_unwanted(key) => Extension::Cancelled(until),
                Some(_) => Extension::Until(until),
            });
        }
        if !held.is_empty() {
            self.move_to_new_batch(held, until, now);
        }
        Extended { extensions }
    }

    fn move_to_new_batch(&mut self, held: Vec<(JobKey, Fence)>, deadline: Micros, now: Micros) {
        let batch = self.next_fence(now);
        for &(key, fence) in &held {
            if let Place::InFlight(lease) = &mut self.jobs[key].place {
                let before = std::mem::replace(&mut lease.batch, batch);
                if before != fence {
                    self.leave_batch(before);
                }
            }
        }
        self.open_batch(batch, held, deadline);
    }

    /// Records jobs that share a deadline.
    pub(super) fn open_batch(&mut self, batch: Fence, jobs: Vec<(JobKey, Fence)>, deadline: Micros) {
        self.mark_batch(batch);
        self.deadlines.insert((deadline, batch));
        self.batches.insert(batch, Batch { deadline, left: jobs.len(), jobs });
    }

    /// One job fewer to wait for; a batch without any is forgotten.
    pub(super) fn leave_batch(&mut self, batch: Fence) {
        let Some(record) = self.batches.get_mut(&batch) else { return };
        record.left -= 1;
        if record.left == 0 {
            self.deadlines.remove(&(record.deadline, batch));
            self.batches.remove(&batch);
            self.mark_batch(batch);
        }
    }

    /// The lease of a job has ended, whichever way.
    pub(in crate::queue) fn end_lease(&mut self, lease: &Held) {
        self.leave_batch(lease.fence);
        if lease.batch != lease.fence {
            self.leave_batch(lease.batch);
        }
    }
}
