//! What a store keeps of the queue, as rows, and which of them have changed.
//!
//! [`Machine::take_changes`] gives the rows that differ from those given before; a [`Restore`] makes a
//! machine of all of them. Invariant: a machine restored from its rows has the dump of the one they came
//! from. Left out on purpose: whatever follows from other rows, such as counts, the members of an order,
//! or deadlines; and how rows are written, which is the store's business.
//!
//! - `rows/changes.rs`: which rows have changed. `rows/tail.rs`: what was added to a long list.
//! - `rows/restore.rs`: a machine from rows. `rows/whole.rs`: settings and counters, there and back.

mod changes;
mod restore;
mod tail;
mod whole;

pub(super) use changes::Saved;
pub use restore::{Damage, Restore};

use std::sync::Arc;

use crate::limits::GOODPUT_BUCKETS;
use crate::names::{BulkId, GroupId, JobId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros, RequestNumber};
use crate::rate::Bucket;
use crate::trace::Trace;

use super::lane::Snapshot;
use super::ops::LaneStanding;
use super::settings::{GroupSettings, TypeSettings};
use super::{BulkCause, BulkMode, BulkState};

/// What of a job never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// Counts jobs as they come.
    pub number: u64,
    /// Whose.
    pub group: GroupId,
    /// Which of theirs.
    pub id: JobId,
    /// Its type.
    pub type_id: TypeId,
    /// Its level.
    pub level: Level,
    /// Its cost.
    pub cost: Cost,
    /// Its payload.
    pub payload: Arc<[u8]>,
    /// When it was enqueued.
    pub created_at: Micros,
    /// The number of the bulk action it came with.
    pub bulk: Option<u64>,
    /// The trace it came with.
    pub trace: Option<Trace>,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceRow {
    /// In its lane, behind all of its lane that came before it.
    Backlog,
    /// In its lane again, before the backlog, by this order.
    Returned(i64),
    /// Admitted, by this order.
    Ready(i64),
    /// In the list of its bulk action, which is held, by this order.
    OnHold(i64),
    /// Until this time.
    Waiting(Micros),
    /// Leased.
    InFlight {
        /// The fence of its lease.
        fence: Fence,
        /// The batch whose deadline holds for it.
        batch: Fence,
        /// Who has it.
        worker: WorkerId,
        /// Somebody wants it not to run any further.
        cancelled: bool,
    },
    /// Settled with success.
    Completed,
    /// Dead.
    Failed {
        /// Since when.
        at: Micros,
        /// Whether it is among the dead, or only kept for its bulk action any more.
        listed: bool,
    },
    /// Did not run to its end.
    Cancelled,
}

/// What a job has been through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// The fence settled last, 0 for none.
    pub settled: Fence,
    /// When that was.
    pub settled_at: Micros,
    /// Attempts that counted.
    pub attempts: u32,
    /// Refusals of its downstream.
    pub throttles: u32,
    /// Leases that ran out.
    pub losses: u32,
    /// Who had it last.
    pub worker: Option<WorkerId>,
    /// The last result or reason.
    pub note: Arc<[u8]>,
}

/// What of a job changes. A job without such a row stands in its backlog as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressRow {
    /// Which job.
    pub number: u64,
    /// Where it stands.
    pub place: PlaceRow,
    /// The number of the bulk action it belongs to now.
    pub bulk: Option<u64>,
    /// Cancelled where it stands, to be taken out when its turn comes.
    pub cancelled: bool,
    /// What it has been through.
    pub run: Option<RunRow>,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRow {
    /// Its name.
    pub name: GroupId,
    /// Its settings.
    pub settings: GroupSettings,
    /// How full its bucket is.
    pub bucket: Bucket,
    /// What its window has let pass: which second, and how many jobs.
    pub window: (u64, u64),
    /// What is counted while it has jobs.
    pub record: RecordRow,
    /// When it is looked at because it may have nothing left.
    pub idle_at: Option<Micros>,
}

