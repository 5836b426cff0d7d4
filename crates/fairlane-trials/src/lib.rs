//! Trials of the complete system, with real processes, sockets and clocks.
//!
//! - `kills.rs`: workers at work on bulk actions with callbacks, killed at random moments.
//! - `neighbours.rs`: twenty customers with very much work beside two hundred with little.
//! - `hold.rs`: a customer who holds, resumes and cancels very much work beside one with steady
//!   work.
//! - `downstream.rs`: a downstream that allows less than is configured.
//! - `failover.rs`: a Redis primary that is replaced behind one address while ten jobs run at once.
//! - `outbox.rs`: jobs committed with rows of a database while everything is killed, and their cost.
//! - `locks.rs`: locks held by processes that are killed, stopped and cut off; many waiters, many
//!   locks, and how fast they are.
//! - `dashboard.rs`: the pages of the dashboard over very many groups and jobs.
//! - `served.rs`: the HTTP server: its speed, its memory, and a key that floods.
//! - `rankings.rs`: what updates of a board of a million members cost, and what its removal does.
//! - `rooms.rs`: a waiting room with a crowd, and what its operations cost with a million waiters.
//! - `attack.rs`: one customer who attacks the server beside another one.
//! - `fuzz.rs`: mutated inputs of everything that reads bytes from outside.
//!
//! A trial returns a report: what must hold on any machine is listed in it as a violation if it
//! does not, and what depends on the speed of the machine is a number. The program `trials` runs
//! each trial at full length, the tests a short one.

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
