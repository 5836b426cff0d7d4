//! The two sides, side by side.
//!
//! Steps go to Redis in chunks on one connection, which carries them out in the order they were sent; their
//! times go with them. Invariant: the machine and Redis have seen the same steps when states are compared.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use fairlane_core::queue::*;
use fairlane_core::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{AuditReport, BoxFuture, Clock, Engine, EngineError};

use super::world::World;
use super::{Answer, CHUNK_STEPS, Deed, Difference, Run, Step, answer_of};
use crate::subject::{START, bulk_ref, bytes, job, request, type_id, worker_id};

/// Steps between two audits; each takes longer than to compare the states.
const AUDIT_STEPS: usize = 500;
/// So many steps are compared one by one when they are played again.
const FEW_STEPS: usize = 60;

/// The way to Redis, made once for a run.
pub(super) struct Arena {
    redis: RedisEngine,
    clock: Arc<AtomicU64>,
    flushing: redis::aio::MultiplexedConnection,
}

impl Arena {
    pub async fn open(run: &Run) -> Self {
        let clock = Arc::new(AtomicU64::new(START.0));
        let options = RedisOptions {
            clock: Clock::Given(clock.clone()),
            prefix: "differential:".into(),
            response_timeout: Duration::from_secs(60),
            edit_script: run.edit_script,
        };
        let redis = RedisEngine::connect(&run.url, options).await.expect("Redis is there");
        warm_up(&redis).await;
        let client = redis::Client::open(run.url.as_str()).expect("an address of Redis");
        let flushing = client.get_multiplexed_async_connection().await.expect("Redis is there");
        Self { redis, clock, flushing }
    }

    /// Both sides empty but for their settings, without which Redis has no row to compare.
    pub async fn start(&self) -> Match<'_> {
        let mut flush = redis::cmd("FLUSHALL");
        flush.arg("ASYNC");
        flush.query_async::<()>(&mut self.flushing.clone()).await.expect("FLUSHALL is answered");
        self.clock.store(START.0, Ordering::SeqCst);
        let settings = Command::SetWhole(SetWhole { settings: Settings::default() });
        self.redis.execute(settings).await.expect("set_whole is answered");
        let machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
        Match { arena: self, machine, now: START, played: 0, audits_always: false }
    }
}

/// One episode under way.
pub(super) struct Match<'a> {
    arena: &'a Arena,
    machine: Machine,
    now: Micros,
    played: usize,
    /// A replay audits after its last step, since the difference may be one that only an audit finds.
    audits_always: bool,
}

impl Match<'_> {
    /// Lets the world draw `count` steps, knowing the machine's answers, and plays them on both sides.
    pub async fn play_generated(
        &mut self,
        count: usize,
        world: &mut World,
        steps: &mut Vec<Step>,
    ) -> Option<Difference> {
        let mut expected = Vec::with_capacity(count);
        for _ in 0..count {
            let step = world.next_step();
            let answer = self.apply(&step);
            world.learn(&answer);
            expected.push(answer);
            steps.push(step);
        }
        let chunk = &steps[steps.len() - count..];
        self.compare_answers(chunk, expected).await
    }

    /// Plays these steps on both sides and compares the states at the end; after each step where they are few.
    pub async fn play(&mut self, steps: &[Step]) -> Option<Difference> {
        let chunk_steps = if steps.len() <= FEW_STEPS { 1 } else { CHUNK_STEPS };
        for chunk in steps.chunks(chunk_steps) {
            let expected = chunk.iter().map(|step| self.apply(step)).collect();
            if let Some(difference) = self.compare_answers(chunk, expected).await {
                return Some(difference);
            }
            if chunk_steps == 1
                && let Some(difference) = self.compare_states().await
            {
                return Some(difference);
            }
        }
        self.audits_always = true;
        self.compare_states().await
    }

    fn apply(&mut self, step: &Step) -> Answer {
        self.now = step.at;
        answer_of(&mut self.machine, step)
    }

    async fn compare_answers(&mut self, chunk: &[Step], expected: Vec<Answer>) -> Option<Difference> {
        let given = answers_in_order(chunk.iter().map(|step| self.send(step)).collect()).await;
        for (index, (expected, given)) in expected.into_iter().zip(given).enumerate() {
            self.played += 1;
            if expected != given && !is_shorter_audit(&expected, &given) {
                let deed = &chunk[index].deed;
                let what = format!("answers to {deed:?}\n  left  {expected:?}\n  right {given:?}");
                return Some(Difference { steps: self.played, what });
            }
        }
        None
    }

    /// The clock is read when a command is handed over, before its answer is awaited.
    fn send<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, Answer> {
        self.arena.clock.store(step.at.0, Ordering::SeqCst);
        match &step.deed {
            Deed::Command(command) => {
                let reply = self.arena.redis.execute(command.clone());
                Box::pin(async move { answer(reply.await.map(|reply| Answer::Reply(Box::new(reply)))) })
            }
            Deed::TakeToken(type_id) => Box::pin(async move {
                let token = self.arena.redis.take_token(std::slice::from_ref(type_id)).await;
                answer(token.map(Answer::Token))
            }),
        }
    }

    /// Compares the whole state, and checks the machine's own.
    pub async fn compare_states(&mut self) -> Option<Difference> {
        let steps = self.played;
        let differs = |what| Some(Difference { steps, what });
        if let Err(fault) = self.machine.check() {
            return differs(format!("the core's own state: {fault}"));
        }
        match self.arena.redis.dump(self.now).await {
            Ok(dump) => {
                let what = self.machine.dump(self.now).difference(&dump);
                if !what.is_empty() {
                    return differs(format!("states\n{what}"));
                }
                let audited = self.audits_always || self.played.is_multiple_of(AUDIT_STEPS);
                if audited { self.findings().await.and_then(differs) } else { None }
            }
            Err(error) => differs(format!("Redis could not be dumped: {error}")),
        }
    }

    /// What an audit finds on either side; a sound state has nothing to be found.
    async fn findings(&mut self) -> Option<String> {
        let audit = Audit { suspects: self.machine.suspects(), repair: false };
        let of_core = match self.machine.apply(Command::Audit(audit), self.now) {
            Reply::Audited(audited) => audited.findings,
            other => return Some(format!("the core's audit was answered with {other:?}")),
        };
        let redis: &dyn Engine = &self.arena.redis;
        match redis.audit_all(false, |_| {}).await {
            Ok(report) if of_core.is_empty() && report == clean(&report) => None,
            report => Some(format!("audits\n  left  {of_core:?}\n  right {report:?}")),
        }
    }
}

