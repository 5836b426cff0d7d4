//! The number of jobs that one command of a worker carries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::*;
use fairlane_core::queue::{self, Leased};
use fairlane_core::{Command, Reply};
use fairlane_engine::{Engine, Hooks, layer};
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
