//! Determines the rows that differ from those returned before.

use rustc_hash::FxHashMap;

use crate::kernel::row::ChangeSet;
use crate::names::JobId;
use crate::numbers::{Fence, Micros};
use crate::queue::lane::{GroupKey, Snapshot};
use crate::queue::{Machine, Marks};

use super::fields::TIME;
use super::tail::Tail;
use super::{
    BatchRow, BulkEndedRow, BulkRow, Changes, CompletedRow, FieldRow, GroupRow, JobRow, LaneRow, ProgressRow,
    SnapshotRow, TypeRow, WorkerRow,
};

/// Most groups whose last rows are kept in memory, so that unchanged rows are not written again.
const GROUPS_REMEMBERED: usize = 10_000;

/// Identifies a chunk of ended jobs by its time and its first job.
pub(super) type EndedMark = (Micros, JobId);

pub(super) type Histories = FxHashMap<GroupKey, Tail<Snapshot>>;
pub(super) type EndedLists = FxHashMap<u64, Tail<EndedMark>>;

/// The rows that were returned so far.
#[derive(Debug, Default)]
pub(in crate::queue) struct Saved {
    /// Jobs up to this number have a row.
    created: u64,
    /// Chunks of completed jobs below this number have a row.
    chunks: u64,
    /// The rows of chunks below this number were removed.
    popped: u64,
    pub(super) histories: Histories,
    pub(super) ended: EndedLists,
    fields: FxHashMap<&'static str, String>,
    groups: FxHashMap<GroupKey, (GroupRow, Vec<LaneRow>)>,
}

impl Machine {
    /// The number of stored jobs.
    pub fn jobs(&self) -> u64 {
        self.jobs.len() as u64
    }

    /// Marks every row as changed.
    pub(super) fn touch_all(&mut self) {
        self.jobs.record_all();
        self.groups.record_all();
        self.types.record_all();
        let batches = self.batches.keys().copied().collect();
        let (workers, bulks) =
            (self.requests.keys().cloned().collect(), self.bulks.keys().copied().collect());
        self.marks = Some(Marks { batches, workers, bulks, saved: Saved::default() });
    }

