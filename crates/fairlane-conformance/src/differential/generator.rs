//! The generator of random steps. It uses few names, so that steps collide, and reaches every
//! outcome, limit and error often.
//!
//! - `generator/bulks.rs`: bulk actions, and jobs selected by name. `generator/reads.rs`: read-only
//!   commands.
//! - `generator/settings.rs`: settings of the queue, of types and of groups. `generator/locks.rs`,
//!   `generator/rooms.rs`, `generator/rankings.rs` and `generator/activity.rs`: commands of the other
//!   capabilities.

mod activity;
mod bulks;
mod locks;
mod rankings;
mod reads;
mod rooms;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use fairlane_core::limits::{
    ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX, LEASE_MS_MAX, PAYLOAD_BYTES_MAX, SWEEP_JOBS_MAX, VISIT_SKIPS_MAX,
};
use fairlane_core::queue::*;
use fairlane_core::{Cost, Fence, GroupId, Level, Micros, RequestNumber, TypeId, WorkerId};

use super::{Action, Response, Step};
use crate::dice::Dice;
use crate::subject::{START, bulk_id, group_id, job_ref, type_id};
use activity::ActivityGenerator;
use locks::LockGenerator;
use rankings::RankingGenerator;
pub(super) use rooms::ROOMS;
use rooms::RoomGenerator;

const GROUPS: [&str; 6] = ["a", "b:c", "b", "50%", "고객", "g-6"];
const TYPES: [&str; 5] = ["mail", "a:b%", "t", "z z", CALLBACK_TYPE];
const WORKERS: [&str; 3] = ["w1", "w:2", "w%3"];
/// Names of each group's bulk actions.
const BULKS: [&str; 3] = ["b1", "b:2", "b%3"];
/// Number of job ids of one group; with the groups above it bounds the number of jobs.
const IDS: u64 = 25;
/// Most ended leases, leased bulk actions and possibly dead jobs that are remembered for reuse.
const PAST_MAX: usize = 30;
const HOUR_US: u64 = 3_600_000_000;
/// One in this many episodes is about another capability than the queue; they take turns.
const OTHER_EPISODES: u64 = 3;
/// In an episode about another capability, one in this many steps is about the queue.
const QUEUE_STEPS: u64 = 10;

/// Draws commands of another capability than the queue.
trait OtherGenerator {
    /// Time that passes before a command, in microseconds.
    fn pause_us(&mut self) -> u64;

    /// The next command.
    fn command(&mut self) -> fairlane_core::Command;

    /// Records the reply of the core.
    fn observe(&mut self, reply: &fairlane_core::Reply);
}

/// The other capabilities, in the order of their episodes.
const OTHERS: [fn(Dice) -> Box<dyn OtherGenerator>; 4] = [
    |dice| Box::new(LockGenerator::new(dice)),
    |dice| Box::new(RoomGenerator::new(dice)),
    |dice| Box::new(RankingGenerator::new(dice)),
    |dice| Box::new(ActivityGenerator::new(dice)),
];

/// Draws random steps, and knows which jobs are leased.
pub(super) struct Generator {
    dice: Dice,
    now: Micros,
    /// Steps drawn so far.
    drawn: u64,
    /// Whether time also jumps by hours, and backward.
    wild: bool,
    /// Whether the episode begins with many jobs that are due at the same moment.
    floods: bool,
    /// Whether payloads are so large that bytes bound a lease.
    heavy: bool,
    /// One in this many settings pauses a group or type.
    paused_one_in: u64,
    /// Whether steps name more types than the queue accepts.
    many_types: bool,
    requests: [u64; WORKERS.len()],
    /// Whether both engines agree about the last request of a worker. Before a step back in time the
    /// core may have forgotten it as expired; Redis expires it by the server's own clock.
    repeatable: [bool; WORKERS.len()],
    discipline: Discipline,
    /// Leases that have not been settled.
    held: Vec<(JobRef, Fence)>,
    /// Leases that were settled.
    past: Vec<(JobRef, Fence)>,
    /// Jobs that were enqueued, to be enqueued again: unchanged, or with one field changed.
    sent: Vec<NewJob>,
    /// Jobs whose last attempt has failed.
    failed: Vec<JobRef>,
    /// Bulk actions that were leased, with their fences.
    leased_bulks: Vec<(BulkRef, Fence)>,
    /// The cursor that the last `make_due` returned.
    due_cursor: u64,
    /// Draws most steps of an episode about another capability.
    other: Option<Box<dyn OtherGenerator>>,
}

