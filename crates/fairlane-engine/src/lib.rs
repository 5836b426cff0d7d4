//! Where Fairlane's state lives, behind one seam.
//!
//! - `engine.rs`: the seam itself, [`Engine`], and [`EngineError`].
//! - `embedded.rs`: the core's machine in this process. `redis.rs`: Redis, Valkey and Redis Cluster.
//! - `audit.rs`: an audit of everything.
//! - `leaser.rs`: a worker's numbered lease requests. `clock.rs`: whose time it is.
//! - `observe.rs`: metrics and events.
//!
//! [`open`] finds the engine for an address. What an engine does with a command is decided by
//! `fairlane-core`; here it is only carried there and back.

mod audit;
mod clock;
pub mod embedded;
mod engine;
mod leaser;
pub mod observe;
mod open;
pub mod redis;

pub use audit::{AuditProgress, AuditReport, WalkPage};
pub use clock::Clock;
pub use embedded::{DirectoryOptions, Durability, EmbeddedEngine};
pub use engine::{BoxFuture, Engine, EngineError};
pub use leaser::{Batch, Leaser};
pub use open::{attach, check_address, open};
