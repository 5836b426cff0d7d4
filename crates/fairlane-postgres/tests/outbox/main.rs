//! The outbox with real PostgreSQL and Redis servers.

mod mirror;
mod monitor;
mod pgbouncer;
mod producers;
mod reconcile;
mod relay;
mod support;
