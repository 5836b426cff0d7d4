//! What must hold for a data directory, beyond the suite that every engine passes.

use std::path::Path;

use fairlane_conformance::differential::{discards, restarts};
use fairlane_conformance::kills;

#[test]
fn a_restart_changes_nothing() {
    for seed in 1..=12 {
        let folder = tempfile::tempdir().expect("a folder");
        restarts(folder.path(), seed, 1500, 50).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
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
