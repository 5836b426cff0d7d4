//! Groups, types, lanes, and the fair order lanes stand in.
//!
//! Start-time fair queueing over integer virtual time: each lane has a tag, the lane with the
//! smallest tag is served next, and serving moves its tag on by cost over weight. `virtual_time`
//! is the tag of the lane served last. Ties go by a sequence renewed at each insert. When an order
//! empties, virtual time restarts at 0 and the epoch tells tags of before apart.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::classic::{self, Progress};
use crate::hashing::{HashSeed, KeyedMap};
use crate::limits::{CREDIT, LEVEL_WEIGHTS, POOL, POOL_SERVED, QUANTUM, UNITS};
use crate::names::{BulkId, GroupId, JobId, TypeId, WorkerId};
use crate::numbers::{Level, Micros};
use crate::rate::Bucket;

use super::Machine;
use super::downstream::Downstream;
use super::job::JobKey;
use super::settings::{Discipline, GroupSettings, LevelOrder, TypeSettings};

pub(super) type GroupKey = u32;
pub(super) type TypeKey = u32;

/// Which lane of which group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneKey {
    pub group: GroupKey,
    pub lane: u32,
}

/// Where a lane stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing to serve.
    Idle,
    /// In its fair order.
    Active,
    /// Until its group's rate allows.
    RateParked(Micros),
    /// Until a seat of its group frees.
    SeatParked,
    /// Until its group is resumed.
    Paused,
    /// Until `sweep` has taken the jobs that are not to run off its head; since when.
    Clearing(Micros),
}

/// What stands first in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// A job that may run.
    Runnable(JobKey),
    /// A job that is held, dropped or cancelled.
    Blocked,
    /// Nothing.
    Empty,
}

/// How a lane comes into its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// From idle: it may stand ahead of the others by its credit.
    Idle,
    /// From park, pause or a changed limit: by a quantum.
    Back,
}

#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub level: Level,
    pub type_key: TypeKey,
    pub standing: Standing,
    pub tag: u64,
    pub epoch: u64,
    /// What did not divide, below the weight; negative while a refund is being used up.
    pub remainder: i64,
    pub sequence: u64,
    pub backlog: VecDeque<JobKey>,
    pub returned: VecDeque<JobKey>,
}

impl Lane {
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty() && self.returned.is_empty()
    }

    /// Moves the tag on for `cost` served at `weight`; what does not divide is carried.
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
    pub seat_parked: u32,
    /// Bytes of its jobs and bulk actions, finished ones included.
    pub stored_bytes: u64,
    /// Whether it stands among the active groups: it had jobs when that was last looked at.
    pub active: bool,
    /// When it is looked at because it may have nothing left.
    pub idle_at: Option<Micros>,
    pub record: Record,
    /// What the window of `classic` has let pass: which second, and how many jobs.
    pub window: (u64, u64),
    pub lanes: Vec<Lane>,
    pub jobs: KeyedMap<JobId, JobKey>,
    pub bulks: BTreeMap<BulkId, u64>,
    /// Those of them that have not ended.
    pub unfinished: BTreeSet<u64>,
}

/// What is counted of a group while it has jobs; forgotten when it goes idle.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    /// Jobs that wait for a time.
    pub waiting: u64,
    /// Jobs enqueued, and jobs that have ended.
    pub total: u64,
    pub done: u64,
    /// Throttles of jobs that have ended since `throttles_since` of them had.
    pub throttles: u64,
    pub throttles_since: u64,
    /// The second of the newest snapshot.
    pub noted: u64,
    /// The newest backoff.
    pub backoff_ms: u64,
    pub history: VecDeque<Snapshot>,
}

/// A group's congestion at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When.
    pub at: Micros,
    /// Jobs that were kept away: waiting (`classic`), or all that were not in flight (`share`).
    pub waiting: u64,
    /// Jobs a second it was allowed.
    pub speed: u64,
    /// How long refused work was told to wait (`classic`), or is predicted to (`share`).
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

    /// The group's lane for a type and level, made if need be.
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
    /// Credit left to give, in quarters of a job.
    pub pool: u64,
    /// This level's own tag among the levels of its type.
    pub tag: u64,
    pub lanes: BTreeMap<(u64, u64), LaneKey>,
}

impl Default for Order {
    fn default() -> Self {
        Self { virtual_time: 0, epoch: 1, pool: POOL * POOL_SERVED, tag: 0, lanes: BTreeMap::new() }
    }
}

