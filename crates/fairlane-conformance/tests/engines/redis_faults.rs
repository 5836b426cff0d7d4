//! Faults of Redis that pass: demoted primaries, missing replicas, users that lose a permission.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::served::{connect as connect_http, serve};
use fairlane::{Context, Event, Fairlane, Job};
use fairlane_conformance::subject::{EXISTS, job, jobs, type_id};
use fairlane_core::queue::*;
use fairlane_core::{RequestNumber, WorkerId};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError, Hooks, layer};
use fairlane_testkit::failover::RedisPair;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until;
use tokio::sync::Semaphore;

/// How long a test waits for a condition that must hold.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

async fn connect(url: &str) -> Result<Arc<dyn Engine>, EngineError> {
    Ok(Arc::new(RedisEngine::connect(url, RedisOptions::default()).await?))
}

/// Repeats a command while its error is retryable.
async fn insist<T, F: Future<Output = Result<T, EngineError>>>(what: &str, call: impl Fn() -> F) -> T {
    let calling = async {
        loop {
            match call().await {
                Ok(reply) => return reply,
                Err(error) if error.is_retryable() => tokio::time::sleep(POLL).await,
                Err(error) => panic!("{what}: {error:?}"),
            }
        }
    };
    tokio::time::timeout(LIMIT, calling).await.unwrap_or_else(|_| panic!("{what}"))
}

/// A lease of up to 100 jobs of type `t`.
pub fn lease(number: u64) -> Lease {
    Lease {
        worker: WorkerId::new("worker").expect("a plain word is a name"),
        request: RequestNumber(number),
        types: vec![type_id("t")],
        jobs_max: 100,
        lease_ms: 30_000,
    }
}

