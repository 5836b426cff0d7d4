//! `requeue_dead`: dead jobs get all their attempts again, and go before the rest of their lanes.
//!
//! A job that belonged to a bulk action leaves it: its failure has been counted there, once and for all.

use serde::{Deserialize, Serialize};

use crate::limits::PICK_JOBS_MAX;
use crate::numbers::Micros;
use crate::queue::job::{JobKey, Place};
use crate::queue::{JobRef, Machine};

use super::{Invalid, at_most, each_once};

/// Lets dead jobs run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequeueDead {
    /// At most 500, each once.
    #[serde(deserialize_with = "crate::encoding::list::<PICK_JOBS_MAX, _, _>")]
    pub jobs: Vec<JobRef>,
}

/// What became of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requeued {
    /// It is in its lane again.
    Requeued,
    /// It is not dead.
    NotDead,
    /// Its group, or the whole, has as many unfinished jobs as it may; it stays dead.
    Full,
    /// There is no such job.
    Unknown,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadRequeued {
    /// In the command's order.
    pub jobs: Vec<Requeued>,
}

impl RequeueDead {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        at_most("requeue_dead", self.jobs.len(), PICK_JOBS_MAX)?;
        each_once(self.jobs.iter())
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
        let full = self.backlog >= self.settings.whole_backlog_max
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

    /// Takes a job off the list of the dead.
    pub(super) fn forget_dead(&mut self, key: JobKey) {
        if let Place::Failed(died_at) = self.jobs[key].place {
            let entry = (died_at, self.full_name(key));
            self.dead.remove(&entry);
        }
    }
}
