//! `admit`: the fetcher of the `classic` discipline. Jobs leave their lanes by score; a job that
//! fits the window of this second becomes ready, a refused one waits.
//!
//! A job is popped only if the ready list has room, and the window is charged per job placed.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::congestion::Backoff;
use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{ADMIT_JOBS_MAX, LEASE_PARKS_MAX, LEASE_SKIPS_MAX, VISIT_SKIPS_MAX};
use crate::numbers::Micros;
use crate::queue::job::{JobKey, Place};
use crate::queue::lane::{GroupKey, Head, LaneKey, Standing, TypeKey};
use crate::queue::{BulkState, JobRef, Machine};

use super::Ended;

/// Decides jobs of all types, one of each type in turn. Has no effect in the `share` discipline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admit {
    /// The most jobs to decide.
    pub jobs_max: usize,
}

/// Where a job was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Destination {
    /// To the ready list, where it waits for a worker.
    Ready,
    /// To the waiting jobs, after a refusal.
    Waiting(Backoff),
}

/// The decision on one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The job, by group and id.
    pub job: JobRef,
    /// Where the job was moved.
    pub destination: Destination,
}

/// The reply to [`Admit`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    /// The decisions in the order they were made.
    pub admissions: Vec<Admission>,
    /// The jobs that the queue has passed in this second, and its limit.
    pub window: (u64, u64),
    /// The most jobs of each group that pass in this second.
    pub group_limit: u64,
    /// Whether a type's ready list is full, so that its jobs stay in their lanes.
    pub full: bool,
    /// Whether another call may find jobs to decide now.
    pub more: bool,
}

impl Operation for Admit {
    type Machine = Machine;
    type Reply = Admitted;

    const STEM: &'static str = "admit";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the jobs of one admit", self.jobs_max, ADMIT_JOBS_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Admitted {
        machine.admit(self, context.now)
    }
}

/// The progress of one call.
struct Call {
    parks: usize,
    skips: usize,
    ended: Ended,
    admissions: Vec<Admission>,
    full: bool,
    more: bool,
}

/// How one type's turn ended.
enum Turn {
    Decided,
    TypeDone,
    AllDone,
}

impl Machine {
    pub(in crate::queue) fn admit(&mut self, command: Admit, now: Micros) -> Admitted {
        let mut call = Call {
            parks: 0,
            skips: 0,
            ended: Ended::default(),
            admissions: Vec::new(),
            full: false,
            more: false,
        };
        let mut turns: VecDeque<TypeKey> = VecDeque::new();
        if self.is_classic() {
            turns.extend(self.types_after_cursor());
        }
        while call.admissions.len() < command.jobs_max
            && let Some(type_key) = turns.pop_front()
        {
            match self.admit_one(type_key, &mut call) {
                Turn::Decided => {
                    self.cursor = Some(type_key);
                    turns.push_back(type_key);
                }
                Turn::TypeDone => {}
                Turn::AllDone => {
                    call.more = true;
                    break;
                }
            }
        }
        call.more |= !turns.is_empty();
        self.record_ended(call.ended, now);
        let passed = if self.window.0 == Self::second(now) { self.window.1 } else { 0 };
        Admitted {
            admissions: call.admissions,
            window: (passed, self.settings.global_rps),
            group_limit: self.group_speed(),
            full: call.full,
            more: call.more,
        }
    }

    /// All types by name, starting after the type served last.
    fn types_after_cursor(&self) -> Vec<TypeKey> {
        let mut names: Vec<_> = self.types_by_name.keys().collect();
        if let Some(cursor) = self.cursor {
            let last = &self.types[cursor].name;
            let first = names.partition_point(|name| *name <= last);
            names.rotate_left(first);
        }
        names.into_iter().map(|name| self.types_by_name[name]).collect()
    }

