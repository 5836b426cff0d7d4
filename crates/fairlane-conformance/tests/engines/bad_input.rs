//! Bad input: every engine refuses it with a sentence that says what is accepted, and changes
//! nothing.
//!
//! Names and numbers with a type of their own are refused by their constructors; everything else
//! when the command is submitted. Left out on purpose: input that only a command line or a wire can
//! bring, such as invalid UTF-8.

mod clock;
mod commands;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::served::Served;
use fairlane_conformance::subject::{START, Subject, failed, job, jobs, jobs_in, retry};
use fairlane_core::kernel::Dump;
use fairlane_core::queue::Settings;
use fairlane_core::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, EmbeddedEngine, EngineError};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

/// An engine whose complete state can be read.
struct Fixture {
    queue: Subject,
    embedded: Option<Arc<EmbeddedEngine>>,
    redis: Option<Arc<RedisEngine>>,
    _server: Option<RedisServer>,
}

impl Fixture {
    fn embedded() -> Self {
        let us = Arc::new(AtomicU64::new(START.0));
        let engine = EmbeddedEngine::new(Settings::default(), Clock::Given(us.clone())).expect("a thread");
        let engine = Arc::new(engine);
        let queue = Subject::new(engine.clone(), us);
        Self { queue, embedded: Some(engine), redis: None, _server: None }
    }

    async fn redis() -> Self {
        let server = RedisServer::start(ServerOptions::default());
        let us = Arc::new(AtomicU64::new(START.0));
        let options = RedisOptions { clock: Clock::Given(us.clone()), ..RedisOptions::default() };
        let engine = RedisEngine::connect(&server.url(), options).await.expect("Redis is there");
        let engine = Arc::new(engine);
        let queue = Subject::new(engine.clone(), us);
        Self { queue, embedded: None, redis: Some(engine), _server: Some(server) }
    }

    async fn served() -> Self {
        let served = Served::start().await;
        let queue = Subject::new(served.connect().await, served.us);
        Self { queue, embedded: Some(served.embedded), redis: None, _server: None }
    }

    async fn state(&self) -> Dump {
        match (&self.embedded, &self.redis) {
            (Some(engine), _) => engine.dump().await.expect("a dump is answered"),
            (_, Some(engine)) => engine.dump(self.queue.now()).await.expect("a dump is answered"),
            _ => unreachable!("a fixture has an engine"),
        }
    }

    /// Adds jobs in several states, so that a command would have something to change.
    async fn populate(&self) {
        let queue = &self.queue;
        queue.open("g", "b").await;
        queue.add(jobs_in("b", "g", 3)).await;
        queue.add(jobs("g", 4)).await;
        let leased = queue.lease(4).await;
        queue.settle(&leased[0], failed()).await;
        queue.settle(&leased[1], retry(5000)).await;
        queue.set_group("h", fairlane_conformance::subject::weight(3)).await;
    }
}

