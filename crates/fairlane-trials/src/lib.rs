//! Trials of the whole, with real processes, sockets and clocks.
//!
//! - `kills.rs`: workers at work on bulk actions with callbacks, killed at random moments.
//! - `neighbours.rs`: twenty customers with very much work beside two hundred with little.
//! - `hold.rs`: a customer who holds, resumes and cancels very much work beside one with steady work.
//! - `downstream.rs`: a downstream that allows less than it is said to.
//! - `failover.rs`: a Redis primary that is replaced behind one address while ten jobs run at once.
//! - `served.rs`: the HTTP server: its speed, its memory, and a key that floods.
//! - `attack.rs`: one customer who attacks the server beside another one.
//! - `http.rs`: the small server that stands for the outside.
//!
//! A trial gives a report; what must hold whatever the machine is listed in it as a violation, what depends on
//! the machine's speed is a figure. The program `trials` runs each at full length, the tests a short one.

pub mod attack;
pub mod downstream;
pub mod failover;
pub mod hold;
mod http;
pub mod kills;
pub mod neighbours;
pub mod served;
