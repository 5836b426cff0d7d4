//! Makes a consistent queue from rows of which some are missing.
//!
//! Every remaining job is in exactly one place afterwards and can be served. Leases whose batch is
//! missing end, fair orders are rebuilt, and counts are recounted.

use std::collections::BTreeMap;

use crate::numbers::Fence;
use crate::queue::job::{JobKey, Place};
use crate::queue::lane::{Entry, LaneKey, Order, Standing};

use super::{Listed, Machine, Restore, Restored};

impl Restore {
    /// The mended machine, with every row marked as changed, and the list of repairs.
    pub(super) fn mend(mut self) -> Restored<Machine> {
        self.mend_bulks_of_jobs();
        self.mend_leases();
        self.mend_lists();
        self.mend_ends();
        self.mend_counters();
        self.count_groups();
        self.mend_orders();
        self.mend_bulks();
        let Self { mut machine, mended, .. } = self;
        machine.touch_all();
        Restored { machine, mended: mended.unwrap_or_default() }
    }

    fn note(&mut self, jobs: usize, what: &str) {
        if jobs > 0 {
            self.mended.get_or_insert_default().push(format!("{jobs} {what}"));
        }
    }

    /// Detaches jobs from missing bulk actions: otherwise they would be dropped, as jobs of a
    /// removed bulk action are.
    fn mend_bulks_of_jobs(&mut self) {
        let machine = &mut self.machine;
        let lost = |key: &JobKey| {
            let job = &machine.jobs[*key];
            job.bulk.is_some_and(|number| !machine.bulks.contains_key(&number))
        };
        let lost: Vec<JobKey> = self.jobs.iter().map(|(_, key)| *key).filter(lost).collect();
        for &key in &lost {
            let named = machine.place_name(key);
            machine.jobs[key].bulk = None;
            if let Place::Waiting(due) = machine.jobs[key].place {
                machine.waiting.remove(&(due, named));
                machine.waiting.insert((due, machine.place_name(key)), key);
            }
        }
        self.note(lost.len(), "jobs have lost their bulk action and run without it");
    }

    /// Returns leased jobs whose batch is missing to their lanes.
    fn mend_leases(&mut self) {
        let mut ended = 0;
        for (_, key) in self.jobs.clone() {
            let machine = &mut self.machine;
            let Place::InFlight(held) = machine.jobs[key].place.clone() else { continue };
            if machine.batches.contains_key(&held.batch) && machine.batches.contains_key(&held.fence) {
                continue;
            }
            ended += 1;
            machine.end_lease(&held);
            let (group, type_key, level) = {
                let job = &machine.jobs[key];
                (job.group, job.type_key, job.level)
            };
            machine.free_seats(group, type_key, 1);
            machine.backlog += 1;
            machine.groups[group].backlog += 1;
            machine.jobs[key].place = Place::Lane;
            let lane = LaneKey { group, lane: machine.groups[group].lane_index(type_key, level) };
            self.listed.push((Listed::Returned(lane), ended as i64, key));
        }
        self.note(ended, "leases have ended, since their deadline is lost");
    }

    fn mend_lists(&mut self) {
        let mut unheld = 0;
        for entry in &mut self.listed {
            let Listed::OnHold(number) = entry.0 else { continue };
            if self.machine.bulks.contains_key(&number) {
                continue;
            }
            unheld += 1;
            let job = &mut self.machine.jobs[entry.2];
            job.place = Place::Lane;
            let (group, type_key, level) = (job.group, job.type_key, job.level);
            let lane = self.machine.groups[group].lane_index(type_key, level);
            entry.0 = Listed::Returned(LaneKey { group, lane });
        }
        self.note(unheld, "jobs are not held any more");
        self.listed.sort_unstable();
        for index in 0..self.listed.len() {
            self.machine.jobs[self.listed[index].2].order = index as i64;
        }
        self.fill_lists().expect("every list that is named is there");
    }

    /// Files every ended job, so that it is removed when its retention ends.
    fn mend_ends(&mut self) {
        let machine = &mut self.machine;
        let filed: std::collections::BTreeSet<JobKey> =
            machine.completed.chunks.iter().flat_map(|(_, jobs)| jobs).copied().collect();
        let (mut completed, mut of_bulks) = (Vec::new(), BTreeMap::<u64, Vec<JobKey>>::new());
        for &(_, key) in &self.jobs {
            let job = &machine.jobs[key];
            match (job.bulk, &job.place) {
                (_, place) if !place.is_end() => {}
                (Some(number), _) => of_bulks.entry(number).or_default().push(key),
                (None, &Place::Failed(at)) => {
                    let name = machine.full_name(key);
                    machine.dead.insert((at, name), key);
                }
                (None, _) if filed.contains(&key) => {}
                (None, _) => completed.push(key),
            }
        }
        let mut unfiled = completed.len();
        let now = machine.now;
        machine.completed.push(now, completed);
        for (number, keys) in of_bulks {
            let Some(bulk) = machine.bulks.get(&number) else { continue };
            let filed: std::collections::BTreeSet<_> = bulk.ended.iter().flat_map(|(_, ids)| ids).collect();
            let ids = keys.iter().map(|key| machine.jobs[*key].id.clone());
            let ids: Vec<_> = ids.filter(|id| !filed.contains(id)).collect();
            unfiled += ids.len();
            if let Some(bulk) = machine.bulks.get_mut(&number).filter(|_| !ids.is_empty()) {
                bulk.ended.push_back((now, ids));
            }
        }
        self.note(unfiled, "ended jobs are kept as if they had just ended");
    }

    /// Raises the counters, so that no fence and no number is issued twice.
    fn mend_counters(&mut self) {
        let machine = &mut self.machine;
        let newest = machine.batches.keys().copied().max().unwrap_or_default();
        let settled = machine.jobs.values().filter_map(|job| job.run.as_ref()).map(|run| run.settled);
        machine.fence = machine.fence.max(newest).max(settled.max().unwrap_or(Fence(0)));
        machine.opened = machine.opened.max(machine.bulks.keys().copied().max().unwrap_or(0));
        let known = &machine.bulks;
        machine.sweeping.retain(|number| known.contains_key(number));
    }

    fn mend_orders(&mut self) {
        let machine = &mut self.machine;
        for key in machine.types.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            let state = &mut machine.types[key];
            state.virtual_time = 0;
            state.orders = std::array::from_fn(|_| Order::default());
        }
        for group in machine.groups.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            for lane in 0..machine.groups[group].lanes.len() as u32 {
                let key = LaneKey { group, lane };
                if !machine.lane(key).is_empty() {
                    debug_assert_eq!(machine.lane(key).standing, Standing::Idle);
                    machine.enter_order(key, Entry::Back);
                }
            }
        }
    }

    /// Recounts bulk actions from the remaining jobs, so that they can end.
    fn mend_bulks(&mut self) {
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for job in self.machine.jobs.values().filter(|job| !job.place.is_end() && !job.cancelled) {
            if let Some(number) = job.bulk {
                *left.entry(number).or_default() += 1;
            }
        }
        let mut numbers: Vec<u64> = self.machine.bulks.keys().copied().collect();
        numbers.sort_unstable();
        let mut changed = 0;
        for number in numbers {
            let Some(bulk) = self.machine.bulks.get_mut(&number) else { continue };
            let total = bulk.ended_jobs() + left.get(&number).copied().unwrap_or(0);
            changed += usize::from(total != bulk.total);
            bulk.total = total;
            self.machine.review_bulk(number);
            self.machine.mend_taking(number);
        }
        self.note(changed, "bulk actions have fewer jobs than were added");
    }
}
