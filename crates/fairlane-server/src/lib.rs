//! Fairlane over HTTP: jobs, leases, bulk actions, groups, events and figures, for any language.
//!
//! - `server.rs`: a server from its start to its end. `serve.rs`: connections. `settings.rs`: every limit.
//! - `app.rs`: what all requests share. `access.rs`: which role may do what on which route.
//! - `guard.rs`: what every request passes: who asks, may they, is there room. `keys.rs`: keys at rest.
//! - `api.rs` and `api/`: the routes, one file for each thing. `seam.rs`: the routes of the `http` engine.
//! - `description.rs`: the API described, and pages to read it. `figures.rs`: for Prometheus. `health.rs`: alive, ready.
//! - `idempotency.rs`: where ids come from, so that a repeated request finds the same jobs. `trace.rs`: the trace of one.
//! - `extract.rs`: bodies, queries and paths as they come. `bodies.rs`: room for them. `problem.rs`: what goes wrong, as it is told.
//!
//! A request's way: `serve.rs` → `guard.rs` → a file of `api/` → the engine.
//! Left out on purpose: decisions about jobs, which are the engine's; TLS, which a reverse proxy does better.

pub mod access;
mod api;
mod app;
mod bodies;
mod description;
mod extract;
pub mod figures;
mod guard;
mod health;
mod idempotency;
pub mod keys;
mod problem;
mod seam;
mod serve;
mod server;
mod settings;
mod trace;

pub use api::openapi;
pub use app::App;
pub use problem::{Problem, ProblemKind};
pub use server::{Server, ServerError};
pub use settings::ServerSettings;
