//! Restores a machine from its rows.
//!
//! Values that follow from other rows are computed here. Rows that contradict each other are
//! [`Damage`], unless rows are known to be missing: then they are mended (`restore/mend.rs`), and
//! the caller gets a list of the repairs.

mod mend;

use std::collections::BTreeMap;

use crate::hashing::HashSeed;
use crate::kernel::downstream::Cut;
use crate::kernel::row::{Damage, Row, RowSource};
use crate::kernel::{RestoreMode, Restored};
use crate::limits::TYPES_MAX;
use crate::queue::bulk::Bulk;
use crate::queue::job::{Batch, Job, JobKey, NO_ORDER, Place};
use crate::queue::lane::{LaneKey, Order, Snapshot, Standing, Timer};
use crate::queue::{BulkCause, BulkState, GroupSettings, JobRef, Machine, Request, Settings};
use crate::trace::Trace;

use super::fields::Fields;
use super::places::{PlaceWord, needed};
use super::tail::Tail;
use super::{
    BatchRow, BulkEndedRow, BulkRow, CompletedRow, FieldRow, GroupRow, JobRow, LaneRow, OrderNumbers,
    ProgressRow, SnapshotRow, TypeRow, WorkerRow,
};

/// Restores the machine; `None` if the store has no rows of the queue.
pub(in crate::queue) fn restore<S: RowSource>(
    source: &mut S,
    hash_seed: HashSeed,
    mode: RestoreMode,
) -> Result<Option<Restored<Machine>>, S::Error> {
    let mut restore = Restore::new(hash_seed, mode);
    restore.read(source, Restore::add_field)?;
    if restore.fields.0.is_empty() && mode == RestoreMode::Strict {
        return Ok(None);
    }
    restore.set_fields()?;
    restore.read(source, Restore::add_type)?;
    restore.read(source, Restore::add_group)?;
    restore.read(source, Restore::add_lane)?;
    restore.read(source, Restore::add_snapshot)?;
    restore.read(source, Restore::add_bulk)?;
    restore.read(source, Restore::add_job)?;
    restore.read(source, Restore::add_progress)?;
    restore.put_rest()?;
    restore.read(source, Restore::add_batch)?;
    restore.read(source, Restore::add_completed)?;
    restore.read(source, Restore::add_bulk_ended)?;
    restore.read(source, Restore::add_worker)?;
    Ok(Some(restore.finish()?))
}

/// A list in which jobs have positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Listed {
    Returned(LaneKey),
    Ready(u32),
    OnHold(u64),
}

/// A machine that is being restored.
#[derive(Debug)]
struct Restore {
    machine: Machine,
    fields: Fields,
    /// The jobs, in the order of their numbers.
    jobs: Vec<(u64, JobKey)>,
    /// The number of jobs that were put into their places.
    put: usize,
    listed: Vec<(Listed, i64, JobKey)>,
    /// The number of the first snapshot of each group, and of the first chunk of each bulk action.
    first_snapshots: BTreeMap<u32, u64>,
    first_ended: BTreeMap<u64, u64>,
    /// The number of jobs in chunks of completed jobs.
    completed: u64,
    next_chunk: u64,
    /// The repairs so far; `None` if damage is an error.
    mended: Option<Vec<String>>,
}

impl Restore {
    fn new(hash_seed: HashSeed, mode: RestoreMode) -> Self {
        Self {
            machine: Machine::empty(Settings::default(), hash_seed),
            fields: Fields::default(),
            jobs: Vec::new(),
            put: 0,
            listed: Vec::new(),
            first_snapshots: BTreeMap::new(),
            first_ended: BTreeMap::new(),
            completed: 0,
            next_chunk: 0,
            mended: (mode == RestoreMode::Mend).then(Vec::new),
        }
    }

