//! From rows back to a machine.
//!
//! Rows come in the order types, groups, lanes, bulk actions, jobs by number, then the rest. Whatever follows
//! from other rows is worked out here. What contradicts itself is [`Damage`], unless rows are known to be
//! missing: then it is mended (`restore/mend.rs`), and told.

mod mend;

use std::collections::{BTreeMap, VecDeque};

use crate::hashing::HashSeed;
use crate::limits::TYPES_MAX;
use crate::queue::bulk::Bulk;
use crate::queue::downstream::{Cut, Downstream};
use crate::queue::job::{Batch, Held, Job, JobKey, NO_ORDER, Place, Run};
use crate::queue::lane::{LaneKey, Order, Record, Standing, Timer};
use crate::queue::ops::LaneStanding;
use crate::queue::{BulkCause, BulkState, GroupSettings, JobRef, Machine, Request, Settings};

use super::tail::Tail;
use super::whole::Fields;
use super::{
    BatchRow, BulkEndedRow, BulkRow, CompletedRow, DownstreamRow, GroupRow, JobRow, LaneRow, PlaceRow,
    ProgressRow, RunRow, SnapshotRow, TypeRow, WorkerRow,
};

/// Rows that contradict each other, or say what cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(String);

impl Damage {
    /// What was found.
    pub fn new(found: impl Into<String>) -> Self {
        Self(found.into())
    }
}

/// A list that jobs stand in by their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Listed {
    Returned(LaneKey),
    Ready(u32),
    OnHold(u64),
}

/// A machine in the making.
#[derive(Debug)]
pub struct Restore {
    machine: Machine,
    fields: BTreeMap<String, String>,
    /// In the order of numbers.
    jobs: Vec<(u64, JobKey)>,
    listed: Vec<(Listed, i64, JobKey)>,
    /// Numbers of the first rows of long lists.
    first_snapshots: BTreeMap<u32, u64>,
    first_ended: BTreeMap<u64, u64>,
    /// Jobs that stand in a list of completed ones.
    completed: u64,
    next_chunk: u64,
    /// What was mended, if it may be.
    mended: Option<Vec<String>>,
}

impl Restore {
    /// Begins with the fields of the whole. Rows may be missing where `mend` is set.
    pub fn new(
        whole: impl IntoIterator<Item = (String, String)>,
        hash_seed: HashSeed,
        mend: bool,
    ) -> Result<Self, Damage> {
        let fields = Fields(whole.into_iter().collect());
        let mut machine = Machine::empty(Settings::default(), hash_seed);
        machine.set_whole_fields(&fields)?;
        let next_chunk = fields.next_chunk()?;
        let Fields(fields) = fields;
        Ok(Self {
            machine,
            fields,
            jobs: Vec::new(),
            listed: Vec::new(),
            first_snapshots: BTreeMap::new(),
            first_ended: BTreeMap::new(),
            completed: 0,
            next_chunk,
            mended: mend.then(Vec::new),
        })
    }

    /// Notes what does not fit, or ends everything with it.
    fn flaw(&mut self, found: String) -> Result<(), Damage> {
        match &mut self.mended {
            Some(mended) => mended.push(found),
            None => return Err(Damage(found)),
        }
        Ok(())
    }

    /// Takes a type.
    pub fn add_type(&mut self, row: TypeRow) -> Result<(), Damage> {
        if self.machine.types_by_name.contains_key(&row.name) {
            return Err(Damage::new(format!("type {} is there twice", row.name)));
        }
        let key = self.machine.type_key(&row.name).ok_or_else(too_many_types)?;
        let state = &mut self.machine.types[key];
        state.settings = row.settings;
        state.bucket = row.bucket;
        state.virtual_time = row.virtual_time;
        state.orders = row.orders.map(|order| Order {
            virtual_time: order.virtual_time,
            epoch: order.epoch,
            pool: order.pool,
            tag: order.tag,
            ..Order::default()
        });
        state.downstream = restored_downstream(row.downstream);
        state.tokens = row.tokens;
        state.timer = row.timer.map(|(worker, at)| Timer { worker, at });
        state.asked_at = row.asked_at;
        Ok(())
    }

