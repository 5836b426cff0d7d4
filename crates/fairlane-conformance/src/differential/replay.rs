//! Runs steps on the core's machine and on Redis, and compares the two.
//!
//! Steps go to Redis in chunks on one connection, which carries them out in the order they were
//! sent; their times go with them. Invariant: the machine and Redis have run the same steps when
//! states are compared.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use fairlane_core::queue::*;
use fairlane_core::{HashSeed, Machines, Micros};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{AuditReport, BoxFuture, Clock, Engine, EngineError};

use super::generator::Generator;
use super::{Action, Difference, Response, Run, Step, apply_to_all};
use crate::subject::START;

/// Steps between two audits; an audit takes longer than a comparison of the states.
const AUDIT_STEPS: usize = 500;
/// Most steps that a replay compares one by one.
const FEW_STEPS: usize = 60;

/// The connections to Redis, made once for a run.
pub(super) struct Backend {
    redis: RedisEngine,
    clock: Arc<AtomicU64>,
    flushing: redis::aio::MultiplexedConnection,
    sent_at_once: usize,
}

impl Backend {
    pub async fn open(run: &Run) -> Self {
        let clock = Arc::new(AtomicU64::new(START.0));
        let options = RedisOptions {
            clock: Clock::Given(clock.clone()),
            prefix: "differential:".into(),
            response_timeout: Duration::from_secs(60),
            edit_script: run.edit_script,
        };
        let redis = RedisEngine::connect(&run.url, options).await.expect("Redis is there");
        let flushing = fairlane_testkit::redis::connect(&run.url).await;
        Self { redis, clock, flushing, sent_at_once: run.sent_at_once }
    }

    /// Starts an episode with both sides empty except for their settings, without which Redis has
    /// no row to compare. The first command also loads the library.
    pub async fn start(&self) -> Episode<'_> {
        let mut flush = redis::cmd("FLUSHALL");
        flush.arg("ASYNC");
        flush.query_async::<()>(&mut self.flushing.clone()).await.expect("FLUSHALL is answered");
        self.clock.store(START.0, Ordering::SeqCst);
        let settings = Command::SetQueue(SetQueue { settings: Settings::default() });
        self.redis.submit(settings.into()).await.expect("set_queue is answered");
        let machines = Machines::new(HashSeed::FIXED, START);
        Episode { backend: self, machines, now: START, latest: START, steps_run: 0, audits_always: false }
    }
}

/// One episode in progress.
pub(super) struct Episode<'a> {
    backend: &'a Backend,
    machines: Machines,
    now: Micros,
    /// The latest time of a step. The core forgets a worker's request that has expired; Redis expires
    /// its key by the clock of the server, which these steps do not move. So after a step back in time
    /// a request that has expired once counts as forgotten on both sides.
    latest: Micros,
    steps_run: usize,
    /// Whether to audit after the last step. A replay does, because only an audit may find the
    /// difference.
    audits_always: bool,
}

