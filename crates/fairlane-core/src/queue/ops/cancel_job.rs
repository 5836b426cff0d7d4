//! `cancel_job`: jobs that have not started do not run; workers of running jobs are notified
//! when they extend.
//!
//! A job in a list is only marked and is removed when its turn comes, because the cost of a search
//! grows with the length of the list.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::PICK_JOBS_MAX;
use crate::numbers::Micros;
use crate::queue::job::{End, Place, Run};
use crate::queue::{JobRef, Machine};

use super::{Ended, each_once};

/// Cancels jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelJob {
    /// The jobs, at most 500, each once.
    #[serde(deserialize_with = "crate::encoding::list::<PICK_JOBS_MAX, _, _>")]
    pub jobs: Vec<JobRef>,
}

/// The result for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cancellation {
    /// It does not run.
    Cancelled,
    /// It is running. Its worker is notified at the next extension, and the job is not retried.
    Requested,
    /// It had ended before.
    Ended,
    /// There is no such job.
    Unknown,
}

/// The reply to [`CancelJob`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsCancelled {
    /// The results, in the order of the command's jobs.
    pub cancellations: Vec<Cancellation>,
}

impl Operation for CancelJob {
    type Machine = Machine;
    type Reply = JobsCancelled;

    const STEM: &'static str = "cancel_job";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("cancel_job", self.jobs.len(), PICK_JOBS_MAX)?;
        each_once(self.jobs.iter())
    }

    fn access(&self) -> Access<'_> {
        Access::groups(Permission::Produce, self.jobs.iter().map(|job| &job.group))
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.jobs.len())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> JobsCancelled {
        machine.cancel_job(self, context.now)
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
