//! The invariants of the machine, checked over its complete state in tests.

use std::fmt::Debug;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::limits::{INTEGER_MAX, POOL, POOL_SERVED};
use crate::names::{JobId, WorkerId};
use crate::numbers::Fence;

use super::job::{Job, JobKey, Place};
use super::lane::{Group, GroupKey, Lane, LaneKey, Standing, TypeKey};
use super::magnitude::magnitude;
use super::{BulkState, GroupSettings, Machine};

fn same<T: PartialEq + Debug>(what: impl FnOnce() -> String, counted: T, stored: T) -> Result<(), String> {
    if counted == stored {
        return Ok(());
    }
    Err(format!("{}: counted {counted:?}, stored {stored:?}", what()))
}

impl Machine {
    /// Recounts everything; an error describes the first mismatch.
    pub fn check(&self) -> Result<(), String> {
        self.check_jobs_in_one_place()?;
        self.check_lanes()?;
        self.check_counts()?;
        self.check_batches()?;
        self.check_bulks()?;
        self.check_numbers()
    }

    fn check_jobs_in_one_place(&self) -> Result<(), String> {
        let mut found: FxHashMap<JobKey, Vec<Place>> = FxHashMap::default();
        for group in self.groups.values() {
            for lane in &group.lanes {
                for &key in lane.backlog.iter().chain(&lane.returned) {
                    found.entry(key).or_default().push(Place::Lane);
                }
            }
        }
        for (batch, record) in &self.batches {
            for &(key, fence) in &record.jobs {
                let held = self.jobs.get(key).and_then(|job| job.held_under(fence));
                if let Some(held) = held.filter(|held| held.batch == *batch) {
                    found.entry(key).or_default().push(Place::InFlight(held.clone()));
                }
            }
        }
        for ((due, _), &key) in &self.waiting {
            found.entry(key).or_default().push(Place::Waiting(*due));
        }
        for &key in self.completed.chunks.iter().flat_map(|(_, jobs)| jobs) {
            found.entry(key).or_default().push(self.jobs[key].place.clone());
        }
        for ((died_at, _), &key) in &self.dead {
            found.entry(key).or_default().push(Place::Failed(*died_at));
        }
        for &key in self.types.values().flat_map(|state| &state.ready) {
            found.entry(key).or_default().push(Place::Ready);
        }
        for &key in self.bulks.values().flat_map(|bulk| &bulk.on_hold) {
            found.entry(key).or_default().push(Place::OnHold);
        }
        let filed: BTreeSet<(u64, &JobId)> = self
            .bulks
            .iter()
            .flat_map(|(number, bulk)| bulk.ended.iter().flat_map(|(_, ids)| ids).map(|id| (*number, id)))
            .collect();
        for (key, job) in self.jobs.iter() {
            let mut places = found.remove(&key).unwrap_or_default();
            let filed = || job.bulk.is_some_and(|number| filed.contains(&(number, &job.id)));
            if places.is_empty() && job.place.is_end() && filed() {
                places.push(job.place.clone());
            }
            same(|| format!("places of job {:?}", job.id), places, vec![job.place.clone()])?;
        }
        same(|| "places of jobs that do not exist".into(), found.len(), 0)
    }

    fn check_bulks(&self) -> Result<(), String> {
        let mut left_of: FxHashMap<u64, u64> = FxHashMap::default();
        for job in self.jobs.values().filter(|job| !job.place.is_end() && !job.cancelled) {
            if let Some(number) = job.bulk {
                *left_of.entry(number).or_default() += 1;
            }
        }
        for (number, bulk) in &self.bulks {
            let name = |what: &str| format!("{what} of bulk action {}", bulk.name);
            let left = left_of.get(number).copied().unwrap_or_default();
            same(|| name("jobs left"), Some(left), bulk.total.checked_sub(bulk.ended_jobs()))?;
            let complete = bulk.sealed && left == 0;
            let open = !bulk.state.is_final() && bulk.state != BulkState::Aggregating;
            same(|| name("completeness"), complete && open, false)?;
            same(|| name("aggregation"), self.is_takeable(*number), bulk.is_to_be_taken())?;
            same(|| name("time of aggregation"), bulk.take_at.is_some(), bulk.is_to_be_taken())?;
            let was_taken = bulk.is_to_be_taken() || bulk.aggregated;
            same(|| name("fence without aggregation"), bulk.fence > Fence(0) && !was_taken, false)?;
            let finished = bulk.finished_at.is_some_and(|at| self.finished_bulks.contains(&(at, *number)));
            same(|| name("end"), finished, bulk.state.is_final())?;
            let unfinished = self.groups[bulk.group].unfinished.contains(number);
            same(|| name("unfinished"), unfinished, !bulk.state.is_final())?;
            let is_listed = |worker: &WorkerId| self.taken.contains(&(worker.clone(), *number));
            let is_held = bulk.is_to_be_taken() && bulk.fence > Fence(0);
            let held = bulk.worker.as_ref().is_none_or(|worker| is_held && is_listed(worker));
            same(|| name("aggregator"), held, true)?;
            for (placed, &key) in &bulk.waiting {
                let job = self.jobs.get(key).filter(|job| job.bulk == Some(*number));
                let waits = job.is_some_and(|job| matches!(job.place, Place::Waiting(_)));
                same(|| name("waiting jobs"), waits && *placed == self.place_name(key), true)?;
            }
        }
        let of_bulk = |job: &&Job| job.bulk.is_some_and(|number| self.bulks.contains_key(&number));
        let waiting = self.jobs.values().filter(|job| matches!(job.place, Place::Waiting(_)));
        let listed = self.bulks.values().map(|bulk| bulk.waiting.len()).sum();
        same(|| "waiting jobs of bulk actions".into(), waiting.filter(of_bulk).count(), listed)?;
        let held = self.bulks.values().filter(|bulk| bulk.worker.is_some()).count();
        same(|| "leased bulk actions".into(), held, self.taken.len())?;
        let unfinished = self.bulks.values().filter(|bulk| !bulk.state.is_final()).count();
        let listed = self.groups.values().map(|group| group.unfinished.len()).sum();
        same(|| "unfinished bulk actions".into(), unfinished, listed)?;
        let taken = self.bulks.values().filter(|bulk| bulk.take_at.is_some()).count();
        same(|| "bulk actions to be aggregated".into(), taken, self.aggregating.len())
    }

