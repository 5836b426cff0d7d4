//! A job: its definition, its place and its history.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::names::{GroupId, JobId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros};
use crate::trace::Trace;

use super::lane::{GroupKey, TypeKey};
use super::ops::Progress;

/// A job, by group and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobRef {
    /// The group of the job.
    pub group: GroupId,
    /// The id of the job, unique within its group.
    pub id: JobId,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// In its lane, waiting for its turn.
    Pending,
    /// Waiting for a time before which it must not run.
    Waiting,
    /// Leased by a worker.
    Processing,
    /// Settled as succeeded.
    Completed,
    /// Dead: failed permanently, or out of attempts.
    Failed,
    /// Admitted, waiting for a worker (`classic`).
    Ready,
    /// Cancelled; it does not run.
    Cancelled,
}

impl JobState {
    /// Every state, in the order in which a job may pass through them.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Ready,
        Self::Waiting,
        Self::Processing,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name of the state as shown to users.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Waiting => "waiting",
            Self::Processing => "in_flight",
            Self::Completed => "completed",
            Self::Failed => "dead",
            Self::Ready => "ready",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The lease of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub fence: Fence,
    /// The batch that holds the current deadline: that of the lease, or of the last extension.
    pub batch: Fence,
    pub worker: WorkerId,
    /// Whether cancellation was requested.
    pub cancelled: bool,
    /// The progress of the attempt, if its worker has reported it.
    pub progress: Option<Progress>,
}

/// Where a job is, with the key of that place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Lane,
    /// Admitted (`classic`).
    Ready,
    /// In the list of its bulk action, which is held.
    OnHold,
    Waiting(Micros),
    InFlight(Held),
    Completed,
    /// Dead since this time.
    Failed(Micros),
    Cancelled,
}

impl Place {
    /// Whether the job has ended.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed(_) | Self::Cancelled)
    }
}

/// How a job can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Succeeded,
    Failed,
    Cancelled,
}

/// The history of a job; created when its first lease ends.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// The fence that was settled last; 0 for none.
    pub settled: Fence,
    pub settled_at: Micros,
    /// Attempts that were charged.
    pub attempts: u32,
    pub throttles: u32,
    pub losses: u32,
    pub worker: Option<WorkerId>,
    pub note: Arc<[u8]>,
}

impl Run {
    pub fn none() -> Self {
        Self {
            settled: Fence(0),
            settled_at: Micros(0),
            attempts: 0,
            throttles: 0,
            losses: 0,
            worker: None,
            note: NO_NOTE.with(Arc::clone),
        }
    }
}

/// Jobs leased or extended together: they share a deadline.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub deadline: Micros,
    /// The jobs in the order in which they were picked or named, with their fences.
    pub jobs: Vec<(JobKey, Fence)>,
    /// The number of jobs with a lease that has not ended and, in an extension, was
    /// not extended again.
    pub left: usize,
}

thread_local! {
    /// Most jobs never have a note; all of them share this empty one.
    static NO_NOTE: Arc<[u8]> = Arc::from(&[][..]);
}

/// The order of a job that has only ever been in a backlog, which is ordered by job number.
pub(super) const NO_ORDER: i64 = i64::MIN;

#[derive(Debug, Clone)]
pub(super) struct Job {
    /// The number of the job, in the order of creation; backlogs are in this order.
    pub number: u64,
    /// The position within the current list; [`NO_ORDER`] until the job enters one.
    pub order: i64,
    pub group: GroupKey,
    pub id: JobId,
    pub type_key: TypeKey,
    pub level: Level,
    pub cost: Cost,
    pub payload: Arc<[u8]>,
    pub created_at: Micros,
    /// The number of its bulk action.
    pub bulk: Option<u64>,
    /// The trace it was enqueued with.
    pub trace: Option<Trace>,
    /// Whether it was cancelled while in a list; it is removed when its turn comes.
    pub cancelled: bool,
    pub place: Place,
    pub run: Option<Run>,
}

impl Job {
    /// The lease, if it has this fence.
    pub fn held_under(&self, fence: Fence) -> Option<&Held> {
        match &self.place {
            Place::InFlight(held) if held.fence == fence => Some(held),
            _ => None,
        }
    }

    pub fn attempts(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.attempts)
    }
}

pub(super) type JobKey = u32;
