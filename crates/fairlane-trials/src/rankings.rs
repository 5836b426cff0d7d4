//! Trials of rankings.
//!
//! - `rankings/scale.rs`: the cost of operations on boards of very many members, compared with bare
//!   commands of Redis, and how long expiry and removal block the server.
//! - `rankings/command.rs`: `trials rankings …`.

pub mod command;
pub mod scale;
