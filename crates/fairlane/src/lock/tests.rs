//! Locks in virtual time: the engine and the clients share a clock that the test moves.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use fairlane_core::limits::LOCK_SLICE_MS;
use fairlane_core::queue::Settings;
use fairlane_engine::{Clock, EmbeddedEngine, Engine, EngineError, Hooks, layer};
use tokio::task::{JoinHandle, yield_now};

use super::*;

/// The step of the virtual clock.
const STEP_MS: u64 = 10;
/// Rounds of polls after which no task is ready any more: a poll may make other tasks ready.
const ROUNDS: usize = 20;
const BEGIN_US: u64 = 1_700_000_000_000_000;

/// An engine in virtual time, and everything that was sent to it.
struct World {
    engine: Arc<dyn Engine>,
    now_us: Arc<AtomicU64>,
    log: Arc<Mutex<Vec<Sent>>>,
    in_flight: Arc<AtomicUsize>,
    /// The stem of the operation that fails.
    failing: Arc<Mutex<Option<&'static str>>>,
    /// While a blocking task runs, the runtime does not move the clock by itself.
    _blocking: mpsc::Sender<()>,
}

#[derive(Debug, Clone, PartialEq)]
struct Sent {
    server: &'static str,
    stem: &'static str,
    at_ms: u64,
}

impl World {
    fn new() -> Self {
        let now_us = Arc::new(AtomicU64::new(BEGIN_US));
        let engine = EmbeddedEngine::new(Settings::default(), Clock::Given(now_us.clone())).unwrap();
        let (blocking, blocked) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || blocked.recv());
        let (log, in_flight, failing) = Default::default();
        Self { engine: Arc::new(engine), now_us, log, in_flight, failing, _blocking: blocking }
    }

    /// A server with a client of its own.
    fn server(&self, server: &'static str) -> Fairlane {
        self.server_with(server, Hooks::default())
    }

    /// A server whose engine has more hooks.
    fn server_with(&self, server: &'static str, hooks: Hooks) -> Fairlane {
        let (log, in_flight) = (self.log.clone(), self.in_flight.clone());
        let (now_us, failing) = (self.now_us.clone(), self.failing.clone());
        let submit = move |engine: Arc<dyn Engine>, command: fairlane_core::Command| {
            let (log, in_flight) = (log.clone(), in_flight.clone());
            let stem = command.stem();
            let at_ms = (now_us.load(Ordering::SeqCst) - BEGIN_US) / 1000;
            log.lock().unwrap().push(Sent { server, stem, at_ms });
            let fails = *failing.lock().unwrap() == Some(stem);
            in_flight.fetch_add(1, Ordering::SeqCst);
            let reply: fairlane_engine::BoxFuture<'static, _> = Box::pin(async move {
                let reply = match fails {
                    true => Err(EngineError::Unavailable { engine: "test", reason: "cut off".to_owned() }),
                    false => engine.submit(command).await,
                };
                in_flight.fetch_sub(1, Ordering::SeqCst);
                reply
            });
            reply
        };
        let engine = layer(self.engine.clone(), hooks.submit(submit));
        let (client, work) = LockClient::new(engine.clone(), None);
        tokio::spawn(work);
        Fairlane::with_lock_client(engine, client)
    }

    /// Runs everything that can run at the current time.
    async fn settle(&self) {
        for _ in 0..ROUNDS {
            yield_now().await;
            while self.in_flight.load(Ordering::SeqCst) > 0 {
                yield_now().await;
            }
        }
    }

    async fn advance_to(&self, ms: u64) {
        self.settle().await;
        while self.now_us.load(Ordering::SeqCst) < BEGIN_US + ms * 1000 {
            self.now_us.fetch_add(STEP_MS * 1000, Ordering::SeqCst);
            tokio::time::advance(Duration::from_millis(STEP_MS)).await;
            self.settle().await;
        }
    }

    /// Waits in real time for a condition that needs no virtual time.
    async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "timed out: {what}");
            yield_now().await;
        }
    }

    /// Waits in real time until the lock has this many waiters.
    async fn registered(&self, fairlane: &Fairlane, name: &str, waiters: u64) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while fairlane.lock(name).view().await.unwrap().is_none_or(|lock| lock.waiters < waiters) {
            assert!(Instant::now() < deadline, "timed out: {waiters} waiters");
            yield_now().await;
        }
    }

    /// When a server has sent an operation, in milliseconds.
    fn times(&self, server: &str, stem: &str) -> Vec<u64> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|sent| sent.server == server && sent.stem == stem).map(|sent| sent.at_ms).collect()
    }
}

/// Holds the lock until the virtual time has passed.
fn work(fairlane: &Fairlane, name: &str, ms: u64) -> JoinHandle<Result<Fence, Error>> {
    let lock = fairlane.lock(name);
    tokio::spawn(lock.with(move |hold| async move {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        hold.fence()
    }))
}