    /// Adds all rows of one table. When mending, rows that are invalid are skipped.
    fn read<R: Row, S: RowSource>(
        &mut self,
        source: &mut S,
        add: impl Fn(&mut Self, R) -> Result<(), Damage>,
    ) -> Result<(), S::Error> {
        source.read(|row: Result<R, Damage>| match row.and_then(|row| add(self, row)) {
            Err(_) if self.mended.is_some() => Ok(()),
            added => added,
        })
    }

    /// Adds a contradiction to the list of repairs when mending; otherwise returns it as an error.
    fn flaw(&mut self, found: String) -> Result<(), Damage> {
        match &mut self.mended {
            Some(mended) => mended.push(found),
            None => return Err(Damage::new(found)),
        }
        Ok(())
    }

    fn add_field(&mut self, row: FieldRow) -> Result<(), Damage> {
        self.fields.0.insert(row.name.into_owned(), row.value);
        Ok(())
    }

    fn set_fields(&mut self) -> Result<(), Damage> {
        self.machine.set_fields(&self.fields)?;
        self.next_chunk = self.fields.next_chunk()?;
        Ok(())
    }

    fn add_type(&mut self, row: TypeRow) -> Result<(), Damage> {
        if self.machine.types_by_name.contains_key(&row.name) {
            return Err(Damage::new(format!("type {} is there twice", row.name)));
        }
        let (cut, timer) = (row.cut()?, row.timer()?);
        let key = self.machine.type_key(&row.name).ok_or_else(too_many_types)?;
        let state = &mut self.machine.types[key];
        row.apply(state);
        state.orders = [row.order_high, row.order_normal, row.order_low].map(order);
        (state.downstream.cut, state.timer) = (cut, timer);
        Ok(())
    }

    fn add_group(&mut self, row: GroupRow) -> Result<(), Damage> {
        if self.machine.groups_by_name.contains_key(&row.name) {
            return Err(Damage::new(format!("group {} is there twice", row.name)));
        }
        let key = self.machine.group_key(&row.name);
        row.apply(&mut self.machine.groups[key]);
        if let Some(at) = row.idle_at {
            self.machine.look_at_group(key, at);
        }
        Ok(())
    }

    fn add_snapshot(&mut self, row: SnapshotRow) -> Result<(), Damage> {
        let SnapshotRow { group_id, number, taken_at: at, waiting, speed, backoff_ms } = row;
        let key = self.machine.group_key(&group_id);
        self.first_snapshots.entry(key).or_insert(number);
        self.machine.groups[key].record.history.push_back(Snapshot { at, waiting, speed, backoff_ms });
        Ok(())
    }

    fn add_lane(&mut self, row: LaneRow) -> Result<(), Damage> {
        let standing = row.standing()?;
        let machine = &mut self.machine;
        let type_key = match standing {
            Standing::Active => machine.type_key(&row.type_id).ok_or_else(too_many_types)?,
            _ => machine.type_name_key(&row.type_id),
        };
        let group = machine.group_key(&row.group_id);
        let lanes_before = machine.groups[group].lanes.len();
        let lane = machine.groups[group].lane_index(type_key, row.level);
        let key = LaneKey { group, lane };
        if lane as usize != lanes_before {
            return Err(Damage::new(format!("lane {} is there twice", machine.lane_name(key))));
        }
        if self.mended.is_some() {
            // Lanes may be missing, which makes positions in an order meaningless, so all orders
            // are rebuilt.
            return Ok(());
        }
        let lane = machine.lane_mut(key);
        row.apply(lane);
        lane.standing = standing;
        match standing {
            Standing::Active => {
                let order = &mut machine.types[type_key].orders[row.level.index()];
                if order.lanes.insert((row.tag, row.sequence), key).is_some() {
                    return Err(Damage::new(format!("two lanes stand at one place, {row:?}")));
                }
            }
            Standing::RateParked(until) => {
                let name = machine.lane_name(key);
                machine.parked.insert((until, name), key);
            }
            Standing::SeatParked => machine.groups[group].seat_parked += 1,
            Standing::Clearing(since) => {
                let name = machine.lane_name(key);
                machine.clearing.insert((since, name), key);
            }
            Standing::Paused | Standing::Idle => {}
        }
        Ok(())
    }