    fn check_lanes(&self) -> Result<(), String> {
        for (group_key, group) in self.groups.iter() {
            for (lane_key, lane) in group.lanes.iter().enumerate() {
                let key = LaneKey { group: group_key, lane: lane_key as u32 };
                self.check_lane(key, lane)?;
            }
        }
        let lanes = self.groups.values().flat_map(|group| &group.lanes);
        let active = lanes.filter(|lane| lane.standing == Standing::Active).count();
        let ordered =
            self.types.values().flat_map(|state| &state.orders).map(|order| order.lanes.len()).sum();
        same(|| "lanes in order".into(), active, ordered)
    }

    fn check_lane(&self, key: LaneKey, lane: &Lane) -> Result<(), String> {
        let name = || format!("lane {}", self.lane_name(key));
        let idle_with_jobs = lane.standing == Standing::Idle && !lane.is_empty();
        same(|| format!("{} idle with jobs", name()), idle_with_jobs, false)?;
        let order = &self.types[lane.type_key].orders[lane.level.index()];
        let in_order = order.lanes.get(&(lane.tag, lane.sequence)) == Some(&key);
        same(|| format!("{} in order", name()), in_order, lane.standing == Standing::Active)?;
        if lane.standing == Standing::Active {
            same(|| format!("{} epoch", name()), lane.epoch, order.epoch)?;
        }
        let parked = matches!(lane.standing, Standing::RateParked(until)
            if self.parked.get(&(until, self.lane_name(key))) == Some(&key));
        same(|| format!("{} parked", name()), parked, matches!(lane.standing, Standing::RateParked(_)))?;
        let is_clearing = matches!(lane.standing, Standing::Clearing(since)
            if self.clearing.get(&(since, self.lane_name(key))) == Some(&key));
        let is_marked = matches!(lane.standing, Standing::Clearing(_));
        same(|| format!("{} being cleared", name()), is_clearing, is_marked)?;
        let weight = self.groups[key.group].settings.weight.get() as i64;
        same(|| format!("{} remainder below weight", name()), lane.remainder < weight, true)
    }

