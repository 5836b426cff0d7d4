//! The commands: one file each, and a folder for the larger ones.

pub mod audit;
pub mod bench;
pub mod bulk;
pub mod completions;
pub mod config;
pub mod data;
pub mod dead;
pub mod demo;
pub mod enqueue;
pub mod group;
pub mod health;
pub mod job;
pub mod job_type;
pub mod key;
pub mod lock;
pub mod man;
#[cfg(feature = "postgres")]
pub mod outbox;
pub mod room;
pub mod serve;
pub mod settings;
pub mod simulate;
pub mod status;
pub mod top;
pub mod why;
pub mod work;
