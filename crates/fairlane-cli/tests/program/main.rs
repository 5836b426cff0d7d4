//! The real program, run as a person or a script would run it.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

mod alone;
mod attack;
mod audit;
mod backup;
mod bench;
mod bulk;
mod data;
mod dead;
mod demo;
mod deploy;
mod discovery;
mod drain;
mod enqueue;
mod health;
mod help;
mod hostile;
mod job;
mod key;
mod limits;
mod loading;
mod places;
mod queue;
mod receiver;
mod redis_server;
mod refused;
mod running;
mod serve;
mod served;
mod settings;
mod simulate;
mod status;
mod terminal;
mod told;
mod why;
mod work;
mod work_start;