    fn check_counts(&self) -> Result<(), String> {
        let mut groups: FxHashMap<GroupKey, [u64; 4]> = FxHashMap::default();
        let mut types: FxHashMap<TypeKey, [u64; 2]> = FxHashMap::default();
        for job in self.jobs.values() {
            let [backlog, waiting, leased, bytes] = groups.entry(job.group).or_default();
            *bytes += job.stored_bytes();
            let [leased_of_type, of_type] = types.entry(job.type_key).or_default();
            *of_type += u64::from(!matches!(job.place, Place::Completed | Place::Cancelled));
            match job.place {
                Place::InFlight(_) => {
                    *leased += 1;
                    *leased_of_type += 1;
                }
                Place::Waiting(_) => {
                    *backlog += 1;
                    *waiting += 1;
                }
                Place::Lane | Place::Ready | Place::OnHold => *backlog += u64::from(!job.cancelled),
                Place::Completed | Place::Failed(_) | Place::Cancelled => {}
            }
        }
        for bulk in self.bulks.values() {
            groups.entry(bulk.group).or_default()[3] += bulk.stored_bytes();
        }
        for (key, group) in self.groups.iter() {
            self.check_counts_of(group, groups.get(&key).copied().unwrap_or_default())?;
        }
        let configured = self.groups.values().filter(|group| group.settings != GroupSettings::default());
        same(|| "groups with settings".into(), configured.count(), self.configured_groups.len())?;
        let large = self.groups.values().filter(|group| group.magnitude > 0).count();
        same(|| "large groups".into(), large, self.large_groups.len())?;
        let backlog = groups.values().map(|[backlog, ..]| backlog).sum();
        same(|| "backlog".into(), backlog, self.backlog)?;
        let bytes = groups.values().map(|[.., bytes]| bytes).sum();
        same(|| "stored bytes".into(), bytes, self.stored_bytes)?;
        for (key, state) in self.types.iter() {
            let [in_flight, jobs] = types.get(&key).copied().unwrap_or_default();
            same(|| format!("jobs of type {}", state.name), jobs, state.jobs)?;
            let is_used = state.in_flight + state.jobs > 0 || state.is_active() || !state.ready.is_empty();
            same(|| format!("removed type {} in use", state.name), state.is_removed && is_used, false)?;
            same(|| format!("in flight of type {}", state.name), in_flight, state.in_flight)?;
        }
        let parked = self.groups.values().flat_map(|group| &group.lanes);
        let parked = parked.filter(|lane| matches!(lane.standing, Standing::RateParked(_))).count();
        same(|| "parked lanes".into(), parked, self.parked.len())?;
        let cleared = self.groups.values().flat_map(|group| &group.lanes);
        let cleared = cleared.filter(|lane| matches!(lane.standing, Standing::Clearing(_))).count();
        same(|| "lanes being cleared".into(), cleared, self.clearing.len())
    }

    fn check_counts_of(&self, group: &Group, counted: [u64; 4]) -> Result<(), String> {
        let name = |what: &str| format!("{what} of group {}", group.name);
        let [backlog, waiting, leased, bytes] = counted;
        same(|| name("stored bytes"), bytes, group.stored_bytes)?;
        same(|| name("backlog"), backlog, group.backlog)?;
        same(|| name("waiting jobs"), waiting, group.record.waiting)?;
        same(|| name("in flight"), leased, group.in_flight)?;
        let active = self.active_groups.contains(&group.name);
        same(|| name("activity"), backlog + leased > 0, active)?;
        let configured = self.configured_groups.contains(&group.name);
        same(|| name("listed settings"), group.settings != GroupSettings::default(), configured)?;
        let expected = magnitude(group.magnitude, group.backlog);
        same(|| name("magnitude"), expected, group.magnitude)?;
        let indexed = self.large_groups.contains(&(group.magnitude, group.name.clone()));
        same(|| name("index entry"), group.magnitude > 0, indexed)?;
        let watched = |at| self.idle_groups.contains_key(&(at, group.name.escaped().into()));
        same(|| name("idle check"), group.idle_at.is_none_or(watched), true)?;
        let is_default = group.settings == GroupSettings::default();
        same(
            || name("unwatched idleness"),
            is_default && !active && group.bulks.is_empty() && group.idle_at.is_none(),
            false,
        )?;
        let seats = group.lanes.iter().filter(|lane| lane.standing == Standing::SeatParked).count();
        same(|| name("seat-parked lanes"), seats as u32, group.seat_parked)?;
        let concurrency = group.settings.concurrency.map_or(u64::MAX, u64::from);
        let freed_nothing = group.seat_parked == 0 || group.in_flight >= concurrency;
        same(|| name("seats free while lanes wait for one"), !freed_nothing, false)
    }

    fn check_batches(&self) -> Result<(), String> {
        for (batch, record) in &self.batches {
            let lives = |&(key, fence): &(JobKey, Fence)| {
                let held = self.jobs.get(key).and_then(|job| job.held_under(fence));
                held.is_some_and(|held| held.batch == *batch || fence == *batch)
            };
            let left = record.jobs.iter().filter(|job| lives(job)).count();
            same(|| format!("jobs left of batch {batch}"), left, record.left)?;
        }
        let known = self.deadlines.iter().filter(|(_, batch)| self.batches.contains_key(batch)).count();
        same(|| "deadlines without a batch".into(), self.deadlines.len() - known, 0)
    }

    fn check_numbers(&self) -> Result<(), String> {
        for state in self.types.values() {
            for order in &state.orders {
                same(|| "pool within bounds".into(), order.pool <= POOL * POOL_SERVED, true)?;
                same(|| "virtual time below 2^53".into(), order.virtual_time < INTEGER_MAX, true)?;
                let restarted = !order.lanes.is_empty() || order.virtual_time == 0;
                same(|| "an empty order starts anew".into(), restarted, true)?;
            }
        }
        same(|| "requests by time".into(), self.requests_until.len(), self.requests.len())?;
        let newest = self.batches.keys().copied().max().unwrap_or_default();
        same(|| "no fence beyond the counter".into(), newest <= self.fence, true)
    }
}