/// The number of jobs that a lease returns.
pub async fn leased(engine: &dyn Engine, number: u64) -> usize {
    match engine.call(lease(number)).await.expect("a lease is answered") {
        Leased::Jobs { jobs, .. } => jobs.len(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demoted_primary_is_left_by_commands_and_by_waits() {
    let mut pair = RedisPair::start().await;
    let engine = connect(&pair.url()).await.expect("the primary is there");
    engine.enqueue_all(jobs("a", 10)).await.unwrap();
    let types = [type_id("t")];
    assert!(engine.wait(&types, Duration::from_secs(20)).await.unwrap());
    pair.fail_over().await;
    insist("a write reaches the new primary", || engine.enqueue_all([job("a", "after")])).await;
    assert_eq!(leased(&*engine, 1).await, 11);
    let woken = insist("a wait reaches the new primary", || async {
        pair.primary().command(&["RPUSH", "bulk-action:wake:t", "1"]);
        engine.wait(&types, Duration::from_secs(2)).await
    });
    assert!(woken.await);
}

/// An engine that counts the settlements that are submitted.
fn counting_settlements(inner: Arc<dyn Engine>, settles: Arc<AtomicUsize>) -> Arc<dyn Engine> {
    let hooks = Hooks::default().submit(move |inner, command| {
        if matches!(command, fairlane_core::Command::Queue(Command::Settle(_))) {
            settles.fetch_add(1, Ordering::SeqCst);
        }
        Box::pin(async move { inner.submit(command).await })
    });
    layer(inner, hooks)
}

/// Runs one job that ends during `fault`; returns how often it ran and how many results were
/// dropped.
async fn run_during(
    server: &RedisServer,
    inner: Arc<dyn Engine>,
    fault: &[&str],
    end: &[&str],
) -> [usize; 2] {
    let settles = Arc::new(AtomicUsize::new(0));
    let fairlane = Fairlane::from_engine(counting_settlements(inner, settles.clone()));
    let (runs, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let go = Arc::new(Semaphore::new(0));
    let (begins, goes, drops) = (runs.clone(), go.clone(), dropped.clone());
    let work = move |(): (), _: Context| {
        let (begins, goes) = (begins.clone(), goes.clone());
        async move {
            begins.fetch_add(1, Ordering::SeqCst);
            goes.acquire().await.expect("it is never closed").forget();
            fairlane::Outcome::done(&1)
        }
    };
    let count = move |event: &Event| {
        if let Event::Unsettled { .. } = event {
            drops.fetch_add(1, Ordering::SeqCst);
        }
    };
    let pool = fairlane.worker().process("t", work).on_event(count).start().expect("a worker");
    let receipt = fairlane.enqueue(Job::new("g", "t", &()).id("1")).await.expect("it is answered");
    receipt.accepted().expect("the job is accepted");
    until("the job runs", || runs.load(Ordering::SeqCst) == 1).await;
    server.command(fault);
    go.add_permits(1);
    until("its result is sent ten times", || settles.load(Ordering::SeqCst) >= 10).await;
    server.command(end);
    until("the engine has the result", || pool.active_jobs() == 0).await;
    let view = fairlane.job("g", "1").view().await.expect("it is answered").expect("it is there");
    assert_eq!((view.state, view.attempts, view.losses), (JobState::Completed, 1, 0));
    pool.stop().await;
    [runs.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)]
}

const TOO_FEW: [&str; 4] = ["CONFIG", "SET", "min-replicas-to-write", "1"];
const ENOUGH: [&str; 4] = ["CONFIG", "SET", "min-replicas-to-write", "0"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_ends_while_replicas_are_missing_runs_once() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server.url()).await.unwrap();
    assert_eq!(run_during(&server, engine, &TOO_FEW, &ENOUGH).await, [1, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_ends_while_its_user_lacks_a_permission_runs_once() {
    let server = RedisServer::start(ServerOptions::default());
    server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all"]);
    let engine = connect(&server.url().replace("redis://", "redis://app:pw@")).await.unwrap();
    let (fault, end) = (["ACL", "SETUSER", "app", "-hset"], ["ACL", "SETUSER", "app", "+hset"]);
    assert_eq!(run_during(&server, engine.clone(), &fault, &end).await, [1, 0]);
    let audited = engine.audit_all(false, |_| {}).await.unwrap();
    assert_eq!(audited.remaining(), 0, "{audited:?}");
}

fn post(port: u16, body: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    let head =
        format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close", body.len());
    write!(stream, "POST /api/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\n{head}\r\n\r\n{body}").expect("it is sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("it is answered");
    response.to_lowercase()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passing_error_of_redis_is_503_over_http_and_retryable_for_workers() {
    let redis = RedisServer::start(ServerOptions::default());
    let server = serve(connect(&redis.url()).await.unwrap()).await;
    let port = server.address().port();
    let engine = connect_http(port).await;
    engine.enqueue_all([job("a", "1")]).await.unwrap();
    redis.command(&TOO_FEW);
    let posting =
        tokio::task::spawn_blocking(move || post(port, r#"{"group":"g","type":"t","id":"1","payload":1}"#));
    let response = posting.await.unwrap();
    assert!(response.starts_with("http/1.1 503") && response.contains("\r\nretry-after: "), "{response}");
    let error = engine.enqueue_all([job("a", "2")]).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}

/// A server with a user that has all rights on all keys but these commands.
fn limited(rules: &[&str]) -> (RedisServer, String) {
    let server = RedisServer::start(ServerOptions::default());
    server.command(&[&["ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all"], rules].concat());
    let url = server.url().replace("redis://", "redis://limited:pw@");
    (server, url)
}

#[tokio::test]
async fn missing_permission_is_named_before_anything_is_written() {
    let (server, url) = limited(&["-rpush"]);
    let engine = connect(&url).await.expect("reading is allowed");
    let refused = engine.enqueue_all([job("a", "1")]).await.unwrap_err();
    assert!(matches!(refused, EngineError::Refused { .. }), "{refused:?}");
    let reason = refused.to_string();
    assert!(reason.contains("ACL SETUSER limited +rpush") && !reason.contains("pw"), "{reason}");
    assert_eq!(server.command(&["DBSIZE"]), "0");
    server.command(&["ACL", "SETUSER", "limited", "+rpush"]);
    engine.enqueue_all([job("a", "1")]).await.unwrap();
    assert_eq!(leased(&*engine, 1).await, 1);
}

#[tokio::test]
async fn keys_the_user_may_not_use_are_named() {
    let (server, _) = limited(&[]);
    server.command(&["ACL", "SETUSER", "elsewhere", "on", ">pw", "~other:*", "+@all"]);
    let url = server.url().replace("redis://", "redis://elsewhere:pw@");
    let refused = connect(&url).await.err().expect("the layout's version cannot be read");
    assert!(refused.to_string().contains("lacks a permission"), "{refused}");
}

/// A script is not rolled back: without a repair the id exists, is in no lane and never runs.
#[tokio::test]
async fn job_of_a_script_that_failed_midway_runs_once_the_permission_is_back() {
    let (server, url) = limited(&[]);
    let engine = connect(&url).await.unwrap();
    engine.enqueue_all([job("a", "before")]).await.unwrap();
    server.command(&["ACL", "SETUSER", "limited", "-rpush"]);
    let failed = engine.enqueue_all([job("a", "1")]).await.unwrap_err();
    assert!(failed.is_retryable(), "{failed:?}");
    assert!(failed.to_string().contains("enqueue failed midway and may be half done"), "{failed}");
    let denied = engine.enqueue_all([job("a", "1")]).await.unwrap_err();
    assert!(denied.is_retryable() && denied.to_string().contains("+rpush"), "{denied:?}");
    server.command(&["ACL", "SETUSER", "limited", "+rpush"]);
    let repeated = engine.enqueue_all([job("a", "1")]).await.unwrap();
    assert_eq!(repeated.receipts, [EXISTS]);
    assert_eq!(repeated.backlogs, [2]);
    assert_eq!(leased(&*engine, 1).await, 2);
    let audited = engine.audit_all(false, |_| {}).await.unwrap();
    assert_eq!(audited.remaining(), 0, "{audited:?}");
}

#[tokio::test]
async fn lease_that_failed_midway_is_repaired_before_the_next_one() {
    let (server, url) = limited(&[]);
    let engine = connect(&url).await.unwrap();
    engine.enqueue_all(jobs("a", 5)).await.unwrap();
    server.command(&["ACL", "SETUSER", "limited", "-hset"]);
    let failed = engine.call(lease(1)).await.unwrap_err();
    assert!(failed.to_string().contains("lease failed midway"), "{failed}");
    server.command(&["ACL", "SETUSER", "limited", "+hset"]);
    assert_eq!(leased(&*engine, 1).await, 5);
    let audited = engine.audit_all(false, |_| {}).await.unwrap();
    assert_eq!(audited.remaining(), 0, "{audited:?}");
}

/// A list that is no list: nothing can be repaired there before an operator has removed it.
#[tokio::test]
async fn group_that_cannot_be_repaired_keeps_no_other_from_working() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server.url()).await.unwrap();
    engine.enqueue_all([job("good", "1")]).await.unwrap();
    server.command(&["SET", "bulk-action:group:bad:jobs:1:t", "x"]);
    let failed = engine.enqueue_all([job("bad", "1")]).await.unwrap_err();
    assert!(failed.to_string().contains("enqueue failed midway"), "{failed}");
    assert_eq!(leased(&*engine, 1).await, 1, "leases go on");
    engine.enqueue_all([job("good", "2")]).await.unwrap();
    let refused = engine.enqueue_all([job("bad", "1")]).await.unwrap_err();
    assert!(refused.to_string().contains("cannot be repaired"), "{refused}");
    assert_eq!(leased(&*engine, 2).await, 1);
    server.command(&["DEL", "bulk-action:group:bad:jobs:1:t"]);
    let repeated = insist("it is repaired", || engine.enqueue_all([job("bad", "1")])).await;
    assert_eq!(repeated.receipts, [EXISTS]);
    assert_eq!(leased(&*engine, 3).await, 1);
    let audited = engine.audit_all(false, |_| {}).await.unwrap();
    assert_eq!(audited.remaining(), 0, "{audited:?}");
}

#[tokio::test]
async fn reading_creates_no_key_and_needs_no_write_permission() {
    let server = RedisServer::start(ServerOptions::default());
    let rules = ["+@read", "+@connection", "+eval", "+evalsha", "+time", "+info"];
    let user = ["ACL", "SETUSER", "viewer", "on", ">pw", "~bulk-action:*", "-@all"];
    server.command(&[&user[..], &rules].concat());
    let viewer = connect(&server.url().replace("redis://", "redis://viewer:pw@")).await.unwrap();
    let read = || async {
        let totals = viewer.call(InspectQueue).await?;
        viewer.admin().space().await?;
        Ok::<_, EngineError>(totals.backlog)
    };
    assert_eq!(read().await, Ok(0));
    assert_eq!(server.command(&["DBSIZE"]), "0");
    let writer = connect(&server.url()).await.unwrap();
    writer.enqueue_all(jobs("a", 3)).await.unwrap();
    assert_eq!(read().await, Ok(3));
    assert_eq!(viewer.audit_all(false, |_| {}).await.unwrap().findings, []);
    let refused = viewer.enqueue_all([job("a", "4")]).await.unwrap_err();
    assert!(refused.to_string().contains("ACL SETUSER viewer"), "{refused}");
    assert_eq!(read().await, Ok(3));
}
