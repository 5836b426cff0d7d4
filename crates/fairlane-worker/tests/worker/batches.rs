//! The number of jobs that one command of a worker carries, and of round trips before a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::*;
use fairlane_core::queue::{self, Leased};
use fairlane_core::{Command, Reply, TypeId};
use fairlane_engine::{BoxFuture, Engine, Hooks, layer};
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
fn counting_waits(inner: Arc<dyn Engine>) -> (Arc<dyn Engine>, [Arc<AtomicUsize>; 2]) {
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let [with_lease, without_lease] = counts.clone();
    let when_woken =
        move |inner: Arc<dyn Engine>, types: Vec<TypeId>, at_most, command| -> BoxFuture<'static, _> {
            with_lease.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { inner.submit_when_woken(&types, at_most, command).await })
        };
    let wait = move |inner: Arc<dyn Engine>, types: Vec<TypeId>, at_most| -> BoxFuture<'static, _> {
        without_lease.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { inner.wait(&types, at_most).await })
    };
    (layer(inner, Hooks::default().when_woken(when_woken).wait(wait)), counts)
}

/// A lease request that waits in the engine saves a round trip before the next job.
#[tokio::test]
async fn a_worker_with_free_slots_waits_with_its_lease_request_also_while_jobs_run() {
    on_both_engines(|inner| async move {
        let (engine, [with_lease, without_lease]) = counting_waits(inner.clone());
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let worker_gate = gate.clone();
        let pool = Worker::new(engine.clone())
            .process("work", move |(): (), _| {
                let gate = worker_gate.clone();
                async move { drop(gate.acquire().await) }
            })
            .start()
            .unwrap();
        let waits = || with_lease.load(Ordering::SeqCst) + without_lease.load(Ordering::SeqCst);
        for id in ["1", "2", "3"] {
            let before = waits();
            enqueue(&inner, vec![job("a", id, "work", "")]).await;
            reaches(&inner, "a", id, queue::JobState::Processing).await;
            until("the worker waits for a further job", || waits() > before).await;
        }
        assert_eq!(without_lease.load(Ordering::SeqCst), 0);
        gate.add_permits(3);
        drained(&inner).await;
        pool.stop().await;
    })
    .await;
}
