//! Groups, types, lanes, and the fair order of lanes.
//!
//! Start-time fair queueing over integer virtual time: each lane has a tag, the lane with the
//! smallest tag is served next, and serving advances its tag by cost over weight.
//! `virtual_time` is the tag of the lane served last. Ties are broken by a sequence number that
//! each insertion renews. When an order becomes empty, virtual time restarts at 0, and the
//! epoch distinguishes older tags.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::classic::{self, Progress};
use crate::hashing::{HashSeed, KeyedMap};
use crate::kernel::downstream::Downstream;
use crate::limits::{CREDIT, LEVEL_WEIGHTS, POOL, POOL_SERVED, QUANTUM, UNITS};
use crate::names::{BulkId, GroupId, JobId, TypeId, WorkerId};
use crate::numbers::{Level, Micros};
use crate::rate::Bucket;

use super::Machine;
use super::job::JobKey;
use super::settings::{Discipline, GroupSettings, LevelOrder, TypeSettings};

pub(super) type GroupKey = u32;
pub(super) type TypeKey = u32;

/// A lane, by group and index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneKey {
    pub group: GroupKey,
    pub lane: u32,
}

/// Whether a lane is in its order, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has no jobs.
    Idle,
    /// It is in its fair order.
    Active,
    /// It waits until its group's rate allows a job.
    RateParked(Micros),
    /// It waits until a seat of its group is free.
    SeatParked,
    /// It waits until its group is resumed.
    Paused,
    /// It waits until `sweep` has removed the unrunnable jobs at its head; the time is that
    /// of the last visit.
    Clearing(Micros),
}

/// The head of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// A job that may run.
    Runnable(JobKey),
    /// A job that is held, dropped or cancelled.
    Blocked,
    /// The lane has no jobs.
    Empty,
}

/// How a lane enters its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// From idle: it may be ahead of the others by its credit.
    Idle,
    /// From park, pause or a changed limit: it may be ahead by a quantum.
    Back,
}

#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub level: Level,
    pub type_key: TypeKey,
    pub standing: Standing,
    pub tag: u64,
    pub epoch: u64,
    /// The remainder of the division by the weight; negative while a refund is being used up.
    pub remainder: i64,
    pub sequence: u64,
    pub backlog: VecDeque<JobKey>,
    pub returned: VecDeque<JobKey>,
}

impl Lane {
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty() && self.returned.is_empty()
    }

    /// Advances the tag for `cost` served at `weight`; the remainder is carried over.
    fn charge(&mut self, cost: u64, weight: u64) {
        let units = (cost * UNITS) as i64 + self.remainder;
        if units < 0 {
            self.remainder = units;
            return;
        }
        self.tag += units as u64 / weight;
        self.remainder = units % weight as i64;
    }
}

#[derive(Debug, Clone)]
pub(super) struct Group {
    pub name: GroupId,
    pub settings: GroupSettings,
    pub bucket: Bucket,
    pub in_flight: u64,
    pub backlog: u64,
    /// Its magnitude in the index of large groups; 0 if it is not there.
    pub magnitude: u32,
    pub seat_parked: u32,
    /// Bytes of its jobs and bulk actions, finished ones included.
    pub stored_bytes: u64,
    /// Whether it is listed as active: it had jobs after the last command that changed its counts.
    pub active: bool,
    /// When `sweep` checks whether it can be forgotten.
    pub idle_at: Option<Micros>,
    pub record: Record,
    /// The rate window of `classic`: the second, and the jobs passed in it.
    pub window: (u64, u64),
    pub lanes: Vec<Lane>,
    pub jobs: KeyedMap<JobId, JobKey>,
    pub bulks: BTreeMap<BulkId, u64>,
    /// The bulk actions that have not ended.
    pub unfinished: BTreeSet<u64>,
}

/// Counts of a group while it has jobs; cleared when it becomes idle.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    /// Jobs that wait for a time.
    pub waiting: u64,
    /// Jobs enqueued since the group was last idle; `done` of them have ended.
    pub total: u64,
    pub done: u64,
    /// Throttles of jobs that ended since `throttles_since` of them had ended.
    pub throttles: u64,
    pub throttles_since: u64,
    /// The second of the newest snapshot.
    pub noted: u64,
    /// The newest backoff.
    pub backoff_ms: u64,
    pub history: VecDeque<Snapshot>,
}

