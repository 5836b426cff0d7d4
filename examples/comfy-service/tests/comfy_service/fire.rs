//! Every process is killed.

use std::path::Path;

use comfy_service::trial::{TrialOptions, run};

/// One round for each step of a job, and two kills of each victim.
const ROUNDS: u64 = 12;

/// Erratum Q39. `comfy-service trial` does the same for longer.
#[tokio::test(flavor = "multi_thread")]
async fn service_processes_that_are_killed_lose_nothing_and_repeat_no_run() {
    let program = Path::new(env!("CARGO_BIN_EXE_comfy-service"));
    let report = run(program, &TrialOptions { rounds: ROUNDS, seed: 1 }).await.unwrap();
    assert_eq!(report.violations, Vec::<String>::new(), "{report:?}");
    assert_eq!((report.accepted, report.succeeded + report.failed), (ROUNDS, ROUNDS), "{report:?}");
    assert!(report.kills.values().all(|kills| *kills == 2) && report.kills.len() == 6, "{report:?}");
    assert!(report.steps.values().all(|kills| *kills == 1) && report.steps.len() == 12, "{report:?}");
}
