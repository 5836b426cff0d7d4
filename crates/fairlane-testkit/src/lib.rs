//! Servers, browsers and processes that the tests and trials of all crates start around the code
//! under test.
//!
//! - `browser.rs`: a real Chromium, with axe-core.
//! - `certificates.rs`: a CA for servers and clients on this machine.
//! - `clock.rs`: a wall clock that jumps, for child processes.
//! - `comfyui.rs`: a stand-in for a ComfyUI engine.
//! - `document.rs`: pages of the documentation, and scripts made of their blocks.
//! - `redis.rs`: Redis servers and clusters to start, kill and start again. `failover.rs`: a
//!   primary and its replica.
//! - `postgres.rs`: PostgreSQL servers, and PgBouncer before one.
//! - `proxy.rs`: a proxy whose connections can be cut. `receiver.rs`: an HTTP server that records
//!   its requests.
//! - `program.rs`: runs of the `fairlane` program. `process.rs`: a child process and its memory.
//! - `wait.rs`: bounded waits for a condition.
//!
//! This crate depends on no crate of Fairlane, so that each of them can use it in its tests. A
//! failed setup ends the test with a message.

pub mod browser;
pub mod certificates;
pub mod clock;
pub mod comfyui;
pub mod document;
pub mod failover;
pub mod postgres;
pub mod process;
pub mod program;
pub mod proxy;
pub mod receiver;
pub mod redis;
pub mod wait;
