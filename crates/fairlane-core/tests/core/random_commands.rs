//! Seeded random commands on the machine; its complete state is checked after each one.

use std::sync::Arc;

use fairlane_core::kernel::row::{ChangeSet, Value};
use fairlane_core::kernel::{RestoreMode, Stored as _};
use fairlane_core::limits::{LEASE_BYTES_MAX, PAYLOAD_BYTES_MAX, TYPES_MAX};
use fairlane_core::queue::rows::Changes;
use fairlane_core::queue::*;
use fairlane_core::{
    BulkId, Cost, Fence, GroupId, HashSeed, JobId, Level, Micros, Rate, RequestNumber, Trace, TypeId, Weight,
    WorkerId,
};

use crate::memory_store::MemoryStore;

/// A random number generator of our own, so that a seed gives the same sequence forever.
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
    taken: Option<LeasedBulk>,
    /// The payload of every job.
    payload: Arc<[u8]>,
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
        match self.dice.below(28) {
            20..=22 => self.bulk(),
            23 => Command::Admit(Admit { jobs_max: 1 + self.dice.below(20) as usize }),
            24 => Command::Sweep(Sweep { jobs_max: 1 + self.dice.below(20) as usize }),
            25..=26 => self.pick_jobs(),
            27 => Command::MakeDue(MakeDue {
                group: (self.dice.below(2) == 0).then(|| self.group()),
                cursor: self.dice.below(3),
                jobs_max: 1 + self.dice.below(5) as usize,
            }),
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
                    base_priority: Some(self.dice.below(2000) as i64 - 1000),
                    weight: Some(Weight::new(1 + self.dice.below(10) as u32).expect("valid by construction")),
                    rate: Some(self.rate()),
                    concurrency: Some((self.dice.below(2) == 0).then_some(3)),
                    paused: Some(self.dice.below(4) == 0),
                };
                Command::SetGroup(SetGroup {
                    group: self.group(),
                    patch,
                    reset_congestion: self.dice.below(4) == 0,
                })
            }
            18 => {
                let patch = TypePatch {
                    rate: Some(self.rate()),
                    concurrency: None,
                    paused: Some(self.dice.below(5) == 0),
                    max_retry_count: Some((self.dice.below(2) == 0).then_some(1)),
                };
                Command::SetType(SetType { type_id: self.type_id(), patch })
            }
            _ => {
                let leases = self.held.iter().take(3).cloned().collect();
                Command::Extend(Extend { leases, lease_ms: 3000 })
            }
        }
    }

    fn bulk_ref(&mut self) -> BulkRef {
        let id = BulkId::new(format!("b{}", self.dice.below(4))).expect("valid by construction");
        BulkRef { group: self.group(), id }
    }

    fn bulk(&mut self) -> Command {
        let bulk = self.bulk_ref();
        match self.dice.below(12) {
            0..=4 => Command::OpenBulk(OpenBulk {
                bulk,
                deadline_ms: (self.dice.below(3) == 0).then_some(3000),
                failures_max: (self.dice.below(3) == 0).then_some(2),
                payload: Arc::from(&b"to whom"[..]),
            }),
            5..=6 => Command::SealBulk(SealBulk { bulk, expected: None }),
            7 => Command::HoldBulk(HoldBulk { bulk }),
            8 => Command::ResumeBulk(ResumeBulk { bulk }),
            9 => Command::CancelBulk(CancelBulk { bulk }),
            10 => {
                let worker =
                    WorkerId::new(format!("a{}", self.dice.below(2))).expect("valid by construction");
                Command::LeaseBulks(LeaseBulks { worker, bulks_max: 2, lease_ms: 500 })
            }
            _ => {
                let fence = self.taken.as_ref().map_or(Fence(1), |taken| taken.fence);
                let bulk = self.taken.as_ref().map_or(bulk, |taken| taken.view.bulk.clone());
                let outcome = match self.dice.below(4) {
                    0 => Aggregation::Failed,
                    1 => Aggregation::Released { delay_ms: self.dice.below(3) * 500 },
                    _ => Aggregation::Done,
                };
                let summary = Arc::from(&b"{}"[..]);
                let callback = (self.dice.below(2) == 0).then(|| Callback {
                    id: JobId::new(format!("c{}", self.dice.below(3))).expect("valid by construction"),
                    payload: Arc::from(&b"{}"[..]),
                    trace: None,
                });
                Command::SettleBulk(SettleBulk { bulk, fence, summary, outcome, callback })
            }
        }
    }

    fn pick_jobs(&mut self) -> Command {
        let id = JobId::new(format!("j{}", self.dice.below(3000))).expect("valid by construction");
        let some = JobRef { group: self.group(), id };
        let jobs = vec![self.held.first().map_or(some.clone(), |(job, _)| job.clone()), some];
        let jobs = if jobs[0] == jobs[1] { jobs[..1].to_vec() } else { jobs };
        match self.dice.below(4) {
            0 => Command::RequeueDead(RequeueDead { jobs }),
            1 => Command::Discard(Discard { jobs }),
            _ => Command::CancelJob(CancelJob { jobs }),
        }
    }

    fn trace(&mut self) -> Trace {
        let (trace, span) = (1 + self.dice.below(1 << 60), 1 + self.dice.below(1 << 60));
        Trace::new(&format!("00-{trace:032x}-{span:016x}-01")).expect("valid by construction")
    }

    fn enqueue(&mut self) -> Command {
        let mut jobs = Vec::new();
        // At most as many bytes as one command accepts.
        let most = if self.payload.len() > 1000 { 2 } else { 10 };
        for _ in 0..1 + self.dice.below(most) {
            jobs.push(NewJob {
                job: JobRef {
                    group: self.group(),
                    id: JobId::new(format!("j{}", self.dice.below(3000))).expect("valid by construction"),
                },
                type_id: self.type_id(),
                level: Level::ALL[self.dice.below(3) as usize],
                cost: Cost::new(1 + self.dice.below(4) as u32).expect("valid by construction"),
                payload: self.payload.clone(),
                bulk: (self.dice.below(3) == 0).then(|| self.bulk_ref().id),
                trace: (self.dice.below(3) == 0).then(|| self.trace()),
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
                4 => Outcome::Cancelled { reason: note },
                _ => Outcome::Succeeded { result: note },
            };
            if !settlements.iter().any(|s: &Settlement| s.job == job) {
                settlements.push(Settlement { job, fence, outcome });
            }
        }
        Command::Settle(Settle { settlements })
    }
}

