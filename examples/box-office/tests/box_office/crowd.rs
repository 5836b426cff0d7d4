//! A small crowd under fire: two processes on one Redis and one file, which are killed and started
//! again while payments fail.

use std::path::PathBuf;
use std::time::Duration;

use box_office::crowd::CrowdOptions;
use box_office::trial::{self, TrialOptions};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_sells_out_exactly_while_instances_are_killed() {
    let redis = RedisServer::start(ServerOptions::default());
    let crowd = CrowdOptions {
        buyers: 120,
        seed: 11,
        arrive_within: Duration::from_secs(2),
        think: Duration::from_millis(100),
        undecided: 0.1,
    };
    let options = TrialOptions {
        engine: redis.url(),
        folder: None,
        schedules: 3,
        seats: 10,
        max_active: 30,
        provider_failures: 0.2,
        kill_every: Duration::from_secs(2),
        program: Some(PathBuf::from(env!("CARGO_BIN_EXE_box-office"))),
        crowd,
    };
    let report = trial::run(&options).await.unwrap();
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert_eq!((report.audit.sold, report.audit.points, report.crowd.bought), (30, 3000, 30));
    assert!(report.kills > 0, "{report:?}");
}
