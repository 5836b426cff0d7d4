//! Which rows differ from those handed out before.

use rustc_hash::FxHashMap;

use crate::names::{GroupId, JobId};
use crate::numbers::{Fence, Micros};
use crate::queue::bulk::Bulk;
use crate::queue::downstream::Downstream;
use crate::queue::job::{Job, JobKey, NO_ORDER, Place, Run};
use crate::queue::lane::{Group, GroupKey, Lane, Record, Snapshot, Standing, TypeState};
use crate::queue::ops::LaneStanding;
use crate::queue::{Machine, Marks};

use super::tail::Tail;
use super::{
    BatchRow, BulkEndedRow, BulkRow, Changes, CompletedRow, CutRow, DownstreamRow, GroupRow, JobRow, LaneRow,
    OrderRow, PlaceRow, ProgressRow, RecordRow, RunRow, SnapshotRow, TypeRow, WorkerRow,
};

/// Groups whose rows are remembered, so that they are not written again when they have not changed.
const GROUPS_REMEMBERED: usize = 10_000;

/// A chunk of ended jobs, known by its time and first job.
pub(super) type EndedMark = (Micros, JobId);

pub(super) type Histories = FxHashMap<GroupKey, Tail<Snapshot>>;
pub(super) type EndedLists = FxHashMap<u64, Tail<EndedMark>>;

/// How far the rows that were handed out reach.
#[derive(Debug, Default)]
pub(in crate::queue) struct Saved {
    /// Jobs up to this number have a row.
    created: u64,
    /// Chunks of completed jobs below this number have a row.
    chunks: u64,
    /// Chunks below this number have none any more.
    popped: u64,
    pub(super) histories: Histories,
    pub(super) ended: EndedLists,
    whole: FxHashMap<&'static str, String>,
    groups: FxHashMap<GroupKey, (GroupRow, Vec<LaneRow>)>,
}

impl Machine {
    /// The time of the last command.
    pub fn last_time(&self) -> Micros {
        self.now
    }

    /// How many jobs there are.
    pub fn jobs(&self) -> u64 {
        self.jobs.len() as u64
    }

    /// Everything is still to be written.
    pub(super) fn touch_all(&mut self) {
        self.jobs.record_all();
        self.groups.record_all();
        self.types.record_all();
        let batches = self.batches.keys().copied().collect();
        let (workers, bulks) =
            (self.requests.keys().cloned().collect(), self.bulks.keys().copied().collect());
        self.marks = Some(Marks { batches, workers, bulks, saved: Saved::default() });
    }