/// What is counted of a group while it has jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordRow {
    /// Jobs enqueued.
    pub total: u64,
    /// Jobs that have ended.
    pub done: u64,
    /// Throttles of jobs that have ended …
    pub throttles: u64,
    /// … since so many had.
    pub throttles_since: u64,
    /// The second of the newest snapshot.
    pub noted: u64,
    /// The newest backoff.
    pub backoff_ms: u64,
}

/// A group's congestion at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Whose.
    pub group: GroupId,
    /// Counts the snapshots of the group.
    pub number: u64,
    /// What it says.
    pub snapshot: Snapshot,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRow {
    /// Whose.
    pub group: GroupId,
    /// Of which type.
    pub type_id: TypeId,
    /// Of which level.
    pub level: Level,
    /// Where it stands.
    pub standing: LaneStanding,
    /// Its virtual time.
    pub tag: u64,
    /// The epoch of its order in which the tag means something.
    pub epoch: u64,
    /// What did not divide.
    pub remainder: i64,
    /// Decides between equal tags.
    pub sequence: u64,
}

/// The fair order of one type and level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderRow {
    /// The tag of the lane served last.
    pub virtual_time: u64,
    /// Counts how often it ran empty.
    pub epoch: u64,
    /// Credit left to give.
    pub pool: u64,
    /// Its own tag among the levels.
    pub tag: u64,
}

/// A cut of a type's rate that is still in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutRow {
    /// When.
    pub at: Micros,
    /// Jobs leased up to this fence do not cut again.
    pub fence: Fence,
    /// The rate before, in thousandths of a job a second.
    pub plateau_milli: u64,
    /// When the curve is back there.
    pub plateau_ms: u64,
}

/// What is known of one type's downstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownstreamRow {
    /// The cut in effect.
    pub cut: Option<CutRow>,
    /// Nothing passes before.
    pub closed_until: Micros,
    /// Which 100 ms the newest bucket counts.
    pub goodput_at: u64,
    /// Answers that were not refusals, by 100 ms.
    pub goodput: [u64; GOODPUT_BUCKETS],
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRow {
    /// Its name.
    pub name: TypeId,
    /// Its settings.
    pub settings: TypeSettings,
    /// How full its bucket is.
    pub bucket: Bucket,
    /// Virtual time of the order of its levels.
    pub virtual_time: u64,
    /// Its orders, high first.
    pub orders: [OrderRow; 3],
    /// What its downstream has shown.
    pub downstream: DownstreamRow,
    /// Wake-up tokens that nobody has taken.
    pub tokens: usize,
    /// Who comes back when its gate opens, and when.
    pub timer: Option<(WorkerId, Micros)>,
    /// When somebody last asked for its jobs.
    pub asked_at: Micros,
}

/// Jobs leased or extended together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRow {
    /// Its number: the fence of its lease, or of the extension.
    pub batch: Fence,
    /// When it runs out; none if it did and what is left has a later deadline elsewhere.
    pub deadline: Option<Micros>,
    /// The numbers of its jobs, in the order they were picked or named. Some may have left it since.
    pub jobs: Vec<u64>,
}

/// A worker's last lease request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
    /// Who.
    pub worker: WorkerId,
    /// Its number.
    pub number: RequestNumber,
    /// Answered again until then.
    pub until: Micros,
    /// The fence of its jobs, 0 for none.
    pub fence: Fence,
}

/// Jobs without a bulk action that were completed, or cancelled, together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedRow {
    /// Counts such rows.
    pub chunk: u64,
    /// When.
    pub at: Micros,
    /// The numbers of the jobs, in the order they were settled.
    pub jobs: Vec<u64>,
}

