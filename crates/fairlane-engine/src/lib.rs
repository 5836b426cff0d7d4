//! Engines: the stores of Fairlane's state behind one interface.
//!
//! - `engine.rs`: the interface [`Engine`], and [`EngineError`]. `layer.rs`: an engine
//!   around another one.
//! - `embedded.rs`: the core's machine in this process. `redis.rs`: Redis, Valkey
//!   and Redis Cluster.
//! - `http.rs`: a Fairlane server; [`wire`] is the protocol between it and the server.
//! - `audit.rs`: an audit of the store. `enqueue_all.rs`: any number of jobs.
//! - `leaser.rs`: a worker's numbered lease requests. `clock.rs`: the source of time. `retry.rs`:
//!   delays between retries. `causes.rs`: an error in one line.
//! - `observe.rs`: metrics and events. `waiters.rs`: the waiters for work in this process.
//!   `signals.rs`: signals to the waiters of processes.
//!
//! [`open`] opens the engine at an address. `fairlane-core` defines the effect of a command;
//! engines only transport and store.

// Each engine uses parts that the others do not; a build without all of them leaves some unused.
#![cfg_attr(
    not(all(feature = "http", feature = "redis", feature = "sqlite")),
    allow(dead_code, unused_imports)
)]

mod audit;
mod causes;
mod clock;
pub mod embedded;
mod engine;
mod enqueue_all;
#[cfg(feature = "http")]
pub mod http;
mod layer;
mod leaser;
pub mod observe;
mod open;
#[cfg(feature = "redis")]
pub mod redis;
mod retry;
mod signals;
mod steps;
mod waiters;

pub use audit::{AuditProgress, AuditReport, ScanPage};
pub use causes::causes;
pub use clock::Clock;
#[cfg(feature = "sqlite")]
pub use embedded::DirectoryOptions;
pub use embedded::{Durability, EmbeddedEngine};
pub use engine::{Admin, BoxFuture, Engine, EngineError, EngineInfo, Space};
pub use enqueue_all::by_group;
#[cfg(feature = "http")]
pub use http::{HttpEngine, HttpOptions, wire};
pub use layer::{Hooks, layer};
pub use leaser::{Batch, Leaser, lease_pause};
pub use open::{attach, attach_or_make, check_address, directory_of, open, open_default, without_user};
pub use retry::{Backoff, doubled};
pub use signals::Signals;
