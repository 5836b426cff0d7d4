//! The queue: commands in, replies out.
//!
//! [`Machine`] holds jobs in lanes, lanes in fair orders, and what is leased, waiting or parked
//! beside them. Invariant: after every command, [`Machine::check`] finds nothing. Left out on
//! purpose: clocks, randomness, storage, waiting.

mod activity;
mod bulk;
mod downstream;
mod dump;
mod gate;
mod idle;
mod invariants;
mod job;
mod lane;
mod operations;
pub mod rows;
mod settings;
mod stored_bytes;
mod table;

pub use bulk::{BulkCause, BulkRef, BulkState, BulkView, Course};
pub use downstream::Downstream;
pub use dump::{Dump, DumpValue};
pub use job::{JobRef, JobState};
pub use lane::Snapshot;
pub use operations::*;
pub use settings::{Discipline, GroupPatch, GroupSettings, LevelOrder, Settings, TypePatch, TypeSettings};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::hashing::{HashSeed, KeyedMap};
use crate::limits::{TOKENS_MAX, TYPES_MAX};
use crate::names::{GroupId, TypeId, WorkerId};
use crate::numbers::{Fence, Micros, RequestNumber};
use crate::rate::Bucket;
use bulk::Bulk;
use job::{Batch, Job, JobKey, Place};
use lane::{Group, GroupKey, LaneKey, TypeKey, TypeState};
use table::Table;

/// A worker's last lease request, kept so that a lost reply can be asked for again.
#[derive(Debug, Clone)]
struct Request {
    number: RequestNumber,
    until: Micros,
    /// The fence of its jobs, and so their batch; 0 if it got none.
    fence: Fence,
}

/// Finished jobs, oldest first, in the chunks they were settled in.
#[derive(Debug, Clone, Default)]
struct Finished {
    chunks: VecDeque<(Micros, Vec<JobKey>)>,
    jobs: u64,
    /// Chunks removed so far, and so the number of the oldest that is there.
    popped: u64,
}

impl Finished {
    fn push(&mut self, at: Micros, jobs: Vec<JobKey>) {
        if !jobs.is_empty() {
            self.jobs += jobs.len() as u64;
            self.chunks.push_back((at, jobs));
        }
    }

    /// The oldest chunk, if it is past its time or more than `kept_max` would remain without it.
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

/// The whole state of one partition.
#[derive(Debug)]
pub struct Machine {
    hash_seed: HashSeed,
    settings: Settings,
    whole: Bucket,
    /// The time of the command in hand.
    now: Micros,
    fence: Fence,
    sequence: u64,
    /// Jobs created so far.
    created: u64,
    cursor: Option<TypeKey>,
    backlog: u64,
    stored_bytes: u64,
    types: Table<TypeState>,
    types_by_name: BTreeMap<TypeId, TypeKey>,
    /// Types that were removed, for the name that finished jobs and idle lanes still have. An operator removed each.
    removed_types: BTreeMap<TypeId, TypeKey>,
    /// The largest epoch that an order of a removed type had.
    epochs: u64,
    groups: Table<Group>,
    groups_by_name: KeyedMap<GroupId, GroupKey>,
    jobs: Table<Job>,
    batches: FxHashMap<Fence, Batch>,
    deadlines: BTreeSet<(Micros, Fence)>,
    waiting: BTreeMap<(Micros, Box<str>), JobKey>,
    parked: BTreeMap<(Micros, Box<str>), LaneKey>,
    /// Lanes out of their order until `sweep` has cleared their heads, by when they were last looked at.
    clearing: BTreeMap<(Micros, Box<str>), LaneKey>,
    completed: Finished,
    dead: BTreeMap<(Micros, Box<str>), JobKey>,
    bulks: FxHashMap<u64, Bulk>,
    /// Bulk actions opened so far.
    opened: u64,
    aggregating: BTreeSet<(Micros, u64)>,
    /// Bulk actions in the hands of aggregators, by who has them.
    taken: BTreeSet<(WorkerId, u64)>,
    bulk_deadlines: BTreeSet<(Micros, u64)>,
    finished_bulks: BTreeSet<(Micros, u64)>,
    sweeping: VecDeque<u64>,
    active_groups: BTreeSet<GroupId>,
    /// Groups without jobs, by when they are looked at.
    idle_groups: BTreeMap<(Micros, Box<str>), GroupKey>,
    /// Groups whose jobs the command in hand has counted.
    stirred: Vec<GroupKey>,
    /// What the window of `classic` has let pass: which second, and how many jobs.
    window: (u64, u64),
    /// Useless tries that backoff has avoided, an estimate.
    saved_spins: u64,
    requests: KeyedMap<WorkerId, Request>,
    /// The same by when they run out.
    requests_until: BTreeSet<(Micros, WorkerId)>,
    reclaimed_at: Option<Micros>,
    reclaim_grace_until: Micros,
    marks: Option<Marks>,
}

/// What was touched of that which is not kept in a [`Table`].
#[derive(Debug, Default)]
struct Marks {
    batches: Vec<Fence>,
    workers: Vec<WorkerId>,
    bulks: Vec<u64>,
    saved: rows::Saved,
}

impl Machine {
    /// An empty queue with the given settings. Nothing it answers depends on the seed, which keys the
    /// hash maps of names; where names come from outside it must be secret.
    pub fn new(settings: Settings, hash_seed: HashSeed, now: Micros) -> Self {
        let mut machine = Self::empty(settings, hash_seed);
        if let Some(rate) = machine.settings.rate {
            machine.whole = Bucket::full(rate.flow(), now);
        }
        machine
    }

