//! Every metric of a worker; `docs/metrics.md` says the same.

use metrics::Unit;

/// Attempts that ended.
pub const ATTEMPTS: &str = "fairlane_worker_attempts_total";
/// How long they took.
pub const ATTEMPT_SECONDS: &str = "fairlane_worker_attempt_seconds";
/// Rounds of background loops.
pub const LOOP_RUNS: &str = "fairlane_worker_loop_runs_total";

/// Tells the installed recorder units and meanings.
pub fn describe() {
    metrics::describe_counter!(
        ATTEMPTS,
        Unit::Count,
        "Attempts that ended in this worker, by type and outcome."
    );
    metrics::describe_histogram!(ATTEMPT_SECONDS, Unit::Seconds, "How long an attempt took, by type.");
    metrics::describe_counter!(LOOP_RUNS, Unit::Count, "Rounds of background loops, by loop and result.");
}