    fn add_bulk(&mut self, row: BulkRow) -> Result<(), Damage> {
        let ended = row.succeeded.checked_add(row.failed).and_then(|sum| sum.checked_add(row.cancelled));
        if ended.is_none_or(|ended| ended > row.total) {
            self.flaw(format!("bulk action {} of {} has fewer jobs than have ended", row.id, row.group_id))?;
        }
        if row.number > self.machine.opened {
            self.flaw(format!("bulk action {} of {} is out of order", row.number, self.machine.opened))?;
        }
        if row.state == BulkState::Aggregating && row.take_at.is_none() {
            return Err(Damage::new("a bulk action is never aggregated"));
        }
        if row.state.is_final() && row.finished_at.is_none() {
            return Err(Damage::new("a bulk action never finished"));
        }
        let machine = &mut self.machine;
        let (number, group) = (row.number, machine.group_key(&row.group_id));
        if machine.bulks.contains_key(&number) || machine.groups[group].bulks.contains_key(&row.id) {
            return Err(Damage::new(format!("bulk action {} of {} is there twice", row.id, row.group_id)));
        }
        // The row is accepted from here on. A row that is skipped must leave no reference to its
        // number.
        machine.groups[group].bulks.insert(row.id.clone(), number);
        if let Some(at) = row.finished_at.filter(|_| row.state.is_final()) {
            machine.finished_bulks.insert((at, number));
        } else {
            machine.groups[group].unfinished.insert(number);
        }
        machine.aggregating.extend(row.take_at.map(|at| (at, number)));
        machine.taken.extend(row.worker.clone().map(|worker| (worker, number)));
        if let Some(deadline) = row.deadline.filter(|_| !row.state.is_final()) {
            machine.bulk_deadlines.insert((deadline, number));
        }
        let mut bulk = Bulk::new(row.id.clone(), group, row.created_at);
        row.apply(&mut bulk);
        // Rows that were exported by versions without this flag do not have it.
        bulk.aggregated |= row.state == BulkState::Completed || row.cause == Some(BulkCause::Aggregation);
        machine.add_bytes(group, bulk.stored_bytes());
        machine.bulks.insert(number, bulk);
        Ok(())
    }

    /// Adds a job. It gets its place once it is known whether it has a row of progress.
    fn add_job(&mut self, row: JobRow) -> Result<(), Damage> {
        let number = row.number;
        let trace = row.trace.map(|packed| Trace::from_packed(&packed)).transpose();
        let trace = trace.map_err(|error| Damage::new(format!("the trace of job {number}: {error}")))?;
        if number > self.machine.created || self.jobs.last().is_some_and(|(last, _)| *last >= number) {
            self.flaw(format!("job {number} of {} is out of order", self.machine.created))?;
            self.machine.created = self.machine.created.max(number);
        }
        let known = JobRef { group: row.group_id, id: row.id };
        if self.machine.find_job(&known).is_some() {
            return self.flaw(format!("{known:?} is there twice"));
        }
        let machine = &mut self.machine;
        let group = machine.group_key(&known.group);
        let type_key = machine.type_name_key(&row.type_id);
        let key = machine.jobs.insert(Job {
            number,
            order: NO_ORDER,
            group,
            id: known.id.clone(),
            type_key,
            level: row.level,
            cost: row.cost,
            payload: row.payload,
            created_at: row.created_at,
            bulk: row.bulk,
            trace,
            cancelled: false,
            place: Place::Lane,
            run: None,
        });
        self.jobs.push((number, key));
        machine.groups[group].jobs.insert(known.id, key);
        Ok(())
    }

