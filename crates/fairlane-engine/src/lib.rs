//! Where Fairlane's state lives, behind one seam.
//!
//! - `engine.rs`: the seam itself, [`Engine`], and [`EngineError`].
//! - `embedded.rs`: the core's machine in this process. `redis.rs`: Redis, Valkey and Redis Cluster.
//! - `http.rs`: a Fairlane server; [`wire`] is what it and the server say to each other.
//! - `audit.rs`: an audit of everything.
//! - `leaser.rs`: a worker's numbered lease requests. `clock.rs`: whose time it is.
//! - `observe.rs`: metrics and events. `waiters.rs`: who waits for work, in this process.
//!
//! [`open`] finds the engine for an address. What an engine does with a command is decided by
//! `fairlane-core`; here it is only carried there and back.

mod audit;
mod clock;
pub mod embedded;
mod engine;
pub mod http;
mod leaser;
pub mod observe;
mod open;
pub mod redis;
mod waiters;

pub use audit::{AuditProgress, AuditReport, WalkPage};
pub use clock::Clock;
pub use embedded::{DirectoryOptions, Durability, EmbeddedEngine};
pub use engine::{BoxFuture, Engine, EngineError};
pub use http::{HttpEngine, HttpOptions, wire};
pub use leaser::{Batch, Leaser};
pub use open::{attach, check_address, open, open_default};
