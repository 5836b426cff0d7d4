//! `discard`: removes dead jobs before their retention ends. Their ids can be used again.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::PICK_JOBS_MAX;
use crate::numbers::Micros;
use crate::queue::job::Place;
use crate::queue::{JobRef, Machine};

use super::each_once;

/// Removes dead jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discard {
    /// The jobs, at most 500, each once.
    #[serde(deserialize_with = "crate::encoding::list::<PICK_JOBS_MAX, _, _>")]
    pub jobs: Vec<JobRef>,
}

/// The result for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disposal {
    /// It was removed.
    Discarded,
    /// It is not dead.
    NotDead,
    /// It does not exist, or no longer exists.
    Unknown,
}

/// The reply to [`Discard`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    /// The results, in the order of the command's jobs.
    pub jobs: Vec<Disposal>,
}

impl Operation for Discard {
    type Machine = Machine;
    type Reply = Discarded;

    const STEM: &'static str = "discard";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("discard", self.jobs.len(), PICK_JOBS_MAX)?;
        each_once(self.jobs.iter())
    }

    fn access(&self) -> Access<'_> {
        Access::groups(Permission::Produce, self.jobs.iter().map(|job| &job.group))
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.jobs.len())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Discarded {
        machine.discard(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn discard(&mut self, command: Discard, _: Micros) -> Discarded {
        Discarded { jobs: command.jobs.iter().map(|job| self.discard_one(job)).collect() }
    }

    fn discard_one(&mut self, job: &JobRef) -> Disposal {
        let Some(key) = self.find_job(job) else { return Disposal::Unknown };
        if !matches!(self.jobs[key].place, Place::Failed(_)) {
            return Disposal::NotDead;
        }
        self.forget_dead(key);
        self.remove_job(key);
        Disposal::Discarded
    }
}
