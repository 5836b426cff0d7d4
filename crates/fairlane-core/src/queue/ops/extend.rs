//! `extend`: keeps leases alive. A lost lease is reported as lost and never recreated.
//!
//! Jobs leased together are a batch with one deadline; jobs extended together become a new batch.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{EXTEND_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use crate::numbers::{Fence, Micros, within};
use crate::queue::job::{Batch, Held, JobKey, Place};
use crate::queue::{JobRef, Machine};

use super::each_once;

/// Moves the deadlines of leases to `lease_ms` from now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    /// The leases, at most 500, as jobs and their fences.
    #[serde(deserialize_with = "crate::encoding::list::<EXTEND_JOBS_MAX, _, _>")]
    pub leases: Vec<(JobRef, Fence)>,
    /// The new length of each lease, in milliseconds.
    pub lease_ms: u64,
}

/// The result for one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extension {
    /// The lease is extended until this time.
    Until(Micros),
    /// The job is no longer leased under this fence; stop working on it.
    Lost,
    /// The lease is extended until this time, but the job was cancelled: stop working on
    /// it and settle it.
    Cancelled(Micros),
}

/// The reply to [`Extend`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    /// The results, in the order of the command's leases.
    pub extensions: Vec<Extension>,
}

impl Operation for Extend {
    type Machine = Machine;
    type Reply = Extended;

    const STEM: &'static str = "extend";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("extend", self.leases.len(), EXTEND_JOBS_MAX)?;
        within("the length of a lease in ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        each_once(self.leases.iter().map(|(job, _)| job))
    }

    fn access(&self) -> Access<'_> {
        Access::groups(Permission::Work, self.leases.iter().map(|(job, _)| &job.group))
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.leases.len())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Extended {
        machine.extend(self, context.now)
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

    /// Creates a batch of jobs that share a deadline.
    pub(super) fn open_batch(&mut self, batch: Fence, jobs: Vec<(JobKey, Fence)>, deadline: Micros) {
        self.mark_batch(batch);
        self.deadlines.insert((deadline, batch));
        self.batches.insert(batch, Batch { deadline, left: jobs.len(), jobs });
    }

    /// Subtracts one from the jobs of a batch; an empty batch is removed.
    pub(super) fn leave_batch(&mut self, batch: Fence) {
        let Some(record) = self.batches.get_mut(&batch) else { return };
        record.left -= 1;
        if record.left == 0 {
            self.deadlines.remove(&(record.deadline, batch));
            self.batches.remove(&batch);
            self.mark_batch(batch);
        }
    }

    /// Updates the batch of a job when its lease has ended for any reason.
    pub(in crate::queue) fn end_lease(&mut self, lease: &Held) {
        self.leave_batch(lease.fence);
        if lease.batch != lease.fence {
            self.leave_batch(lease.batch);
        }
    }
}
