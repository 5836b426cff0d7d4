//! Runs the real program, as a user or a script does.

#![expect(clippy::unwrap_used, reason = "a test fails if a precondition does not hold")]

mod activity;
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
mod documents;
mod engines;
mod enqueue;
mod failure_output;
mod health;
mod help;
mod hostile;
mod job;
mod key;
mod limits;
mod loading;
mod lock;
mod one_json;
#[cfg(feature = "postgres")]
mod outbox;
mod permissions;
mod proxies;
mod queue;
mod quickstart;
mod ranking;
mod receivers;
mod room;
mod running;
mod serve;
mod served;
mod settings;
mod simulate;
mod status;
mod terminal;
mod top;
mod unserved_directory;
mod why;
mod work;
mod work_start;