impl Episode<'_> {
    /// Draws `count` steps, of which each depends on the machine's responses so far, and runs them
    /// on both sides.
    pub async fn run_generated(
        &mut self,
        count: usize,
        generator: &mut Generator,
        steps: &mut Vec<Step>,
    ) -> Option<Difference> {
        let mut expected = Vec::with_capacity(count);
        for _ in 0..count {
            let step = generator.next_step();
            let response = self.apply(&step);
            generator.observe(&response);
            expected.push(response);
            steps.push(step);
        }
        let chunk = &steps[steps.len() - count..];
        self.compare_responses(chunk, expected).await
    }

    /// Runs these steps on both sides and compares the states at the end, or after each step if
    /// they are few.
    pub async fn run(&mut self, steps: &[Step]) -> Option<Difference> {
        let chunk_steps = if steps.len() <= FEW_STEPS { 1 } else { self.backend.sent_at_once };
        for chunk in steps.chunks(chunk_steps) {
            let expected = chunk.iter().map(|step| self.apply(step)).collect();
            if let Some(difference) = self.compare_responses(chunk, expected).await {
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

    fn apply(&mut self, step: &Step) -> Response {
        self.now = step.at;
        self.latest = self.latest.max(step.at);
        let response = apply_to_all(&mut self.machines, step);
        self.machines.take_signals();
        response
    }

    async fn compare_responses(&mut self, chunk: &[Step], expected: Vec<Response>) -> Option<Difference> {
        let given = responses_in_order(chunk.iter().map(|step| self.send(step)).collect()).await;
        for (index, (expected, given)) in expected.into_iter().zip(given).enumerate() {
            self.steps_run += 1;
            if expected != given && !is_shorter_audit(&expected, &given) {
                let action = &chunk[index].action;
                let what = format!("responses to {action:?}\n  left  {expected:?}\n  right {given:?}");
                return Some(Difference { steps: self.steps_run, what });
            }
        }
        None
    }

    /// The engine reads the clock when a command is submitted, before its reply is awaited.
    fn send<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, Response> {
        self.backend.clock.store(step.at.0, Ordering::SeqCst);
        match &step.action {
            Action::Command(command) => {
                let reply = self.backend.redis.submit(command.clone().into());
                Box::pin(async move { response(reply.await.map(any_reply)) })
            }
            Action::Other(command) => {
                let reply = self.backend.redis.submit(command.clone());
                Box::pin(async move { response(reply.await.map(any_reply)) })
            }
            Action::TakeToken(type_id) => Box::pin(async move {
                let token = self.backend.redis.take_token(std::slice::from_ref(type_id)).await;
                response(token.map(Response::Token))
            }),
        }
    }

    /// Compares the complete states, and checks the invariants of the machine.
    pub async fn compare_states(&mut self) -> Option<Difference> {
        let steps = self.steps_run;
        let differs = |what| Some(Difference { steps, what });
        if let Err(fault) = self.machines.check() {
            return differs(format!("the core's own state: {fault}"));
        }
        match self.backend.redis.dump(self.latest).await {
            Ok(dump) => {
                let what = self.machines.dump(self.latest).difference(&dump);
                if !what.is_empty() {
                    return differs(format!("states\n{what}"));
                }
                let audited = self.audits_always || self.steps_run.is_multiple_of(AUDIT_STEPS);
                if audited { self.findings().await.and_then(differs) } else { None }
            }
            Err(error) => differs(format!("Redis could not be dumped: {error}")),
        }
    }

    /// The findings of an audit of either side; a sound state has none.
    async fn findings(&mut self) -> Option<String> {
        let audit = Audit { suspects: self.machines.queue.suspects(), repair: false };
        let of_core = self.machines.queue.call(audit, self.now).findings;
        let redis: &dyn Engine = &self.backend.redis;
        match redis.audit_all(false, |_| {}).await {
            Ok(report) if of_core.is_empty() && report == clean(&report) => None,
            report => Some(format!("audits\n  left  {of_core:?}\n  right {report:?}")),
        }
    }
}

/// Whether Redis checked fewer suspects of an audit, because each step has a budget, and had no
/// findings, like the core.
fn is_shorter_audit(expected: &Response, given: &Response) -> bool {
    let (Response::Reply(expected), Response::Reply(given)) = (expected, given) else { return false };
    let (Reply::Audit(expected), Reply::Audit(given)) = (&**expected, &**given) else { return false };
    let unfinished = (1..expected.looked_at).contains(&given.looked_at);
    unfinished && *given == Audited { looked_at: given.looked_at, ..expected.clone() }
}

/// A report of the same scan without findings.
fn clean(report: &AuditReport) -> AuditReport {
    AuditReport { groups: report.groups, looked_at: report.looked_at, ..AuditReport::default() }
}

fn any_reply(reply: fairlane_core::Reply) -> Response {
    match reply {
        fairlane_core::Reply::Queue(reply) => Response::Reply(Box::new(reply)),
        other => Response::Other(Box::new(other)),
    }
}

fn response(result: Result<Response, EngineError>) -> Response {
    result.unwrap_or_else(|error| Response::Failed(error.to_string()))
}

/// Runs all futures concurrently. Each is first polled in its turn, so that the commands are sent
/// in order.
async fn responses_in_order(futures: Vec<BoxFuture<'_, Response>>) -> Vec<Response> {
    let mut waiting: VecDeque<(usize, BoxFuture<'_, Response>)> = futures.into_iter().enumerate().collect();
    let mut responses: Vec<Option<Response>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        waiting.retain_mut(|(index, future)| match future.as_mut().poll(context) {
            Poll::Ready(response) => {
                responses[*index] = Some(response);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    responses.into_iter().map(|response| response.expect("every future has completed")).collect()
}
