//! How many jobs one command of a worker carries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::*;
use fairlane_core::TypeId;
use fairlane_core::queue::{Command, Leased, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, WalkPage};
use fairlane_worker::*;

/// Counts leases that gave jobs, and settlements.
struct Counting {
    inner: Arc<dyn Engine>,
    leases: AtomicUsize,
    settles: AtomicUsize,
}

impl Engine for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        if matches!(command, Command::Settle(_)) {
            self.settles.fetch_add(1, Ordering::SeqCst);
        }
        Box::pin(async move {
            let reply = self.inner.execute(command).await?;
            if matches!(&reply, Reply::Leased(Leased::Jobs { jobs, .. }) if !jobs.is_empty()) {
                self.leases.fetch_add(1, Ordering::SeqCst);
            }
            Ok(reply)
        })
    }

    fn wait<'a>(&'a self, types: &'a [TypeId], most: Duration) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.inner.wait(types, most)
    }

    fn walk(&self, pages: tokio::sync::mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.walk(pages)
    }
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
        let (leases, settles) = Default::default();
        let engine = Arc::new(Counting { inner: inner.clone(), leases, settles });
        let pool =
            Worker::new(engine.clone()).process("work", |(): (), _| std::future::ready(())).start().unwrap();
        drained(&inner).await;
        pool.stop().await;
        let (leases, settles) = (engine.leases.load(Ordering::SeqCst), engine.settles.load(Ordering::SeqCst));
        let most = JOBS / 8;
        assert!(leases <= most && settles <= most, "{leases} leases and {settles} settlements");
    })
    .await;
}
