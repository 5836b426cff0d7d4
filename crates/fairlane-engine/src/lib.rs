//! Where Fairlane's state lives, behind one seam.
//!
//! - `engine.rs`: the seam itself, [`Engine`], and [`EngineError`].
//! - `embedded.rs`: the core's machine in this process. `redis.rs`: Redis, Valkey and Redis Cluster.
//! - `leaser.rs`: a worker's numbered lease requests. `clock.rs`: whose time it is.
//!
//! [`open`] finds the engine for an address. What an engine does with a command is decided by
//! `fairlane-core`; here it is only carried there and back.

mod clock;
pub mod embedded;
mod engine;
mod leaser;
mod open;
pub mod redis;

pub use clock::Clock;
pub use embedded::EmbeddedEngine;
pub use engine::{BoxFuture, Engine, EngineError};
pub use leaser::{Batch, Leaser};
pub use open::open;

/// The README's examples, so that they compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
