//! Which steps come: few names, so that everything collides; every outcome, limit and mistake, often.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairlane_core::limits::{ENQUEUE_JOBS_MAX, LEASE_MS_MAX};
use fairlane_core::queue::*;
use fairlane_core::*;

use super::{Answer, Deed, Step};
use crate::dice::Dice;
use crate::subject::{START, group_id, job_ref, type_id};

const GROUPS: [&str; 6] = ["a", "b:c", "b", "50%", "고객", "g-6"];
const TYPES: [&str; 4] = ["mail", "a:b%", "t", "z z"];
const WORKERS: [&str; 3] = ["w1", "w:2", "w%3"];
/// Ids of one group; with the groups above this bounds the jobs alive.
const IDS: u64 = 25;
/// Ended leases that are remembered, to be used again too late.
const PAST_MAX: usize = 30;
const HOUR_US: u64 = 3_600_000_000;

/// Draws steps, and knows what is leased.
pub(super) struct World {
    dice: Dice,
    now: Micros,
    taken: u64,
    wild: bool,
    floods: bool,
    /// Settings pause one time in so many.
    paused_one_in: u64,
    /// More types than there may be.
    many_types: bool,
    requests: [u64; WORKERS.len()],
    held: Vec<(JobRef, Fence)>,
    past: Vec<(JobRef, Fence)>,
}

impl World {
    pub fn new(seed: u64, episode: u64) -> Self {
        let mut dice = Dice::new(seed.wrapping_mul(1_000_003).wrapping_add(episode));
        Self {
            wild: dice.one_in(3),
            floods: dice.one_in(4),
            paused_one_in: dice.pick(&[6, 6, 6, 6, 6, 2]),
            many_types: dice.one_in(8),
            dice,
            now: START,
            taken: 0,
            requests: [0; WORKERS.len()],
            held: vec![],
            past: vec![],
        }
    }

    /// The next deed and its time.
    pub fn next_step(&mut self) -> Step {
        self.pass_time();
        self.taken += 1;
        let deed = if self.taken == 1 {
            Deed::Command(self.set_whole())
        } else if self.floods && self.taken == 2 {
            Deed::Command(self.flood())
        } else if self.dice.one_in(30) {
            Deed::TakeToken(self.type_id())
        } else {
            Deed::Command(self.command())
        };
        Step { at: self.now, deed }
    }

    /// Takes in what the core answered.
    pub fn learn(&mut self, answer: &Answer) {
        let Answer::Reply(reply) = answer else { return };
        if let Reply::Leased(Leased::Jobs { jobs, .. }) = &**reply {
            self.held.extend(jobs.iter().map(|job| (job.job.clone(), job.fence)));
        }
    }