    /// Takes a group.
    pub fn add_group(&mut self, row: GroupRow) -> Result<(), Damage> {
        if self.machine.groups_by_name.contains_key(&row.name) {
            return Err(Damage::new(format!("group {} is there twice", row.name)));
        }
        let key = self.machine.group_key(&row.name);
        let group = &mut self.machine.groups[key];
        group.settings = row.settings;
        group.bucket = row.bucket;
        group.window = row.window;
        group.record = Record {
            waiting: 0,
            total: row.record.total,
            done: row.record.done,
            throttles: row.record.throttles,
            throttles_since: row.record.throttles_since,
            noted: row.record.noted,
            backoff_ms: row.record.backoff_ms,
            history: VecDeque::new(),
        };
        if let Some(at) = row.idle_at {
            self.machine.look_at_group(key, at);
        }
        Ok(())
    }

    /// Takes a snapshot of a group; those of one group come in the order of their numbers.
    pub fn add_snapshot(&mut self, row: SnapshotRow) -> Result<(), Damage> {
        let key = self.machine.group_key(&row.group);
        self.first_snapshots.entry(key).or_insert(row.number);
        self.machine.groups[key].record.history.push_back(row.snapshot);
        Ok(())
    }

    /// Takes a lane.
    pub fn add_lane(&mut self, row: LaneRow) -> Result<(), Damage> {
        let machine = &mut self.machine;
        let type_key = match row.standing {
            LaneStanding::Active => machine.type_key(&row.type_id).ok_or_else(too_many_types)?,
            _ => machine.type_name_key(&row.type_id),
        };
        let group = machine.group_key(&row.group);
        let lanes_before = machine.groups[group].lanes.len();
        let lane = machine.groups[group].lane_index(type_key, row.level);
        let key = LaneKey { group, lane };
        if lane as usize != lanes_before {
            return Err(Damage::new(format!("lane {} is there twice", machine.lane_name(key))));
        }
        if self.mended.is_some() {
            // Without all of its neighbours a place in an order means nothing: all begin anew.
            return Ok(());
        }
        let lane = machine.lane_mut(key);
        (lane.tag, lane.epoch) = (row.tag, row.epoch);
        (lane.remainder, lane.sequence) = (row.remainder, row.sequence);
        lane.standing = match row.standing {
            LaneStanding::Idle => Standing::Idle,
            LaneStanding::Active => Standing::Active,
            LaneStanding::RateParked(until) => Standing::RateParked(until),
            LaneStanding::SeatParked => Standing::SeatParked,
            LaneStanding::Paused => Standing::Paused,
            LaneStanding::Clearing(since) => Standing::Clearing(since),
        };
        match row.standing {
            LaneStanding::Active => {
                let order = &mut machine.types[type_key].orders[row.level.index()];
                if order.lanes.insert((row.tag, row.sequence), key).is_some() {
                    return Err(Damage::new(format!("two lanes stand at one place, {row:?}")));
                }
            }
            LaneStanding::RateParked(until) => {
                let name = machine.lane_name(key);
                machine.parked.insert((until, name), key);
            }
            LaneStanding::SeatParked => machine.groups[group].seat_parked += 1,
            LaneStanding::Clearing(since) => {
                let name = machine.lane_name(key);
                machine.clearing.insert((since, name), key);
            }
            LaneStanding::Paused | LaneStanding::Idle => {}
        }
        Ok(())
    }

    /// Takes a bulk action.
    pub fn add_bulk(&mut self, row: BulkRow) -> Result<(), Damage> {
        let machine = &mut self.machine;
        let (number, group) = (row.number, machine.group_key(&row.group));
        if machine.groups[group].bulks.insert(row.id.clone(), number).is_some() {
            return Err(Damage::new(format!("bulk action {} of {} is there twice", row.id, row.group)));
        }
        if row.state == BulkState::Aggregating && row.take_at.is_none() {
            return Err(Damage::new("a bulk action is never aggregated"));
        }
        if row.state.is_final() {
            let at = row.finished_at.ok_or_else(|| Damage::new("a bulk action never finished"))?;
            machine.finished_bulks.insert((at, number));
        } else {
            machine.groups[group].unfinished.insert(number);
        }
        machine.aggregating.extend(row.take_at.map(|at| (at, number)));
        machine.taken.extend(row.worker.clone().map(|worker| (worker, number)));
        if let Some(deadline) = row.deadline.filter(|_| !row.state.is_final()) {
            machine.bulk_deadlines.insert((deadline, number));
        }
        let bulk = restored_bulk(row, group);
        machine.add_bytes(group, bulk.stored_bytes());
        machine.bulks.insert(number, bulk);
        Ok(())
    }

