//! A ticket shop: the place where waiting rooms, locks, the queue, the outbox and rankings meet.
//!
//! ```text
//! join the room ─► wait ─► active ─► hold a seat (lock, fence) ─► pay ─► confirmed ─► boards
//! ```
//!
//! The database decides. A unique index makes a double sale impossible even if every lock fails, and
//! whatever must happen later (an expiry, a recovery, a change of a board) is a row of the outbox in
//! the transaction that causes it. The engine adds order, speed and fairness, and may fail at any
//! time: a seat that is held can be paid without it.
//!
//! - `shop.rs`: the steps of a purchase. `jobs.rs`: the same steps when time or a crash asks for them.
//! - `store.rs`, `store/`: the database: `schema.rs`, `sale.rs` (transactions), `views.rs` (reads),
//!   `outbox.rs`.
//! - `provider.rs`: the payment provider, which stands for another company with a database of its own.
//! - `relay.rs`: passes the outbox on to the queue and to the boards. `boards.rs`: the boards.
//! - `identity.rs`: who a request is from: queue tokens, passes and payment tokens.
//! - `http.rs`, `http/`: the API, the events and the page. `live.rs`: what the events say.
//! - `crowd.rs`, `crowd/`: simulated buyers. `trial.rs`: a crowd against instances that are killed.
//!   `audit.rs`: whether seats, money and boards agree. `measure.rs`: payments without an engine.

pub mod audit;
pub mod boards;
pub mod crowd;
pub mod http;
pub mod identity;
mod jobs;
pub mod live;
pub mod measure;
pub mod options;
pub mod provider;
mod relay;
pub mod serve;
pub mod shop;
pub mod store;
pub mod trial;

use std::time::{SystemTime, UNIX_EPOCH};

/// The waiting room of the shop.
pub const ROOM: &str = "default";

/// The time in milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
