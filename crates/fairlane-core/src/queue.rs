//! The queue: a state machine that turns commands into replies.
//!
//! [`Machine`] holds jobs in lanes and lanes in fair orders, and besides them the leased jobs, the
//! waiting jobs and the parked lanes. Invariant: after every command, [`Machine::check`] succeeds.
//! Left out on purpose: clocks, randomness, storage, waiting.

mod activity;
mod bulk;
pub mod classic;
pub mod congestion;
mod dump;
mod gate;
mod idle;
mod invariants;
mod job;
mod lane;
mod magnitude;
mod ops;
pub mod rows;
mod settings;
mod stored_bytes;

pub use crate::kernel::downstream::Downstream;
pub use bulk::{BulkCause, BulkMode, BulkRef, BulkState, BulkView};
pub use job::{JobRef, JobState};
pub use lane::Snapshot;
pub use ops::*;
pub use settings::{Discipline, GroupPatch, GroupSettings, LevelOrder, Settings, TypePatch, TypeSettings};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::hashing::{HashSeed, KeyedMap};
use crate::kernel::table::Table;
use crate::kernel::{self, Context, Dump, Operation};
use crate::limits::{TOKENS_MAX, TYPES_MAX};
use crate::names::{GroupId, TypeId, WorkerId};
use crate::numbers::{Fence, Micros, RequestNumber};
use crate::rate::Bucket;
use bulk::Bulk;
use job::{Batch, Job, JobKey, Place};
use lane::{Group, GroupKey, LaneKey, TypeKey, TypeState};

/// A worker's last lease request, kept so that the worker can ask for a lost reply again.
#[derive(Debug, Clone)]
struct Request {
    number: RequestNumber,
    until: Micros,
    /// The fence and batch of its jobs; 0 if it got no jobs.
    fence: Fence,
}

/// Finished jobs, oldest first, in the chunks in which they were settled.
#[derive(Debug, Clone, Default)]
struct Finished {
    chunks: VecDeque<(Micros, Vec<JobKey>)>,
    jobs: u64,
    /// Chunks removed so far, which is also the number of the oldest chunk.
    popped: u64,
}

impl Finished {
    fn push(&mut self, at: Micros, jobs: Vec<JobKey>) {
        if !jobs.is_empty() {
            self.jobs += jobs.len() as u64;
            self.chunks.push_back((at, jobs));
        }
    }

    /// Removes the oldest chunk if its retention has passed, or if at least `kept_max` jobs
    /// remain without it.
    fn pop_outlived(&mut self, kept_max: u64, retention_ms: u64, now: Micros) -> Option<Vec<JobKey>> {
        let (at, jobs) = self.chunks.front()?;
        let spare = self.jobs - jobs.len() as u64 >= kept_max;
        if !spare && at.plus_ms(retention_ms) > now {
            return None;
        }
        let (_, jobs) = self.chunks.pop_front()?;
        self.popped += 1;
        self.jobs -= jobs.len() as u64;
        Some(jobs)
    }
}

impl kernel::Machine for Machine {
    type Command = Command;
    type Reply = Reply;

    fn new(hash_seed: HashSeed, now: Micros) -> Self {
        Self::new(Settings::default(), hash_seed, now)
    }

    fn apply(&mut self, command: Command, now: Micros) -> Reply {
        self.apply(command, now)
    }

    fn reopen(&mut self) {
        self.release_aggregations();
    }

    fn last_time(&self) -> Micros {
        self.now
    }

    fn check(&self) -> Result<(), String> {
        self.check()
    }

    fn dump(&self, now: Micros, dump: &mut Dump) {
        dump.0.extend(self.dump(now).0);
    }

    fn types_with_tokens(&self) -> impl Iterator<Item = &TypeId> {
        self.types_by_name.iter().filter(|(_, key)| self.types[**key].tokens > 0).map(|(name, _)| name)
    }

    fn take_token(&mut self, type_id: &TypeId) -> bool {
        self.take_token(std::slice::from_ref(type_id)).is_some()
    }
}