impl Generator {
    pub fn new(seed: u64, episode: u64) -> Self {
        let mut dice = Dice::new(seed.wrapping_mul(1_000_003).wrapping_add(episode));
        Self {
            wild: dice.one_in(3),
            floods: dice.one_in(4),
            heavy: dice.one_in(6),
            paused_one_in: dice.pick(&[6, 6, 6, 6, 6, 2]),
            many_types: dice.one_in(8),
            discipline: dice.pick(&[Discipline::Share, Discipline::Share, Discipline::Classic]),
            dice,
            now: START,
            drawn: 0,
            requests: [0; WORKERS.len()],
            repeatable: [true; WORKERS.len()],
            held: vec![],
            past: vec![],
            sent: vec![],
            failed: vec![],
            leased_bulks: vec![],
            due_cursor: 0,
            other: None,
        }
    }

    /// One episode in [`OTHER_EPISODES`] is about another capability, with a few commands of the queue.
    pub fn mixed(seed: u64, episode: u64) -> Self {
        if episode % OTHER_EPISODES != OTHER_EPISODES - 1 {
            return Self::new(seed, episode);
        }
        // The seed also shifts the turn, because most runs are short.
        let turn = episode / OTHER_EPISODES + seed / 2;
        Self::of_other(seed, episode, turn as usize % OTHERS.len())
    }

    /// An episode about one of the other capabilities.
    fn of_other(seed: u64, episode: u64, index: usize) -> Self {
        let queue = Self::new(seed, episode);
        Self { other: Some(OTHERS[index](queue.dice.clone())), ..queue }
    }

    /// An episode about each of the other capabilities.
    pub fn of_others(seed: u64) -> impl Iterator<Item = Self> {
        (0..OTHERS.len()).map(move |index| Self::of_other(seed, 0, index))
    }

    /// Whether the payloads of the episode are as large as allowed.
    pub fn is_heavy(&self) -> bool {
        self.heavy
    }

    /// The next action and its time.
    pub fn next_step(&mut self) -> Step {
        self.drawn += 1;
        if let Some(other) = &mut self.other
            && !self.drawn.is_multiple_of(QUEUE_STEPS)
        {
            self.now = self.now.plus_us(other.pause_us());
            return Step { at: self.now, action: Action::Other(other.command()) };
        }
        self.pass_time();
        let action = if self.drawn == 1 {
            Action::Command(self.set_queue())
        } else if self.floods && self.drawn <= 1 + GROUPS.len() as u64 {
            Action::Command(self.open_for_flood())
        } else if self.floods && self.drawn == 2 + GROUPS.len() as u64 {
            Action::Command(self.flood())
        } else if self.floods && self.drawn <= 2 + 2 * GROUPS.len() as u64 {
            Action::Command(self.stop_flood())
        } else if self.dice.one_in(30) {
            Action::TakeToken(self.type_id())
        } else {
            Action::Command(self.command())
        };
        Step { at: self.now, action }
    }

    /// Records the leases and the cursor in a response of the core.
    pub fn observe(&mut self, response: &Response) {
        if let (Some(other), Response::Other(reply)) = (&mut self.other, response) {
            other.observe(reply);
        }
        let Response::Reply(reply) = response else { return };
        match &**reply {
            Reply::Lease(Leased::Jobs { jobs, .. }) => {
                self.held.extend(jobs.iter().map(|job| (job.job.clone(), job.fence)));
            }
            Reply::LeaseBulks(reply) => {
                for leased in &reply.bulks {
                    let leased = (leased.view.bulk.clone(), leased.fence);
                    remember(&mut self.dice, &mut self.leased_bulks, leased);
                }
            }
            Reply::MakeDue(reply) => self.due_cursor = reply.next.unwrap_or(0),
            _ => {}
        }
    }

