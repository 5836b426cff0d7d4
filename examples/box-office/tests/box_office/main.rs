//! Tests of the box office: over HTTP, on real engines, in a real browser.
//!
//! - `sale.rs`: a purchase step by step, and what is refused. `faults.rs`: locks, boards and payments
//!   that fail, and processes that die. `boards.rs`: the boards on every engine.
//! - `page.rs`: the page. `crowd.rs`: a small crowd under fire. `readme.rs`: the commands of the README.

mod boards;
mod crowd;
mod faults;
mod page;
mod readme;
mod sale;
mod support;