async fn every_bad_command_is_refused_without_effect(fixture: Fixture) {
    fixture.populate().await;
    let before = fixture.state().await;
    for bad in commands::table() {
        let reply = fixture.queue.engine.submit(bad.command.into()).await;
        let Err(EngineError::Invalid(invalid)) = reply else {
            panic!("{}: {reply:?}", bad.what);
        };
        let text = invalid.to_string();
        for piece in bad.says {
            assert!(text.contains(piece), "{}: {text:?} does not say {piece:?}", bad.what);
        }
    }
    let difference = before.difference(&fixture.state().await);
    assert_eq!(difference, "", "nothing was changed");
    fixture.queue.add([job("g", "the queue goes on")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_engine_refuses_every_bad_command_without_effect() {
    every_bad_command_is_refused_without_effect(Fixture::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_refuses_every_bad_command_without_effect() {
    every_bad_command_is_refused_without_effect(Fixture::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_behind_a_server_refuses_every_bad_command_without_effect() {
    every_bad_command_is_refused_without_effect(Fixture::served().await).await;
}

/// Numbers that no rule forbids are compared exactly, however large they are.
async fn absurd_numbers_are_answered_without_effect(fixture: Fixture) {
    fixture.populate().await;
    fixture.queue.open("g", "complete").await;
    fixture.queue.seal("g", "complete").await;
    let before = fixture.state().await;
    for odd in commands::absurd() {
        let reply = fixture.queue.engine.submit(odd.command.into()).await;
        assert_eq!(reply, Ok(odd.reply.into()), "{}", odd.what);
    }
    assert_eq!(before.difference(&fixture.state().await), "", "nothing was changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_engine_answers_absurd_numbers_without_effect() {
    absurd_numbers_are_answered_without_effect(Fixture::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_answers_absurd_numbers_without_effect() {
    absurd_numbers_are_answered_without_effect(Fixture::redis().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_behind_a_server_answers_absurd_numbers_without_effect() {
    absurd_numbers_are_answered_without_effect(Fixture::served().await).await;
}

#[test]
fn a_bad_name_is_refused_with_what_is_wrong() {
    let long = "x".repeat(129);
    let wide = "가".repeat(43);
    let table: [(&str, &[&str]); 8] = [
        ("", &["must not be empty"]),
        (&long, &["at most 128 bytes", "129"]),
        (&wide, &["at most 128 bytes", "129"]),
        ("a\nb", &["control characters", "byte 1"]),
        ("a\0", &["control characters", "byte 1"]),
        ("\u{7f}", &["control characters", "byte 0"]),
        ("가\u{85}", &["control characters", "byte 3"]),
        ("tab\there", &["control characters", "byte 3"]),
    ];
    for (name, says) in table {
        let texts = [
            ("group id", GroupId::new(name).expect_err("a bad name").to_string()),
            ("job id", JobId::new(name).expect_err("a bad name").to_string()),
            ("job type", TypeId::new(name).expect_err("a bad name").to_string()),
            ("bulk action id", BulkId::new(name).expect_err("a bad name").to_string()),
            ("worker id", WorkerId::new(name).expect_err("a bad name").to_string()),
        ];
        for (kind, text) in texts {
            assert!(text.contains(kind), "{text:?} does not say that it is a {kind}");
            assert!(says.iter().all(|piece| text.contains(piece)), "{text:?} does not say {says:?}");
        }
    }
}

#[test]
fn a_name_up_to_its_limit_and_of_any_script_is_taken() {
    for name in ["x".repeat(128), "가".repeat(42), " ".into(), "a:b%c{d}*?[e]".into(), "👩‍🚀".into()]
    {
        assert_eq!(GroupId::new(&name).expect("a good name").to_string(), name);
        assert_eq!(BulkId::new(&name).expect("a good name").to_string(), name);
    }
}

#[test]
fn a_name_that_was_not_escaped_by_us_is_refused() {
    for escaped in ["a:b", "%3a", "%", "%2", "100%", "a%20b"] {
        let text = JobId::from_escaped(escaped).expect_err("not escaped by us").to_string();
        assert!(text.contains("is not an escaped name"), "{text}");
    }
}

#[test]
fn a_number_out_of_range_is_refused_with_its_range() {
    let table = [
        (Cost::new(0).err(), "between 1 and 10000, not 0"),
        (Cost::new(10_001).err(), "between 1 and 10000, not 10001"),
        (Weight::new(0).err(), "between 1 and 1000, not 0"),
        (Weight::new(u32::MAX).err(), "between 1 and 1000, not 4294967295"),
        (Rate::new(0, 1000, None).err(), "the count of a rate must be between 1 and 1000000, not 0"),
        (Rate::new(1_000_001, 1000, None).err(), "not 1000001"),
        (Rate::new(1, 999, None).err(), "the period of a rate in ms must be between 1000 and 86400000"),
        (Rate::new(1, u64::MAX, None).err(), "not 18446744073709551615"),
        (Rate::new(1, 1000, Some(0)).err(), "the burst of a rate"),
        (Rate::new(1, 86_400_000, Some(u64::MAX)).err(), "the burst of a rate"),
    ];
    for (refused, says) in table {
        let text = refused.expect("out of range").to_string();
        assert!(text.contains(says), "{text:?} does not say {says:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_engine_loses_no_work_when_the_clock_jumps() {
    for (seed, settings) in clock::episodes() {
        let fixture = Fixture::embedded();
        clock::work_while_the_clock_jumps(&fixture.queue, seed, settings).await;
        let engine = fixture.embedded.as_ref().expect("it is embedded");
        assert_eq!(engine.check().await.expect("a check is answered"), Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_loses_no_work_when_the_clock_jumps() {
    for (seed, settings) in clock::episodes() {
        let fixture = Fixture::redis().await;
        clock::work_while_the_clock_jumps(&fixture.queue, seed, settings).await;
    }
}