/// A group's congestion at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The time of the snapshot.
    pub at: Micros,
    /// Jobs held back: the waiting jobs (`classic`), or all jobs not in flight (`share`).
    pub waiting: u64,
    /// Jobs per second that the group was allowed.
    pub speed: u64,
    /// The backoff of refused work (`classic`), or its predicted wait (`share`), in milliseconds.
    pub backoff_ms: u64,
}

impl Group {
    pub fn new(name: GroupId, hash_seed: HashSeed) -> Self {
        Self {
            name,
            settings: GroupSettings::default(),
            bucket: Bucket::default(),
            in_flight: 0,
            backlog: 0,
            magnitude: 0,
            seat_parked: 0,
            stored_bytes: 0,
            active: false,
            idle_at: None,
            record: Record::default(),
            window: (0, 0),
            lanes: Vec::new(),
            jobs: KeyedMap::with_hasher(hash_seed),
            bulks: BTreeMap::new(),
            unfinished: BTreeSet::new(),
        }
    }

    /// The index of the group's lane for a type and level; creates the lane if it does not exist.
    pub fn lane_index(&mut self, type_key: TypeKey, level: Level) -> u32 {
        let found = self.lanes.iter().position(|lane| lane.type_key == type_key && lane.level == level);
        if let Some(index) = found {
            return index as u32;
        }
        self.lanes.push(Lane {
            level,
            type_key,
            standing: Standing::Idle,
            tag: 0,
            epoch: 0,
            remainder: 0,
            sequence: 0,
            backlog: VecDeque::new(),
            returned: VecDeque::new(),
        });
        (self.lanes.len() - 1) as u32
    }
}

/// The fair order of one type and level.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub virtual_time: u64,
    pub epoch: u64,
    /// Credit left to grant, in quarters of a job.
    pub pool: u64,
    /// This level's tag among the levels of its type.
    pub tag: u64,
    pub lanes: BTreeMap<(u64, u64), LaneKey>,
}

impl Default for Order {
    fn default() -> Self {
        Self { virtual_time: 0, epoch: 1, pool: POOL * POOL_SERVED, tag: 0, lanes: BTreeMap::new() }
    }
}

impl Order {
    /// The tag at which a lane that had `tag` enters.
    fn start_tag(&mut self, tag: u64, weight: u64, entry: Entry) -> u64 {
        let ahead = match entry {
            Entry::Idle => CREDIT.min(self.pool / POOL_SERVED),
            Entry::Back => QUANTUM,
        };
        let start = tag.max(self.virtual_time.saturating_sub(ahead * UNITS / weight));
        if entry == Entry::Idle {
            let used = (self.virtual_time.saturating_sub(start) * weight).div_ceil(UNITS);
            self.pool = self.pool.saturating_sub(used * POOL_SERVED);
        }
        start
    }
}

/// The worker that returns when the gate opens, and the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timer {
    pub worker: WorkerId,
    pub at: Micros,
}

#[derive(Debug, Clone)]
pub(super) struct TypeState {
    pub name: TypeId,
    pub settings: TypeSettings,
    pub bucket: Bucket,
    pub in_flight: u64,
    /// Jobs that prevent the removal of the type: unfinished jobs, cancelled jobs that are still in
    /// a list, and dead jobs.
    pub jobs: u64,
    /// Whether the type was removed and only its name is left, for finished jobs and idle lanes.
    pub is_removed: bool,
    /// Virtual time of the order of the levels.
    pub virtual_time: u64,
    pub orders: [Order; 3],
    pub downstream: Downstream,
    pub tokens: usize,
    pub timer: Option<Timer>,
    /// When a worker last requested jobs of this type, accurate to a second.
    pub asked_at: Micros,
    /// Admitted jobs (`classic`).
    pub ready: VecDeque<JobKey>,
}

impl TypeState {
    /// A type with orders that start at this epoch.
    pub fn new(name: TypeId, epoch: u64) -> Self {
        let order = || Order { epoch, ..Order::default() };
        Self { orders: [order(), order(), order()], ..Self::named(name) }
    }

    /// The remainder of a removed type: its name.
    pub fn removed(name: TypeId) -> Self {
        Self { is_removed: true, ..Self::named(name) }
    }

