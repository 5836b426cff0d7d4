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
    pub mod key;
    pub mod limits;
    pub mod loading;
    pub mod places;
    pub mod queue;
    pub mod receiver;
    pub mod redis_server;
    pub mod refused;
    pub mod running;
    pub mod serve;
    pub mod served;
    pub mod settings;
    pub mod simulate;
    pub mod status;
    pub mod why;
    pub mod work;
    pub mod work_start;
}