    /// Adds the progress of a job. Jobs and progress are both in the order of numbers, so jobs
    /// before this one that are not yet in a place have no progress.
    fn add_progress(&mut self, row: ProgressRow) -> Result<(), Damage> {
        let number = row.number;
        let (place, order, run) = (row.place()?, row.order()?, row.run()?);
        while let Some(&(_, key)) = self.jobs.get(self.put).filter(|(job, _)| *job < number) {
            self.put(key, Place::Lane, false)?;
        }
        let Some(&(_, key)) = self.jobs.get(self.put).filter(|(job, _)| *job == number) else {
            return Err(Damage::new(format!("job {number} has progress but is not there")));
        };
        let job = &mut self.machine.jobs[key];
        row.apply(job);
        (job.order, job.run) = (order, run);
        self.put(key, place, row.place == PlaceWord::Failed)
    }

    /// Puts the jobs after the last one with progress into their backlogs.
    fn put_rest(&mut self) -> Result<(), Damage> {
        while let Some(&(_, key)) = self.jobs.get(self.put) {
            self.put(key, Place::Lane, false)?;
        }
        // Jobs that could not be put anywhere were removed.
        let jobs = &self.machine.jobs;
        self.jobs.retain(|(_, key)| jobs.get(*key).is_some());
        Ok(())
    }

    /// Puts the next job into its place, and if `dead` also into the list of dead jobs.
    fn put(&mut self, key: JobKey, place: Place, dead: bool) -> Result<(), Damage> {
        self.put += 1;
        let machine = &mut self.machine;
        let Job { number, order, group, type_key, level, cancelled, bulk, .. } = machine.jobs[key];
        machine.add_bytes(group, machine.jobs[key].stored_bytes());
        let is_finished = matches!(place, Place::Completed | Place::Cancelled);
        if !is_finished && machine.types[type_key].is_removed {
            let name = machine.types[type_key].name.clone();
            if machine.type_key(&name).is_none() {
                machine.remove_job(key);
                return self.flaw(format!("job {number} is lost: {}", too_many_types()));
            }
        }
        let lane = LaneKey { group, lane: machine.groups[group].lane_index(type_key, level) };
        machine.types[type_key].jobs += u64::from(!is_finished);
        let is_leased = matches!(place, Place::InFlight(_));
        if !is_leased && !place.is_end() && !cancelled {
            machine.backlog += 1;
            machine.groups[group].backlog += 1;
        }
        match &place {
            Place::Lane if order == NO_ORDER => machine.lane_mut(lane).backlog.push_back(key),
            Place::Lane => self.listed.push((Listed::Returned(lane), order, key)),
            Place::Ready => self.listed.push((Listed::Ready(type_key), order, key)),
            Place::OnHold => self.listed.push((Listed::OnHold(bulk.unwrap_or(0)), order, key)),
            Place::Waiting(due) => {
                let name = machine.place_name(key);
                if let Some(bulk) = bulk.and_then(|number| machine.bulks.get_mut(&number)) {
                    bulk.waiting.insert(name.clone(), key);
                }
                machine.waiting.insert((*due, name), key);
                machine.groups[group].record.waiting += 1;
            }
            Place::InFlight(_) => {
                machine.groups[group].in_flight += 1;
                machine.types[type_key].in_flight += 1;
            }
            Place::Failed(at) if dead => {
                let name = machine.full_name(key);
                machine.dead.insert((*at, name), key);
            }
            Place::Failed(_) | Place::Completed | Place::Cancelled => {}
        }
        self.machine.jobs[key].place = place;
        Ok(())
    }

