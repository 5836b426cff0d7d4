//! Trials of the complete system, with real processes, sockets and clocks.
//!
//! - `kills.rs`: workers of bulk actions with callbacks, killed at random moments.
//! - `neighbours.rs`: twenty customers with many jobs beside two hundred with few.
//! - `hold.rs`: a customer who holds, resumes and cancels a large bulk action beside one with
//!   steady work.
//! - `downstream.rs`: a downstream that allows less than is configured.
//! - `failover.rs`: a Redis primary that is replaced behind one address while ten jobs run at once.
//! - `outbox.rs`: jobs committed with rows of a database while everything is killed, and their cost.
//! - `locks.rs`: locks held by processes that are killed, stopped and cut off; many waiters, many
//!   locks, and how fast they are.
//! - `dashboard.rs`: the pages of the dashboard over very many groups and jobs.
//! - `served.rs`: the HTTP server: its speed, its memory, and a key that floods.
//! - `rankings.rs`: the cost of updating a board of a million members, and of removing it.
//! - `rooms.rs`: a crowded waiting room, and the cost of its operations with a million waiters.
//! - `attack.rs`: one customer who attacks the server beside another one.
//! - `fuzz.rs`: fuzzing of everything that reads bytes from outside.
//!
//! A trial returns a report. Invariants that do not hold are listed in it as violations; results
//! that depend on the speed of the machine are numbers. The program `trials` runs each trial at
//! full length, the tests a short one.

pub mod attack;
pub mod dashboard;
pub mod downstream;
pub mod failover;
pub mod fuzz;
pub mod hold;
pub mod kills;
pub mod locks;
pub mod neighbours;
pub mod outbox;
pub mod rankings;
pub mod rooms;
pub mod served;
