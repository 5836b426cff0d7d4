//! Fairlane over HTTP: jobs, leases, bulk actions, groups, events and metrics, for any language.
//!
//! - `server.rs`: the lifecycle of a server. `serve.rs`: connections. `settings.rs`: every limit.
//! - `app.rs`: state that all requests share. `access.rs`: the permission each route requires.
//! - `guard.rs`: authentication, authorization and admission of every request. `keys.rs`: keys.
//! - `quota.rs`: what a key may use per second, and what a request costs.
//! - `api.rs` and `api/`: the routes, one file per resource. `engine_rpc.rs`: the routes that serve
//!   the `http` engine.
//! - `ui.rs` and `ui/`: the dashboard, a file per page.
//! - `outbox.rs`: readings of the outbox of a database, which its source passes to the server.
//! - `passes.rs`: the keys that sign passes of waiting rooms. `waiting_page.rs`: the public page of a
//!   waiting room.
//! - `openapi.rs`: the API description and its pages. `metrics.rs`: Prometheus. `health.rs`:
//!   liveness and readiness.
//! - `idempotency.rs`: ids derived from a request, so that a repeated request finds the same jobs.
//!   `trace.rs`: the trace of a request.
//! - `extract.rs`: bodies, queries and paths. `bodies.rs`: memory for bodies. `problem.rs`: error
//!   responses.
//!
//! A request passes `serve.rs` → `guard.rs` → a file of `api/` → the engine.
//! Left out on purpose: decisions about jobs, which the engine makes; TLS, which a reverse proxy
//! does better.

pub mod access;
mod api;
mod app;
mod bodies;
mod engine_rpc;
mod extract;
mod guard;
mod health;
mod idempotency;
pub mod keys;
pub mod metrics;
mod openapi;
mod outbox;
pub mod passes;
mod problem;
mod quota;
mod serve;
mod server;
mod settings;
mod trace;
mod ui;
mod waiting_page;

pub use api::openapi;
pub use app::App;
pub use guard::SessionSecret;
pub use outbox::OutboxSource;
pub use problem::{Problem, ProblemKind};
#[doc(hidden)]
pub use serve::Framing;
pub use server::{Server, ServerError};
pub use settings::ServerSettings;
pub use waiting_page::{InvalidPage, PageColours, WaitingPage};
