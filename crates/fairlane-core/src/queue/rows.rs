//! The rows of the queue in a store, and the changes to them.
//!
//! [`Machine::take_changes`] returns the rows that differ from those it returned before; `restore`
//! makes a machine from all of them. Invariant: a machine restored from its rows has the same dump
//! as the machine that wrote them. Left out on purpose: values that follow from other rows, such as
//! counts, the members of an order, or deadlines; and how rows are written, which is up to the
//! store.
//!
//! - `rows/places.rs`: the places of jobs and the standings of lanes, as words. `rows/fields.rs`:
//!   settings and counters.
//! - `rows/changes.rs`: the rows that have changed. `rows/tail.rs`: changes at the ends of a long
//!   list.
//! - `rows/restore.rs`: a machine from rows.

mod changes;
mod fields;
mod places;
mod restore;
mod tail;

pub(super) use changes::Saved;

use std::borrow::Cow;
use std::sync::Arc;

use crate::hashing::HashSeed;
use crate::kernel::row::{Row, RowSource, TableInfo, rows, stored_words};
use crate::kernel::{RestoreMode, Restored, Stored};
use crate::limits::GOODPUT_BUCKETS;
use crate::names::{BulkId, GroupId, JobId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros, RequestNumber, Weight};
use crate::rate::Rate;
use crate::trace::Trace;

use super::bulk::Bulk;
use super::job::Job;
use super::lane::{Group, Lane, Order, Snapshot, TypeState};
use super::{BulkCause, BulkMode, BulkState, Machine, Request};
use places::{PlaceWord, StandingWord};

/// The table that has most of the rows, by which the progress of a restore is measured.
pub const LARGEST_TABLE: &TableInfo = JobRow::TABLE;

impl Stored for Machine {
    type Changes = Changes;

    fn record(&mut self) {
        self.record();
    }

    fn take_changes(&mut self) -> Changes {
        self.take_changes()
    }

    fn restore<S: RowSource>(
        source: &mut S,
        hash_seed: HashSeed,
        mode: RestoreMode,
    ) -> Result<Option<Restored<Self>>, S::Error> {
        restore::restore(source, hash_seed, mode)
    }
}

/// A fair order: its virtual time, its epoch, the credit left to grant, and its tag among the
/// levels.
type OrderNumbers = [u64; 4];

stored_words!(BulkState, BulkMode, BulkCause);

