//! The metrics of a relay; `docs/outbox.md` lists the same.

use metrics::Unit;

/// Gauge of the rows in the outbox.
pub const ROWS: &str = "fairlane_outbox_rows";
/// Gauge of the age of the oldest row in the outbox.
pub const LAG: &str = "fairlane_outbox_lag_seconds";
/// Gauge of the age of the oldest transaction that has written.
pub const HORIZON: &str = "fairlane_outbox_horizon_age_seconds";
/// Counter of rows passed on, by result.
pub const RELAYED: &str = "fairlane_outbox_relayed_total";
/// Counter of failed passes of a relay, by what failed.
pub const FAILURES: &str = "fairlane_outbox_failures_total";
/// Counter of jobs that the reconciler repaired, by what it did.
pub const RECONCILED: &str = "fairlane_outbox_reconciled_total";

/// Registers units and descriptions with the installed recorder.
pub fn describe() {
    metrics::describe_gauge!(ROWS, Unit::Count, "Committed jobs that wait in the outbox, 10,000 at most.");
    metrics::describe_gauge!(LAG, Unit::Seconds, "Age of the oldest job in the outbox.");
    metrics::describe_gauge!(
        HORIZON,
        Unit::Seconds,
        "Age of the oldest open transaction that has written: younger jobs wait for its end."
    );
    metrics::describe_counter!(RELAYED, Unit::Count, "Rows that left the outbox, by result.");
    metrics::describe_counter!(FAILURES, Unit::Count, "Passes of the relay that failed, by cause.");
    metrics::describe_counter!(RECONCILED, Unit::Count, "Jobs that the reconciler repaired, by action.");
}