    /// Takes a job with its progress, if it has any. Jobs come in the order of their numbers.
    pub fn add_job(&mut self, row: JobRow, progress: Option<ProgressRow>) -> Result<(), Damage> {
        let number = row.number;
        if number > self.machine.created || self.jobs.last().is_some_and(|(last, _)| *last >= number) {
            self.flaw(format!("job {number} of {} is out of order", self.machine.created))?;
            self.machine.created = self.machine.created.max(number);
        }
        let known = JobRef { group: row.group, id: row.id };
        if self.machine.find_job(&known).is_some() {
            return self.flaw(format!("{known:?} is there twice"));
        }
        let machine = &mut self.machine;
        let is_finished = progress
            .as_ref()
            .is_some_and(|progress| matches!(progress.place, PlaceRow::Completed | PlaceRow::Cancelled));
        let type_key = match is_finished {
            true => machine.type_name_key(&row.type_id),
            false => machine.type_key(&row.type_id).ok_or_else(too_many_types)?,
        };
        let group = machine.group_key(&known.group);
        let lane = LaneKey { group, lane: machine.groups[group].lane_index(type_key, row.level) };
        let progress = progress.unwrap_or(ProgressRow {
            number,
            place: PlaceRow::Backlog,
            bulk: row.bulk,
            cancelled: false,
            run: None,
        });
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
            bulk: progress.bulk,
            trace: row.trace,
            cancelled: progress.cancelled,
            place: Place::Lane,
            run: progress.run.map(restored_run),
        });
        self.jobs.push((number, key));
        machine.groups[group].jobs.insert(known.id, key);
        machine.add_bytes(group, machine.jobs[key].stored_bytes());
        self.put(key, lane, progress.place);
        Ok(())
    }

    fn put(&mut self, key: JobKey, lane: LaneKey, place: PlaceRow) {
        let machine = &mut self.machine;
        let unleased = match &place {
            PlaceRow::Backlog | PlaceRow::Returned(_) | PlaceRow::Ready(_) => true,
            PlaceRow::OnHold(_) | PlaceRow::Waiting(_) => true,
            PlaceRow::InFlight { .. }
            | PlaceRow::Completed
            | PlaceRow::Failed { .. }
            | PlaceRow::Cancelled => false,
        };
        if unleased && !machine.jobs[key].cancelled {
            machine.backlog += 1;
            machine.groups[lane.group].backlog += 1;
        }
        let type_key = machine.jobs[key].type_key;
        machine.types[type_key].jobs +=
            u64::from(!matches!(place, PlaceRow::Completed | PlaceRow::Cancelled));
        let stands = match place {
            PlaceRow::Backlog => {
                machine.lane_mut(lane).backlog.push_back(key);
                Place::Lane
            }
            PlaceRow::Returned(order) => self.listed(Listed::Returned(lane), order, key, Place::Lane),
            PlaceRow::Ready(order) => self.listed(Listed::Ready(type_key), order, key, Place::Ready),
            PlaceRow::OnHold(order) => {
                let number = machine.jobs[key].bulk.unwrap_or(0);
                self.listed(Listed::OnHold(number), order, key, Place::OnHold)
            }
            PlaceRow::Waiting(due) => {
                let name = machine.place_name(key);
                if let Some(bulk) = machine.jobs[key].bulk.and_then(|number| machine.bulks.get_mut(&number)) {
                    bulk.waiting.insert(name.clone(), key);
                }
                machine.waiting.insert((due, name), key);
                machine.groups[lane.group].record.waiting += 1;
                Place::Waiting(due)
            }
            PlaceRow::InFlight { fence, batch, worker, cancelled } => {
                machine.groups[lane.group].in_flight += 1;
                machine.types[type_key].in_flight += 1;
                Place::InFlight(Held { fence, batch, worker, cancelled })
            }
            PlaceRow::Failed { at, listed } => {
                if listed {
                    let name = machine.full_name(key);
                    machine.dead.insert((at, name), key);
                }
                Place::Failed(at)
            }
            PlaceRow::Completed => Place::Completed,
            PlaceRow::Cancelled => Place::Cancelled,
        };
        self.machine.jobs[key].place = stands;
    }

    fn listed(&mut self, list: Listed, order: i64, key: JobKey, place: Place) -> Place {
        self.listed.push((list, order, key));
        self.machine.jobs[key].order = order;
        place
    }

    fn job(&self, number: u64) -> Option<JobKey> {
        let at = self.jobs.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.jobs[at].1)
    }

    /// Takes a batch.
    pub fn add_batch(&mut self, row: BatchRow) -> Result<(), Damage> {
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

    /// Takes jobs that were completed together, in the order of their chunks.
    pub fn add_completed(&mut self, row: CompletedRow) -> Result<(), Damage> {
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
        completed.push(row.at, keys);
        Ok(())
    }

    /// Takes jobs of a bulk action that ended together; those of one come in the order of their chunks.
    pub fn add_bulk_ended(&mut self, row: BulkEndedRow) -> Result<(), Damage> {
        let Some(bulk) = self.machine.bulks.get_mut(&row.bulk) else {
            return self.flaw(format!("jobs of bulk action {} ended, which is not there", row.bulk));
        };
        if !row.ids.is_empty() {
            self.first_ended.entry(row.bulk).or_insert(row.chunk);
            bulk.ended.push_back((row.at, row.ids));
        }
        Ok(())
    }

    /// Takes a worker's last request.
    pub fn add_worker(&mut self, row: WorkerRow) -> Result<(), Damage> {
        let request = Request { number: row.number, until: row.until, fence: row.fence };
        self.machine.remember_request(row.worker, request);
        Ok(())
    }

    /// The machine, which records what changes from here on; and what had to be mended.
    pub fn finish(mut self) -> Result<(Machine, Vec<String>), Damage> {
        let cursor = Fields(std::mem::take(&mut self.fields)).cursor()?;
        self.machine.cursor = cursor.and_then(|name| self.machine.types_by_name.get(&name).copied());
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
            return Err(Damage(found));
        }
        let saved = self.tails();
        let mut machine = self.machine;
        machine.record();
        if let Some(marks) = &mut machine.marks {
            (marks.saved.histories, marks.saved.ended) = saved;
        }
        // What is there has rows already.
        machine.take_changes();
        Ok((machine, Vec::new()))
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
            let group = &mut machine.groups[key];
            group.active = group.backlog + group.in_flight > 0;
            let is_bare = group.settings == GroupSettings::default() && group.bulks.is_empty();
            if group.active {
                machine.active_groups.insert(group.name.clone());
            } else if is_bare {
                // Rows that were written before groups were forgotten do not say when to look.
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

    /// Every lease is in its batches, and whatever ended is filed somewhere.
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
            return Err(Damage(found));
        }
        Ok(())
    }

    /// What of long lists has rows.
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

