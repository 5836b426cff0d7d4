//! Simulates whole days of queueing in seconds.
//!
//! A scenario defines which groups enqueue which jobs and when, the limits, and how the downstream
//! behaves. It runs against the real [`fairlane_core::queue::Machine`], through real operations, so
//! that the result shows what the queue does and not what a model of it would do. Invariant: the
//! same scenario with the same seed gives the same report, on any machine. Left out on purpose:
//! network delays, lost workers and stores, which the tests of the engines cover.
//!
//! - [`Scenario`] (`scenario.rs`): a TOML file, its parts merged with its common settings, checked.
//!   `scenario/layer.rs` is the file as written, `scenario/part.rs` what is run,
//!   `scenario/classic.rs` both for the keys of `classic`. [`Overlay`]: overrides from the command
//!   line.
//! - [`run`] (`simulation.rs`): the event loop. `simulation/ticks.rs`: the timers of `classic`.
//!   `arrivals.rs`: when jobs arrive. `downstream.rs`: the downstream with its true limit.
//!   `steps.rs`: rates that change over time. `generator.rs`: seeded random numbers.
//! - [`preview()`] (`preview.rs`): the effect of new settings of one group on an existing queue.
//! - `measure.rs`, `measure/*.rs`: measurements during a run.
//! - [`PartReport`] (`report.rs`): the figures; `report/table.rs` and `report/plot.rs`: tables and
//!   charts.
//!
//! ```
//! use fairlane_simulator::{Scenario, run};
//!
//! let scenario = Scenario::parse(
//!     "two",
//!     r#"
//!     workers = 10
//!     rate = { count = 100 }
//!     service = { fixed_ms = 50 }
//!     [[group]]
//!     name = "small"
//!     arrivals = [{ at_once = { jobs = 10 } }]
//!     [[group]]
//!     name = "large"
//!     arrivals = [{ at_once = { jobs = 1000 } }]
//!     "#,
//! )?;
//! let reports = run(&scenario, &mut |_| {})?;
//! assert!(reports[0].groups[0].wait_p99_ms < Some(300.0));
//! # Ok::<(), fairlane_simulator::SimulationError>(())
//! ```

mod arrivals;
mod downstream;
mod generator;
mod measure;
mod preview;
mod report;
mod scenario;
mod simulation;
mod steps;

pub use preview::{
    Effect, Forecast, Got, GroupSnapshot, PREVIEW_JOBS_MAX, PREVIEW_SECONDS, PREVIEW_WORKERS_MAX, Preview,
    QueueSnapshot, TypeSnapshot, preview,
};
pub use report::{GroupReport, PartReport, Series, compared_rows, group_rows, plot_svg, summary_rows};
pub use scenario::{ClassicLayer, CongestionLayer, Overlay, Scenario, SimulationError, with_suggestion};
pub use simulation::{Progress, run};