fn assert_near(times: &[u64], expected: &[u64]) {
    let is_near = |(at, wanted): (&u64, &u64)| at.abs_diff(*wanted) <= 2 * STEP_MS;
    let all = times.len() == expected.len() && times.iter().zip(expected).all(is_near);
    assert!(all, "{times:?} instead of {expected:?}");
}

/// The timeline of two servers: a job of 5.5 s under a ttl of 5 s.
#[tokio::test(start_paused = true)]
async fn job_longer_than_the_ttl_keeps_its_lock_and_hands_it_over_at_once() {
    let world = World::new();
    let (a, b) = (world.server("a"), world.server("b"));
    let first = work(&a, "coupon:issue:42", 5500);
    world.settle().await;
    let second = work(&b, "coupon:issue:42", 10);
    world.until("the second server waits", || world.times("b", "acquire_lock").len() == 2).await;
    world.advance_to(5490).await;
    assert_near(&world.times("a", "renew_locks"), &[1667, 3333, 5000]);
    // The first try, and a second one as a waiter after the subscription was confirmed.
    assert_near(&world.times("b", "acquire_lock"), &[0, 0, 1000, 2000, 3000, 4000, 5000]);
    assert!(world.times("a", "release_lock").is_empty());
    world.advance_to(5500).await;
    // The release grants the lock to the waiter, which sends no further attempt.
    let is_released = || !world.times("b", "release_lock").is_empty();
    world.until("the first server has released", || !world.times("a", "release_lock").is_empty()).await;
    world.advance_to(5520).await;
    world.until("the second server has released", is_released).await;
    assert_near(&world.times("a", "release_lock"), &[5500]);
    assert_near(&world.times("b", "release_lock"), &[5510]);
    assert_eq!(world.times("b", "acquire_lock").len(), 7);
    world.advance_to(5600).await;
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert!(second > first);
    assert_eq!(a.lock("coupon:issue:42").view().await.unwrap(), None);
}

/// Erratum L4.
#[tokio::test(start_paused = true)]
async fn lock_that_cannot_be_renewed_is_lost_before_its_lease_ends() {
    let world = World::new();
    let a = world.server("a");
    let guard = a.lock("nightly").lock().await.unwrap();
    *world.failing.lock().unwrap() = Some("renew_locks");
    let hold = guard.hold().clone();
    let loss = tokio::spawn(async move { hold.lost().await });
    world.advance_to(4400).await;
    assert!(!guard.hold().is_lost() && !loss.is_finished());
    world.advance_to(4600).await;
    let lost = loss.await.unwrap();
    assert!(
        matches!(&lost.reason, LossReason::NotRenewed(Some(error)) if error.contains("cut off")),
        "{lost}"
    );
    let view = a.lock("nightly").view().await.unwrap().unwrap();
    assert!(view.held_by[0].remaining_us > 0, "no one else can hold it yet");
    assert!(guard.release().await.unwrap());
}

/// Erratum L4.
#[tokio::test(start_paused = true)]
async fn work_is_cancelled_when_its_lock_is_broken() {
    let world = World::new();
    let a = world.server("a");
    let running = work(&a, "nightly", 60_000);
    world.advance_to(1000).await;
    assert_eq!(a.lock("nightly").break_holders(None).await.unwrap(), 1);
    world.advance_to(1700).await;
    let error = running.await.unwrap().unwrap_err();
    let Error::Lock(LockError::Lost(lost)) = error else { panic!("{error}") };
    assert_eq!(lost.reason, LossReason::TakenAway);
    assert_eq!(world.times("a", "acquire_lock").len(), 1, "a lost lock is never acquired again");
}

/// Erratum L8.
#[tokio::test(start_paused = true)]
async fn hung_work_loses_its_lock_after_max_hold() {
    let world = World::new();
    let a = world.server("a");
    let options = LockOptions { max_hold: Some(Duration::from_secs(8)), ..LockOptions::default() };
    let hung = tokio::spawn(a.lock("nightly").options(options).with(|_| std::future::pending::<()>()));
    world.advance_to(7400).await;
    assert!(!hung.is_finished());
    world.advance_to(8000).await;
    let error = hung.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::Lock(LockError::Lost(lost)) if lost.reason == LossReason::MaxHold),
        "{error}"
    );
    world.settle().await;
    assert_eq!(a.lock("nightly").view().await.unwrap(), None);
}

