//! Trials of rankings.
//!
//! - `rankings/scale.rs`: what the operations cost on boards of very many members, beside the bare
//!   commands of Redis, and how long expiry and removal block the server.
//! - `rankings/command.rs`: `trials rankings …`.

pub mod command;
pub mod scale;
