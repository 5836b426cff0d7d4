//! `promote`: returns due jobs to their lanes, where fair order and gates apply again.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::PROMOTE_JOBS_MAX;
use crate::numbers::Micros;
use crate::queue::Machine;
use crate::queue::job::{JobKey, Place};
use crate::queue::lane::LaneKey;

/// Moves due jobs to their lanes, earliest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promote {
    /// The most jobs to move.
    pub jobs_max: usize,
}

/// The reply to [`Promote`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    /// Number of jobs moved.
    pub moved: usize,
    /// The time until the next waiting job is due, in microseconds.
    pub wake_in_us: Option<u64>,
}

impl Operation for Promote {
    type Machine = Machine;
    type Reply = Promoted;

    const STEM: &'static str = "promote";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the jobs of one promote", self.jobs_max, PROMOTE_JOBS_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Promoted {
        machine.promote(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn promote(&mut self, command: Promote, now: Micros) -> Promoted {
        let moved = self.promote_due(command.jobs_max, now);
        let wake_in_us = self.waiting.keys().next().map(|(due, _)| due.since(now));
        Promoted { moved, wake_in_us }
    }

    /// Moves up to `most` due jobs to the tail of their lanes' returned lists, and
    /// returns their number.
    pub(super) fn promote_due(&mut self, most: usize, now: Micros) -> usize {
        let mut moved = 0;
        while moved < most {
            let Some(first) = self.waiting.first_entry() else { break };
            if first.key().0 > now {
                break;
            }
            let ((_, name), key) = first.remove_entry();
            self.waits_no_more(key, &name);
            self.return_to_lane(key, false);
            moved += 1;
        }
        moved
    }

    /// Adds a job to its lane's returned list, which is served before the backlog.
    pub(super) fn return_to_lane(&mut self, key: JobKey, at_head: bool) {
        let job = &mut self.jobs[key];
        job.place = Place::Lane;
        let (group, type_key, level) = (job.group, job.type_key, job.level);
        let lane = LaneKey { group, lane: self.groups[group].lane_index(type_key, level) };
        let returned = &self.lane(lane).returned;
        let neighbour = if at_head { returned.front() } else { returned.back() }.copied();
        let step = if at_head { -1 } else { 1 };
        self.jobs[key].order = neighbour.map_or(0, |neighbour| self.jobs[neighbour].order + step);
        let returned = &mut self.lane_mut(lane).returned;
        if at_head {
            returned.push_front(key);
        } else {
            returned.push_back(key);
        }
        self.lane_has_jobs(lane);
    }

    /// Makes a job wait until `due`. If it is the first to become due, a worker is woken to hold
    /// the timer for it.
    pub(super) fn start_waiting(&mut self, key: JobKey, due: Micros) {
        self.jobs[key].place = Place::Waiting(due);
        self.groups[self.jobs[key].group].record.waiting += 1;
        let name = self.place_name(key);
        if let Some(bulk) = self.jobs[key].bulk.and_then(|number| self.bulks.get_mut(&number)) {
            bulk.waiting.insert(name.clone(), key);
        }
        let entry = (due, name);
        let first = self.waiting.keys().next().is_none_or(|earliest| entry < *earliest);
        self.waiting.insert(entry, key);
        if first {
            self.push_token(self.jobs[key].type_key);
        }
    }

    /// Removes a waiting job before it is due.
    pub(super) fn stop_waiting(&mut self, key: JobKey, due: Micros) {
        let entry = (due, self.place_name(key));
        self.waiting.remove(&entry);
        self.waits_no_more(key, &entry.1);
    }

    /// Updates the counts for a job that was removed from the waiting jobs, by its place name.
    fn waits_no_more(&mut self, key: JobKey, name: &str) {
        let job = &self.jobs[key];
        self.groups[job.group].record.waiting -= 1;
        if let Some(bulk) = job.bulk.and_then(|number| self.bulks.get_mut(&number)) {
            bulk.waiting.remove(name);
        }
    }

    /// The name of a job where jobs of many lanes are listed: `level:type:group:id`, followed by
    /// `:number` of its bulk action if it has one.
    pub(in crate::queue) fn place_name(&self, key: JobKey) -> Box<str> {
        let job = &self.jobs[key];
        let type_name = self.types[job.type_key].name.escaped();
        let bulk = job.bulk.map_or(String::new(), |number| format!(":{number}"));
        format!("{}:{type_name}:{}{bulk}", job.level.index(), self.full_name(key)).into()
    }
}
