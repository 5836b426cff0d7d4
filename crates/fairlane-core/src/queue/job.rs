//! One job: what it is, and what has become of it.

use std::sync::Arc;

use crate::names::{GroupId, JobId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros};

use super::lane::{GroupKey, TypeKey};

/// A job's full name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobRef {
    /// Whose it is.
    pub group: GroupId,
    /// Which of theirs.
    pub id: JobId,
}

/// Where a job is on its road.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        }
    }
}

/// Where a job stands, with the key of that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Lane,
    Waiting(Micros),
    InFlight(Micros),
    Completed,
    Failed,
}

/// What changes while a job runs; made at its first lease.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub fence: Fence,
    pub settled: Fence,
    pub attempts: u32,
    pub throttles: u32,
    pub losses: u32,
    pub worker: WorkerId,
    pub settled_at: Micros,
    pub note: Arc<[u8]>,
}

impl Run {
    pub fn first(fence: Fence, worker: WorkerId) -> Self {
        Self {
            fence,
            settled: Fence(0),
            attempts: 1,
            throttles: 0,
            losses: 0,
            worker,
            settled_at: Micros(0),
            note: NO_NOTE.with(Arc::clone),
        }
    }
}

thread_local! {
    /// Most jobs never have a note; they share this one.
    static NO_NOTE: Arc<[u8]> = Arc::from(&[][..]);
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub group: GroupKey,
    pub id: JobId,
    pub type_key: TypeKey,
    pub level: Level,
    pub cost: Cost,
    pub payload: Arc<[u8]>,
    pub created_at: Micros,
    pub place: Place,
    pub run: Option<Run>,
}

pub(super) type JobKey = u32;

/// All jobs, by key. A key is reused after its job is gone.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    slots: Vec<Option<Job>>,
    free: Vec<JobKey>,
}

impl Jobs {
    pub fn insert(&mut self, job: Job) -> JobKey {
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = Some(job);
            return key;
        }
        self.slots.push(Some(job));
        (self.slots.len() - 1) as JobKey
    }

    pub fn remove(&mut self, key: JobKey) -> Job {
        self.free.push(key);
        self.slots[key as usize].take().expect("a key in hand names a job")
    }

    pub fn get(&self, key: JobKey) -> Option<&Job> {
        self.slots.get(key as usize)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (JobKey, &Job)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(key, slot)| slot.as_ref().map(|job| (key as JobKey, job)))
    }
}

impl std::ops::Index<JobKey> for Jobs {
    type Output = Job;
    fn index(&self, key: JobKey) -> &Job {
        self.slots[key as usize].as_ref().expect("a key in hand names a job")
    }
}

impl std::ops::IndexMut<JobKey> for Jobs {
    fn index_mut(&mut self, key: JobKey) -> &mut Job {
        self.slots[key as usize].as_mut().expect("a key in hand names a job")
    }
}
