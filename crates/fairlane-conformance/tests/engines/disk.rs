//! What must hold for a data directory, beyond the suite that every engine passes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fairlane_conformance::differential::{discards, restarts};
use fairlane_conformance::kills;
use fairlane_conformance::subject::{START, Subject, TTL_MS, brief, exclusive};
use fairlane_core::lock::LockAcquired;
use fairlane_engine::{Clock, DirectoryOptions, EmbeddedEngine};

#[test]
fn a_restart_changes_nothing() {
    for seed in 1..=12 {
        let folder = tempfile::tempdir().expect("a folder");
        restarts(folder.path(), seed, 1500, 50).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[tokio::test]
async fn held_locks_survive_a_restart_and_waiters_register_again() {
    let (folder, us) = (tempfile::tempdir().expect("a folder"), Arc::new(AtomicU64::new(START.0)));
    let open = || {
        let clock = Clock::Given(us.clone());
        let options = DirectoryOptions { clock, synced: false, reserve_bytes: 0, ..Default::default() };
        let engine = EmbeddedEngine::open(folder.path(), options).expect("a directory of its own");
        Subject::new(Arc::new(engine), us.clone())
    };
    let locks = open();
    let fence = locks.locked(exclusive("one")).await;
    locks.queue_up(exclusive("two")).await;
    drop(locks);
    let locks = open();
    let held = LockAcquired::Held { fence, remaining_us: TTL_MS * 1000 };
    assert_eq!(locks.acquire(exclusive("one")).await, held);
    assert_eq!(locks.lock().await.waiters, 0);
    // A reservation is not stored.
    locks.queue_up(brief("two")).await;
    locks.release("one").await;
    drop(locks);
    let locks = open();
    assert!(locks.locked(exclusive("three")).await > fence);
}

#[test]
fn rows_that_a_discard_leaves_make_a_sound_queue() {
    let mut discarded = std::collections::BTreeMap::new();
    for seed in 1..=12 {
        let folder = tempfile::tempdir().expect("a folder");
        let found = discards(folder.path(), seed, 1500, 50);
        for (state, jobs) in found.unwrap_or_else(|what| panic!("seed {seed}: {what}")) {
            *discarded.entry(state).or_insert(0) += jobs;
        }
    }
    assert!(discarded.len() == 5 && discarded.values().all(|jobs| *jobs > 20), "{discarded:?}");
}

#[tokio::test]
async fn acknowledged_jobs_survive_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = kills::run(Path::new(env!("CARGO_BIN_EXE_soak")), folder.path(), 1, 8).await;
    assert_eq!(report.violations, [""; 0]);
    assert!(report.acknowledged > 500 && report.ends > 200, "{} {}", report.acknowledged, report.ends);
}