/// Erratum L2.
#[tokio::test(start_paused = true)]
async fn lock_of_a_dead_holder_passes_on_when_its_lease_ends() {
    let world = World::new();
    let (a, b) = (world.server("a"), world.server("b"));
    // A holder that does not renew is dead to the others.
    let dead = a.lock("nightly").ttl(Duration::from_millis(2500)).lock().await.unwrap();
    dead.detach().await.unwrap();
    let next = work(&b, "nightly", 10);
    world.until("it waits", || world.times("b", "acquire_lock").len() == 2).await;
    world.advance_to(2480).await;
    assert!(world.times("b", "release_lock").is_empty());
    world.advance_to(2600).await;
    world
        .until("the waiter has worked", || next.is_finished() || world.times("b", "release_lock").len() == 1)
        .await;
    next.await.unwrap().unwrap();
}

/// Erratum L3.
#[tokio::test(start_paused = true)]
async fn waiters_of_a_server_share_one_subscription_and_one_attendance() {
    let world = World::new();
    let (a, b) = (world.server("a"), world.server("b"));
    let held = a.lock("nightly").lock().await.unwrap();
    let options = LockOptions { wait: Duration::from_secs(60), ..LockOptions::default() };
    let wait = |_| tokio::spawn(b.lock("nightly").options(options.clone()).with(|_| async {}));
    let waiting: Vec<_> = (0..50).map(wait).collect();
    world.registered(&a, "nightly", 50).await;
    world.advance_to(LOCK_SLICE_MS).await;
    let attended = world.times("b", "attend_locks").len();
    assert!((2..=5).contains(&attended), "{attended} for 50 waiters in a second");
    let tries = world.times("b", "acquire_lock").len();
    assert!((51..=100).contains(&tries), "{tries}: each waiter tries at most once before it registers");
    held.release().await.unwrap();
    world.until("all have worked", || waiting.iter().all(|waiting| waiting.is_finished())).await;
    // One signal wakes one waiter, and a waiter that leaves lets the next one hold the timer.
    let tries = world.times("b", "acquire_lock").len() - tries;
    assert!(tries <= 100, "{tries} tries of 50 waiters");
    // The subscription ends with its last waiter.
    let attended = world.times("b", "attend_locks").len();
    world.advance_to(3 * LOCK_SLICE_MS).await;
    assert!(world.times("b", "attend_locks").len() <= attended + 1);
}

/// Waiters that are not the first of their server do not try again by themselves.
#[tokio::test(start_paused = true)]
async fn only_the_first_waiter_of_a_server_tries_again_each_slice() {
    let world = World::new();
    let (a, b) = (world.server("a"), world.server("b"));
    let held = a.lock("nightly").lock().await.unwrap();
    let waiting: Vec<_> = (0..50).map(|_| work(&b, "nightly", 1)).collect();
    world.registered(&a, "nightly", 50).await;
    let sent = || world.times("b", "acquire_lock").len() + world.times("b", "attend_locks").len();
    let before = sent();
    world.advance_to(3 * LOCK_SLICE_MS).await;
    let each_second = (sent() - before) as f64 / 3.0;
    assert!(each_second <= 3.4, "{each_second} commands a second for 50 waiters");
    held.release().await.unwrap();
    world.advance_to(4 * LOCK_SLICE_MS).await;
    world.until("all have worked", || waiting.iter().all(|waiting| waiting.is_finished())).await;
}

/// Erratum L4. The process of a holder that was stopped finds out before its thread for locks has run again.
#[tokio::test(start_paused = true)]
async fn hold_whose_time_is_over_is_lost_at_the_first_poll() {
    let world = World::new();
    let a = world.server("a");
    let guard = a.lock("nightly").lock().await.unwrap();
    let hold = guard.hold().clone();
    let mut lost = Box::pin(async move { hold.lost().await });
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(lost.as_mut().poll(&mut context).is_pending() && !guard.hold().is_lost());
    // The clock advances, but no other task runs.
    tokio::time::advance(Duration::from_millis(4600)).await;
    assert!(guard.hold().is_lost());
    assert!(lost.as_mut().poll(&mut context).is_ready());
}

/// Erratum L2.
#[tokio::test(start_paused = true)]
async fn signal_that_was_lost_with_its_subscription_is_found_after_the_next() {
    let world = World::new();
    let (a, b) = (world.server("a"), world.server("b"));
    let held = a.lock("nightly").lock().await.unwrap();
    let options = LockOptions { wait: Duration::from_secs(60), ..LockOptions::default() };
    let waiting = tokio::spawn(b.lock("nightly").options(options).with(|_| async {}));
    world.until("it waits", || world.times("b", "acquire_lock").len() == 2).await;
    // Another subscription of the same process ends the first one, and gets the signal.
    let process = b.lock_client().unwrap().process().clone();
    let _stolen = world.engine.subscribe(&process).await.unwrap();
    held.release().await.unwrap();
    world.until("the waiter has worked", || waiting.is_finished()).await;
    waiting.await.unwrap().unwrap();
}