/// Whether Redis has ended its step of an audit before the last suspect, and found as little as the core.
fn is_shorter_audit(expected: &Answer, given: &Answer) -> bool {
    let (Answer::Reply(expected), Answer::Reply(given)) = (expected, given) else { return false };
    let (Reply::Audited(expected), Reply::Audited(given)) = (&**expected, &**given) else { return false };
    let unfinished = (1..expected.looked_at).contains(&given.looked_at);
    unfinished && *given == Audited { looked_at: given.looked_at, ..expected.clone() }
}

/// A report of the same walk without findings.
fn clean(report: &AuditReport) -> AuditReport {
    AuditReport { groups: report.groups, looked_at: report.looked_at, ..AuditReport::default() }
}

fn answer(result: Result<Answer, EngineError>) -> Answer {
    result.unwrap_or_else(|error| Answer::Failed(error.to_string()))
}

/// Drives all of them at once; each is begun in its turn, so that they are sent in their order.
async fn answers_in_order(futures: Vec<BoxFuture<'_, Answer>>) -> Vec<Answer> {
    let mut waiting: VecDeque<(usize, BoxFuture<'_, Answer>)> = futures.into_iter().enumerate().collect();
    let mut answers: Vec<Option<Answer>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        waiting.retain_mut(|(index, future)| match future.as_mut().poll(context) {
            Poll::Ready(answer) => {
                answers[*index] = Some(answer);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().map(|answer| answer.expect("all have answered")).collect()
}

/// Every script once: one that the server does not know yet would be overtaken by those it knows.
async fn warm_up(redis: &RedisEngine) {
    let reference = job("g", "1").job;
    let fence = Fence(1);
    let commands = [
        Command::Enqueue(Enqueue { jobs: vec![job("g", "1")] }),
        Command::Lease(request("w", 1, 1)),
        Command::Extend(Extend { leases: vec![(reference.clone(), fence)], lease_ms: 1000 }),
        Command::Settle(Settle {
            settlements: vec![Settlement {
                job: reference,
                fence,
                outcome: Outcome::Failed { reason: bytes("") },
            }],
        }),
        Command::Promote(Promote { jobs_max: 1 }),
        Command::Reclaim(Reclaim { jobs_max: 1 }),
        Command::SetGroup(SetGroup {
            group: GroupId::new("g").expect("a name"),
            patch: GroupPatch::default(),
            reset_congestion: false,
        }),
        Command::SetType(SetType { type_id: type_id("t"), patch: TypePatch::default() }),
        Command::RemoveType(RemoveType { type_id: type_id("never-seen") }),
        Command::SetWhole(SetWhole { settings: Settings::default() }),
        Command::Inspect(Inspect::Whole),
    ];
    for command in commands.into_iter().chain(bulk_commands()).chain(picking_commands()) {
        // A script that fails here fails in the run, too, where it is told.
        let _ = redis.execute(command).await;
    }
}

fn bulk_commands() -> impl Iterator<Item = Command> {
    let bulk = bulk_ref("g", "b");
    let commands = [
        Command::OpenBulk(OpenBulk {
            bulk: bulk.clone(),
            deadline_ms: None,
            failures_max: None,
            payload: bytes(""),
        }),
        Command::SealBulk(SealBulk { bulk: bulk.clone(), expected: None }),
        Command::HoldBulk(HoldBulk { bulk: bulk.clone() }),
        Command::ResumeBulk(ResumeBulk { bulk: bulk.clone() }),
        Command::TakeCompleted(TakeCompleted { worker: worker_id("w"), bulks_max: 1, lease_ms: 1000 }),
        Command::FinishBulk(FinishBulk {
            bulk: bulk.clone(),
            fence: Fence(1),
            summary: bytes(""),
            outcome: Aggregation::Done,
        }),
        Command::CancelBulk(CancelBulk { bulk }),
        Command::Sweep(Sweep { jobs_max: 1 }),
    ];
    commands.into_iter()
}

fn picking_commands() -> impl Iterator<Item = Command> {
    let one = job("g", "1").job;
    let commands = [
        Command::Admit(Admit { jobs_max: 1 }),
        Command::CancelJob(CancelJob { jobs: vec![one.clone()] }),
        Command::RequeueDead(RequeueDead { jobs: vec![one.clone()] }),
        Command::Discard(Discard { jobs: vec![one.clone()] }),
        Command::MakeDue(MakeDue { group: None, cursor: 0, jobs_max: 1 }),
        Command::ListJobs(ListJobs {
            listing: Listing::Waiting,
            group: None,
            type_id: None,
            cursor: 0,
            limit: 1,
        }),
        Command::Explain(Explain { job: one }),
        Command::Audit(Audit { suspects: vec![Suspect::Whole], repair: false }),
    ];
    commands.into_iter()
}