    /// Mostly forward in small steps; in a wild episode also far, and back.
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
        self.now = Micros(self.now.0 - self.dice.below(us_max));
    }

    fn command(&mut self) -> Command {
        match self.dice.below(100) {
            0..23 => self.enqueue(),
            23..51 => self.lease(),
            51..75 => self.settle(),
            75..80 => self.extend(),
            80..84 => Command::Promote(Promote { jobs_max: 1 + self.dice.below(6) as usize }),
            84..90 => self.reclaim(),
            90..93 => self.set_group(),
            93..96 => self.set_type(),
            96 if self.dice.one_in(3) => self.set_whole(),
            _ => self.inspect(),
        }
    }

    fn enqueue(&mut self) -> Command {
        let jobs = (0..1 + self.dice.below(6)).map(|_| self.new_job()).collect();
        Command::Enqueue(Enqueue { jobs })
    }

    /// Many jobs that are due at the same moment: more than one lease brings back.
    fn flood(&mut self) -> Command {
        let delay_ms = self.dice.below(500);
        let jobs = (0..ENQUEUE_JOBS_MAX).map(|_| NewJob { delay_ms, ..self.new_job() }).collect();
        Command::Enqueue(Enqueue { jobs })
    }

    fn new_job(&mut self) -> NewJob {
        let most = self.dice.pick(&[1, 1, 1, 4, 20, 10_000]);
        let payloads: [&[u8]; 5] = [b"", b"{}", b"a:b:c", b"\x00\xff\r\n", b"1e999"];
        NewJob {
            job: self.job_ref(),
            type_id: self.type_id(),
            level: self.dice.pick(&Level::ALL),
            cost: Cost::new(1 + self.dice.below(most) as u32).expect("a cost in range"),
            payload: Arc::from(self.dice.pick(&payloads)),
            delay_ms: if self.dice.one_in(3) { self.dice.below(4000) } else { 0 },
        }
    }

    fn lease(&mut self) -> Command {
        let worker = self.dice.below(WORKERS.len() as u64) as usize;
        let last = self.requests[worker];
        let request = match self.dice.below(20) {
            0..2 => last.max(1),
            2 => (last / 2).max(1),
            3 => last + 5,
            _ => last + 1,
        };
        self.requests[worker] = last.max(request);
        let mut types: Vec<TypeId> = (0..self.dice.below(5)).map(|_| self.type_id()).collect();
        if self.dice.one_in(2) {
            types = TYPES.map(type_id).to_vec();
        }
        if self.dice.one_in(20) {
            types.push(type_id("never seen"));
        }
        Command::Lease(Lease {
            worker: WorkerId::new(WORKERS[worker]).expect("a valid worker id"),
            request: RequestNumber(request),
            types,
            jobs_max: 1 + self.dice.below(20) as usize,
            lease_ms: self.dice.pick(&[100, 500, 2000, 5000, 30_000, LEASE_MS_MAX]),
        })
    }

    fn settle(&mut self) -> Command {
        let mut seen = BTreeSet::new();
        let mut settlements = Vec::new();
        for _ in 0..self.dice.below(6) {
            let (job, fence) = self.a_lease(true);
            if seen.insert(job.clone()) {
                settlements.push(Settlement { job, fence, outcome: self.outcome() });
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

    fn reclaim(&mut self) -> Command {
        Command::Reclaim(Reclaim { jobs_max: 1 + self.dice.below(6) as usize })
    }

    /// Mostly one that is held; sometimes one of before, a wrong fence, or a job that may not exist.
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
        if self.past.len() == PAST_MAX {
            let oldest = self.dice.below(PAST_MAX as u64) as usize;
            self.past.swap_remove(oldest);
        }
        self.past.push((job.clone(), fence));
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
            _ => Outcome::Succeeded { result: note },
        }
    }

    fn set_group(&mut self) -> Command {
        let paused_one_in = self.paused_one_in;
        let patch = GroupPatch {
            weight: self.maybe(|dice| Weight::new(dice.pick(&[1, 2, 3, 7, 11, 1000])).expect("in range")),
            rate: self.maybe(rate),
            concurrency: self.maybe(seats),
            paused: self.maybe(|dice| dice.one_in(paused_one_in)),
        };
        Command::SetGroup(SetGroup { group: self.group_id(), patch })
    }

    fn set_type(&mut self) -> Command {
        let paused_one_in = self.paused_one_in;
        let patch = TypePatch {
            rate: self.maybe(rate),
            concurrency: self.maybe(seats),
            paused: self.maybe(|dice| dice.one_in(paused_one_in)),
        };
        Command::SetType(SetType { type_id: self.type_id(), patch })
    }

    fn set_whole(&mut self) -> Command {
        let dice = &mut self.dice;
        let mut settings = Settings {
            rate: rate(dice),
            levels: dice.pick(&[LevelOrder::Weighted, LevelOrder::Weighted, LevelOrder::Strict]),
            max_retry_count: dice.below(4) as u32,
            max_throttle_count: dice.below(4) as u32,
            max_loss_count: dice.below(3) as u32,
            group_backlog_max: dice.pick(&[2, 8, 15, 1_000_000, 1_000_000]),
            whole_backlog_max: dice.pick(&[25, 60, 1_000_000, 1_000_000, 1_000_000]),
            completed_retention_ms: dice.pick(&[0, 3000, 20_000, 86_400_000]),
            failed_retention_ms: dice.pick(&[0, 3000, 20_000, 86_400_000]),
            completed_kept_max: dice.below(40),
            failed_kept_max: dice.below(25),
        };
        if self.floods || self.many_types {
            (settings.group_backlog_max, settings.whole_backlog_max) = (1_000_000, 1_000_000);
        }
        Command::SetWhole(SetWhole { settings })
    }

    fn inspect(&mut self) -> Command {
        Command::Inspect(match self.dice.below(5) {
            0 => Inspect::Whole,
            1 => Inspect::Group(self.group_id()),
            2 => Inspect::Type(self.type_id()),
            _ => Inspect::Job(self.job_ref()),
        })
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

fn rate(dice: &mut Dice) -> Option<Rate> {
    let count = 1 + dice.below(50);
    let period_ms = dice.pick(&[1000, 1000, 1000, 1000, 1000, 60_000, 24 * 3600 * 1000]);
    let burst = dice.pick(&[None, None, Some(1), Some(5)]);
    let limited = dice.one_in(3);
    limited.then(|| Rate::new(count, period_ms, burst).expect("a rate in range"))
}

fn seats(dice: &mut Dice) -> Option<u32> {
    dice.pick(&[None, None, Some(1), Some(3), Some(20)])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fairlane_core::limits::LEASE_PROMOTES_MAX;

    use super::*;

    type Tally = BTreeMap<&'static str, u64>;

    fn tally(answer: &Answer, counts: &mut Tally) {
        let mut count = |what, times| *counts.entry(what).or_default() += times;
        let Answer::Reply(reply) = answer else {
            return count("token", u64::from(*answer != Answer::Token(None)));
        };
        match &**reply {
            Reply::Enqueued(reply) => reply.receipts.iter().for_each(|receipt| match receipt {
                JobReceipt::Created => count("created", 1),
                JobReceipt::Exists => count("exists", 1),
                JobReceipt::Refused { refusal: Refusal::GroupFull, .. } => count("group full", 1),
                JobReceipt::Refused { refusal: Refusal::WholeFull, .. } => count("whole full", 1),
                JobReceipt::Refused { .. } => count("too many types", 1),
            }),
            Reply::Leased(Leased::Superseded { .. }) => count("superseded", 1),
            Reply::Leased(Leased::Jobs { jobs, wake_at }) => {
                count("leased", jobs.len() as u64);
                count("leased again", jobs.iter().filter(|job| job.attempt > 1).count() as u64);
                count("wake time", u64::from(wake_at.is_some()));
            }
            Reply::Extended(reply) => reply.extensions.iter().for_each(|extension| match extension {
                Extension::Until(_) => count("extended", 1),
                Extension::Lost => count("lost", 1),
            }),
            Reply::Settled(reply) => reply.verdicts.iter().for_each(|verdict| match verdict {
                Verdict::Applied => count("applied", 1),
                Verdict::Stale => count("stale", 1),
                Verdict::Gone => count("gone", 1),
            }),
            Reply::Promoted(reply) => count("promoted", reply.moved as u64),
            Reply::Reclaimed(reply) => {
                count("recovered", reply.recovered as u64);
                count("dead of losses", reply.dead as u64);
                count("grace", u64::from(reply.grace_until.is_some()));
            }
            Reply::Inspected(Inspected::Type(Some(view))) => {
                count(
                    "cut rate",
                    u64::from(view.rate_milli < view.settings.rate.map(Rate::milli_per_second)),
                );
                count("closed", u64::from(view.closed_until.is_some()));
            }
            Reply::Inspected(Inspected::Group(Some(view))) => {
                view.lanes.iter().for_each(|lane| match lane.standing {
                    LaneStanding::Idle => {}
                    LaneStanding::Active => count("active", 1),
                    LaneStanding::RateParked(_) => count("rate-parked", 1),
                    LaneStanding::SeatParked => count("seat-parked", 1),
                    LaneStanding::Paused => count("paused", 1),
                });
            }
            Reply::Inspected(Inspected::Job(Some(view))) => count(view.state.as_str(), 1),
            _ => {}
        }
    }

    fn whole(machine: &mut Machine) -> WholeView {
        match machine.apply(Command::Inspect(Inspect::Whole), START) {
            Reply::Inspected(Inspected::Whole(view)) => view,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn random_steps_reach_every_kind_of_answer_often() {
        let mut counts = Tally::new();
        let mut jobs_most = 0;
        for episode in 0..40 {
            let mut world = World::new(7, episode);
            let mut machine = Machine::new(Settings::default(), START);
            for _ in 0..2000 {
                let step = world.next_step();
                let waiting = whole(&mut machine).waiting;
                let answer = match step.deed {
                    Deed::Command(command) => {
                        command.validate().expect("only valid commands are drawn");
                        Answer::Reply(Box::new(machine.apply(command, step.at)))
                    }
                    Deed::TakeToken(type_id) => Answer::Token(machine.take_token(&[type_id])),
                };
                let view = whole(&mut machine);
                if waiting >= view.waiting + LEASE_PROMOTES_MAX as u64 {
                    *counts.entry("as many brought back as one lease may").or_default() += 1;
                }
                jobs_most = jobs_most.max(view.backlog + view.in_flight + view.completed + view.failed);
                tally(&answer, &mut counts);
                world.learn(&answer);
            }
        }
        assert!(counts.len() == 31 && counts.values().all(|times| *times >= 5), "{counts:#?}");
        assert!(jobs_most <= 150, "{jobs_most} jobs make slow dumps");
    }
}