    /// The rows that differ from those given before; nothing unless [`Machine::record`] was called.
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        let Some(mut marks) = self.marks.take() else { return changes };
        self.change_jobs(&mut changes, &mut marks.saved);
        self.change_groups(&mut changes, &mut marks.saved);
        for key in self.types.take_touched().keys {
            let state = &self.types[key];
            match state.is_removed {
                true => changes.types_gone.push(state.name.clone()),
                false => changes.types.push(type_row(state)),
            }
        }
        for batch in each_once(&mut marks.batches) {
            match self.batches.contains_key(&batch) {
                true => changes.batches.push(self.batch_row(batch)),
                false => changes.batches_gone.push(batch),
            }
        }
        for worker in each_once(&mut marks.workers) {
            match self.requests.get(&worker) {
                Some(request) => changes.workers.push(WorkerRow {
                    worker,
                    number: request.number,
                    until: request.until,
                    fence: request.fence,
                }),
                None => changes.workers_gone.push(worker),
            }
        }
        for number in each_once(&mut marks.bulks) {
            self.change_bulk(number, &mut changes, &mut marks.saved);
        }
        self.change_completed(&mut changes, &mut marks.saved);
        for (name, value) in self.whole_fields() {
            if marks.saved.whole.get(name) != Some(&value) {
                marks.saved.whole.insert(name, value.clone());
                changes.whole.push((name, value));
            }
        }
        self.marks = Some(marks);
        changes
    }

    fn change_jobs(&mut self, changes: &mut Changes, saved: &mut Saved) {
        let touched = self.jobs.take_touched();
        let gone = touched.removed.iter().map(|job| job.number).filter(|number| *number <= saved.created);
        changes.jobs_gone.extend(gone);
        for key in touched.keys {
            let job = &self.jobs[key];
            let is_new = job.number > saved.created;
            if is_new {
                changes.jobs.push(self.job_row(job));
            }
            let progress = self.progress_row(key);
            let as_it_came =
                progress.place == PlaceRow::Backlog && !progress.cancelled && progress.run.is_none();
            if !is_new || !as_it_came {
                changes.progress.push(progress);
            }
        }
        // Keys are reused, so their order is not that of the numbers, which is the order of the store.
        changes.jobs_gone.sort_unstable();
        changes.jobs.sort_unstable_by_key(|row| row.number);
        changes.progress.sort_unstable_by_key(|row| row.number);
        saved.created = self.created;
    }

    fn change_groups(&mut self, changes: &mut Changes, saved: &mut Saved) {
        let touched = self.groups.take_touched();
        if !touched.removed.is_empty() {
            // A key may have been given to another group since: nothing remembered by key can be trusted.
            changes.groups_gone.extend(touched.removed.into_iter().map(|group| group.name));
            saved.groups.clear();
        }
        if saved.groups.len() > GROUPS_REMEMBERED {
            saved.groups.clear();
        }
        for key in touched.keys {
            let group = &self.groups[key];
            let row = group_row(group);
            let lanes: Vec<LaneRow> = group.lanes.iter().map(|lane| self.lane_row(group, lane)).collect();
            let known = saved.groups.get(&key);
            if known.is_none_or(|(known, _)| *known != row) {
                changes.groups.push(row.clone());
            }
            for (index, lane) in lanes.iter().enumerate() {
                if known.is_none_or(|(_, known)| known.get(index) != Some(lane)) {
                    changes.lanes.push(lane.clone());
                }
            }
            saved.groups.insert(key, (row, lanes));
            self.change_history(key, changes, saved);
        }
    }

    fn change_history(&self, key: GroupKey, changes: &mut Changes, saved: &mut Saved) {
        let (name, history) = (&self.groups[key].name, &self.groups[key].record.history);
        if history.is_empty() && !saved.histories.contains_key(&key) {
            return;
        }
        let tail = saved.histories.entry(key).or_default();
        let moved = tail.advance(history.len(), |index| history[index]);
        changes.snapshots_gone.extend(moved.gone_below.map(|below| (name.clone(), below)));
        for index in moved.added {
            let (number, snapshot) = (tail.number(index), history[index]);
            changes.snapshots.push(SnapshotRow { group: name.clone(), number, snapshot });
        }
    }

    fn change_bulk(&self, number: u64, changes: &mut Changes, saved: &mut Saved) {
        let Some(bulk) = self.bulks.get(&number) else {
            saved.ended.remove(&number);
            return changes.bulks_gone.push(number);
        };
        changes.bulks.push(bulk_row(number, bulk, &self.groups[bulk.group].name));
        let tail = saved.ended.entry(number).or_default();
        let mark = |index: usize| {
            let (at, ids) = &bulk.ended[index];
            (*at, ids[0].clone())
        };
        let moved = tail.advance(bulk.ended.len(), mark);
        changes.bulk_ended_gone.extend(moved.gone_below.map(|below| (number, below)));
        for index in moved.added {
            let (at, ids) = &bulk.ended[index];
            let (chunk, ids) = (tail.number(index), ids.clone());
            changes.bulk_ended.push(BulkEndedRow { bulk: number, chunk, at: *at, ids });
        }
    }

    fn change_completed(&self, changes: &mut Changes, saved: &mut Saved) {
        let completed = &self.completed;
        if completed.popped > saved.popped {
            changes.completed_gone = Some(completed.popped);
            saved.popped = completed.popped;
        }
        let end = completed.popped + completed.chunks.len() as u64;
        for chunk in saved.chunks.max(completed.popped)..end {
            let (at, jobs) = &completed.chunks[(chunk - completed.popped) as usize];
            let jobs = jobs.iter().map(|&key| self.jobs[key].number).collect();
            changes.completed.push(CompletedRow { chunk, at: *at, jobs });
        }
        saved.chunks = end;
    }

    fn job_row(&self, job: &Job) -> JobRow {
        JobRow {
            number: job.number,
            group: self.groups[job.group].name.clone(),
            id: job.id.clone(),
            type_id: self.types[job.type_key].name.clone(),
            level: job.level,
            cost: job.cost,
            payload: job.payload.clone(),
            created_at: job.created_at,
            bulk: job.bulk,
            trace: job.trace.clone(),
        }
    }

    fn progress_row(&self, key: JobKey) -> ProgressRow {
        let job = &self.jobs[key];
        let place = match &job.place {
            Place::Lane if job.order == NO_ORDER => PlaceRow::Backlog,
            Place::Lane => PlaceRow::Returned(job.order),
            Place::Ready => PlaceRow::Ready(job.order),
            Place::OnHold => PlaceRow::OnHold(job.order),
            Place::Waiting(due) => PlaceRow::Waiting(*due),
            Place::InFlight(held) => PlaceRow::InFlight {
                fence: held.fence,
                batch: held.batch,
                worker: held.worker.clone(),
                cancelled: held.cancelled,
            },
            Place::Completed => PlaceRow::Completed,
            Place::Failed(at) => {
                PlaceRow::Failed { at: *at, listed: self.dead.contains_key(&(*at, self.full_name(key))) }
            }
            Place::Cancelled => PlaceRow::Cancelled,
        };
        let run = job.run.as_ref().map(run_row);
        ProgressRow { number: job.number, place, bulk: job.bulk, cancelled: job.cancelled, run }
    }

    fn lane_row(&self, group: &Group, lane: &Lane) -> LaneRow {
        LaneRow {
            group: group.name.clone(),
            type_id: self.types[lane.type_key].name.clone(),
            level: lane.level,
            standing: match lane.standing {
                Standing::Idle => LaneStanding::Idle,
                Standing::Active => LaneStanding::Active,
                Standing::RateParked(until) => LaneStanding::RateParked(until),
                Standing::SeatParked => LaneStanding::SeatParked,
                Standing::Paused => LaneStanding::Paused,
                Standing::Clearing(since) => LaneStanding::Clearing(since),
            },
            tag: lane.tag,
            epoch: lane.epoch,
            remainder: lane.remainder,
            sequence: lane.sequence,
        }
    }

    fn batch_row(&self, batch: Fence) -> BatchRow {
        let record = &self.batches[&batch];
        let due = self.deadlines.contains(&(record.deadline, batch));
        // A key may have been given to another job since; that one is not held under this fence.
        let held = record.jobs.iter().filter_map(|&(key, fence)| {
            self.jobs.get(key).filter(|job| job.held_under(fence).is_some()).map(|job| job.number)
        });
        BatchRow { batch, deadline: due.then_some(record.deadline), jobs: held.collect() }
    }
}

