//! Seeded random commands over the machine; the whole state is checked after each.

use std::sync::Arc;

use fairlane_core::queue::*;
use fairlane_core::*;

/// A small generator of its own, so that a seed means the same for ever.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

struct World {
    dice: Dice,
    request: u64,
    held: Vec<(JobRef, Fence)>,
}

impl World {
    fn group(&mut self) -> GroupId {
        GroupId::new(format!("g{}", self.dice.below(5))).expect("valid by construction")
    }

    fn type_id(&mut self) -> TypeId {
        TypeId::new(format!("t{}", self.dice.below(3))).expect("valid by construction")
    }

    fn rate(&mut self) -> Option<Rate> {
        let count = 1 + self.dice.below(50);
        (self.dice.below(2) == 0).then(|| Rate::per_second(count).expect("valid by construction"))
    }

    fn command(&mut self) -> Command {
        match self.dice.below(20) {
            0..=5 => self.enqueue(),
            6..=10 => {
                self.request += 1;
                Command::Lease(Lease {
                    worker: WorkerId::new("w").expect("valid by construction"),
                    request: RequestNumber(self.request),
                    types: vec![self.type_id(), self.type_id()],
                    jobs_max: 1 + self.dice.below(20) as usize,
                    lease_ms: 100 + self.dice.below(5000),
                })
            }
            11..=14 => self.settle(),
            15 => Command::Promote(Promote { jobs_max: 5 }),
            16 => Command::Reclaim(Reclaim { jobs_max: 5 }),
            17 => {
                let patch = GroupPatch {
                    weight: Some(Weight::new(1 + self.dice.below(10) as u32).expect("valid by construction")),
                    rate: Some(self.rate()),
                    concurrency: Some((self.dice.below(2) == 0).then_some(3)),
                    paused: Some(self.dice.below(4) == 0),
                };
                Command::SetGroup(SetGroup { group: self.group(), patch })
            }
            18 => {
                let patch = TypePatch {
                    rate: Some(self.rate()),
                    concurrency: None,
                    paused: Some(self.dice.below(5) == 0),
                };
                Command::SetType(SetType { type_id: self.type_id(), patch })
            }
            _ => {
                let leases = self.held.iter().take(3).cloned().collect();
                Command::Extend(Extend { leases, lease_ms: 3000 })
            }
        }
    }

    fn enqueue(&mut self) -> Command {
        let mut jobs = Vec::new();
        for _ in 0..1 + self.dice.below(10) {
            jobs.push(NewJob {
                job: JobRef {
                    group: self.group(),
                    id: JobId::new(format!("j{}", self.dice.below(3000))).expect("valid by construction"),
                },
                type_id: self.type_id(),
                level: Level::ALL[self.dice.below(3) as usize],
                cost: Cost::new(1 + self.dice.below(4) as u32).expect("valid by construction"),
                payload: Arc::from(&b"{}"[..]),
                delay_ms: if self.dice.below(5) == 0 { self.dice.below(3000) } else { 0 },
            });
        }
        Command::Enqueue(Enqueue { jobs })
    }

    fn settle(&mut self) -> Command {
        let mut settlements = Vec::new();
        for _ in 0..self.held.len().min(4) {
            let at = self.dice.below(self.held.len() as u64) as usize;
            let (job, fence) = self.held.swap_remove(at);
            let note: Arc<[u8]> = Arc::from(&b"note"[..]);
            let outcome = match self.dice.below(8) {
                0 => Outcome::Failed { reason: note },
                1 => Outcome::Retry { delay_ms: self.dice.below(2000), reason: note },
                2 => Outcome::Throttled {
                    delay_ms: self.dice.below(500),
                    retry_after_ms: self.dice.below(2) * 300,
                },
                3 => Outcome::Released,
                _ => Outcome::Succeeded { result: note },
            };
            if !settlements.iter().any(|s: &Settlement| s.job == job) {
                settlements.push(Settlement { job, fence, outcome });
            }
        }
        Command::Settle(Settle { settlements })
    }
}

#[test]
fn every_state_reached_by_random_commands_is_whole() {
    for seed in 1..=10 {
        let mut world = World { dice: Dice(seed * 7919), request: 0, held: Vec::new() };
        let mut now = Micros(1_700_000_000_000_000);
        let mut machine =
            Machine::new(Settings { rate: world.rate(), completed_kept_max: 50, ..Settings::default() }, now);
        let mut completed = 0;
        for step in 0..1000 {
            let command = world.command();
            command.validate().expect("valid by construction");
            let reply = machine.apply(command.clone(), now);
            machine.check().unwrap_or_else(|fault| panic!("seed {seed} step {step} {command:?}: {fault}"));
            if let Reply::Leased(Leased::Jobs { jobs, .. }) = reply {
                completed += jobs.len();
                world.held.extend(jobs.into_iter().map(|job| (job.job, job.fence)));
            }
            now = match world.dice.below(100) {
                0 => Micros(now.0 - 3_600_000_000),
                1 => now.plus_ms(20_000),
                _ => now.plus_us(world.dice.below(100_000)),
            };
        }
        assert!(completed > 100, "seed {seed} leased only {completed}");
    }
}