    fn named(name: TypeId) -> Self {
        Self {
            name,
            settings: TypeSettings::default(),
            bucket: Bucket::default(),
            in_flight: 0,
            jobs: 0,
            is_removed: false,
            virtual_time: 0,
            orders: Default::default(),
            downstream: Downstream::default(),
            tokens: 0,
            timer: None,
            asked_at: Micros(0),
            ready: VecDeque::new(),
        }
    }

    pub fn is_active(&self) -> bool {
        self.orders.iter().any(|order| !order.lanes.is_empty())
    }
}

impl Machine {
    pub(super) fn lane(&self, key: LaneKey) -> &Lane {
        &self.groups[key.group].lanes[key.lane as usize]
    }

    pub(super) fn lane_mut(&mut self, key: LaneKey) -> &mut Lane {
        &mut self.groups[key.group].lanes[key.lane as usize]
    }

    /// `level:type:group`, the sort key of a lane where lanes are sorted by name.
    pub(super) fn lane_name(&self, key: LaneKey) -> Box<str> {
        let group = &self.groups[key.group];
        let lane = &group.lanes[key.lane as usize];
        let type_name = self.types[lane.type_key].name.escaped();
        format!("{}:{}:{}", lane.level.index(), type_name, group.name.escaped()).into()
    }

    /// Inserts a lane that has jobs and is in no order into its order.
    pub(super) fn enter_order(&mut self, key: LaneKey, entry: Entry) {
        let sequence = self.next_sequence();
        let discipline = self.settings.discipline;
        let score_tag = if discipline == Discipline::Classic { self.score_tag(key.group) } else { 0 };
        let group = &mut self.groups[key.group];
        let weight = group.settings.weight.get();
        let lane = &mut group.lanes[key.lane as usize];
        let state = &mut self.types[lane.type_key];
        let order = &mut state.orders[lane.level.index()];
        if order.lanes.is_empty() {
            order.tag = order.tag.max(state.virtual_time);
        }
        if lane.epoch != order.epoch {
            (lane.tag, lane.remainder, lane.epoch) = (0, 0, order.epoch);
        }
        lane.tag = match discipline {
            Discipline::Share => order.start_tag(lane.tag, weight, entry),
            Discipline::Classic => score_tag,
        };
        lane.sequence = sequence;
        lane.standing = Standing::Active;
        order.lanes.insert((lane.tag, sequence), key);
    }

    /// A group's tag by its current score.
    fn score_tag(&self, group: GroupKey) -> u64 {
        let group = &self.groups[group];
        let Record { total, done, .. } = group.record;
        let progress = Progress { base_priority: group.settings.base_priority, total, done };
        classic::tag(progress, self.settings.alpha, self.now)
    }

    /// Reinserts a lane that was just served, by its score.
    pub(super) fn rescore(&mut self, key: LaneKey) {
        self.lane_mut(key).tag = self.score_tag(key.group);
        self.reenter_order(key);
    }

    /// Reinserts a lane that was just served.
    pub(super) fn reenter_order(&mut self, key: LaneKey) {
        let sequence = self.next_sequence();
        let lane = &mut self.groups[key.group].lanes[key.lane as usize];
        lane.sequence = sequence;
        let order = &mut self.types[lane.type_key].orders[lane.level.index()];
        order.lanes.insert((lane.tag, sequence), key);
    }

    /// The level of this type that is served next, among those with lanes in order.
    pub(super) fn next_level(&self, type_key: TypeKey) -> Option<Level> {
        let orders = &self.types[type_key].orders;
        let active = Level::ALL.into_iter().filter(|level| !orders[level.index()].lanes.is_empty());
        match (self.settings.levels, self.settings.discipline) {
            (LevelOrder::Strict, _) | (_, Discipline::Classic) => active.min(),
            (LevelOrder::Weighted, Discipline::Share) => active.min_by_key(|level| orders[level.index()].tag),
        }
    }

    /// Removes the lane with the smallest tag from its order.
    pub(super) fn pop_lane(&mut self, type_key: TypeKey, level: Level) -> Option<LaneKey> {
        let (_, key) = self.types[type_key].orders[level.index()].lanes.pop_first()?;
        Some(key)
    }

