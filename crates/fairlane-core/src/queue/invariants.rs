//! What must hold after every command, checked over the whole state in tests.

use std::fmt::Debug;

use rustc_hash::FxHashMap;

use crate::limits::{INTEGER_MAX, POOL, POOL_SERVED};
use crate::numbers::Fence;

use super::Machine;
use super::job::{Job, JobKey, Place};
use super::lane::{Lane, LaneKey, Standing};

fn same<T: PartialEq + Debug>(what: impl FnOnce() -> String, counted: T, stored: T) -> Result<(), String> {
    if counted == stored {
        return Ok(());
    }
    Err(format!("{}: counted {counted:?}, stored {stored:?}", what()))
}

impl Machine {
    /// Recounts everything; an error names the first thing that does not fit.
    pub fn check(&self) -> Result<(), String> {
        self.check_jobs_in_one_place()?;
        self.check_lanes()?;
        self.check_counts()?;
        self.check_batches()?;
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
            found.entry(key).or_default().push(Place::Completed);
        }
        for &key in self.failed.chunks.iter().flat_map(|(_, jobs)| jobs) {
            found.entry(key).or_default().push(Place::Failed);
        }
        for (key, job) in self.jobs.iter() {
            let places = found.remove(&key).unwrap_or_default();
            same(|| format!("places of job {:?}", job.id), places, vec![job.place.clone()])?;
        }
        same(|| "places of jobs that do not exist".into(), found.len(), 0)
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
        let ordered = self.types.values().flat_map(|state| &state.orders).map(|order| order.lanes.len()).sum();
        same(|| "lanes in order".into(), active, ordered)
    }

    fn check_lane(&self, key: LaneKey, lane: &Lane) -> Result<(), String> {
        let name = || format!("lane {}", self.lane_name(key));
        same(|| format!("{} idle", name()), lane.is_empty(), lane.standing == Standing::Idle)?;
        let order = &self.types[lane.type_key].orders[lane.level.index()];
        let in_order = order.lanes.get(&(lane.tag, lane.sequence)) == Some(&key);
        same(|| format!("{} in order", name()), in_order, lane.standing == Standing::Active)?;
        if lane.standing == Standing::Active {
            same(|| format!("{} epoch", name()), lane.epoch, order.epoch)?;
        }
        let parked = matches!(lane.standing, Standing::RateParked(until)
            if self.parked.get(&(until, self.lane_name(key))) == Some(&key));
        same(|| format!("{} parked", name()), parked, matches!(lane.standing, Standing::RateParked(_)))?;
        let weight = self.groups[key.group].settings.weight.get() as i64;
        same(|| format!("{} remainder below weight", name()), lane.remainder < weight, true)
    }

    fn check_counts(&self) -> Result<(), String> {
        let mut backlog = 0;
        for (key, group) in self.groups.iter() {
            let name = |what: &str| format!("{what} of group {}", group.name);
            let mine = || self.jobs.iter().filter(|(_, job)| job.group == key);
            let unleased =
                mine().filter(|(_, job)| matches!(job.place, Place::Lane | Place::Waiting(_))).count() as u64;
            let leased = mine().filter(|(_, job)| matches!(job.place, Place::InFlight(_))).count() as u64;
            same(|| name("backlog"), unleased, group.backlog)?;
            same(|| name("in flight"), leased, group.in_flight)?;
            let seats = group.lanes.iter().filter(|lane| lane.standing == Standing::SeatParked).count();
            same(|| name("seat-parked lanes"), seats as u32, group.seat_parked)?;
            let concurrency = group.settings.concurrency.map_or(u64::MAX, u64::from);
            let freed_nothing = group.seat_parked == 0 || group.in_flight >= concurrency;
            same(|| name("seats free while lanes wait for one"), !freed_nothing, false)?;
            backlog += unleased;
        }
        same(|| "backlog".into(), backlog, self.backlog)?;
        for (key, state) in self.types.iter() {
            let leased = |job: &Job| job.type_key == key && matches!(job.place, Place::InFlight(_));
            let in_flight = self.jobs.iter().filter(|(_, job)| leased(job)).count();
            same(|| format!("in flight of type {}", state.name), in_flight as u64, state.in_flight)?;
        }
        let parked = self.groups.values().flat_map(|group| &group.lanes);
        let parked = parked.filter(|lane| matches!(lane.standing, Standing::RateParked(_))).count();
        same(|| "parked lanes".into(), parked, self.parked.len())
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
        let newest = self.batches.keys().copied().max().unwrap_or_default();
        same(|| "no fence beyond the counter".into(), newest <= self.fence, true)
    }
}
