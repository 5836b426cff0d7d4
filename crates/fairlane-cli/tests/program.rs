//! The real program, run as a person or a script would run it.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

mod program {
    pub mod audit;
    pub mod bench;
    pub mod bulk;
    pub mod data;
    pub mod dead;
    pub mod demo;
    pub mod enqueue;
    pub mod help;
    pub mod job;
    pub mod limits;
    pub mod loading;
    pub mod queue;
    pub mod receiver;
    pub mod redis_server;
    pub mod running;
    pub mod simulate;
    pub mod why;
    pub mod work;
    pub mod work_start;
}