    /// Decides one job of a type.
    fn admit_one(&mut self, type_key: TypeKey, call: &mut Call) -> Turn {
        loop {
            let Some(level) = self.next_level(type_key) else { return Turn::TypeDone };
            let state = &self.types[type_key];
            if state.settings.paused {
                return Turn::TypeDone;
            }
            if state.ready.len() as u64 >= self.settings.ready_queue_max_size {
                call.full = true;
                return Turn::TypeDone;
            }
            if call.parks >= LEASE_PARKS_MAX {
                return Turn::AllDone;
            }
            let key = self.pop_lane(type_key, level).expect("the next level has a lane");
            if let Some(standing) = self.group_closed(key.group) {
                call.parks += 1;
                self.park_lane(key, standing);
                continue;
            }
            let allowed = VISIT_SKIPS_MAX.min(LEASE_SKIPS_MAX - call.skips);
            let mut skips_left = allowed;
            let head = self.clear_head(key, &mut skips_left, &mut call.ended);
            call.skips += allowed - skips_left;
            let standing = match head {
                Head::Runnable(job) => {
                    self.pop_first_of(key);
                    self.decide(job, call);
                    self.put_back(key);
                    return Turn::Decided;
                }
                Head::Blocked => Standing::Clearing(self.now),
                Head::Empty => Standing::Idle,
            };
            call.parks += 1;
            self.park_lane(key, standing);
        }
    }

    fn put_back(&mut self, key: LaneKey) {
        if self.lane(key).is_empty() {
            self.park_lane(key, Standing::Idle);
        } else {
            self.rescore(key);
        }
    }

    /// Moves a popped job to the ready list or to the waiting jobs.
    fn decide(&mut self, key: JobKey, call: &mut Call) {
        let job = &self.jobs[key];
        let (group, type_key, bulk) = (job.group, job.type_key, job.bulk);
        let name = JobRef { group: self.groups[group].name.clone(), id: job.id.clone() };
        let destination = if self.window_passes(group) {
            let last = self.types[type_key].ready.back().map_or(0, |last| self.jobs[*last].order);
            let job = &mut self.jobs[key];
            (job.place, job.order) = (Place::Ready, last + 1);
            self.types[type_key].ready.push_back(key);
            if let Some(number) = bulk {
                self.bulk_reached(number, BulkState::Dispatched);
            }
            self.push_token(type_key);
            Destination::Ready
        } else {
            let (backoff, delay_ms) = self.refuse(group);
            self.start_waiting(key, self.now.plus_ms(delay_ms));
            Destination::Waiting(backoff)
        };
        call.admissions.push(Admission { job: name, destination });
    }

    /// Takes a slot in the window of this second for one job of this group; false if there is none.
    fn window_passes(&mut self, group: GroupKey) -> bool {
        let second = Self::second(self.now);
        let (limit, group_limit) = (self.settings.global_rps, self.group_speed());
        if self.window.0 != second {
            self.window = (second, 0);
        }
        let passed = self.groups[group].window;
        let passed = if passed.0 == second { passed.1 } else { 0 };
        if self.window.1 >= limit || passed >= group_limit {
            return false;
        }
        self.window.1 += 1;
        self.groups[group].window = (second, passed + 1);
        true
    }

    /// The recorded backoff for one more refused job of a group, and the job's delay
    /// in milliseconds.
    pub(super) fn refuse(&mut self, group: GroupKey) -> (Backoff, u64) {
        let settings = self.settings.congestion;
        if !settings.enabled {
            let backoff_ms = settings.base_backoff_ms;
            let level = Default::default();
            return (Backoff { backoff_ms, waiting: 0, speed: 0, level }, backoff_ms);
        }
        let (waiting, speed) = (self.groups[group].record.waiting + 1, self.group_speed());
        let backoff = Backoff::calculate(waiting, speed, &settings);
        self.note_congestion(group, backoff);
        (backoff, Backoff::spread_ms(waiting, speed, &settings))
    }
}
