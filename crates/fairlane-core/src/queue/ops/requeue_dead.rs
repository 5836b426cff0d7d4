//! `requeue_dead`: returns dead jobs to the head of their lanes, with all their attempts.
//!
//! A job of a bulk action leaves it, because its failure was counted there and is final.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::PICK_JOBS_MAX;
use crate::numbers::Micros;
use crate::queue::job::{JobKey, Place};
use crate::queue::{JobRef, Machine};

use super::each_once;

/// Requeues dead jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequeueDead {
    /// The jobs, at most 500, each once.
    #[serde(deserialize_with = "crate::encoding::list::<PICK_JOBS_MAX, _, _>")]
    pub jobs: Vec<JobRef>,
}

/// The result for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requeued {
    /// The job is in its lane again.
    Requeued,
    /// It is not dead.
    NotDead,
    /// Its group or the queue has reached the limit on unfinished jobs; it stays dead.
    Full,
    /// The job does not exist.
    Unknown,
}

/// The reply to [`RequeueDead`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadRequeued {
    /// The results, in the order of the command's jobs.
    pub jobs: Vec<Requeued>,
}

impl Operation for RequeueDead {
    type Machine = Machine;
    type Reply = DeadRequeued;

    const STEM: &'static str = "requeue_dead";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("requeue_dead", self.jobs.len(), PICK_JOBS_MAX)?;
        each_once(self.jobs.iter())
    }

    fn access(&self) -> Access<'_> {
        Access::groups(Permission::Produce, self.jobs.iter().map(|job| &job.group))
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.jobs.len())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> DeadRequeued {
        machine.requeue_dead(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn requeue_dead(&mut self, command: RequeueDead, _: Micros) -> DeadRequeued {
        DeadRequeued { jobs: command.jobs.iter().map(|job| self.requeue_one(job)).collect() }
    }

    fn requeue_one(&mut self, job: &JobRef) -> Requeued {
        let Some(key) = self.find_job(job) else { return Requeued::Unknown };
        if !matches!(self.jobs[key].place, Place::Failed(_)) {
            return Requeued::NotDead;
        }
        let group = self.jobs[key].group;
        let full = self.backlog >= self.settings.queue_backlog_max
            || self.groups[group].backlog >= self.settings.group_backlog_max;
        if full {
            return Requeued::Full;
        }
        self.forget_dead(key);
        let job = &mut self.jobs[key];
        job.bulk = None;
        if let Some(run) = &mut job.run {
            (run.attempts, run.throttles, run.losses) = (0, 0, 0);
        }
        self.groups[group].record.total += 1;
        self.count_backlog(group, 1);
        self.return_to_lane(key, false);
        Requeued::Requeued
    }

    /// Removes a job from the list of dead jobs.
    pub(super) fn forget_dead(&mut self, key: JobKey) {
        if let Place::Failed(died_at) = self.jobs[key].place {
            let entry = (died_at, self.full_name(key));
            self.dead.remove(&entry);
        }
    }
}