/// The findings of a complete audit, with repair.
fn findings(machine: &mut Machine, now: Micros) -> Vec<Finding> {
    let mut suspects = machine.suspects();
    suspects.push(Suspect::Queue);
    match machine.apply(Command::Audit(Audit { suspects, repair: true }), now) {
        Reply::Audit(audited) => audited.findings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_state_reached_by_random_commands_is_consistent() {
    let mut ended_by_bytes = 0;
    for seed in 1..=15_u64 {
        // In every fourth run, payloads are so large that they end a lease.
        let payload = Arc::from(vec![b'x'; if seed % 4 == 0 { PAYLOAD_BYTES_MAX } else { 2 }]);
        let mut world = World { dice: Dice(seed * 7919), request: 0, held: Vec::new(), taken: None, payload };
        let mut now = Micros(1_700_000_000_000_000);
        let settings = Settings {
            discipline: if seed % 3 == 0 { Discipline::Classic } else { Discipline::Share },
            global_rps: 30,
            ready_queue_max_size: 20,
            rate: world.rate(),
            completed_kept_max: 50,
            failed_kept_max: 30,
            bulk_retention_ms: 5000,
            ..Settings::default()
        };
        let mut machine = Machine::new(settings, HashSeed::FIXED, now);
        let mut completed = 0;
        for step in 0..1000 {
            let command = world.command();
            command.validate().expect("valid by construction");
            let reply = machine.apply(command.clone(), now);
            machine.check().unwrap_or_else(|fault| panic!("seed {seed} step {step} {command:?}: {fault}"));
            if step % 20 == 0 {
                assert_eq!(findings(&mut machine, now), [], "seed {seed} step {step}");
            }
            match reply {
                Reply::Lease(Leased::Jobs { jobs, .. }) => {
                    let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
                    assert!(bytes < LEASE_BYTES_MAX + PAYLOAD_BYTES_MAX, "seed {seed} step {step}");
                    ended_by_bytes += usize::from(bytes >= LEASE_BYTES_MAX);
                    completed += jobs.len();
                    world.held.extend(jobs.into_iter().map(|job| (job.job, job.fence)));
                }
                Reply::LeaseBulks(taken) => world.taken = taken.bulks.into_iter().next(),
                _ => {}
            }
            now = match world.dice.below(100) {
                0 => Micros(now.0 - 3_600_000_000),
                1 => now.plus_ms(20_000),
                _ => now.plus_us(world.dice.below(100_000)),
            };
        }
        assert!(completed > 60, "seed {seed} leased only {completed}");
    }
    assert!(ended_by_bytes > 0, "no lease had enough bytes");
}

#[test]
fn the_same_commands_under_two_seeds_give_the_same_replies_rows_and_dumps() {
    for seed in 1..=6_u64 {
        let payload = Arc::from(&b"{}"[..]);
        let mut world =
            World { dice: Dice(seed * 104_729), request: 0, held: Vec::new(), taken: None, payload };
        let mut now = Micros(1_700_000_000_000_000);
        let discipline = if seed % 3 == 0 { Discipline::Classic } else { Discipline::Share };
        let settings = Settings { discipline, bulk_retention_ms: 5000, ..Settings::default() };
        let seeds = [HashSeed::FIXED, HashSeed::new(*b"a different seed")];
        let mut machines = seeds.map(|seed| Machine::new(settings.clone(), seed, now));
        machines.iter_mut().for_each(Machine::record);
        for step in 0..1000 {
            let command = world.command();
            let [reply, other] = [0, 1].map(|at| machines[at].apply(command.clone(), now));
            assert_eq!(reply, other, "seed {seed} step {step} {command:?}");
            let [rows, others] = [0, 1].map(|at| format!("{:?}", machines[at].take_changes()));
            assert_eq!(rows, others, "seed {seed} step {step} {command:?}");
            match reply {
                Reply::Lease(Leased::Jobs { jobs, .. }) => {
                    world.held.extend(jobs.into_iter().map(|job| (job.job, job.fence)));
                }
                Reply::LeaseBulks(taken) => world.taken = taken.bulks.into_iter().next(),
                _ => {}
            }
            now = now.plus_us(world.dice.below(100_000));
        }
        assert_eq!(machines[0].dump(now).difference(&machines[1].dump(now)), "", "seed {seed}");
        let [suspects, others] = [0, 1].map(|at| machines[at].suspects());
        assert_eq!(suspects, others, "seed {seed}");
        assert!(world.request > 100, "seed {seed}");
    }
}

/// The machine of the rows that are stored, and what was mended.
fn restored(store: &mut MemoryStore, mode: RestoreMode) -> (Machine, Vec<String>) {
    let restored =
        Machine::restore(store, HashSeed::FIXED, mode).expect("the rows fit").expect("rows were written");
    (restored.machine, restored.mended)
}

#[test]
fn a_machine_restored_from_its_rows_goes_on_as_the_one_they_came_from() {
    let mut store = MemoryStore::default();
    assert!(
        Machine::restore(&mut store, HashSeed::FIXED, RestoreMode::Strict).is_ok_and(|none| none.is_none())
    );
    let mut tables: Vec<&str> = Vec::new();
    for seed in 1..=9_u64 {
        let payload = Arc::from(&b"{}"[..]);
        let mut world =
            World { dice: Dice(seed * 15_485_863), request: 0, held: vec![], taken: None, payload };
        let mut now = Micros(1_700_000_000_000_000);
        let discipline = if seed % 3 == 0 { Discipline::Classic } else { Discipline::Share };
        let settings =
            Settings { discipline, completed_kept_max: 50, bulk_retention_ms: 5000, ..Settings::default() };
        let mut running = Machine::new(settings.clone(), HashSeed::FIXED, now);
        let mut stored = Machine::new(settings, HashSeed::FIXED, now);
        stored.record();
        store = MemoryStore::default();
        for step in 1..=1000 {
            let command = world.command();
            let reply = running.apply(command.clone(), now);
            assert_eq!(reply, stored.apply(command.clone(), now), "seed {seed} step {step} {command:?}");
            match reply {
                Reply::Lease(Leased::Jobs { jobs, .. }) => {
                    world.held.extend(jobs.into_iter().map(|job| (job.job, job.fence)));
                }
                Reply::LeaseBulks(taken) => world.taken = taken.bulks.into_iter().next(),
                _ => {}
            }
            stored.take_changes().write_to(&mut store).expect("every value fits");
            if step % 50 == 0 {
                stored = restored(&mut store, RestoreMode::Strict).0;
                stored.check().unwrap_or_else(|fault| panic!("seed {seed} step {step}: {fault}"));
                assert_eq!(running.dump(now).difference(&stored.dump(now)), "", "seed {seed} step {step}");
                assert_eq!(stored.take_changes().count(), 0, "what is there has rows");
            }
            now = now.plus_us(world.dice.below(100_000));
        }
        let (mended, _) = restored(&mut store, RestoreMode::Mend);
        mended.check().unwrap_or_else(|fault| panic!("seed {seed} mended: {fault}"));
        assert_eq!(mended.jobs(), running.jobs(), "seed {seed}: no job is lost by mending");
        tables.extend(
            Changes::TABLES.iter().map(|table| table.name).filter(|table| store.rows(table).count() > 0),
        );
    }
    assert!(Changes::TABLES.iter().all(|table| tables.contains(&table.name)), "{tables:?}");
}

#[test]
fn a_number_that_no_queue_has_given_or_could_have_given_is_damage() {
    let now = Micros(1_700_000_000_000_000);
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, now);
    machine.record();
    let bulk = BulkRef { group: GroupId::new("g").unwrap(), id: BulkId::new("b").unwrap() };
    let payload = Arc::from(&b"{}"[..]);
    machine.call(OpenBulk { bulk, deadline_ms: None, failures_max: None, payload }, now);
    let mut whole = MemoryStore::default();
    machine.take_changes().write_to(&mut whole).expect("every value fits");
    restored(&mut whole.clone(), RestoreMode::Strict);
    let text = |text: &'static str| Value::Text(text.into());
    for (table, key, column, value) in [
        ("whole", "opened", 1, text("0")),
        ("whole", "time", 1, text("9007199254740992")),
        ("whole", "fence", 1, text("18446744073709551615")),
        ("whole", "bucket", 1, text("1:18446744073709551615")),
        ("groups", "g", 6, Value::Integer(i64::MAX)),
    ] {
        let mut store = whole.clone();
        store.damage(table, key, column, value);
        let restored = Machine::restore(&mut store, HashSeed::FIXED, RestoreMode::Strict);
        assert!(restored.is_err(), "{table}.{key}");
    }
}

#[test]
fn mending_takes_as_many_types_as_there_may_be_and_tells_of_every_job_that_is_lost() {
    let now = Micros(1_700_000_000_000_000);
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, now);
    machine.record();
    let worker = WorkerId::new("w").expect("valid by construction");
    for number in 1..=TYPES_MAX as u64 + 3 {
        let type_id = TypeId::new(format!("t{number}")).expect("valid by construction");
        let id = JobId::new(format!("j{number}")).expect("valid by construction");
        let job = JobRef { group: GroupId::new("g").expect("valid by construction"), id };
        let (payload, types) = (Arc::from(&b"{}"[..]), vec![type_id.clone()]);
        let (level, cost) = (Level::Normal, Cost::default());
        let new = NewJob {
            job,
            type_id: type_id.clone(),
            level,
            cost,
            payload,
            bulk: None,
            trace: None,
            delay_ms: 0,
        };
        machine.call(Enqueue { jobs: vec![new] }, now);
        let request = RequestNumber(number);
        let lease = Lease { worker: worker.clone(), request, types, jobs_max: 1, lease_ms: 1000 };
        let Leased::Jobs { jobs, .. } = machine.call(lease, now) else { panic!("superseded") };
        let outcome = Outcome::Succeeded { result: Arc::from(&b"done"[..]) };
        let settlement = Settlement { job: jobs[0].job.clone(), fence: jobs[0].fence, outcome };
        machine.call(Settle { settlements: vec![settlement] }, now);
        machine.call(RemoveType { type_id }, now);
    }
    let mut store = MemoryStore::default();
    machine.take_changes().write_to(&mut store).expect("every value fits");
    assert_eq!(restored(&mut store, RestoreMode::Strict).0.jobs(), TYPES_MAX as u64 + 3);
    store.lose("progress");
    let (mended, told) = restored(&mut store, RestoreMode::Mend);
    mended.check().unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(mended.jobs(), TYPES_MAX as u64);
    assert_eq!(told.iter().filter(|line| line.contains("is lost")).count(), 3, "{told:?}");
}
