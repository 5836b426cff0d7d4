//! Short runs of the trials.

use std::path::Path;
use std::time::Duration;

use fairlane_core::queue::Settings;
use fairlane_trials::kills::Store;
use fairlane_trials::{downstream, kills, neighbours};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trials");

async fn killed(store: Store, rounds: u64) {
    let report = kills::run(Path::new(PROGRAM), store, 7, rounds).await;
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert_eq!(report.jobs, rounds * 40);
    assert!(report.callbacks >= rounds);
    assert!(report.ended_by_victims > 0, "those who were killed have worked too: {report:?}");
}

#[tokio::test]
async fn workers_on_a_data_directory_that_are_killed_lose_nothing() {
    killed(Store::Disk, 12).await;
}

#[tokio::test]
async fn workers_on_redis_that_are_killed_lose_nothing() {
    killed(Store::Redis, 12).await;
}

#[tokio::test]
async fn large_bulk_actions_beside_small_customers_complete_once_and_add_up() {
    let plan = neighbours::Plan {
        large: 5,
        large_jobs: 600,
        small: 20,
        small_jobs: 5,
        slots: 16,
        service: Duration::from_millis(1),
    };
    let report = neighbours::run(&plan, || async {
        fairlane_engine::open("memory:", Settings::default()).await.expect("it opens")
    })
    .await;
    assert_eq!(report.violations, Vec::<String>::new());
}

#[tokio::test]
async fn a_downstream_that_refuses_is_called_more_slowly_than_configured() {
    let plan = downstream::Plan {
        allowed: 20,
        configured: 500,
        latency: Duration::from_millis(20),
        length: Duration::from_secs(3),
    };
    let engine = fairlane_engine::open("memory:", Settings::default()).await.expect("it opens");
    let report = downstream::run(&plan, engine).await;
    // At the configured rate there would be 1500 calls.
    assert!(report.refused > 0 && report.taken + report.refused < 750, "{report:?}");
}