rows! {
    /// Rows of the queue to be removed and to be written.
    pub struct Changes;

    /// A setting or counter of the queue.
    struct FieldRow in whole, key 1 {
        name: Cow<'static, str>,
        value: String,
    }

    /// A type. The columns of the cut and of the timer are null while there is none.
    struct TypeRow in types, key 1, of (state: TypeState) {
        name: TypeId = state.name,
        rate: Option<Rate> = state.settings.rate,
        concurrency: Option<u32> = state.settings.concurrency,
        paused: bool = state.settings.paused,
        max_retry_count: Option<u32> = state.settings.max_retry_count,
        bucket_level: u64 = state.bucket.level,
        bucket_at: Micros = state.bucket.at,
        virtual_time: u64 = state.virtual_time,
        order_high: OrderNumbers => order_numbers(&state.orders[0]),
        order_normal: OrderNumbers => order_numbers(&state.orders[1]),
        order_low: OrderNumbers => order_numbers(&state.orders[2]),
        cut_at: Option<Micros> => state.downstream.cut.map(|cut| cut.at),
        cut_fence: Option<Fence> => state.downstream.cut.map(|cut| cut.fence),
        cut_plateau_milli: Option<u64> => state.downstream.cut.map(|cut| cut.plateau_milli),
        cut_plateau_ms: Option<u64> => state.downstream.cut.map(|cut| cut.plateau_ms),
        closed_until: Micros = state.downstream.closed_until,
        goodput_at: u64 = state.downstream.goodput_at,
        goodput: [u64; GOODPUT_BUCKETS] = state.downstream.goodput,
        tokens: usize = state.tokens,
        timer_worker: Option<WorkerId> => state.timer.as_ref().map(|timer| timer.worker.clone()),
        timer_at: Option<Micros> => state.timer.as_ref().map(|timer| timer.at),
        asked_at: Micros = state.asked_at,
    }

    /// A group, with its counts while it has jobs.
    struct GroupRow in groups, key 1, of (group: Group) {
        name: GroupId = group.name,
        weight: Weight = group.settings.weight,
        rate: Option<Rate> = group.settings.rate,
        concurrency: Option<u32> = group.settings.concurrency,
        paused: bool = group.settings.paused,
        bucket_level: u64 = group.bucket.level,
        bucket_at: Micros = group.bucket.at,
        base_priority: i64 = group.settings.base_priority,
        window_second: u64 = group.window.0,
        window_jobs: u64 = group.window.1,
        total: u64 = group.record.total,
        done: u64 = group.record.done,
        throttles: u64 = group.record.throttles,
        throttles_since: u64 = group.record.throttles_since,
        noted: u64 = group.record.noted,
        backoff_ms: u64 = group.record.backoff_ms,
        idle_at: Option<Micros> => group.idle_at,
        /// Its magnitude in the index of large groups, which does not follow from its backlog
        /// alone.
        magnitude: u32 = group.magnitude,
    }

    /// A lane.
    struct LaneRow in lanes, key 3, of (lane: Lane, group: &Group, type_id: &TypeId) {
        group_id: GroupId => group.name.clone(),
        type_id: TypeId => type_id.clone(),
        level: Level => lane.level,
        standing: StandingWord => StandingWord::of(lane.standing),
        /// The end of its park by a rate, or the start of its clearing.
        until: Option<Micros> => lane.standing.time(),
        tag: u64 = lane.tag,
        epoch: u64 = lane.epoch,
        remainder: i64 = lane.remainder,
        sequence: u64 = lane.sequence,
    }

    /// A group's congestion at one moment. Snapshots are numbered within their group.
    struct SnapshotRow in snapshots, key 2, of (snapshot: Snapshot, group_id: &GroupId, number: u64) {
        group_id: GroupId => group_id.clone(),
        number: u64 => number,
        taken_at: Micros => snapshot.at,
        waiting: u64 => snapshot.waiting,
        speed: u64 => snapshot.speed,
        backoff_ms: u64 => snapshot.backoff_ms,
    }

    /// A bulk action.
    struct BulkRow in bulks, key 1, of (bulk: Bulk, number: u64, group_id: &GroupId) {
        number: u64 => number,
        group_id: GroupId => group_id.clone(),
        id: BulkId = bulk.name,
        state: BulkState = bulk.state,
        course: BulkMode = bulk.mode,
        sealed: bool = bulk.sealed,
        total: u64 = bulk.total,
        succeeded: u64 = bulk.succeeded,
        failed: u64 = bulk.failed,
        cancelled: u64 = bulk.cancelled,
        created_at: Micros = bulk.created_at,
        started_at: Option<Micros> = bulk.started_at,
        finished_at: Option<Micros> = bulk.finished_at,
        deadline: Option<Micros> = bulk.deadline,
        failures_max: Option<u64> = bulk.failures_max,
        cause: Option<BulkCause> = bulk.cause,
        fence: Fence = bulk.fence,
        aggregated: bool = bulk.aggregated,
        take_at: Option<Micros> = bulk.take_at,
        worker: Option<WorkerId> = bulk.worker,
        payload: Arc<[u8]> = bulk.payload,
        summary: Arc<[u8]> = bulk.summary,
    }

    /// The part of a job that never changes.
    struct JobRow in jobs, key 1, of (job: Job, machine: &Machine); once {
        number: u64 => job.number,
        group_id: GroupId => machine.groups[job.group].name.clone(),
        id: JobId => job.id.clone(),
        type_id: TypeId => machine.types[job.type_key].name.clone(),
        level: Level => job.level,
        cost: Cost => job.cost,
        created_at: Micros => job.created_at,
        /// The number of the bulk action it was enqueued with.
        bulk: Option<u64> => job.bulk,
        payload: Arc<[u8]> => job.payload.clone(),
        trace: Option<[u8; Trace::PACKED_BYTES]> => job.trace.as_ref().map(Trace::packed),
    }

    /// The part of a job that changes. A job without such a row is in the backlog of its lane,
    /// unchanged since it was enqueued.
    struct ProgressRow in progress, key 1, of (job: Job, place: PlaceWord) {
        number: u64 => job.number,
        place: PlaceWord => place,
        /// Its position in its list.
        position: Option<i64> => job.position(),
        /// When it is due (waiting), or when it died (dead).
        due_at: Option<Micros> => job.place.time(),
        fence: Option<Fence> => job.place.lease().map(|held| held.fence),
        batch: Option<Fence> => job.place.lease().map(|held| held.batch),
        worker: Option<WorkerId> => job.place.lease().map(|held| held.worker.clone()),
        /// The number of the bulk action it belongs to now.
        bulk: Option<u64> = job.bulk,
        cancelled: bool = job.cancelled,
        /// Attempts that were charged. This column and the following ones up to the note are null
        /// until the first lease of the job has ended.
        attempts: Option<u32> => job.run.as_ref().map(|run| run.attempts),
        throttles: Option<u32> => job.run.as_ref().map(|run| run.throttles),
        losses: Option<u32> => job.run.as_ref().map(|run| run.losses),
        settled_fence: Option<Fence> => job.run.as_ref().map(|run| run.settled),
        settled_at: Option<Micros> => job.run.as_ref().map(|run| run.settled_at),
        last_worker: Option<WorkerId> => job.run.as_ref().and_then(|run| run.worker.clone()),
        note: Option<Arc<[u8]>> => job.run.as_ref().map(|run| run.note.clone()),
        /// The progress of its running attempt: units done, and units in total.
        units_done: Option<u64> => job.place.lease().and_then(|held| held.progress).map(|progress| progress.done),
        units_total: Option<u64> => job.place.lease().and_then(|held| held.progress).map(|progress| progress.total),
    }

    /// Jobs leased or extended together.
    struct BatchRow in batches, key 1 {
        /// The fence of the lease, or of the extension.
        batch: Fence,
        /// `None` if the deadline has passed and the remaining jobs have a later deadline in
        /// another batch.
        deadline: Option<Micros>,
        /// The numbers of its jobs, in the order in which they were picked or named. Some may have
        /// left the batch since.
        jobs: Vec<u64>,
    }

    /// Jobs without a bulk action that ended together. Chunks are numbered in the order they were
    /// added.
    struct CompletedRow in completed, key 1 {
        chunk: u64,
        completed_at: Micros,
        /// The numbers of the jobs, in the order they were settled.
        jobs: Vec<u64>,
    }

    /// Jobs of a bulk action that ended together. Chunks are numbered within their bulk action.
    struct BulkEndedRow in bulk_ended, key 2 {
        bulk: u64,
        chunk: u64,
        ended_at: Micros,
        /// The jobs, in the order they ended. Some may have been removed since.
        jobs: Vec<JobId>,
    }

    /// A worker's last lease request.
    struct WorkerRow in workers, key 1, of (request: Request, name: &WorkerId) {
        name: WorkerId => name.clone(),
        request: RequestNumber => request.number,
        until: Micros => request.until,
        fence: Fence => request.fence,
    }
}

fn order_numbers(order: &Order) -> OrderNumbers {
    [order.virtual_time, order.epoch, order.pool, order.tag]
}
