//! Tests that prove that all engines behave the same.
//!
//! - `chapters.rs`: the suite, a chapter per operation, over a [`subject::Subject`].
//! - `differential.rs`: seeded random commands through the core and through Redis, compared step by
//!   step.
//! - `soak.rs`: producers, workers and faults, and the invariants that must hold in the end.
//! - `kills.rs`: a process on a data directory, killed repeatedly.
//! - `arguments.rs`: the command-line arguments of the programs.
//! - `dice.rs`: seeded random numbers.
//!
//! This crate is test code in the form of a library: a failed setup ends the test with a message.

pub mod arguments;
pub mod chapters;
pub mod dice;
pub mod differential;
pub mod kills;
pub mod soak;
pub mod subject;