    /// Charges a lane, its order and its level for `jobs` jobs with a total of `cost`.
    pub(super) fn charge_lane(&mut self, key: LaneKey, jobs: u64, cost: u64) {
        let group = &mut self.groups[key.group];
        let weight = group.settings.weight.get();
        let lane = &mut group.lanes[key.lane as usize];
        let state = &mut self.types[lane.type_key];
        let order = &mut state.orders[lane.level.index()];
        order.virtual_time = order.virtual_time.max(lane.tag);
        order.pool = (order.pool + jobs).min(POOL * POOL_SERVED);
        lane.charge(cost, weight);
        state.virtual_time = state.virtual_time.max(order.tag);
        order.tag += cost * UNITS / LEVEL_WEIGHTS[lane.level.index()];
    }

    /// Refunds the cost of a released job: it is subtracted from the lane's next charges.
    pub(super) fn refund_lane(&mut self, key: LaneKey, cost: u64) {
        let lane = &mut self.groups[key.group].lanes[key.lane as usize];
        let order = &self.types[lane.type_key].orders[lane.level.index()];
        if lane.epoch == order.epoch {
            lane.remainder -= (cost * UNITS) as i64;
        }
    }

    /// Resets an order that became empty. Call it when a lane has left its order for good.
    pub(super) fn left_order(&mut self, type_key: TypeKey, level: Level) {
        let state = &mut self.types[type_key];
        let order = &mut state.orders[level.index()];
        if order.lanes.is_empty() {
            order.virtual_time = 0;
            order.epoch += 1;
        }
        if !state.is_active() {
            state.virtual_time = 0;
            for order in &mut state.orders {
                order.tag = 0;
            }
        }
    }

    /// Sets a lane aside as `standing` says.
    pub(super) fn park_lane(&mut self, key: LaneKey, standing: Standing) {
        let (type_key, level) = {
            let lane = self.lane_mut(key);
            lane.standing = standing;
            (lane.type_key, lane.level)
        };
        match standing {
            Standing::RateParked(until) => {
                let name = self.lane_name(key);
                self.parked.insert((until, name), key);
            }
            Standing::SeatParked => self.groups[key.group].seat_parked += 1,
            Standing::Clearing(since) => {
                let name = self.lane_name(key);
                self.clearing.insert((since, name), key);
            }
            Standing::Paused | Standing::Idle | Standing::Active => {}
        }
        self.left_order(type_key, level);
    }

    /// Returns a parked lane to its order and wakes a worker of its type.
    pub(super) fn wake_lane(&mut self, key: LaneKey) {
        match self.lane(key).standing {
            Standing::RateParked(until) => {
                let name = self.lane_name(key);
                self.parked.remove(&(until, name));
            }
            Standing::SeatParked => self.groups[key.group].seat_parked -= 1,
            Standing::Paused => {}
            // A lane that is being cleared returns with its first runnable job.
            Standing::Idle | Standing::Active | Standing::Clearing(_) => return,
        }
        let type_key = self.lane(key).type_key;
        if self.types[type_key].is_removed {
            self.lane_mut(key).standing = Standing::Idle;
            return;
        }
        self.enter_order(key, Entry::Back);
        self.push_token(type_key);
    }

    /// A group's lanes in the order of (level, type).
    pub(super) fn lanes_by_place(&self, group: GroupKey) -> Vec<u32> {
        let lanes = self.groups[group].lanes.iter().enumerate();
        let mut places: Vec<(Level, &TypeId, u32)> =
            lanes.map(|(index, lane)| (lane.level, &self.types[lane.type_key].name, index as u32)).collect();
        places.sort();
        places.into_iter().map(|(_, _, index)| index).collect()
    }

    /// Wakes this group's lanes with a standing that `which` selects, in the order
    /// of (level, type).
    pub(super) fn wake_lanes_of(&mut self, group: GroupKey, which: fn(Standing) -> bool) {
        for lane in self.lanes_by_place(group) {
            let key = LaneKey { group, lane };
            if which(self.lane(key).standing) {
                self.wake_lane(key);
            }
        }
    }

    /// Handles a lane that just got jobs: it enters its order if it was idle, and a
    /// worker is woken.
    pub(super) fn lane_has_jobs(&mut self, key: LaneKey) {
        if self.lane(key).standing != Standing::Idle {
            return;
        }
        self.enter_order(key, Entry::Idle);
        let type_key = self.lane(key).type_key;
        self.push_token(type_key);
    }
}
