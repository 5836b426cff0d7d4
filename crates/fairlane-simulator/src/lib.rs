//! Whole days of queueing in seconds of virtual time.
//!
//! A scenario says who enqueues what and when, what the limits are, and how the outside behaves.
//! It is played against the real [`fairlane_core::queue::Machine`], through real commands, so that
//! what comes out is what the queue does and not what a model of it would do. Invariant: the same
//! scenario with the same seed gives the same report, on any machine. Left out on purpose: network
//! delays, lost workers and stores; those belong to the tests of the engines.
//!
//! - [`Scenario`] (`scenario.rs`): a TOML file, its parts laid over its common settings, checked.
//!   `scenario/layer.rs` is the file as written, `scenario/part.rs` what is run, `scenario/classic.rs` both
//!   for the keys of `classic`. [`Overlay`]: what the command line lays over it.
//! - [`run`] (`simulation.rs`): the event loop. `simulation/ticks.rs`: what `classic` does by the clock. `arrivals.rs`: who comes when. `outside.rs`: the
//!   downstream with its true limit. `steps.rs`: quantities that change over time.
//!   `generator.rs`: seeded draws.
//! - `measure.rs`, `measure/*.rs`: what is observed while it runs.
//! - [`PartReport`] (`report.rs`): the figures; `report/table.rs` and `report/plot.rs`: for people.
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
mod generator;
mod measure;
mod outside;
mod report;
mod scenario;
mod simulation;
mod steps;

pub use report::{GroupReport, PartReport, Series, compared_rows, group_rows, plot_svg, summary_rows};
pub use scenario::{ClassicLayer, CongestionLayer, Overlay, Scenario, SimulationError, with_suggestion};
pub use simulation::{Progress, run};