fn each_once<T: Ord>(marks: &mut Vec<T>) -> Vec<T> {
    let mut once = std::mem::take(marks);
    once.sort_unstable();
    once.dedup();
    once
}

fn run_row(run: &Run) -> RunRow {
    RunRow {
        settled: run.settled,
        settled_at: run.settled_at,
        attempts: run.attempts,
        throttles: run.throttles,
        losses: run.losses,
        worker: run.worker.clone(),
        note: run.note.clone(),
    }
}

fn group_row(group: &Group) -> GroupRow {
    let Record { total, done, throttles, throttles_since, noted, backoff_ms, .. } = group.record;
    GroupRow {
        name: group.name.clone(),
        settings: group.settings.clone(),
        bucket: group.bucket,
        window: group.window,
        record: RecordRow { total, done, throttles, throttles_since, noted, backoff_ms },
        idle_at: group.idle_at,
    }
}

fn bulk_row(number: u64, bulk: &Bulk, group: &GroupId) -> BulkRow {
    BulkRow {
        number,
        group: group.clone(),
        id: bulk.name.clone(),
        state: bulk.state,
        mode: bulk.mode,
        sealed: bulk.sealed,
        total: bulk.total,
        succeeded: bulk.succeeded,
        failed: bulk.failed,
        cancelled: bulk.cancelled,
        created_at: bulk.created_at,
        started_at: bulk.started_at,
        finished_at: bulk.finished_at,
        deadline: bulk.deadline,
        failures_max: bulk.failures_max,
        cause: bulk.cause,
        fence: bulk.fence,
        aggregated: bulk.aggregated,
        take_at: bulk.take_at,
        worker: bulk.worker.clone(),
        payload: bulk.payload.clone(),
        summary: bulk.summary.clone(),
    }
}

fn type_row(state: &TypeState) -> TypeRow {
    TypeRow {
        name: state.name.clone(),
        settings: state.settings.clone(),
        bucket: state.bucket,
        virtual_time: state.virtual_time,
        orders: [0, 1, 2].map(|level: usize| {
            let order = &state.orders[level];
            OrderRow {
                virtual_time: order.virtual_time,
                epoch: order.epoch,
                pool: order.pool,
                tag: order.tag,
            }
        }),
        downstream: downstream_row(&state.downstream),
        tokens: state.tokens,
        timer: state.timer.as_ref().map(|timer| (timer.worker.clone(), timer.at)),
        asked_at: state.asked_at,
    }
}

fn downstream_row(downstream: &Downstream) -> DownstreamRow {
    DownstreamRow {
        cut: downstream.cut.map(|cut| CutRow {
            at: cut.at,
            fence: cut.fence,
            plateau_milli: cut.plateau_milli,
            plateau_ms: cut.plateau_ms,
        }),
        closed_until: downstream.closed_until,
        goodput_at: downstream.goodput_at,
        goodput: downstream.goodput,
    }
}