/// The state of one partition.
#[derive(Debug)]
pub struct Machine {
    hash_seed: HashSeed,
    settings: Settings,
    bucket: Bucket,
    /// The time of the current command.
    now: Micros,
    fence: Fence,
    sequence: u64,
    /// Number of jobs created so far.
    created: u64,
    cursor: Option<TypeKey>,
    backlog: u64,
    stored_bytes: u64,
    types: Table<TypeState>,
    types_by_name: BTreeMap<TypeId, TypeKey>,
    /// Types that an operator removed, because finished jobs and idle lanes still
    /// refer to their names.
    removed_types: BTreeMap<TypeId, TypeKey>,
    /// The largest epoch of any order of a removed type.
    epochs: u64,
    groups: Table<Group>,
    groups_by_name: KeyedMap<GroupId, GroupKey>,
    jobs: Table<Job>,
    batches: FxHashMap<Fence, Batch>,
    deadlines: BTreeSet<(Micros, Fence)>,
    waiting: BTreeMap<(Micros, Box<str>), JobKey>,
    parked: BTreeMap<(Micros, Box<str>), LaneKey>,
    /// Lanes outside their order until `sweep` has cleared their heads, by the time
    /// of the last visit.
    clearing: BTreeMap<(Micros, Box<str>), LaneKey>,
    completed: Finished,
    dead: BTreeMap<(Micros, Box<str>), JobKey>,
    bulks: FxHashMap<u64, Bulk>,
    /// Number of bulk actions opened so far.
    opened: u64,
    aggregating: BTreeSet<(Micros, u64)>,
    /// Bulk actions that are leased for aggregation, by worker.
    taken: BTreeSet<(WorkerId, u64)>,
    bulk_deadlines: BTreeSet<(Micros, u64)>,
    finished_bulks: BTreeSet<(Micros, u64)>,
    sweeping: VecDeque<u64>,
    active_groups: BTreeSet<GroupId>,
    /// Groups with settings of their own, whether or not they have jobs.
    configured_groups: BTreeSet<GroupId>,
    /// The index of groups by the magnitude of their backlog.
    large_groups: BTreeSet<(u32, GroupId)>,
    /// Groups without jobs, by the time of their next check.
    idle_groups: BTreeMap<(Micros, Box<str>), GroupKey>,
    /// Groups with job counts that the current command has changed.
    dirty_groups: Vec<GroupKey>,
    /// The rate window of `classic`: the second, and the jobs passed in it.
    window: (u64, u64),
    /// Estimated number of useless attempts that backoff has avoided.
    saved_spins: u64,
    /// Jobs that have succeeded, and jobs that have become dead, since the queue was made.
    succeeded_total: u64,
    dead_total: u64,
    requests: KeyedMap<WorkerId, Request>,
    /// The stored requests by expiry.
    requests_until: BTreeSet<(Micros, WorkerId)>,
    reclaimed_at: Option<Micros>,
    reclaim_grace_until: Micros,
    marks: Option<Marks>,
}

/// Touched state that is not kept in a [`Table`].
#[derive(Debug, Default)]
struct Marks {
    batches: Vec<Fence>,
    workers: Vec<WorkerId>,
    bulks: Vec<u64>,
    saved: rows::Saved,
}

impl Machine {
    /// An empty queue with the given settings. The seed keys the hash maps of names and does not
    /// affect any reply. It must be secret if clients choose the names.
    pub fn new(settings: Settings, hash_seed: HashSeed, now: Micros) -> Self {
        let mut machine = Self::empty(settings, hash_seed);
        if let Some(rate) = machine.settings.rate {
            machine.bucket = Bucket::full(rate.flow(), now);
        }
        machine
    }

    fn empty(settings: Settings, hash_seed: HashSeed) -> Self {
        Self {
            hash_seed,
            settings,
            bucket: Bucket::default(),
            now: Micros::default(),
            fence: Fence::default(),
            sequence: 0,
            created: 0,
            cursor: None,
            backlog: 0,
            stored_bytes: 0,
            types: Table::default(),
            types_by_name: BTreeMap::new(),
            removed_types: BTreeMap::new(),
            epochs: 0,
            groups: Table::default(),
            groups_by_name: KeyedMap::with_hasher(hash_seed),
            jobs: Table::default(),
            batches: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            waiting: BTreeMap::new(),
            parked: BTreeMap::new(),
            clearing: BTreeMap::new(),
            completed: Finished::default(),
            dead: BTreeMap::new(),
            bulks: FxHashMap::default(),
            opened: 0,
            aggregating: BTreeSet::new(),
            taken: BTreeSet::new(),
            bulk_deadlines: BTreeSet::new(),
            finished_bulks: BTreeSet::new(),
            sweeping: VecDeque::new(),
            active_groups: BTreeSet::new(),
            configured_groups: BTreeSet::new(),
            large_groups: BTreeSet::new(),
            idle_groups: BTreeMap::new(),
            dirty_groups: Vec::new(),
            window: (0, 0),
            saved_spins: 0,
            succeeded_total: 0,
            dead_total: 0,
            requests: KeyedMap::with_hasher(hash_seed),
            requests_until: BTreeSet::new(),
            reclaimed_at: None,
            reclaim_grace_until: Micros::default(),
            marks: None,
        }
    }

    /// Applies one command, which must have passed [`Command::validate`].
    pub fn apply(&mut self, command: Command, now: Micros) -> Reply {
        self.step(now, |machine, context| command.apply(machine, context))
    }

    /// Applies one operation, which must have passed [`Operation::validate`].
    pub fn call<O: Operation<Machine = Self>>(&mut self, operation: O, now: Micros) -> O::Reply {
        self.step(now, |machine, context| operation.apply(machine, context))
    }

