//! The outbox: jobs that are committed with an application's own rows, or not at all.
//!
//! A job is a row that a transaction adds. The relay passes committed rows on to a queue on any
//! engine. A worker with a mirror keeps the state of each job in the database, under a fence.
//!
//! ```no_run
//! use fairlane_postgres::{Job, Outbox, enqueue_in};
//!
//! # async fn order() -> Result<(), fairlane_postgres::Error> {
//! let outbox = Outbox::connect("postgres://app@localhost/shop").await?;
//! let mut transaction = outbox.begin().await?;
//! sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(42).execute(&mut *transaction).await?;
//! enqueue_in(&mut transaction, Job::new("customer-7", "mail", &"ada@example.com").id("order-42")).await?;
//! outbox.commit(transaction).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Source
//!
//! - `outbox.rs`: a database with an outbox. `enqueue.rs`: jobs added in a transaction. `poke.rs`:
//!   notifies relays of a commit.
//! - `relay.rs`: passes rows on; `relay/` has its parts: `batch`, `send`, `listener`.
//! - `mirror.rs`: the state of jobs in the database; `mirror/` has `writer`, which writes in batches,
//!   and `rows`, its statements.
//! - `reconcile.rs`: repairs what the queue and the mirror disagree about. `status.rs`: waiting
//!   jobs, and the transactions that they wait for. `monitor.rs`: all of it for a dashboard.
//! - `schema.rs`: the tables. `sql.rs`: how statements are sent. `encoding.rs`: payloads and results
//!   as JSON. `names.rs`: the metrics. `error.rs`: errors.

mod encoding;
mod enqueue;
mod error;
mod mirror;
mod monitor;
pub mod names;
mod outbox;
mod poke;
mod reconcile;
mod relay;
mod schema;
mod sql;
mod status;

pub use enqueue::{ENQUEUE_JOBS_MAX, enqueue_all_in, enqueue_in};
pub use error::Error;
pub use fairlane::Job;
pub use fairlane::views::{HorizonHolder, OutboxStatus};
pub use mirror::MirroredJob;
pub use monitor::OutboxMonitor;
pub use outbox::{Notify, Outbox};
pub use reconcile::{ReconcileReport, ReconcileSettings};
pub use relay::{Order, Relay, RelaySettings, Relayed};
pub use sqlx;
pub use status::explain;

/// The examples of the page on the outbox, so that they are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/outbox.md")]
struct Guide;
