//! `cancel_job`: jobs that have not started will not; running ones are told when they extend.
//!
//! A job that stands in a list is marked and taken out when its turn comes: searching the list for it would
//! cost as much as the list is long.

use serde::{Deserialize, Serialize};

use crate::limits::PICK_JOBS_MAX;
use crate::numbers::Micros;
use crate::queue::job::{End, Place, Run};
use crate::queue::{JobRef, Machine};

use super::{Ended, Invalid, at_most, each_once};

/// Cancels jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelJob {
    /// At most 500, each once.
    #[serde(deserialize_with = "crate::encoding::list::<PICK_JOBS_MAX, _, _>")]
    pub jobs: Vec<JobRef>,
}

/// What became of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cancellation {
    /// It will not run.
    Cancelled,
    /// It is running; its worker is told at the next extension, and it will not be tried again.
    Requested,
    /// It has ended before.
    Ended,
    /// There is no such job.
    Unknown,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsCancelled {
    /// In the command's order.
    pub cancellations: Vec<Cancellation>,
}

impl CancelJob {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        at_most("cancel_job", self.jobs.len(), PICK_JOBS_MAX)?;
        each_once(self.jobs.iter())
    }
}

impl Machine {
    pub(in crate::queue) fn cancel_job(&mut self, command: CancelJob, now: Micros) -> JobsCancelled {
        let mut ended = Ended::default();
        let mut cancellations = Vec::with_capacity(command.jobs.len());
        for job in &command.jobs {
            cancellations.push(self.cancel_one(job, &mut ended));
        }
        self.record_ended(ended, now);
        JobsCancelled { cancellations }
    }

    fn cancel_one(&mut self, job: &JobRef, ended: &mut Ended) -> Cancellation {
        let Some(key) = self.find_job(job) else { return Cancellation::Unknown };
        match self.jobs[key].place {
            Place::Completed | Place::Failed(_) | Place::Cancelled => return Cancellation::Ended,
            Place::Lane | Place::Ready | Place::OnHold if self.jobs[key].cancelled => {
                return Cancellation::Ended;
            }
            Place::InFlight(_) => {
                if let Place::InFlight(held) = &mut self.jobs[key].place {
                    held.cancelled = true;
                }
                return Cancellation::Requested;
            }
            Place::Lane | Place::Ready | Place::OnHold => {
                self.jobs[key].cancelled = true;
                self.note_cancelled(key);
                self.count_end(key, End::Cancelled, ended);
            }
            Place::Waiting(due) => {
                self.stop_waiting(key, due);
                self.note_cancelled(key);
                self.end_job(key, End::Cancelled, ended);
            }
        }
        Cancellation::Cancelled
    }

    fn note_cancelled(&mut self, key: u32) {
        self.count_backlog(self.jobs[key].group, -1);
        self.jobs[key].run.get_or_insert_with(Run::none).settled_at = self.now;
    }
}