    /// The rows that differ from those returned before; none unless [`Machine::record`] was called.
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        let Some(mut marks) = self.marks.take() else { return changes };
        self.change_jobs(&mut changes, &mut marks.saved);
        self.change_groups(&mut changes, &mut marks.saved);
        for key in self.types.take_touched().keys {
            let state = &self.types[key];
            changes.types.put((!state.is_removed).then(|| TypeRow::of(state)), || state.name.clone());
        }
        for batch in each_once(&mut marks.batches) {
            let is_kept = self.batches.contains_key(&batch);
            changes.batches.put(is_kept.then(|| self.batch_row(batch)), || batch);
        }
        for worker in each_once(&mut marks.workers) {
            let row = self.requests.get(&worker).map(|request| WorkerRow::of(request, &worker));
            changes.workers.put(row, || worker);
        }
        for number in each_once(&mut marks.bulks) {
            self.change_bulk(number, &mut changes, &mut marks.saved);
        }
        self.change_completed(&mut changes, &mut marks.saved);
        for (name, value) in self.fields() {
            if marks.saved.fields.get(name) != Some(&value) {
                marks.saved.fields.insert(name, value.clone());
                changes.whole.rows.push(FieldRow { name: name.into(), value });
            }
        }
        if changes.count() == 1 && changes.whole.rows.iter().any(|field| field.name == TIME) {
            // Reads advance the time as well, and must not cause a write.
            changes.whole.rows.clear();
            marks.saved.fields.remove(TIME);
        }
        self.marks = Some(marks);
        changes
    }

    fn change_jobs(&mut self, changes: &mut Changes, saved: &mut Saved) {
        let mut touched = self.jobs.take_touched();
        // Keys are reused, so they are not in the order of the job numbers, which is the order of
        // the table.
        touched.keys.sort_unstable_by_key(|key| self.jobs[*key].number);
        let gone = touched.removed.iter().map(|job| job.number).filter(|number| *number <= saved.created);
        let mut gone: Vec<u64> = gone.collect();
        gone.sort_unstable();
        changes.jobs.gone.clone_from(&gone);
        changes.progress.gone = gone;
        for key in touched.keys {
            let job = &self.jobs[key];
            let is_new = job.number > saved.created;
            if is_new {
                changes.jobs.rows.push(JobRow::of(job, self));
            }
            let progress = ProgressRow::of(job, self.place_word(key));
            if !is_new || !progress.is_as_it_came() {
                changes.progress.rows.push(progress);
            }
        }
        saved.created = self.created;
    }

    fn change_groups(&mut self, changes: &mut Changes, saved: &mut Saved) {
        let touched = self.groups.take_touched();
        if !touched.removed.is_empty() {
            // The key may have been reused for another group since, so rows that are kept under it
            // may be wrong.
            let names = touched.removed.into_iter().map(|group| group.name);
            changes.groups.gone.extend(names);
            changes.lanes.gone.clone_from(&changes.groups.gone);
            changes.snapshots.gone.clone_from(&changes.groups.gone);
            saved.groups.clear();
        }
        if saved.groups.len() > GROUPS_REMEMBERED {
            saved.groups.clear();
        }
        for key in touched.keys {
            let group = &self.groups[key];
            let row = GroupRow::of(group);
            let lanes =
                group.lanes.iter().map(|lane| LaneRow::of(lane, group, &self.types[lane.type_key].name));
            let lanes: Vec<LaneRow> = lanes.collect();
            let known = saved.groups.get(&key);
            if known.is_none_or(|(known, _)| *known != row) {
                changes.groups.rows.push(row.clone());
            }
            for (index, lane) in lanes.iter().enumerate() {
                if known.is_none_or(|(_, known)| known.get(index) != Some(lane)) {
                    changes.lanes.rows.push(lane.clone());
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
        changes.snapshots.gone_below.extend(moved.gone_below.map(|below| (Some(name.clone()), below)));
        for index in moved.added {
            changes.snapshots.rows.push(SnapshotRow::of(&history[index], name, tail.number(index)));
        }
    }

    fn change_bulk(&self, number: u64, changes: &mut Changes, saved: &mut Saved) {
        let Some(bulk) = self.bulks.get(&number) else {
            saved.ended.remove(&number);
            changes.bulks.gone.push(number);
            return changes.bulk_ended.gone.push(number);
        };
        changes.bulks.rows.push(BulkRow::of(bulk, number, &self.groups[bulk.group].name));
        let tail = saved.ended.entry(number).or_default();
        let mark = |index: usize| {
            let (at, ids) = &bulk.ended[index];
            (*at, ids[0].clone())
        };
        let moved = tail.advance(bulk.ended.len(), mark);
        changes.bulk_ended.gone_below.extend(moved.gone_below.map(|below| (Some(number), below)));
        for index in moved.added {
            let (ended_at, jobs) = bulk.ended[index].clone();
            let chunk = tail.number(index);
            changes.bulk_ended.rows.push(BulkEndedRow { bulk: number, chunk, ended_at, jobs });
        }
    }

    fn change_completed(&self, changes: &mut Changes, saved: &mut Saved) {
        let completed = &self.completed;
        if completed.popped > saved.popped {
            changes.completed.gone_below.push((None, completed.popped));
            saved.popped = completed.popped;
        }
        let end = completed.popped + completed.chunks.len() as u64;
        for chunk in saved.chunks.max(completed.popped)..end {
            let (at, jobs) = &completed.chunks[(chunk - completed.popped) as usize];
            let jobs = jobs.iter().map(|&key| self.jobs[key].number).collect();
            changes.completed.rows.push(CompletedRow { chunk, completed_at: *at, jobs });
        }
        saved.chunks = end;
    }

    fn batch_row(&self, batch: Fence) -> BatchRow {
        let record = &self.batches[&batch];
        let due = self.deadlines.contains(&(record.deadline, batch));
        // The key may have been reused for another job since, which is not leased under this fence.
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
