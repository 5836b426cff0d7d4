//! Locks as an application uses them, in memory, in a directory and on Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fairlane::{Error, Fairlane, LockError, LockMode, LockOptions, LockReleased, LossReason};
use fairlane_core::Command;
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::{until, until_async, until_blocking};

/// Waiters try again only after a signal or when a lease ends.
fn patient() -> LockOptions {
    let minute = Duration::from_secs(60);
    LockOptions { wait: minute, max_wait: minute, ttl: minute, ..LockOptions::default() }
}

/// Two handles with a client each, as two processes have.
fn two(engine: &Arc<dyn Engine>) -> [Fairlane; 2] {
    [engine.clone(), engine.clone()].map(Fairlane::from_engine)
}

async fn memory() -> Fairlane {
    Fairlane::open("memory:").await.unwrap()
}

/// Both processes count to the same number without an atomic step, under a lock.
async fn exclude_each_other([a, b]: [Fairlane; 2]) {
    let (counted, last_fence) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let count = |fairlane: Fairlane| {
        let (counted, last_fence) = (counted.clone(), last_fence.clone());
        async move {
            for _ in 0..20 {
                let (counted, last_fence) = (counted.clone(), last_fence.clone());
                let options = LockOptions { fair: true, ..patient() };
                let step = fairlane.with_lock("shop:count", options, |hold| async move {
                    let before = counted.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    counted.store(before + 1, Ordering::SeqCst);
                    let fence = hold.fence().0;
                    assert!(last_fence.swap(fence, Ordering::SeqCst) < fence);
                });
                step.await.unwrap();
            }
        }
    };
    tokio::join!(count(a.clone()), count(a), count(b.clone()), count(b));
    assert_eq!(counted.load(Ordering::SeqCst), 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_exclude_each_other_in_memory() {
    exclude_each_other(two(memory().await.engine())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_exclude_each_other_in_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let fairlane = Fairlane::open(&format!("dir:{}/queue", folder.path().display())).await.unwrap();
    exclude_each_other(two(fairlane.engine())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_exclude_each_other_on_redis() {
    let server = RedisServer::start(ServerOptions::default());
    let open = async || Fairlane::open(&server.url()).await.unwrap();
    exclude_each_other([open().await, open().await]).await;
}

/// One process hands a lock to another and back while a third one uses locks and the queue.
#[tokio::test(flavor = "multi_thread")]
async fn process_that_waits_for_no_lock_receives_no_messages() {
    let server = RedisServer::start(ServerOptions::default());
    let open = async || Fairlane::open(&server.url()).await.unwrap();
    let (a, b, c) = (open().await, open().await, open().await);
    let subscribed = || server.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).matches("id=").count();
    let other = c.lock("other").options(patient()).lock().await.unwrap();
    let mut guard = a.lock("nightly").options(patient()).lock().await.unwrap();
    for waiter in [&b, &a, &b] {
        let lock = waiter.lock("nightly").options(patient());
        let waiting = tokio::spawn(async move { lock.lock().await });
        until_async("it waits", async || a.lock("nightly").view().await.unwrap().unwrap().waiters == 1).await;
        // The last waiter is subscribed for a moment longer.
        until_async("one process is subscribed", async || subscribed() == 1).await;
        c.with_lock("third", patient(), |_| async {}).await.unwrap();
        c.enqueue(fairlane::Job::new("customer-7", "mail", &())).await.unwrap().accepted().unwrap();
        guard.release().await.unwrap();
        guard = waiting.await.unwrap().unwrap();
    }
    guard.release().await.unwrap();
    other.release().await.unwrap();
    until_async("none is subscribed", async || subscribed() == 0).await;
}

/// The subscription of a process runs on the runtime of its first waiter.
#[test]
fn waiters_go_on_when_the_runtime_that_was_subscribed_has_ended() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (own, subscribed, other) = (runtime(), runtime(), runtime());
    let [a, b] = two(own.block_on(memory()).engine());
    let waiters = |count| {
        let lock = a.lock("nightly");
        own.block_on(until_async("they wait", async || lock.view().await.unwrap().unwrap().waiters == count));
    };
    let guard = own.block_on(a.lock("nightly").lock()).unwrap();
    let wait = || {
        let options = LockOptions { max_wait: Duration::from_secs(60), ..LockOptions::default() };
        let lock = b.lock("nightly").options(options);
        async move { lock.lock().await }
    };
    drop(subscribed.spawn(wait()));
    waiters(1);
    let waiting = other.spawn(wait());
    waiters(2);
    subscribed.shutdown_background();
    waiters(1);
    own.block_on(guard.release()).unwrap();
    let next = own.block_on(waiting).unwrap().unwrap();
    assert!(own.block_on(next.release()).unwrap());
}

/// Erratum L1. Without a signal it would wait a minute.
#[tokio::test]
async fn release_wakes_the_waiter_of_another_process() {
    let engine = memory().await.engine().clone();
    let [a, b] = two(&engine);
    let guard = a.lock("nightly").options(patient()).lock().await.unwrap();
    let waiter = tokio::spawn(b.lock("nightly").options(patient()).with(|hold| async move { hold.fence() }));
    until_async("it waits", async || a.lock("nightly").view().await.unwrap().unwrap().waiters == 1).await;
    let fence = guard.fence();
    assert!(guard.release().await.unwrap());
    assert!(waiter.await.unwrap().unwrap() > fence);
}

#[tokio::test]
async fn dropped_acquisition_withdraws_its_waiter() {
    let fairlane = memory().await;
    let lock = fairlane.lock("nightly").options(patient());
    let guard = lock.lock().await.unwrap();
    let waiters = async || lock.view().await.unwrap().unwrap().waiters;
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    until_async("it waits", async || waiters().await == 1).await;
    waiting.abort();
    until_async("it is gone", async || waiters().await == 0).await;
    assert!(guard.release().await.unwrap());
}

/// Erratum L7. The reply to the acquisition arrives after its caller is gone.
#[tokio::test]
async fn grant_without_a_caller_is_released() {
    let engine = memory().await.engine().clone();
    let (asked, go) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let hook = {
        let (asked, go) = (asked.clone(), go.clone());
        move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, _> {
            let (asked, go) = (asked.clone(), go.clone());
            Box::pin(async move {
                let is_acquire = command.stem() == "acquire_lock";
                let reply = engine.submit(command).await;
                if is_acquire {
                    asked.notify_one();
                    go.notified().await;
                }
                reply
            })
        }
    };
    let fairlane = Fairlane::from_engine(layer(engine.clone(), Hooks::default().submit(hook)));
    let lock = fairlane.lock("nightly");
    let acquiring = tokio::spawn(async move { lock.lock().await });
    asked.notified().await;
    acquiring.abort();
    assert!(acquiring.await.unwrap_err().is_cancelled());
    let observer = Fairlane::from_engine(engine);
    assert!(observer.lock("nightly").view().await.unwrap().is_some(), "it was granted");
    go.notify_one();
    until_async("it is free", async || observer.lock("nightly").view().await.unwrap().is_none()).await;
}

#[tokio::test]
async fn dropped_guard_releases_its_lock() {
    let fairlane = memory().await;
    drop(fairlane.lock("nightly").lock().await.unwrap());
    until_async("it is free", async || fairlane.lock("nightly").view().await.unwrap().is_none()).await;
    let gone = tokio::spawn(fairlane.lock("nightly").with(|_| std::future::pending::<()>()));
    until_async("it is held", async || fairlane.lock("nightly").view().await.unwrap().is_some()).await;
    gone.abort();
    until_async("it is free", async || fairlane.lock("nightly").view().await.unwrap().is_none()).await;
}

/// A handle may be dropped before its guards.
#[tokio::test]
async fn guard_outlives_its_handle() {
    let fairlane = memory().await;
    let observer = Fairlane::from_engine(fairlane.engine().clone());
    let guard = fairlane.lock("nightly").lock().await.unwrap();
    drop(fairlane);
    assert!(observer.lock("nightly").view().await.unwrap().is_some());
    assert!(guard.release().await.unwrap());
}

/// Erratum L8.
#[tokio::test]
async fn nested_use_of_a_lock_is_an_error_at_once() {
    let fairlane = memory().await;
    let inner = fairlane.clone();
    let nested = fairlane.lock("nightly").options(patient()).with(|_| async move {
        inner.with_lock("other", patient(), |_| async {}).await.unwrap();
        inner.with_lock("nightly", patient(), |_| async {}).await
    });
    let error = nested.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Lock(LockError::Reentered(_))), "{error}");
}

/// Erratum L7.
#[tokio::test]
async fn errors_name_the_holder_and_its_times() {
    let fairlane = memory().await;
    let options = LockOptions { holder: Some("app-1".to_owned()), ..patient() };
    let guard = fairlane.lock("nightly").options(options).lock().await.unwrap();
    let busy = fairlane.lock("nightly").try_lock().await.unwrap_err();
    assert!(busy.to_string().contains("held by app-1 (exclusive) for ") && busy.is_retryable(), "{busy}");
    let impatient = fairlane.lock("nightly").max_wait(Duration::from_millis(20));
    let timeout = impatient.lock().await.unwrap_err().to_string();
    assert!(timeout.contains("was not acquired within") && timeout.contains("app-1"), "{timeout}");
    let other = fairlane.lock("nightly").read().try_lock().await.unwrap_err().to_string();
    assert!(other.contains("in use as exclusive, not as read-write"), "{other}");
    until_async("the waiter is gone", async || {
        fairlane.lock("nightly").view().await.unwrap().unwrap().waiters == 0
    })
    .await;
    assert_eq!(fairlane.lock("nightly").break_holders(Some(guard.fence())).await.unwrap(), 1);
    assert!(!guard.release().await.unwrap(), "it was broken");
}

/// Erratum L6. The reply to the first request is lost.
#[tokio::test]
async fn acquisition_with_a_lost_reply_does_not_wait_for_itself() {
    let engine = memory().await.engine().clone();
    let is_lost = Arc::new(AtomicBool::new(false));
    let hook = move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, _> {
        let is_lost = is_lost.clone();
        Box::pin(async move {
            let is_acquire = command.stem() == "acquire_lock";
            let reply = engine.submit(command).await;
            match is_acquire && !is_lost.swap(true, Ordering::SeqCst) {
                true => Err(EngineError::Unavailable { engine: "test", reason: "lost".to_owned() }),
                false => reply,
            }
        })
    };
    let fairlane = Fairlane::from_engine(layer(engine, Hooks::default().submit(hook)));
    let guard = fairlane.lock("nightly").options(patient()).lock().await.unwrap();
    assert_eq!(fairlane.lock("nightly").view().await.unwrap().unwrap().held_by[0].fence, guard.fence());
}

/// Renewals have a thread of their own.
#[tokio::test(flavor = "current_thread")]
async fn blocked_runtime_does_not_hold_up_renewals() {
    let engine = memory().await.engine().clone();
    let renewals = Arc::new(AtomicUsize::new(0));
    let hook = {
        let renewals = renewals.clone();
        move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, _> {
            let renewals = renewals.clone();
            Box::pin(async move {
                let is_renewal = command.stem() == "renew_locks";
                let reply = engine.submit(command).await;
                renewals.fetch_add(is_renewal.into(), Ordering::SeqCst);
                reply
            })
        }
    };
    let fairlane = Fairlane::from_engine(layer(engine, Hooks::default().submit(hook)));
    let guard = fairlane.lock("nightly").ttl(Duration::from_secs(1)).lock().await.unwrap();
    until_blocking("five renewals", || renewals.load(Ordering::SeqCst) >= 5);
    assert!(!guard.hold().is_lost() && guard.release().await.unwrap());
}

#[tokio::test]
async fn readers_share_and_a_semaphore_has_as_many_holders_as_permits() {
    let fairlane = memory().await;
    let reader = || fairlane.lock("index").read();
    let (one, two) = (reader().lock().await.unwrap(), reader().lock().await.unwrap());
    assert!(fairlane.lock("index").write().try_lock().await.is_err());
    drop((one, two));
    let writer = fairlane.lock("index").write().options(LockOptions { mode: LockMode::Write, ..patient() });
    assert!(writer.lock().await.unwrap().release().await.unwrap());
    let permit = || fairlane.lock("gpu").semaphore(2);
    let (one, two) = (permit().try_lock().await.unwrap(), permit().try_lock().await.unwrap());
    assert!(permit().try_lock().await.is_err());
    assert!(one.release().await.unwrap());
    let three = permit().try_lock().await.unwrap();
    assert!(two.release().await.unwrap() && three.release().await.unwrap());
}

#[tokio::test]
async fn detached_lock_is_renewed_and_released_by_its_token() {
    let fairlane = memory().await;
    let lock = fairlane.lock("nightly").options(LockOptions { token: Some("mine".to_owned()), ..patient() });
    let detached = lock.lock().await.unwrap().detach().await.unwrap();
    let again = lock.lock().await.unwrap().detach().await.unwrap();
    assert_eq!((detached.fence, detached.token), (again.fence, again.token));
    assert!(lock.renew_token("mine").await.unwrap().is_some());
    assert_eq!(lock.renew_token("another").await.unwrap(), None);
    assert_eq!(lock.release_token("mine").await.unwrap(), LockReleased::Released);
    assert_eq!(lock.release_token("mine").await.unwrap(), LockReleased::NotHeld);
}

#[tokio::test]
async fn work_that_continues_when_its_lock_is_lost_learns_of_it() {
    let fairlane = memory().await;
    let options =
        LockOptions { ttl: Duration::from_millis(300), continue_when_lost: true, ..LockOptions::default() };
    let inner = fairlane.clone();
    let done = fairlane.with_lock("nightly", options, |hold| async move {
        inner.lock("nightly").break_holders(None).await.unwrap();
        hold.lost().await.reason
    });
    assert_eq!(done.await.unwrap(), LossReason::TakenAway);
}

#[tokio::test]
async fn locks_are_listed_by_group() {
    let fairlane = memory().await;
    let names = ["customer-7:import", "customer-7:invoice", "nightly"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(fairlane.lock(name).lock().await.unwrap());
    }
    let of_group = fairlane.locks(Some("customer-7".parse().unwrap()), None, 1).await.unwrap();
    assert_eq!(of_group.locks[0].name.as_str(), names[0]);
    let rest = fairlane.locks(None, of_group.next, 10).await.unwrap();
    let rest: Vec<_> = rest.locks.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!(rest, names[1..]);
    until("they are held", || guards.iter().all(|guard| !guard.hold().is_lost())).await;
}

#[tokio::test]
async fn a_lock_may_be_waited_for_without_an_end() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let options = LockOptions { wait: Duration::MAX, max_wait: Duration::MAX, ..LockOptions::default() };
    let guard = fairlane.lock("nightly").options(options.clone()).lock().await.unwrap();
    let other = fairlane.lock("nightly").options(options);
    let (waited, released) = tokio::join!(other.lock(), guard.release());
    assert!(released.unwrap());
    assert!(waited.unwrap().release().await.unwrap());
}
