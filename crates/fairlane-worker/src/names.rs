//! The metrics of a worker; `docs/metrics.md` lists the same.

use metrics::Unit;

/// Counter of ended attempts, by type and outcome.
pub const ATTEMPTS: &str = "fairlane_worker_attempts_total";
/// Histogram of attempt durations in seconds, by type.
pub const ATTEMPT_SECONDS: &str = "fairlane_worker_attempt_seconds";
/// Counter of background loop rounds, by loop and result.
pub const LOOP_RUNS: &str = "fairlane_worker_loop_runs_total";

/// Registers units and descriptions with the installed recorder.
pub fn describe() {
    metrics::describe_counter!(
        ATTEMPTS,
        Unit::Count,
        "Attempts that ended in this worker, by type and outcome."
    );
    metrics::describe_histogram!(ATTEMPT_SECONDS, Unit::Seconds, "How long an attempt took, by type.");
    metrics::describe_counter!(LOOP_RUNS, Unit::Count, "Rounds of background loops, by loop and result.");
}