    /// Advances time, mostly in small steps; in a wild episode also far, and backward.
    fn pass_time(&mut self) {
        let us = match self.dice.below(1000) {
            0..300 => 0,
            300..550 => self.dice.below(1000),
            550..950 => self.dice.below(100_000),
            950..990 => self.dice.below(1_000_000),
            990..997 => 100_000 + self.dice.below(40) * 100_000,
            _ if !self.wild => self.dice.below(12_000_000),
            997 => self.dice.below(5) * HOUR_US,
            998 => return self.step_back(5_000_000),
            _ => return self.step_back(5 * HOUR_US),
        };
        self.now = self.now.plus_us(us);
    }

    fn step_back(&mut self, us_max: u64) {
        self.repeatable = [false; WORKERS.len()];
        self.now = Micros(self.now.0 - self.dice.below(us_max));
    }

    fn command(&mut self) -> Command {
        if self.discipline == Discipline::Classic && self.dice.one_in(6) {
            return Command::Admit(Admit { jobs_max: 1 + self.dice.below(30) as usize });
        }
        match self.dice.below(126) {
            0..24 => self.enqueue(),
            24..51 => self.lease(),
            51..74 => self.settle(),
            74..78 => self.extend(),
            78 => self.report_progress(),
            79..84 => Command::Promote(Promote { jobs_max: 1 + self.dice.below(6) as usize }),
            84..90 => self.reclaim(),
            90..93 => self.set_group(),
            93..95 => self.set_type(),
            95 if self.dice.one_in(2) => Command::RemoveType(RemoveType { type_id: self.type_id() }),
            95 => self.set_type(),
            96 if self.dice.one_in(3) => self.set_queue(),
            96..102 => self.read(),
            102..114 => self.bulk(),
            114..120 => self.select_jobs(),
            120 if self.dice.one_in(3) => Command::Admit(Admit { jobs_max: 1 }),
            120..122 => self.make_due(),
            _ => Command::Sweep(Sweep { jobs_max: self.dice.pick(&[1, 2, 5, 50, SWEEP_JOBS_MAX]) }),
        }
    }

    fn enqueue(&mut self) -> Command {
        let mut jobs: Vec<NewJob> = (0..1 + self.dice.below(6)).map(|_| self.new_job()).collect();
        if self.heavy {
            // As many bytes as one command takes, and many jobs due at the same moment.
            jobs.truncate(ENQUEUE_BYTES_MAX / PAYLOAD_BYTES_MAX);
            for new in &mut jobs {
                new.payload = Arc::from(vec![b'x'; PAYLOAD_BYTES_MAX - self.dice.below(2) as usize]);
                new.delay_ms = 4000 - self.now.0 / 1000 % 4000;
                new.bulk = new.bulk.take().filter(|_| self.dice.one_in(4));
            }
        }
        Command::Enqueue(Enqueue { jobs })
    }

    /// Many jobs that are due at the same moment: more than one lease promotes. They belong to bulk
    /// actions that are then held or cancelled: more in one lane than one visit skips.
    fn flood(&mut self) -> Command {
        let delay_ms = self.dice.pick(&[0, 100, 400]);
        let mut jobs = Vec::new();
        for number in 0..VISIT_SKIPS_MAX + 16 {
            let job = job_ref(GROUPS[0], &format!("f{number}"));
            let mut new = NewJob { job, delay_ms, bulk: Some(bulk_id(BULKS[0])), ..self.fresh_job() };
            (new.type_id, new.level) = (type_id(TYPES[0]), Level::Normal);
            jobs.push(new);
        }
        while jobs.len() < ENQUEUE_JOBS_MAX {
            let mut new = NewJob { delay_ms, bulk: Some(bulk_id(BULKS[0])), ..self.fresh_job() };
            if !self.dice.one_in(4) {
                (new.type_id, new.level) = (type_id(TYPES[0]), Level::Normal);
            }
            jobs.push(new);
        }
        Command::Enqueue(Enqueue { jobs })
    }

