//! The number of jobs that one command of a worker carries, and of round trips before a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::*;
use fairlane_core::queue::{self, Leased};
use fairlane_core::{Command, ProcessId, Reply, TypeId};
use fairlane_engine::{Admin, BoxFuture, Engine, EngineError, EngineInfo, Hooks, Signals, layer};
use fairlane_worker::*;

/// The number of leases that returned jobs, and of settle commands.
#[derive(Default)]
struct Counts {
    leases: AtomicUsize,
    settles: AtomicUsize,
}

/// An engine that counts.
fn counting(inner: Arc<dyn Engine>, counts: Arc<Counts>) -> Arc<dyn Engine> {
    let hooks = Hooks::default().submit(move |inner, command| {
        let counts = counts.clone();
        if matches!(command, Command::Queue(queue::Command::Settle(_))) {
            counts.settles.fetch_add(1, Ordering::SeqCst);
        }
        Box::pin(async move {
            let reply = inner.submit(command).await?;
            if let Reply::Queue(queue::Reply::Lease(Leased::Jobs { jobs, .. })) = &reply
                && !jobs.is_empty()
            {
                counts.leases.fetch_add(1, Ordering::SeqCst);
            }
            Ok(reply)
        })
    });
    layer(inner, hooks)
}

/// Ten slots are the default. One thread, so that the counts do not depend on the machine's load.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn ten_slots_lease_and_settle_most_of_ten_jobs_at_once() {
    const JOBS: usize = 2000;
    on_both_engines(|inner| async move {
        for part in 0..JOBS / 500 {
            let jobs = (0..500).map(|n| job(&format!("g{}", n % 7), &format!("{part}-{n}"), "work", ""));
            enqueue(&inner, jobs.collect()).await;
        }
        let counts = Arc::new(Counts::default());
        let pool = Worker::new(counting(inner.clone(), counts.clone()))
            .process("work", |(): (), _| std::future::ready(()))
            .start()
            .unwrap();
        drained(&inner).await;
        pool.stop().await;
        let (leases, settles) = (counts.leases.load(Ordering::SeqCst), counts.settles.load(Ordering::SeqCst));
        let most = JOBS / 8;
        assert!(leases <= most && settles <= most, "{leases} leases and {settles} settlements");
    })
    .await;
}

/// An engine that counts waits with a lease request, and waits without one.
struct CountingWaits {
    inner: Arc<dyn Engine>,
    with_lease: AtomicUsize,
    without_lease: AtomicUsize,
}

impl Engine for CountingWaits {
    fn info(&self) -> EngineInfo {
        self.inner.info()
    }

    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        self.inner.submit(command)
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.without_lease.fetch_add(1, Ordering::SeqCst);
        self.inner.wait(types, at_most)
    }

    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Result<Reply, EngineError>> {
        self.with_lease.fetch_add(1, Ordering::SeqCst);
        self.inner.submit_when_woken(types, at_most, command)
    }

    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>> {
        self.inner.subscribe(process)
    }

    fn admin(&self) -> &dyn Admin {
        self.inner.admin()
    }
}

/// A lease request that waits in the engine saves a round trip before the next job.
#[tokio::test]
async fn a_worker_with_free_slots_waits_with_its_lease_request_also_while_jobs_run() {
    on_both_engines(|inner| async move {
        let (with_lease, without_lease) = Default::default();
        let engine = Arc::new(CountingWaits { inner: inner.clone(), with_lease, without_lease });
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let worker_gate = gate.clone();
        let pool = Worker::new(engine.clone())
            .process("work", move |(): (), _| {
                let gate = worker_gate.clone();
                async move { drop(gate.acquire().await) }
            })
            .start()
            .unwrap();
        let waits = || engine.with_lease.load(Ordering::SeqCst) + engine.without_lease.load(Ordering::SeqCst);
        for id in ["1", "2", "3"] {
            let before = waits();
            enqueue(&inner, vec![job("a", id, "work", "")]).await;
            reaches(&inner, "a", id, queue::JobState::Processing).await;
            until("the worker waits for a further job", || waits() > before).await;
        }
        assert_eq!(engine.without_lease.load(Ordering::SeqCst), 0);
        gate.add_permits(3);
        drained(&inner).await;
        pool.stop().await;
    })
    .await;
}
