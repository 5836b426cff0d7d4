//! `discard`: dead jobs are removed before their time. Their ids are free again.

use serde::{Deserialize, Serialize};

use crate::limits::PICK_JOBS_MAX;
use crate::numbers::Micros;
use crate::queue::job::Place;
use crate::queue::{JobRef, Machine};

use super::{Invalid, at_most, each_once};

/// Removes dead jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discard {
    /// At most 500, each once.
    #[serde(deserialize_with = "crate::encoding::list::<PICK_JOBS_MAX, _, _>")]
    pub jobs: Vec<JobRef>,
}

/// What became of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disposal {
    /// It is gone.
    Discarded,
    /// It is not dead.
    NotDead,
    /// There is no such job (any more).
    Unknown,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    /// In the command's order.
    pub jobs: Vec<Disposal>,
}

impl Discard {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        at_most("discard", self.jobs.len(), PICK_JOBS_MAX)?;
        each_once(self.jobs.iter())
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