impl Order {
    /// Where a lane that had `tag` comes in.
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

/// Who will come back when the gate opens, and when.
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
    /// Jobs that have not left it for good: those that have not ended, or stand cancelled in a list, and dead ones.
    pub jobs: u64,
    /// Only the name is left, for finished jobs and idle lanes that have it.
    pub is_removed: bool,
    /// Virtual time of the order of the three levels.
    pub virtual_time: u64,
    pub orders: [Order; 3],
    pub downstream: Downstream,
    pub tokens: usize,
    pub timer: Option<Timer>,
    /// When somebody last asked for jobs of this type, give or take a second.
    pub asked_at: Micros,
    /// Admitted jobs (`classic`).
    pub ready: VecDeque<JobKey>,
}

impl TypeState {
    /// A type whose orders begin with this epoch.
    pub fn new(name: TypeId, epoch: u64) -> Self {
        let order = || Order { epoch, ..Order::default() };
        Self { orders: [order(), order(), order()], ..Self::named(name) }
    }

    /// What is left of a removed type.
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

    /// `level:type:group`, the name of a lane where lanes are sorted by name.
    pub(super) fn lane_name(&self, key: LaneKey) -> Box<str> {
        let group = &self.groups[key.group];
        let lane = &group.lanes[key.lane as usize];
        let type_name = self.types[lane.type_key].name.escaped();
        format!("{}:{}:{}", lane.level.index(), type_name, group.name.escaped()).into()
    }

    /// Puts a lane that has jobs and is in no order into its order.
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

    /// A group's tag by its score of now.
    fn score_tag(&self, group: GroupKey) -> u64 {
        let group = &self.groups[group];
        let Record { total, done, .. } = group.record;
        let progress = Progress { base_priority: group.settings.base_priority, total, done };
        classic::tag(progress, self.settings.alpha, self.now)
    }

    /// Puts a lane that was just served by its score back among the others.
    pub(super) fn rescore(&mut self, key: LaneKey) {
        self.lane_mut(key).tag = self.score_tag(key.group);
        self.reenter_order(key);
    }

    /// Puts a lane that was just served back among the others.
    pub(super) fn reenter_order(&mut self, key: LaneKey) {
        let sequence = self.next_sequence();
        let lane = &mut self.groups[key.group].lanes[key.lane as usize];
        lane.sequence = sequence;
        let order = &mut self.types[lane.type_key].orders[lane.level.index()];
        order.lanes.insert((lane.tag, sequence), key);
    }

    /// The level of this type whose turn it is, among those with lanes in order.
    pub(super) fn next_level(&self, type_key: TypeKey) -> Option<Level> {
        let orders = &self.types[type_key].orders;
        let active = Level::ALL.into_iter().filter(|level| !orders[level.index()].lanes.is_empty());
        match (self.settings.levels, self.settings.discipline) {
            (LevelOrder::Strict, _) | (_, Discipline::Classic) => active.min(),
            (LevelOrder::Weighted, Discipline::Share) => active.min_by_key(|level| orders[level.index()].tag),
        }
    }

    /// Takes the lane with the smallest tag out of its order.
    pub(super) fn pop_lane(&mut self, type_key: TypeKey, level: Level) -> Option<LaneKey> {
        let (_, key) = self.types[type_key].orders[level.index()].lanes.pop_first()?;
        Some(key)
    }

    /// Charges a lane, its order and its level for `jobs` of together `cost`.
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

    /// A released job was not served: its cost is taken off what the lane is charged next.
    pub(super) fn refund_lane(&mut self, key: LaneKey, cost: u64) {
        let lane = &mut self.groups[key.group].lanes[key.lane as usize];
        let order = &self.types[lane.type_key].orders[lane.level.index()];
        if lane.epoch == order.epoch {
            lane.remainder -= (cost * UNITS) as i64;
        }
    }

    /// To be called when a lane has left its order for good: an order that is empty starts anew.
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

    /// Sets a lane aside until `standing` says.
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

    /// Brings a parked lane back into its order and wakes a worker of its type.
    pub(super) fn wake_lane(&mut self, key: LaneKey) {
        match self.lane(key).standing {
            Standing::RateParked(until) => {
                let name = self.lane_name(key);
                self.parked.remove(&(until, name));
            }
            Standing::SeatParked => self.groups[key.group].seat_parked -= 1,
            Standing::Paused => {}
            // A lane that is being cleared comes back with its first runnable job.
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

    /// Wakes this group's lanes that stand as `which` says, in the order of (level, type).
    pub(super) fn wake_lanes_of(&mut self, group: GroupKey, which: fn(Standing) -> bool) {
        for lane in self.lanes_by_place(group) {
            let key = LaneKey { group, lane };
            if which(self.lane(key).standing) {
                self.wake_lane(key);
            }
        }
    }

    /// A lane that just got jobs: enters its order if it was idle, and wakes a worker.
    pub(super) fn lane_has_jobs(&mut self, key: LaneKey) {
        if self.lane(key).standing != Standing::Idle {
            return;
        }
        self.enter_order(key, Entry::Idle);
        let type_key = self.lane(key).type_key;
        self.push_token(type_key);
    }
}
