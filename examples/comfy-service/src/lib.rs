//! An image service on Fairlane: clients upload pictures, ComfyUI engines work on them.
//!
//! ```text
//! POST /jobs/file ─► api ─► PostgreSQL: row + outbox ─► relay ─► queue ─► worker ─► ComfyUI engine
//!                                ▲   trigger: state, callback ◄── mirror ◄──┘
//!                                └──────► outbox ─► relay ─► queue ─► worker ─► signed callback
//! ```
//!
//! # Source
//!
//! - `options.rs`: the options. `role.rs`: starts and stops the roles.
//! - `api.rs`: the HTTP side; `api/` has `submission` (uploads), `jobs` (state, cancellation, events) and
//!   `error`.
//! - `services.rs`: the services on offer, and bundles. `files.rs`: uploaded files.
//! - `store.rs`, `schema.sql`: the jobs in PostgreSQL.
//! - `worker.rs`: runs prompts and sends callbacks.
//! - `demo.rs`: everything at once. `trial.rs`: every process is killed at every step. `client.rs`: a
//!   small HTTP client for trials and tests.

pub mod api;
pub mod client;
pub mod demo;
pub mod files;
pub mod options;
pub mod role;
pub mod services;
pub mod store;
pub mod trial;
pub mod worker;

/// Why a role did not start.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;