    fn empty(settings: Settings, hash_seed: HashSeed) -> Self {
        Self {
            hash_seed,
            settings,
            whole: Bucket::default(),
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
            idle_groups: BTreeMap::new(),
            stirred: Vec::new(),
            window: (0, 0),
            saved_spins: 0,
            requests: KeyedMap::with_hasher(hash_seed),
            requests_until: BTreeSet::new(),
            reclaimed_at: None,
            reclaim_grace_until: Micros::default(),
            marks: None,
        }
    }

    /// Carries out one command. The command must have passed [`Command::validate`].
    pub fn apply(&mut self, command: Command, now: Micros) -> Reply {
        self.now = now;
        let reply = self.carry_out(command, now);
        self.note_activity();
        reply
    }

    fn carry_out(&mut self, command: Command, now: Micros) -> Reply {
        match command {
            Command::Enqueue(command) => Reply::Enqueued(self.enqueue(command, now)),
            Command::Lease(command) => Reply::Leased(self.lease(command, now)),
            Command::Extend(command) => Reply::Extended(self.extend(command, now)),
            Command::Settle(command) => Reply::Settled(self.settle(command, now)),
            Command::Promote(command) => Reply::Promoted(self.promote(command, now)),
            Command::Reclaim(command) => Reply::Reclaimed(self.reclaim(command, now)),
            Command::SetGroup(command) => Reply::GroupSet(self.set_group(command, now)),
            Command::SetType(command) => Reply::TypeSet(self.set_type(command, now)),
            Command::SetWhole(command) => Reply::WholeSet(self.set_whole(command, now)),
            Command::Admit(command) => Reply::Admitted(self.admit(command, now)),
            Command::OpenBulk(command) => Reply::BulkOpened(self.open_bulk(command, now)),
            Command::SealBulk(command) => Reply::BulkSealed(self.seal_bulk(command, now)),
            Command::HoldBulk(command) => Reply::BulkHeld(self.hold_bulk(command, now)),
            Command::ResumeBulk(command) => Reply::BulkResumed(self.resume_bulk(command, now)),
            Command::CancelBulk(command) => Reply::BulkCancelled(self.cancel_bulk(command, now)),
            Command::TakeCompleted(command) => Reply::CompletedTaken(self.take_completed(command, now)),
            Command::FinishBulk(command) => Reply::BulkFinished(self.finish_bulk(command, now)),
            Command::CancelJob(command) => Reply::JobsCancelled(self.cancel_job(command, now)),
            Command::RequeueDead(command) => Reply::DeadRequeued(self.requeue_dead(command, now)),
            Command::Discard(command) => Reply::Discarded(self.discard(command, now)),
            Command::MakeDue(command) => Reply::MadeDue(self.make_due(command, now)),
            Command::Sweep(command) => Reply::Swept(self.sweep(command, now)),
            Command::Inspect(command) => Reply::Inspected(self.inspect(&command, now)),
            Command::ListJobs(command) => Reply::Listed(self.list_jobs(&command)),
            Command::Explain(command) => Reply::Explained(self.explain(&command, now)),
            Command::Audit(command) => Reply::Audited(self.audit(&command)),
            Command::RemoveType(command) => Reply::TypeRemoved(self.remove_type(&command)),
        }
    }

    /// Takes one wake-up token of any of these types: something there may be servable.
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

    /// The types that have a wake-up token to take.
    pub fn types_with_tokens(&self) -> impl Iterator<Item = &TypeId> {
        self.types_by_name.iter().filter(|(_, key)| self.types[**key].tokens > 0).map(|(name, _)| name)
    }

    /// From now on what commands touch is recorded.
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

    /// Keeps a worker's last request in place of the one before.
    fn remember_request(&mut self, worker: WorkerId, request: Request) {
        self.mark_worker(&worker);
        self.requests_until.insert((request.until, worker.clone()));
        if let Some(before) = self.requests.insert(worker.clone(), request.clone())
            && before.until != request.until
        {
            self.requests_until.remove(&(before.until, worker));
        }
    }

    /// Forgets up to `most` requests that have run out, the oldest first.
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

    fn type_key(&mut self, name: &TypeId) -> Option<TypeKey> {
        if let Some(&key) = self.types_by_name.get(name) {
            return Some(key);
        }
        if self.types_by_name.len() >= TYPES_MAX {
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

    /// The key of a name that finished jobs and lanes may have without its type being there.
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

    /// A number that was never given before: `max(previous + 1, now in µs)`.
    fn next_fence(&mut self, now: Micros) -> Fence {
        self.fence = Fence((self.fence.0 + 1).max(now.0));
        self.fence
    }

    /// One job less that keeps its type from being removed. A count that was wrong stays readable.
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
