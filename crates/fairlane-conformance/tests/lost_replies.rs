//! The soak in short: lost replies, dropped futures, flushed scripts and killed servers do not show.

use std::time::Duration;

use fairlane_conformance::soak::{Plan, run};

/// Erratum Q37.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_when_replies_are_lost_and_redis_is_killed() {
    let plan =
        Plan { seed: 5, load: Duration::from_secs(12), kill_every: Duration::from_secs(4), abandon: false };
    let report = run(&plan).await;
    println!("{report:?}");
    assert_eq!(report.violations, [""; 0]);
    assert!(report.acknowledged > 500 && report.leases >= report.acknowledged, "{report:?}");
    assert!(report.cuts > 20 && report.dropped > 20 && report.flushes > 2 && report.kills >= 2, "{report:?}");
}