    fn new_job(&mut self) -> NewJob {
        let fresh = self.fresh_job();
        // Heavy jobs and floods are meant to fill a lease, to which a repeated job adds nothing.
        let again_one_in = if self.heavy || self.floods { 20 } else { 6 };
        if self.sent.is_empty() || !self.dice.one_in(again_one_in) {
            remember(&mut self.dice, &mut self.sent, fresh.clone());
            return fresh;
        }
        let again = self.dice.pick(&self.sent);
        match self.dice.below(10) {
            0 => NewJob { type_id: fresh.type_id, ..again },
            1 => NewJob { level: fresh.level, ..again },
            2 => NewJob { cost: fresh.cost, ..again },
            3 => NewJob { payload: fresh.payload, ..again },
            4 => NewJob { bulk: fresh.bulk, ..again },
            5 => NewJob { delay_ms: fresh.delay_ms, trace: fresh.trace, ..again },
            _ => again,
        }
    }

    fn fresh_job(&mut self) -> NewJob {
        let most = self.dice.pick(&[1, 1, 1, 4, 20, 10_000]);
        let payloads: [&[u8]; 5] = [b"", b"{}", b"a:b:c", b"\x00\xff\r\n", b"1e999"];
        NewJob {
            job: self.job_ref(),
            type_id: self.type_id(),
            level: self.dice.pick(&Level::ALL),
            cost: Cost::new(1 + self.dice.below(most) as u32).expect("a cost in range"),
            payload: Arc::from(self.dice.pick(&payloads)),
            delay_ms: if self.dice.one_in(3) { self.dice.below(4000) } else { 0 },
            bulk: self.dice.one_in(2).then(|| bulk_id(self.dice.pick(&BULKS))),
            trace: self.dice.one_in(3).then(|| self.dice.trace()),
        }
    }

    fn lease(&mut self) -> Command {
        let worker = self.dice.below(WORKERS.len() as u64) as usize;
        let last = self.requests[worker];
        let request = match self.dice.below(20) {
            0..2 if self.repeatable[worker] => last.max(1),
            2 if self.repeatable[worker] => (last / 2).max(1),
            3 => last + 5,
            _ => last + 1,
        };
        self.repeatable[worker] = true;
        self.requests[worker] = last.max(request);
        let mut types: Vec<TypeId> = (0..self.dice.below(5)).map(|_| self.type_id()).collect();
        if self.heavy || self.dice.one_in(2) {
            types = TYPES.map(type_id).to_vec();
        }
        if self.dice.one_in(20) {
            types.push(type_id("never seen"));
        }
        Command::Lease(Lease {
            worker: WorkerId::new(WORKERS[worker]).expect("a valid worker id"),
            request: RequestNumber(request),
            types,
            jobs_max: 1 + if self.heavy { 19 } else { self.dice.below(20) as usize },
            lease_ms: self.dice.pick(&[100, 500, 2000, 5000, 30_000, LEASE_MS_MAX]),
        })
    }

    fn settle(&mut self) -> Command {
        let mut seen = BTreeSet::new();
        let mut settlements = Vec::new();
        for _ in 0..self.dice.below(6) {
            let (job, fence) = self.a_lease(true);
            if seen.insert(job.clone()) {
                let outcome = self.outcome();
                if matches!(outcome, Outcome::Failed { .. } | Outcome::Retry { .. }) {
                    remember(&mut self.dice, &mut self.failed, job.clone());
                }
                settlements.push(Settlement { job, fence, outcome });
            }
        }
        Command::Settle(Settle { settlements })
    }

