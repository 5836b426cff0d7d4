//! A real server, asked by a real HTTP client.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

mod access;
mod audit;
mod bound;
mod broken_engine;
mod bulks;
mod congestion;
mod costs;
mod dead;
mod description;
mod events;
mod examples;
mod figures;
mod floods;
mod fuzz_bodies;
mod gated;
mod groups;
mod hoarders;
mod jobs;
mod keys;
mod large_bodies;
mod leases;
mod limits;
mod logs;
mod lost_answers;
mod new_types;
mod refused_bodies;
mod repeats;
mod running;
mod schema;
mod settings;
mod slow_clients;
mod stopping;
mod stream;
mod types;
mod unfit_bodies;
