//! `inspect_job`: reads one job.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::{BulkId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros};
use crate::queue::job::{Job, Place};
use crate::queue::{BulkMode, JobRef, JobState, Machine};
use crate::trace::Trace;

use super::Progress;

/// Reads one job; `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectJob {
    /// The job to read.
    pub job: JobRef,
}

impl Operation for InspectJob {
    type Machine = Machine;
    type Reply = Option<JobView>;

    const STEM: &'static str = "inspect_job";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Read, &self.job.group)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Self::Reply {
        machine.job_view(&self.job)
    }
}

/// The current state of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// The job, by group and id.
    pub job: JobRef,
    /// The type of the job.
    pub type_id: TypeId,
    /// The level of the job within its type.
    pub level: Level,
    /// The cost of the job in its group's share.
    pub cost: Cost,
    /// The payload of the job.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
    /// When it was enqueued.
    pub created_at: Micros,
    /// The state of the job.
    pub state: JobState,
    /// When the job is due (waiting), or when its lease ends (processing).
    pub until: Option<Micros>,
    /// Attempts charged so far, the running one included.
    pub attempts: u32,
    /// How often the downstream refused the job.
    pub throttles: u32,
    /// Leases that the job lost.
    pub losses: u32,
    /// The fence of the current lease, else the fence that was settled last.
    pub fence: Option<Fence>,
    /// The worker that leased it last.
    pub worker: Option<WorkerId>,
    /// When it was last settled.
    pub settled_at: Option<Micros>,
    /// The result of the job, or the reason of its last failure.
    #[serde(with = "crate::encoding::bytes")]
    pub note: Arc<[u8]>,
    /// The bulk action it belongs to.
    pub bulk: Option<BulkId>,
    /// The trace it was enqueued with.
    pub trace: Option<Trace>,
    /// The progress of its running attempt, if its worker has reported it.
    #[serde(default)]
    pub progress: Option<Progress>,
}

impl Machine {
    pub(super) fn job_view(&self, name: &JobRef) -> Option<JobView> {
        let job = &self.jobs[self.find_job(name)?];
        let held = match &job.place {
            Place::InFlight(held) => Some(held),
            _ => None,
        };
        let (state, until) = match &job.place {
            Place::Lane | Place::OnHold | Place::Ready if self.is_stopped(job) => (JobState::Cancelled, None),
            Place::Lane | Place::OnHold => (JobState::Pending, None),
            Place::Ready => (JobState::Ready, None),
            Place::Waiting(due) => (JobState::Waiting, Some(*due)),
            Place::InFlight(held) => {
                (JobState::Processing, self.batches.get(&held.batch).map(|batch| batch.deadline))
            }
            Place::Completed => (JobState::Completed, None),
            Place::Failed(_) => (JobState::Failed, None),
            Place::Cancelled => (JobState::Cancelled, None),
        };
        let run = job.run.as_ref();
        let settled = run.map(|run| run.settled).filter(|fence| fence.0 > 0);
        Some(JobView {
            job: name.clone(),
            type_id: self.types[job.type_key].name.clone(),
            level: job.level,
            cost: job.cost,
            payload: job.payload.clone(),
            created_at: job.created_at,
            state,
            until,
            attempts: job.attempts() + u32::from(held.is_some()),
            throttles: run.map_or(0, |run| run.throttles),
            losses: run.map_or(0, |run| run.losses),
            fence: held.map(|held| held.fence).or(settled),
            worker: held.map(|held| &held.worker).or(run.and_then(|run| run.worker.as_ref())).cloned(),
            settled_at: run.map(|run| run.settled_at).filter(|at| at.0 > 0),
            note: run.map_or_else(|| Arc::from(&[][..]), |run| run.note.clone()),
            bulk: self.bulk_name(job.bulk),
            trace: job.trace.clone(),
            progress: held.and_then(|held| held.progress),
        })
    }

    /// Whether a job in a list will not run: it was cancelled, or its bulk action drops it.
    fn is_stopped(&self, job: &Job) -> bool {
        let mode = job.bulk.map(|number| self.bulks.get(&number).map_or(BulkMode::Drop, |bulk| bulk.mode));
        job.cancelled || mode == Some(BulkMode::Drop)
    }
}