    fn step<R>(&mut self, now: Micros, apply: impl FnOnce(&mut Self, &mut Context) -> R) -> R {
        self.now = now;
        let reply = apply(self, &mut Context { now });
        self.note_activity();
        reply
    }

    /// Takes one wake-up token of any of these types: the type may have servable jobs.
    pub fn take_token(&mut self, types: &[TypeId]) -> Option<TypeId> {
        for name in types {
            let Some(&key) = self.types_by_name.get(name) else { continue };
            if self.types[key].tokens > 0 {
                self.types[key].tokens -= 1;
                return Some(name.clone());
            }
        }
        None
    }

    /// Begins to record the rows that commands touch.
    pub fn record(&mut self) {
        self.jobs.record();
        self.groups.record();
        self.types.record();
        self.marks.get_or_insert_default();
    }

    fn mark_batch(&mut self, batch: Fence) {
        if let Some(marks) = &mut self.marks {
            marks.batches.push(batch);
        }
    }

    fn mark_worker(&mut self, worker: &WorkerId) {
        if let Some(marks) = &mut self.marks {
            marks.workers.push(worker.clone());
        }
    }

    /// Stores a worker's last request in place of the previous one.
    fn remember_request(&mut self, worker: WorkerId, request: Request) {
        self.mark_worker(&worker);
        self.requests_until.insert((request.until, worker.clone()));
        if let Some(before) = self.requests.insert(worker.clone(), request.clone())
            && before.until != request.until
        {
            self.requests_until.remove(&(before.until, worker));
        }
    }

    /// Forgets up to `most` expired requests, oldest first.
    fn forget_requests(&mut self, most: usize, now: Micros) {
        for _ in 0..most {
            if self.requests_until.first().is_none_or(|(until, _)| *until > now) {
                return;
            }
            if let Some((_, worker)) = self.requests_until.pop_first() {
                self.mark_worker(&worker);
                self.requests.remove(&worker);
            }
        }
    }

    fn push_token(&mut self, key: TypeKey) {
        let tokens = &mut self.types[key].tokens;
        *tokens = (*tokens + 1).min(TOKENS_MAX);
    }

    /// Whether a new type of this name fits.
    fn has_room_for_type(&self, name: &TypeId) -> bool {
        let is_counted = |name: &&TypeId| name.escaped() != CALLBACK_TYPE;
        !is_counted(&name) || self.types_by_name.keys().filter(is_counted).count() < TYPES_MAX
    }

    fn type_key(&mut self, name: &TypeId) -> Option<TypeKey> {
        if let Some(&key) = self.types_by_name.get(name) {
            return Some(key);
        }
        if !self.has_room_for_type(name) {
            return None;
        }
        let state = TypeState::new(name.clone(), self.epochs + 1);
        let key = match self.removed_types.remove(name) {
            Some(key) => {
                self.types[key] = state;
                key
            }
            None => self.types.insert(state),
        };
        self.types_by_name.insert(name.clone(), key);
        Some(key)
    }

    /// The key of a type name, for finished jobs and lanes that refer to a type that
    /// no longer exists.
    fn type_name_key(&mut self, name: &TypeId) -> TypeKey {
        let known = self.types_by_name.get(name).or_else(|| self.removed_types.get(name));
        if let Some(&key) = known {
            return key;
        }
        let key = self.types.insert(TypeState::removed(name.clone()));
        self.removed_types.insert(name.clone(), key);
        key
    }

    fn group_key(&mut self, name: &GroupId) -> GroupKey {
        if let Some(&key) = self.groups_by_name.get(name) {
            return key;
        }
        let key = self.groups.insert(Group::new(name.clone(), self.hash_seed));
        self.groups_by_name.insert(name.clone(), key);
        key
    }

    fn find_job(&self, job: &JobRef) -> Option<JobKey> {
        let group = *self.groups_by_name.get(&job.group)?;
        self.groups[group].jobs.get(&job.id).copied()
    }

    /// A fence that was never used before: `max(previous + 1, now in µs)`.
    fn next_fence(&mut self, now: Micros) -> Fence {
        self.fence = Fence((self.fence.0 + 1).max(now.0));
        self.fence
    }

    /// Subtracts one from the jobs that prevent the removal of a type. A count that was wrong
    /// does not underflow.
    fn leave_type(&mut self, key: TypeKey) {
        let jobs = &mut self.types[key].jobs;
        *jobs = jobs.saturating_sub(1);
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn remove_job(&mut self, key: JobKey) -> Job {
        let job = self.jobs.remove(key);
        self.groups[job.group].jobs.remove(&job.id);
        self.subtract_bytes(job.group, job.stored_bytes());
        if matches!(job.place, Place::Failed(_)) {
            self.leave_type(job.type_key);
        }
        job
    }
}