fn restored_bulk(row: BulkRow, group: u32) -> Bulk {
    // Rows that were exported before the flag was written do not have it.
    let by_aggregation = row.state == BulkState::Completed || row.cause == Some(BulkCause::Aggregation);
    Bulk {
        name: row.id,
        group,
        state: row.state,
        mode: row.mode,
        sealed: row.sealed,
        total: row.total,
        succeeded: row.succeeded,
        failed: row.failed,
        cancelled: row.cancelled,
        created_at: row.created_at,
        started_at: row.started_at,
        finished_at: row.finished_at,
        deadline: row.deadline,
        failures_max: row.failures_max,
        cause: row.cause,
        fence: row.fence,
        aggregated: row.aggregated || by_aggregation,
        take_at: row.take_at,
        worker: row.worker,
        payload: row.payload,
        summary: row.summary,
        on_hold: VecDeque::new(),
        waiting: BTreeMap::new(),
        ended: VecDeque::new(),
    }
}

fn restored_downstream(row: DownstreamRow) -> Downstream {
    Downstream {
        cut: row.cut.map(|cut| Cut {
            at: cut.at,
            fence: cut.fence,
            plateau_milli: cut.plateau_milli,
            plateau_ms: cut.plateau_ms,
        }),
        closed_until: row.closed_until,
        goodput_at: row.goodput_at,
        goodput: row.goodput,
    }
}

fn restored_run(row: RunRow) -> Run {
    Run {
        settled: row.settled,
        settled_at: row.settled_at,
        attempts: row.attempts,
        throttles: row.throttles,
        losses: row.losses,
        worker: row.worker,
        note: row.note,
    }
}
