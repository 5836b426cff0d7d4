//! One job: what it is, and what has become of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::names::{GroupId, JobId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros};
use crate::trace::Trace;

use super::lane::{GroupKey, TypeKey};

/// A job's full name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobRef {
    /// Whose it is.
    pub group: GroupId,
    /// Which of theirs.
    pub id: JobId,
}

/// Where a job is on its road.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// In its lane.
    Pending,
    /// Must not run before a time.
    Waiting,
    /// Leased.
    Processing,
    /// Settled with success.
    Completed,
    /// Dead: failed for good, or out of attempts.
    Failed,
    /// Admitted, waiting for a worker (`classic`).
    Ready,
    /// Will not run.
    Cancelled,
}

impl JobState {
    /// The word shown to people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Waiting => "WAITING",
            Self::Processing => "PROCESSING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Ready => "READY",
            Self::Cancelled => "CANCELLED",
        }
    }
}

/// A lease as its job knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub fence: Fence,
    /// The batch whose deadline holds: that of the lease, or of the last extension.
    pub batch: Fence,
    pub worker: WorkerId,
    /// Somebody wants the job not to run any further.
    pub cancelled: bool,
}

/// Where a job stands, with the key of that place.
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
    /// Dead, since then.
    Failed(Micros),
    Cancelled,
}

impl Place {
    /// Whether nothing happens to the job any more by itself.
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

/// What a job has been through; made when its first lease ends.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// The fence settled last, 0 for none.
    pub settled: Fence,
    pub settled_at: Micros,
    /// Attempts that counted.
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
    /// In the order they were picked or named.
    pub jobs: Vec<(JobKey, Fence)>,
    /// Those whose lease has not ended (and, for an extension, was not extended again).
    pub left: usize,
}

thread_local! {
    /// Most jobs never have a note; they share this one.
    static NO_NOTE: Arc<[u8]> = Arc::from(&[][..]);
}

/// The order of a job that has never been in a list but a backlog, where numbers are the order.
pub(super) const NO_ORDER: i64 = i64::MIN;

#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Counts jobs as they come; backlogs are in this order.
    pub number: u64,
    /// Its position among the others of the list it stands in; [`NO_ORDER`] until it first stands in one.
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
    /// The trace it came with.
    pub trace: Option<Trace>,
    /// Cancelled where it stands in a list, to be taken out when its turn comes.
    pub cancelled: bool,
    pub place: Place,
    pub run: Option<Run>,
}

impl Job {
    /// The lease, if it is under this fence.
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
