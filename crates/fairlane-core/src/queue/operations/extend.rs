//! `extend`: keeps leases alive; a lost lease is said so, never recreated.

use crate::limits::{EXTEND_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use crate::numbers::{Fence, Micros, within};
use crate::queue::job::{JobKey, Place};
use crate::queue::{JobRef, Machine};

use super::{Invalid, at_most, each_once};

/// Moves the deadlines of leases to `lease_ms` from now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extend {
    /// At most 500 leases.
    pub leases: Vec<(JobRef, Fence)>,
    /// The new length of each.
    pub lease_ms: u64,
}

/// What became of one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// It ends then.
    Until(Micros),
    /// The job is no longer leased under this fence; stop working on it.
    Lost,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        let mut extensions = Vec::with_capacity(command.leases.len());
        for (job, fence) in &command.leases {
            let held =
                self.find_job(job).and_then(|key| self.deadline_under(key, *fence).map(|at| (key, at)));
            extensions.push(match held {
                Some((key, deadline)) => {
                    self.in_flight.remove(&(deadline, *fence));
                    self.in_flight.insert((until, *fence), key);
                    self.jobs[key].place = Place::InFlight(until);
                    Extension::Until(until)
                }
                None => Extension::Lost,
            });
        }
        Extended { extensions }
    }

    /// The deadline of a job's lease, if it is leased under this fence.
    pub(super) fn deadline_under(&self, key: JobKey, fence: Fence) -> Option<Micros> {
        let job = self.jobs.get(key)?;
        let run = job.run.as_ref()?;
        match job.place {
            Place::InFlight(deadline) if run.fence == fence => Some(deadline),
            _ => None,
        }
    }
}
