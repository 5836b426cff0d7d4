//! A real server, asked by a real HTTP client.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

#[path = "server/access.rs"]
mod access;
#[path = "server/audit.rs"]
mod audit;
#[path = "server/bound.rs"]
mod bound;
#[path = "server/bulks.rs"]
mod bulks;
#[path = "server/congestion.rs"]
mod congestion;
#[path = "server/dead.rs"]
mod dead;
#[path = "server/description.rs"]
mod description;
#[path = "server/events.rs"]
mod events;
#[path = "server/examples.rs"]
mod examples;
#[path = "server/figures.rs"]
mod figures;
#[path = "server/floods.rs"]
mod floods;
#[path = "server/fuzz_bodies.rs"]
mod fuzz_bodies;
#[path = "server/gated.rs"]
mod gated;
#[path = "server/groups.rs"]
mod groups;
#[path = "server/jobs.rs"]
mod jobs;
#[path = "server/keys.rs"]
mod keys;
#[path = "server/large_bodies.rs"]
mod large_bodies;
#[path = "server/leases.rs"]
mod leases;
#[path = "server/lost_answers.rs"]
mod lost_answers;
#[path = "server/new_types.rs"]
mod new_types;
#[path = "server/refused_bodies.rs"]
mod refused_bodies;
#[path = "server/running.rs"]
mod running;
#[path = "server/schema.rs"]
mod schema;
#[path = "server/settings.rs"]
mod settings;
#[path = "server/slow_clients.rs"]
mod slow_clients;
#[path = "server/stopping.rs"]
mod stopping;
#[path = "server/stream.rs"]
mod stream;
#[path = "server/types.rs"]
mod types;
