//! The deterministic heart of Fairlane.
//!
//! Nothing here reads a clock, draws a random number or touches the outside: time comes in as an
//! argument, and the same commands in the same order give the same replies and the same state.
//! The embedded engine runs this machine, the simulator runs it in virtual time, and the Redis
//! scripts are proven equal to it.
//!
//! - [`names`], [`numbers`], [`rate`], [`trace`]: what things are called and counted in, with validation.
//! - [`limits`]: every limit and default. [`hashing`]: maps that names from outside cannot slow down.
//! - `encoding`: how commands and replies are written for another process (with `serde`); what is read back passes
//!   the same checks as what is made here.
//! - [`classic`], [`congestion`]: the documents' score, backoff and levels as pure functions.
//! - [`queue`]: the machine. [`queue::Machine::apply`] is the way in; each operation is a file in
//!   `queue/operations`, named as its script and its conformance chapter are.
//!   - `queue/lane.rs`: groups, lanes and the fair order they stand in.
//!   - `queue/gate.rs`: may it be served now. `queue/downstream.rs`: what a 429 does to a rate.
//!   - `queue/invariants.rs`: what must hold after every command. `queue/dump.rs`: state to compare.

pub mod classic;
pub mod congestion;
mod encoding;
pub mod hashing;
pub mod limits;
pub mod names;
pub mod numbers;
pub mod queue;
pub mod rate;
pub mod trace;

pub use hashing::HashSeed;
pub use names::{BulkId, GroupId, InvalidName, JobId, TypeId, WorkerId};
pub use numbers::{Cost, Fence, Level, Micros, OutOfRange, RequestNumber, Weight};
pub use rate::Rate;
pub use trace::{InvalidTrace, Trace};