/// Without signals the replies to `attend_locks` tell the waiters that the lock is theirs, so they keep
/// their places and the number of commands stays that of one waiter.
#[tokio::test(start_paused = true)]
async fn waiters_whose_subscription_is_refused_keep_their_places_and_get_the_lock() {
    let world = World::new();
    let refuse = Hooks::default().subscribe(|_, _| {
        let reason = "no permission".to_owned();
        Box::pin(async { Err(EngineError::Unavailable { engine: "test", reason }) })
    });
    let (a, b) = (world.server("a"), world.server_with("b", refuse));
    let held = a.lock("nightly").lock().await.unwrap();
    let options = LockOptions { max_wait: Duration::from_secs(60), ..LockOptions::default() };
    let wait = |_| tokio::spawn(b.lock("nightly").options(options.clone()).with(|_| async {}));
    let waiting: Vec<_> = (0..50).map(wait).collect();
    world.registered(&a, "nightly", 50).await;
    world.advance_to(3 * LOCK_SLICE_MS).await;
    let sent = || world.times("b", "acquire_lock").len() + world.times("b", "attend_locks").len();
    let before = sent();
    world.advance_to(6 * LOCK_SLICE_MS).await;
    let each_second = (sent() - before) as f64 / 3.0;
    assert!(each_second <= 6.0, "{each_second} commands a second for 50 waiters");
    held.release().await.unwrap();
    world.advance_to(7 * LOCK_SLICE_MS).await;
    assert!(world.times("b", "release_lock").len() >= 2, "the lock is passed on within a slice");
    world.advance_to(40 * LOCK_SLICE_MS).await;
    world.until("all have worked", || waiting.iter().all(|waiting| waiting.is_finished())).await;
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_whose_subscription_is_never_confirmed_tries_again_each_slice() {
    let world = World::new();
    let hang = Hooks::default().subscribe(|_, _| Box::pin(std::future::pending()));
    let (a, b) = (world.server("a"), world.server_with("b", hang));
    let held = a.lock("nightly").lock().await.unwrap();
    let waiting = work(&b, "nightly", 1);
    world.advance_to(1500).await;
    held.release().await.unwrap();
    world.advance_to(3000).await;
    assert!(waiting.is_finished(), "{:?}", world.times("b", "acquire_lock"));
    waiting.await.unwrap().unwrap();
}

/// Makes a server `b` wait in order for a lock that `a` holds, and run `work` under it.
async fn wait_in_order<T, W, F>(world: &World, work: W) -> (LockGuard, JoinHandle<T>)
where
    T: Send + 'static,
    W: FnOnce(LockGuard) -> F + Send + 'static,
    F: Future<Output = T> + Send,
{
    let (a, b) = (world.server("a"), world.server("b"));
    let held = a.lock("nightly").lock().await.unwrap();
    let options = LockOptions { wait: Duration::from_secs(60), fair: true, ..LockOptions::default() };
    let lock = b.lock("nightly").options(options);
    let waiting = tokio::spawn(async move { work(lock.lock().await.unwrap()).await });
    world.registered(&a, "nightly", 1).await;
    world.advance_to(100).await;
    (held, waiting)
}

/// The signal has the fence. The first lease is short, so its renewal comes early.
#[tokio::test(start_paused = true)]
async fn fair_waiter_begins_without_another_command_and_renews_early() {
    let world = World::new();
    let has_begun = Arc::new(AtomicUsize::new(0));
    let begins = has_begun.clone();
    let (held, waiting) = wait_in_order(&world, |guard| async move {
        begins.store(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(3000)).await;
        (guard.fence(), guard.release().await.unwrap())
    })
    .await;
    let tries = world.times("b", "acquire_lock").len();
    let first = held.fence();
    assert!(held.release().await.unwrap());
    world.until("the waiter holds the lock", || has_begun.load(Ordering::SeqCst) == 1).await;
    world.advance_to(3200).await;
    world.until("it has released the lock", || waiting.is_finished()).await;
    let (fence, was_held) = waiting.await.unwrap();
    assert!(fence > first && was_held);
    assert_eq!(world.times("b", "acquire_lock").len(), tries);
    assert_near(&world.times("b", "renew_locks"), &[200, 1867]);
}

/// The owner of the token renews it at a third of the ttl, so it must be held for as long.
#[tokio::test(start_paused = true)]
async fn detached_lock_of_a_fair_waiter_is_held_for_its_ttl() {
    let world = World::new();
    let (held, waiting) = wait_in_order(&world, |guard| guard.detach()).await;
    assert!(held.release().await.unwrap());
    world.until("it is detached", || waiting.is_finished()).await;
    assert_eq!(waiting.await.unwrap().unwrap().remaining, LockOptions::default().ttl);
}