    fn job(&self, number: u64) -> Option<JobKey> {
        let at = self.jobs.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.jobs[at].1)
    }

    fn add_batch(&mut self, row: BatchRow) -> Result<(), Damage> {
        let batch = row.batch;
        let mut jobs = Vec::new();
        for key in row.jobs.iter().filter_map(|number| self.job(*number)) {
            if let Place::InFlight(held) = &self.machine.jobs[key].place
                && (held.fence == batch || held.batch == batch)
            {
                jobs.push((key, held.fence));
            }
        }
        if jobs.is_empty() {
            return self.flaw(format!("nothing is left of batch {batch}"));
        }
        if let Some(deadline) = row.deadline {
            self.machine.deadlines.insert((deadline, batch));
        }
        let deadline = row.deadline.unwrap_or_default();
        self.machine.batches.insert(batch, Batch { deadline, left: jobs.len(), jobs });
        Ok(())
    }

    fn add_completed(&mut self, row: CompletedRow) -> Result<(), Damage> {
        let mut keys = Vec::with_capacity(row.jobs.len());
        for number in &row.jobs {
            let ended =
                |key: &JobKey| matches!(self.machine.jobs[*key].place, Place::Completed | Place::Cancelled);
            match self.job(*number).filter(ended) {
                Some(key) => keys.push(key),
                None => self.flaw(format!("job {number} is listed as completed and is not"))?,
            }
        }
        let completed = &self.machine.completed;
        let next = completed.popped + completed.chunks.len() as u64;
        if !completed.chunks.is_empty() && row.chunk != next {
            self.flaw(format!("chunk {} of the completed jobs follows {next}", row.chunk))?;
        }
        self.completed += keys.len() as u64;
        let completed = &mut self.machine.completed;
        if completed.chunks.is_empty() {
            completed.popped = row.chunk;
        }
        completed.push(row.completed_at, keys);
        Ok(())
    }

    fn add_bulk_ended(&mut self, row: BulkEndedRow) -> Result<(), Damage> {
        let Some(bulk) = self.machine.bulks.get_mut(&row.bulk) else {
            return self.flaw(format!("jobs of bulk action {} ended, which is not there", row.bulk));
        };
        if !row.jobs.is_empty() {
            self.first_ended.entry(row.bulk).or_insert(row.chunk);
            bulk.ended.push_back((row.ended_at, row.jobs));
        }
        Ok(())
    }

    fn add_worker(&mut self, row: WorkerRow) -> Result<(), Damage> {
        let request = Request { number: row.request, until: row.until, fence: row.fence };
        self.machine.remember_request(row.name, request);
        Ok(())
    }

    fn finish(mut self) -> Result<Restored<Machine>, Damage> {
        let cursor = self.fields.cursor()?;
        // The cursor may name a type that was removed.
        self.machine.cursor = cursor.map(|name| self.machine.type_name_key(&name));
        if self.mended.is_some() {
            return Ok(self.mend());
        }
        self.fill_lists()?;
        self.count_groups();
        self.check_lanes()?;
        self.check_leases()?;
        let completed = &mut self.machine.completed;
        if completed.chunks.is_empty() {
            completed.popped = self.next_chunk;
        }
        let listed_to = completed.popped + completed.chunks.len() as u64;
        if listed_to != self.next_chunk {
            let found = format!("completed jobs are listed to {listed_to} of {}", self.next_chunk);
            return Err(Damage::new(found));
        }
        let saved = self.tails();
        let mut machine = self.machine;
        machine.record();
        if let Some(marks) = &mut machine.marks {
            (marks.saved.histories, marks.saved.ended) = saved;
        }
        // The restored state has rows already, so it does not count as changed.
        machine.take_changes();
        Ok(Restored { machine, mended: Vec::new() })
    }

    fn fill_lists(&mut self) -> Result<(), Damage> {
        self.listed.sort_unstable();
        for (list, _, key) in std::mem::take(&mut self.listed) {
            match list {
                Listed::Returned(lane) => self.machine.lane_mut(lane).returned.push_back(key),
                Listed::Ready(type_key) => self.machine.types[type_key].ready.push_back(key),
                Listed::OnHold(number) => match self.machine.bulks.get_mut(&number) {
                    Some(bulk) => bulk.on_hold.push_back(key),
                    None => {
                        return Err(Damage::new(format!(
                            "a job is held by bulk action {number}, which is not there"
                        )));
                    }
                },
            }
        }
        Ok(())
    }

    fn count_groups(&mut self) {
        let machine = &mut self.machine;
        let keys: Vec<u32> = machine.groups.iter().map(|(key, _)| key).collect();
        for key in keys {
            machine.restore_index(key);
            machine.list_settings(key);
            let group = &mut machine.groups[key];
            group.active = group.backlog + group.in_flight > 0;
            let is_bare = group.settings == GroupSettings::default() && group.bulks.is_empty();
            if group.active {
                machine.active_groups.insert(group.name.clone());
            } else if is_bare {
                // Rows written by versions that kept idle groups do not say when to check the
                // group.
                machine.watch_idle(key);
            }
        }
    }

    fn check_lanes(&self) -> Result<(), Damage> {
        for (key, group) in self.machine.groups.iter() {
            let idle_with_jobs =
                |lane: &&crate::queue::lane::Lane| lane.standing == Standing::Idle && !lane.is_empty();
            if let Some(at) = group.lanes.iter().position(|lane| idle_with_jobs(&lane)) {
                let name = self.machine.lane_name(LaneKey { group: key, lane: at as u32 });
                let jobs = group.lanes[at].backlog.len() + group.lanes[at].returned.len();
                return Err(Damage::new(format!("lane {name} has {jobs} jobs and is idle")));
            }
        }
        Ok(())
    }

    /// Checks that every lease is in its batches and that every ended job is in a chunk.
    fn check_leases(&self) -> Result<(), Damage> {
        let mut unfiled = 0;
        for job in self.machine.jobs.values() {
            let with_bulk = job.bulk.is_some_and(|number| self.machine.bulks.contains_key(&number));
            unfiled += u64::from(matches!(job.place, Place::Completed | Place::Cancelled) && !with_bulk);
            let Place::InFlight(held) = &job.place else { continue };
            let batches = &self.machine.batches;
            if !batches.contains_key(&held.batch) || !batches.contains_key(&held.fence) {
                return Err(Damage::new(format!("job {} is leased in no batch", job.number)));
            }
        }
        if unfiled > self.completed {
            let found = format!("{unfiled} jobs are completed and {} listed", self.completed);
            return Err(Damage::new(found));
        }
        Ok(())
    }

    /// The parts of long lists that have rows.
    fn tails(&self) -> (super::changes::Histories, super::changes::EndedLists) {
        let history = |(key, first): (&u32, &u64)| {
            let history = &self.machine.groups[*key].record.history;
            (*key, Tail::known(*first, history.len(), history.back().copied()))
        };
        let ended = |(number, first): (&u64, &u64)| {
            let ended = &self.machine.bulks[number].ended;
            let last = ended.back().map(|(at, ids)| (*at, ids[0].clone()));
            (*number, Tail::known(*first, ended.len(), last))
        };
        let histories = self.first_snapshots.iter().map(history).collect();
        (histories, self.first_ended.iter().map(ended).collect())
    }
}

fn too_many_types() -> Damage {
    Damage::new(format!("there are more than {TYPES_MAX} types"))
}

fn order([virtual_time, epoch, pool, tag]: OrderNumbers) -> Order {
    Order { virtual_time, epoch, pool, tag, ..Order::default() }
}

impl TypeRow {
    fn cut(&self) -> Result<Option<Cut>, Damage> {
        let Some(at) = self.cut_at else { return Ok(None) };
        Ok(Some(Cut {
            at,
            fence: needed(self.cut_fence, "types.cut_fence")?,
            plateau_milli: needed(self.cut_plateau_milli, "types.cut_plateau_milli")?,
            plateau_ms: needed(self.cut_plateau_ms, "types.cut_plateau_ms")?,
        }))
    }

    fn timer(&self) -> Result<Option<Timer>, Damage> {
        let Some(at) = self.timer_at else { return Ok(None) };
        Ok(Some(Timer { worker: needed(self.timer_worker.clone(), "types.timer_worker")?, at }))
    }
}
