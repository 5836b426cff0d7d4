//! Where Fairlane's state lives, behind one seam.
//!
//! - `engine.rs`: the seam itself, [`Engine`], and [`EngineError`].
//! - `embedded.rs`: the core's machine in this process. `redis.rs`: Redis, Valkey and Redis Cluster.
//! - `http.rs`: a Fairlane server; [`wire`] is what it and the server say to each other.
//! - `audit.rs`: an audit of everything.
//! - `leaser.rs`: a worker's numbered lease requests. `clock.rs`: whose time it is. `causes.rs`: an error in one line.
//! - `observe.rs`: metrics and events. `waiters.rs`: who waits for work, in this process.
//!
//! [`open`] finds the engine for an address. What an engine does with a command is decided by
//! `fairlane-core`; here it is only carried there and back.

mod audit;
mod causes;
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
pub use causes::causes;
pub use clock::Clock;
pub use embedded::{DirectoryOptions, Durability, EmbeddedEngine, jobs_of};
pub use engine::{BoxFuture, Engine, EngineError, Space};
pub use http::{HttpEngine, HttpOptions, wire};
pub use leaser::{Batch, Leaser};
pub use open::{attach, attach_or_make, check_address, directory_of, open, open_default, without_user};
