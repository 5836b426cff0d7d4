//! Sends concurrent small enqueues together, because each command costs a store more than a job of it.
//!
//! The first few calls are sent at once, so that a caller alone waits for nothing. Calls that arrive
//! while these are in flight wait for one of them to end, and then share a command. Invariant: a call
//! gets the receipts of its own jobs, and the errors of no other; if it is dropped before its jobs are
//! sent, they are not sent.
//!
//! An embedded engine has no use for this: its thread applies all commands that wait in one turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use fairlane_core::kernel::Operation;
use fairlane_core::limits::ENQUEUE_JOBS_MAX;
use fairlane_core::queue::{Enqueue, Enqueued, NewJob};
use fairlane_engine::{Engine, EngineError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Calls that are sent without waiting for others.
const IN_FLIGHT_MAX: usize = 4;
/// Most jobs of a call that shares a command with others.
const SMALL_JOBS_MAX: usize = 10;
/// Payload bytes of a shared command, unless a single call has more.
const SHARED_BYTES: usize = 256 * 1024;

pub(crate) struct EnqueueBatcher {
    engine: Arc<dyn Engine>,
    is_remote: bool,
    /// The runtime that drives the connection of the engine. Calls may come from others, which may end
    /// or rest when a call returns.
    runtime: Option<Handle>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Commands in flight, each with a [`Slot`].
    in_flight: usize,
    /// Calls that wait for a slot; empty while one is free.
    waiting: VecDeque<Call>,
}

struct Call {
    jobs: Vec<NewJob>,
    reply: oneshot::Sender<Result<Enqueued, EngineError>>,
}

impl EnqueueBatcher {
    pub fn new(engine: Arc<dyn Engine>) -> Arc<Self> {
        let is_remote = engine.name() != "embedded";
        Arc::new(Self { engine, is_remote, runtime: Handle::try_current().ok(), state: Mutex::default() })
    }

    /// Adds jobs and returns their receipts in order.
    pub async fn enqueue(self: &Arc<Self>, jobs: Vec<NewJob>) -> Result<Enqueued, EngineError> {
        if !self.is_remote || jobs.len() > SMALL_JOBS_MAX {
            return self.engine.enqueue_all(jobs).await;
        }
        // An invalid job must not fail the calls that share its command.
        let command = Enqueue { jobs };
        command.validate()?;
        let jobs = command.jobs;
        let shared = {
            let mut state = self.state();
            if state.in_flight < IN_FLIGHT_MAX {
                state.in_flight += 1;
                Err(jobs)
            } else {
                let (reply, replied) = oneshot::channel();
                state.waiting.push_back(Call { jobs, reply });
                Ok(replied)
            }
        };
        match shared {
            Ok(replied) => replied.await.unwrap_or_else(|_| Err(not_sent())),
            Err(jobs) => {
                let _slot = Slot(self.clone());
                self.engine.enqueue_all(jobs).await
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the calls")
    }
}

impl State {
    /// The next calls that fit into one command, without those that were dropped.
    fn next_calls(&mut self) -> Vec<Call> {
        let (mut calls, mut jobs, mut bytes) = (Vec::new(), 0, 0);
        while let Some(call) = self.waiting.pop_front_if(|call| {
            jobs += call.jobs.len();
            bytes += call.jobs.iter().map(|new| new.payload.len()).sum::<usize>();
            calls.is_empty() || jobs <= ENQUEUE_JOBS_MAX && bytes <= SHARED_BYTES
        }) {
            if call.reply.is_closed() {
                continue;
            }
            calls.push(call);
        }
        calls
    }
}

/// The right to have one command in flight. When it is dropped, it passes to the calls that wait.
struct Slot(Arc<EnqueueBatcher>);

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.0.state();
        let calls = state.next_calls();
        let runtime = self.0.runtime.clone().or_else(|| Handle::try_current().ok());
        match runtime {
            Some(runtime) if !calls.is_empty() => {
                let slot = Slot(self.0.clone());
                drop(state);
                runtime.spawn(send(slot, calls));
            }
            _ => {
                state.in_flight -= 1;
                calls.into_iter().rev().for_each(|call| state.waiting.push_front(call));
                // Without a runtime and without another command nothing sends them: they get an error.
                if state.in_flight == 0 {
                    state.waiting.clear();
                }
            }
        }
    }
}

/// Sends calls in one command and gives each its receipts. If the command fails, its halves are sent
/// one after the other: the reason may concern one call only, such as a customer whose data is
/// damaged. If the engine accepts no writes at all, the calls get the error at once.
async fn send(slot: Slot, calls: Vec<Call>) {
    let engine = &slot.0.engine;
    let mut batches = vec![calls];
    while let Some(mut calls) = batches.pop() {
        // The callers of a failed command may have been dropped meanwhile.
        calls.retain(|call| !call.reply.is_closed());
        if calls.is_empty() {
            continue;
        }
        let jobs: Vec<NewJob> = calls.iter().flat_map(|call| call.jobs.iter().cloned()).collect();
        match engine.enqueue_all(jobs).await {
            Ok(enqueued) => give_receipts(calls, enqueued),
            Err(error) if calls.len() == 1 => give_error(calls, &error),
            Err(error) if error.is_retryable() && refuses_writes(&**engine).await => {
                give_error(batches.drain(..).flatten().chain(calls), &error);
            }
            Err(_) => {
                let second = calls.split_off(calls.len() / 2);
                batches.extend([second, calls]);
            }
        }
    }
}

async fn refuses_writes(engine: &dyn Engine) -> bool {
    engine.admin().check_writes().await.is_err_and(|error| error.is_retryable())
}

/// Gives each call the receipts of its own jobs.
fn give_receipts(calls: Vec<Call>, Enqueued { receipts, backlogs }: Enqueued) {
    let (mut receipts, mut backlogs) = (receipts.into_iter(), backlogs.into_iter());
    for Call { jobs, reply } in calls {
        let own = Enqueued {
            receipts: receipts.by_ref().take(jobs.len()).collect(),
            backlogs: backlogs.by_ref().take(jobs.len()).collect(),
        };
        // The caller may have been dropped.
        let _ = reply.send(Ok(own));
    }
}

fn give_error(calls: impl IntoIterator<Item = Call>, error: &EngineError) {
    for Call { reply, .. } in calls {
        // The caller may have been dropped.
        let _ = reply.send(Err(error.clone()));
    }
}

fn not_sent() -> EngineError {
    EngineError::Unavailable { engine: "fairlane", reason: "the runtime of another call has ended".into() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fairlane_core::Command;
    use fairlane_core::kernel::Registered;
    use fairlane_core::limits::PAYLOAD_BYTES_MAX;
    use fairlane_core::queue::{self, JobReceipt, Settings};
    use fairlane_engine::{Clock, EmbeddedEngine, Hooks, layer};
    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;

    use super::*;
    use crate::job::Job;

    /// A batcher over an engine whose commands wait for a permit, and the number of its commands.
    fn gated() -> (Arc<EnqueueBatcher>, Arc<Semaphore>, Arc<AtomicUsize>) {
        gated_over(Arc::new(EmbeddedEngine::new(Settings::default(), Clock::System).unwrap()))
    }

    fn gated_over(engine: Arc<dyn Engine>) -> (Arc<EnqueueBatcher>, Arc<Semaphore>, Arc<AtomicUsize>) {
        let (gate, commands) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (permits, count) = (gate.clone(), commands.clone());
        let hooks = Hooks::default().submit(move |inner, command: Command| {
            count.fetch_add(1, Ordering::SeqCst);
            let permits = permits.clone();
            Box::pin(async move {
                permits.acquire().await.expect("the gate is never closed").forget();
                inner.submit(command).await
            })
        });
        (batcher_of(layer(engine, hooks)), gate, commands)
    }

    fn batcher_of(engine: Arc<dyn Engine>) -> Arc<EnqueueBatcher> {
        let runtime = Handle::try_current().ok();
        Arc::new(EnqueueBatcher { engine, is_remote: true, runtime, state: Mutex::default() })
    }

    fn jobs(number: usize) -> Vec<NewJob> {
        let job = |part: usize| Job::new(format!("g{}", number % 3), "t", &1).id(format!("{number}-{part}"));
        (0..=number % 2).map(|part| job(part).into_command(None).unwrap()).collect()
    }

    /// Starts a call, and waits until it is in flight or waits.
    async fn start(
        batcher: &Arc<EnqueueBatcher>,
        calls: &mut JoinSet<(usize, Result<Enqueued, EngineError>)>,
        number: usize,
    ) -> tokio::task::AbortHandle {
        let own = batcher.clone();
        let call = calls.spawn(async move { (number, own.enqueue(jobs(number)).await) });
        tokio::task::yield_now().await;
        call
    }

    #[tokio::test]
    async fn concurrent_calls_share_commands_and_each_gets_its_own_receipts() {
        let (batcher, gate, commands) = gated();
        let mut calls = JoinSet::new();
        for number in 0..100 {
            start(&batcher, &mut calls, number).await;
        }
        assert_eq!(commands.load(Ordering::SeqCst), IN_FLIGHT_MAX);
        gate.add_permits(1000);
        while let Some(ended) = calls.join_next().await {
            let (number, enqueued) = ended.unwrap();
            let Enqueued { receipts, backlogs } = enqueued.unwrap();
            assert_eq!((receipts.len(), backlogs.len()), (jobs(number).len(), jobs(number).len()));
            assert!(receipts.iter().all(|receipt| *receipt == JobReceipt::Created), "{receipts:?}");
        }
        // 96 calls with 144 jobs waited; one command has room for all of them.
        assert_eq!(commands.load(Ordering::SeqCst), IN_FLIGHT_MAX + 1);
        let again = batcher.enqueue(jobs(1)).await.unwrap();
        assert!(again.receipts.iter().all(|receipt| matches!(receipt, JobReceipt::Exists { .. })));
        assert_eq!(batcher.state().in_flight, 0);
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_while_it_waits_sends_nothing_and_delays_no_other() {
        let (batcher, gate, commands) = gated();
        let mut calls = JoinSet::new();
        let mut started = Vec::new();
        for number in 0..IN_FLIGHT_MAX + 2 {
            started.push(start(&batcher, &mut calls, number).await);
        }
        // One that waits, and then one in flight.
        started[IN_FLIGHT_MAX].abort();
        tokio::task::yield_now().await;
        started[0].abort();
        gate.add_permits(1000);
        let mut ended = 0;
        while let Some(call) = calls.join_next().await {
            ended += usize::from(call.is_ok_and(|(_, enqueued)| enqueued.is_ok()));
        }
        assert_eq!(ended, IN_FLIGHT_MAX);
        assert_eq!(commands.load(Ordering::SeqCst), IN_FLIGHT_MAX + 1);
        let dropped = Enqueue { jobs: jobs(IN_FLIGHT_MAX) }.into_command();
        let reply = Enqueue::from_reply(batcher.engine.submit(dropped).await.unwrap()).unwrap();
        assert_eq!(reply.receipts[0], JobReceipt::Created, "it was not sent before");
    }

    #[tokio::test]
    async fn an_error_of_one_call_reaches_no_other() {
        let failing = Hooks::default().submit(|inner, command: Command| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                let Command::Queue(queue::Command::Enqueue(Enqueue { jobs })) = &command else {
                    panic!("only jobs are added");
                };
                if jobs.iter().any(|new| new.job.group.escaped() == "g1") {
                    return Err(EngineError::Refused { reason: "g1 is damaged".to_owned() });
                }
                inner.submit(command).await
            })
        });
        let engine = EmbeddedEngine::new(Settings::default(), Clock::System).unwrap();
        let engine = layer(Arc::new(engine), failing);
        let batcher = batcher_of(engine);
        let mut calls = JoinSet::new();
        for number in 0..20 {
            start(&batcher, &mut calls, number).await;
        }
        while let Some(ended) = calls.join_next().await {
            let (number, enqueued) = ended.unwrap();
            assert_eq!(enqueued.is_err(), number % 3 == 1, "call {number}: {enqueued:?}");
        }
        let mut invalid = jobs(0);
        invalid[0].payload = vec![b'x'; PAYLOAD_BYTES_MAX + 1].into();
        assert!(matches!(batcher.enqueue(invalid).await, Err(EngineError::Invalid(_))));
        assert_eq!(batcher.state().in_flight, 0);
    }

    /// The calls of a shared command that failed do not all start at once when the engine is back.
    #[tokio::test]
    async fn calls_of_a_failed_command_are_sent_again_within_its_slot() {
        let (in_flight, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (commands, most_seen) = (Arc::new(AtomicUsize::new(0)), most.clone());
        let count = commands.clone();
        let hooks = Hooks::default().submit(move |inner, command: Command| {
            let (in_flight, most) = (in_flight.clone(), most_seen.clone());
            let fails = count.fetch_add(1, Ordering::SeqCst) <= IN_FLIGHT_MAX;
            Box::pin(async move {
                most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Every call that can start does so before the first of them ends.
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
                in_flight.fetch_sub(1, Ordering::SeqCst);
                match fails {
                    true => Err(EngineError::Unavailable { engine: "test", reason: "away".into() }),
                    false => inner.submit(command).await,
                }
            })
        });
        let engine = EmbeddedEngine::new(Settings::default(), Clock::System).unwrap();
        let batcher = batcher_of(layer(Arc::new(engine), hooks));
        let mut calls = JoinSet::new();
        for number in 0..100 {
            start(&batcher, &mut calls, number).await;
        }
        let ended = calls.join_all().await;
        let failed = ended.iter().filter(|(_, enqueued)| enqueued.is_err()).count();
        assert_eq!(failed, IN_FLIGHT_MAX, "those that were alone in a command that failed");
        assert_eq!(most.load(Ordering::SeqCst), IN_FLIGHT_MAX);
        assert_eq!(commands.load(Ordering::SeqCst), IN_FLIGHT_MAX + 1 + 2, "two halves");
        assert_eq!(batcher.state().in_flight, 0);
    }

    #[cfg(feature = "redis")]
    #[tokio::test]
    async fn calls_of_a_failed_command_are_not_sent_again_while_the_engine_is_away() {
        use fairlane_testkit::redis::{RedisServer, ServerOptions};

        let mut server = RedisServer::start(ServerOptions::default());
        let engine = fairlane_engine::open_default(&server.url()).await.unwrap();
        server.kill();
        let (batcher, gate, commands) = gated_over(engine);
        let mut calls = JoinSet::new();
        for number in 0..100 {
            start(&batcher, &mut calls, number).await;
        }
        gate.add_permits(1000);
        for (_, enqueued) in calls.join_all().await {
            assert!(enqueued.is_err_and(|error| error.is_retryable()));
        }
        assert_eq!(commands.load(Ordering::SeqCst), IN_FLIGHT_MAX + 1);
        assert_eq!(batcher.state().in_flight, 0);
    }

    /// Each thread has a runtime of its own, which rests between two calls.
    #[test]
    fn calls_that_wait_are_sent_though_the_runtime_of_the_call_before_rests() {
        let opener = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (batcher, gate, _) = opener.block_on(async { gated() });
        let calls: Vec<_> = (0..IN_FLIGHT_MAX + 3)
            .map(|number| {
                let batcher = batcher.clone();
                std::thread::spawn(move || {
                    let own = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    let enqueued = own.block_on(batcher.enqueue(jobs(number)));
                    // The runtime lives on, and does nothing.
                    (own, enqueued)
                })
            })
            .collect();
        gate.add_permits(1000);
        let ended: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        assert!(ended.iter().all(|(_, enqueued)| enqueued.is_ok()));
        assert_eq!(batcher.state().in_flight, 0);
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_on_a_thread_without_a_runtime_fails_no_other() {
        let (batcher, gate, _) = gated();
        let without = EnqueueBatcher {
            engine: batcher.engine.clone(),
            is_remote: true,
            runtime: None,
            state: Mutex::default(),
        };
        let batcher = Arc::new(without);
        let own = batcher.clone();
        let mut first = Box::pin(async move { own.enqueue(jobs(50)).await });
        assert!(poll_once(first.as_mut()).await.is_none());
        let mut calls = JoinSet::new();
        for number in 0..IN_FLIGHT_MAX + 1 {
            start(&batcher, &mut calls, number).await;
        }
        std::thread::spawn(move || drop(first)).join().unwrap();
        gate.add_permits(1000);
        while let Some(ended) = calls.join_next().await {
            assert!(ended.unwrap().1.is_ok());
        }
        assert_eq!(batcher.state().in_flight, 0);
    }

    /// Polls a future once.
    async fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|context| match std::pin::Pin::new(&mut future).poll(context) {
            std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