    fn extend(&mut self) -> Command {
        let mut seen = BTreeSet::new();
        let mut leases: Vec<(JobRef, Fence)> = (0..self.dice.below(4)).map(|_| self.a_lease(false)).collect();
        leases.retain(|(job, _)| seen.insert(job.clone()));
        Command::Extend(Extend { leases, lease_ms: self.dice.pick(&[100, 1000, 10_000, LEASE_MS_MAX]) })
    }

    fn report_progress(&mut self) -> Command {
        let mut seen = BTreeSet::new();
        let mut reports: Vec<ProgressReport> = (0..self.dice.below(4))
            .map(|_| {
                let ((job, fence), total) = (self.a_lease(false), self.dice.pick(&[1, 100, (1 << 53) - 1]));
                ProgressReport { job, fence, progress: Progress { done: self.dice.below(total + 1), total } }
            })
            .collect();
        reports.retain(|report| seen.insert(report.job.clone()));
        Command::ReportProgress(ReportProgress { reports })
    }

    fn reclaim(&mut self) -> Command {
        Command::Reclaim(Reclaim { jobs_max: 1 + self.dice.below(6) as usize })
    }

    /// Mostly a lease that is held; sometimes a settled one, a wrong fence, or a job that may not
    /// exist.
    fn a_lease(&mut self, ends: bool) -> (JobRef, Fence) {
        let kind = self.dice.below(20);
        if kind == 0 || self.held.is_empty() && self.past.is_empty() {
            return (self.job_ref(), Fence(START.0 + self.dice.below(10)));
        }
        if kind <= 2 && !self.past.is_empty() || self.held.is_empty() {
            return self.dice.pick(&self.past);
        }
        let at = self.dice.below(self.held.len() as u64) as usize;
        if !ends {
            return self.held[at].clone();
        }
        let (job, fence) = self.held.swap_remove(at);
        remember(&mut self.dice, &mut self.past, (job.clone(), fence));
        if kind == 3 { (job, Fence(fence.0 + 1)) } else { (job, fence) }
    }

    fn outcome(&mut self) -> Outcome {
        let notes: [&[u8]; 4] = [b"", b"note", b"a:b\nc", b"\xfe\x00"];
        let note: Arc<[u8]> = Arc::from(self.dice.pick(&notes));
        let delay_ms = self.dice.pick(&[0, 0, 5, 100, 3000]);
        match self.dice.below(12) {
            0 => Outcome::Failed { reason: note },
            1..4 => Outcome::Retry { delay_ms, reason: note },
            4..6 => Outcome::Throttled { delay_ms, retry_after_ms: self.dice.pick(&[0, 0, 50, 1000]) },
            6 => Outcome::Released,
            7 => Outcome::Cancelled { reason: note },
            _ => Outcome::Succeeded { result: note },
        }
    }

    fn maybe<T>(&mut self, draw: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        let changes = self.dice.one_in(2);
        changes.then(|| draw(&mut self.dice))
    }

    fn group_id(&mut self) -> GroupId {
        group_id(self.dice.pick(&GROUPS))
    }

    fn type_id(&mut self) -> TypeId {
        if self.many_types && !self.dice.one_in(4) {
            return type_id(&format!("type {}", self.dice.below(100)));
        }
        type_id(self.dice.pick(&TYPES))
    }

    fn job_ref(&mut self) -> JobRef {
        let number = self.dice.below(IDS);
        let id = if number == 0 { "i:0%".to_owned() } else { format!("i{number}") };
        job_ref(self.dice.pick(&GROUPS), &id)
    }
}

/// Keeps one more item, and drops a random one if there are too many.
fn remember<T>(dice: &mut Dice, kept: &mut Vec<T>, one: T) {
    if kept.len() == PAST_MAX {
        let other = dice.below(PAST_MAX as u64) as usize;
        kept.swap_remove(other);
    }
    kept.push(one);
}
