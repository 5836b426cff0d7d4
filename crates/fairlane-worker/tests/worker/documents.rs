//! The documents agree with the code.

use fairlane_worker::{LoopSettings, WorkerSettings, names};

#[test]
fn every_setting_of_a_worker_is_documented_with_its_default() {
    let document = include_str!("../../../../docs/configuration.md");
    let (_, worker) = document.split_once("## A worker").expect("the document has this section");
    let worker = worker.split("\n## ").next().expect("a split has a first part");
    let WorkerSettings {
        worker_count,
        fetch_batch_size,
        worker_timeout,
        job_timeout,
        shutdown_grace_period,
        lease,
        cancel_grace_period,
        retry,
        loops,
    } = WorkerSettings::default();
    let LoopSettings {
        dispatch_interval,
        dispatch_batch_size,
        fetch_interval,
        reclaim_interval,
        watch_interval,
        stuck_after,
        aggregate_interval,
        aggregation_lease,
        sweep_interval,
        room_admit_interval,
        room_cleanup_interval,
    } = loops;
    let mut rows = 0;
    for (name, count) in [
        ("worker_count", worker_count),
        ("fetch_batch_size", fetch_batch_size),
        ("dispatch_batch_size", dispatch_batch_size),
    ] {
        assert!(worker.contains(&format!("| `{name}` | {count} |")), "{name} {count}");
        rows += 1;
    }
    for (name, time) in [
        ("worker_timeout", worker_timeout),
        ("job_timeout", job_timeout),
        ("shutdown_grace_period", shutdown_grace_period),
        ("lease", lease),
        ("cancel_grace_period", cancel_grace_period),
        ("retry.base", retry.base),
        ("retry.cap", retry.cap),
        ("dispatch_interval", dispatch_interval),
        ("fetch_interval", fetch_interval),
        ("reclaim_interval", reclaim_interval),
        ("watch_interval", watch_interval),
        ("stuck_after", stuck_after),
        ("aggregate_interval", aggregate_interval),
        ("aggregation_lease", aggregation_lease),
        ("sweep_interval", sweep_interval),
        ("room_admit_interval", room_admit_interval),
        ("room_cleanup_interval", room_cleanup_interval),
    ] {
        assert!(worker.contains(&format!("| `{name}` | {} ms |", time.as_millis())), "{name} {time:?}");
        rows += 1;
    }
    let documented = worker.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(documented, rows, "the document has no other rows");
}

#[test]
fn every_metric_of_a_worker_is_documented() {
    let document = include_str!("../../../../docs/metrics.md");
    for metric in [names::ATTEMPTS, names::ATTEMPT_SECONDS, names::LOOP_RUNS] {
        assert!(document.contains(&format!("| `{metric}` |")), "docs/metrics.md lacks {metric}");
    }
}