/// A bulk action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkRow {
    /// Counts bulk actions as they come.
    pub number: u64,
    /// Whose.
    pub group: GroupId,
    /// Which of theirs.
    pub id: BulkId,
    /// How far it has come.
    pub state: BulkState,
    /// What becomes of its jobs.
    pub mode: BulkMode,
    /// Whether no job can be added any more.
    pub sealed: bool,
    /// Jobs added.
    pub total: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that are dead.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// When it was opened.
    pub created_at: Micros,
    /// When its first job was leased.
    pub started_at: Option<Micros>,
    /// When it reached its last state.
    pub finished_at: Option<Micros>,
    /// When it fails unless it has finished.
    pub deadline: Option<Micros>,
    /// It fails when more jobs than this have.
    pub failures_max: Option<u64>,
    /// Why it failed.
    pub cause: Option<BulkCause>,
    /// The fence of its aggregation's last lease.
    pub fence: Fence,
    /// Whether its aggregation is finished.
    pub aggregated: bool,
    /// When it can be taken for aggregation.
    pub take_at: Option<Micros>,
    /// Who has it in hand.
    pub worker: Option<WorkerId>,
    /// Opaque bytes for whoever aggregates it.
    pub payload: Arc<[u8]>,
    /// What its aggregation gave.
    pub summary: Arc<[u8]>,
}

/// Jobs of a bulk action that ended together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkEndedRow {
    /// Its number.
    pub bulk: u64,
    /// Counts such rows of the bulk action.
    pub chunk: u64,
    /// When.
    pub at: Micros,
    /// The jobs, in the order they ended. Some may be gone since.
    pub ids: Vec<JobId>,
}

/// Rows to be removed and to be written, in this order.
#[derive(Debug, Default)]
pub struct Changes {
    /// Numbers of jobs that are no more; their progress goes with them.
    pub jobs_gone: Vec<u64>,
    /// New jobs, by number.
    pub jobs: Vec<JobRow>,
    /// New or changed progress, by number.
    pub progress: Vec<ProgressRow>,
    /// Groups that are no more; their lanes go with them.
    pub groups_gone: Vec<GroupId>,
    /// New or changed groups.
    pub groups: Vec<GroupRow>,
    /// New or changed lanes.
    pub lanes: Vec<LaneRow>,
    /// Types that were removed.
    pub types_gone: Vec<TypeId>,
    /// New or changed types.
    pub types: Vec<TypeRow>,
    /// Batches that are no more.
    pub batches_gone: Vec<Fence>,
    /// New or changed batches.
    pub batches: Vec<BatchRow>,
    /// Workers whose last request is forgotten.
    pub workers_gone: Vec<WorkerId>,
    /// New or changed requests.
    pub workers: Vec<WorkerRow>,
    /// Rows of completed jobs below this number are no more.
    pub completed_gone: Option<u64>,
    /// New rows of completed jobs.
    pub completed: Vec<CompletedRow>,
    /// Bulk actions that are no more; their ended jobs go with them.
    pub bulks_gone: Vec<u64>,
    /// New or changed bulk actions.
    pub bulks: Vec<BulkRow>,
    /// Bulk actions whose rows of ended jobs below a number are no more.
    pub bulk_ended_gone: Vec<(u64, u64)>,
    /// New rows of ended jobs of bulk actions.
    pub bulk_ended: Vec<BulkEndedRow>,
    /// Groups whose snapshots below a number are no more.
    pub snapshots_gone: Vec<(GroupId, u64)>,
    /// New snapshots.
    pub snapshots: Vec<SnapshotRow>,
    /// New or changed fields of the whole: settings and counters, by name.
    pub whole: Vec<(&'static str, String)>,
}

impl Changes {
    /// Whether there is nothing to write. A time that has only passed is nothing.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0 && self.whole.iter().all(|(name, _)| *name == whole::TIME)
    }

    /// How many rows of jobs, groups, types and what else is not the whole.
    pub fn rows(&self) -> usize {
        let gone = self.jobs_gone.len() + self.groups_gone.len() + self.batches_gone.len();
        let gone = gone + self.types_gone.len();
        let gone = gone + self.workers_gone.len() + usize::from(self.completed_gone.is_some());
        let gone = gone + self.bulks_gone.len() + self.bulk_ended_gone.len() + self.snapshots_gone.len();
        let jobs = self.jobs.len() + self.progress.len() + self.completed.len();
        let groups = self.groups.len() + self.lanes.len() + self.snapshots.len() + self.types.len();
        let bulks = self.bulks.len() + self.bulk_ended.len();
        gone + jobs + groups + bulks + self.batches.len() + self.workers.len()
    }
}
