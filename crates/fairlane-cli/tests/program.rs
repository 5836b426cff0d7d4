//! The real program, run as a person or a script would run it.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

mod program {
    pub mod audit;
    pub mod bench;
    pub mod data;
    pub mod demo;
    pub mod help;
    pub mod redis_server;
    pub mod running;
    pub mod simulate;
    pub mod why;
}
