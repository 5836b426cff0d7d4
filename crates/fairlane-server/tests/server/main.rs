//! A real server, and a real HTTP client that sends requests to it.

#![expect(clippy::unwrap_used, reason = "a test fails where it does not get what it needs")]

mod access;
mod activity;
mod audit;
mod bound_keys;
mod broken_engine;
mod bulks;
mod congestion;
mod dashboard;
mod dashboard_pages;
mod dead;
mod events;
mod examples;
mod floods;
mod fuzz_bodies;
mod gate;
mod groups;
mod idempotency;
mod idle_connections;
mod invalid_bodies;
mod jobs;
mod keys;
mod large_bodies;
mod leases;
mod limits;
mod locks;
mod logs;
mod lost_replies;
mod metrics;
mod new_types;
mod openapi;
mod passes;
mod quotas;
mod refused_bodies;
mod rooms;
mod running;
mod schema;
mod settings;
mod slow_clients;
mod stopping;
mod stream;
mod types;
mod waiting_page;
