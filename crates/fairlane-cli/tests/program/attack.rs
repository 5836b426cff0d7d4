//! A small attack trial: it measures, and the server survives. The slowdown of other clients is not
//! judged here.

use std::path::Path;
use std::time::Duration;

use fairlane_trials::attack::{Kind, Plan, run};

const PLAN: Plan = Plan {
    phase: Duration::from_secs(1),
    jobs_per_second: 16,
    bulks_per_second: 2,
    colliding_ids: 500,
    large_jobs: 15,
    hanging_callbacks: 4,
    unknown_folds: 4,
    connections_max: 30,
    unknown_keys_bytes: 64 * 1024,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attack_is_measured_and_survived() {
    for kind in Kind::ALL {
        let report = run(Path::new(env!("CARGO_BIN_EXE_fairlane")), kind, &PLAN).await;
        assert_eq!(report.violations, [""; 0], "{kind:?}");
        assert!(report.accepted + report.refused > 0, "{kind:?} sent something");
        assert!(report.restart.is_some(), "{kind:?}");
        for waits in [&report.before, &report.during] {
            assert_eq!(
                (waits.enqueue.len(), waits.completion.len(), waits.bulk.len()),
                (16, 16, 2),
                "{kind:?}"
            );
        }
    }
}
