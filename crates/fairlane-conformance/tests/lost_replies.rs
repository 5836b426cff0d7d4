//! The soak in short: lost replies, dropped futures, flushed scripts and killed servers do not show.

use std::sync::Arc;
use std::time::Duration;

use fairlane_conformance::proxy::Proxy;
use fairlane_conformance::servers::{RedisServer, ServerOptions};
use fairlane_conformance::soak::{Plan, run};
use fairlane_conformance::subject::{LEASE_MS, jobs, succeeded, type_id};
use fairlane_core::WorkerId;
use fairlane_core::queue::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError, Leaser};

/// A server, the way to it, and an engine at the other end.
async fn behind_a_proxy() -> (RedisServer, Proxy, Arc<dyn Engine>) {
    let server = RedisServer::start(ServerOptions::default());
    let proxy = Proxy::start(server.port()).await;
    let engine = RedisEngine::connect(&proxy.url(), RedisOptions::default()).await.expect("Redis is there");
    (server, proxy, Arc::new(engine))
}

async fn whole(engine: &Arc<dyn Engine>) -> WholeView {
    match engine.inspect(Inspect::Whole).await {
        Ok(Inspected::Whole(view)) => view,
        other => panic!("{other:?}"),
    }
}

fn assert_lost<T: std::fmt::Debug>(answer: Result<T, EngineError>) {
    assert!(answer.as_ref().is_err_and(EngineError::is_retryable), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_whose_reply_was_lost_is_repeated_without_effect() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    let command = Enqueue { jobs: jobs("g", 5) };
    engine.enqueue(Enqueue { jobs: vec![] }).await.unwrap();
    proxy.cut_before_reply(0);
    assert_lost(engine.enqueue(command.clone()).await);
    assert_eq!(engine.enqueue(command).await.unwrap().receipts, [JobReceipt::Exists; 5]);
    assert_eq!(whole(&engine).await.backlog, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_lease_whose_reply_was_lost_come_with_the_next() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    engine.enqueue(Enqueue { jobs: jobs("g", 10) }).await.unwrap();
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    assert_eq!(leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs.len(), 1);
    proxy.cut_before_reply(0);
    assert_lost(leaser.lease(&[type_id("t")], 4, LEASE_MS).await);
    assert_eq!(leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs.len(), 4);
    assert_eq!(whole(&engine).await.in_flight, 5);
    assert_eq!(leaser.lease(&[type_id("t")], 10, LEASE_MS).await.unwrap().jobs.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_whose_reply_was_lost_counts_once() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    engine.enqueue(Enqueue { jobs: jobs("g", 2) }).await.unwrap();
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    let leased = leaser.lease(&[type_id("t")], 2, LEASE_MS).await.unwrap().jobs;
    let settlement =
        |job: &LeasedJob| Settlement { job: job.job.clone(), fence: job.fence, outcome: succeeded() };
    let settle = |job: &LeasedJob| Settle { settlements: vec![settlement(job)] };
    engine.settle(settle(&leased[0])).await.unwrap();
    proxy.cut_before_reply(0);
    assert_lost(engine.settle(settle(&leased[1])).await);
    assert_eq!(engine.settle(settle(&leased[1])).await.unwrap().verdicts, [Verdict::Applied]);
    let view = whole(&engine).await;
    assert_eq!((view.completed, view.in_flight), (2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_its_scripts_is_told_them_again() {
    let (server, _proxy, engine) = behind_a_proxy().await;
    for round in 0..3 {
        let mut new = jobs("g", 1);
        new[0].job.id = fairlane_core::JobId::new(format!("{round}")).unwrap();
        assert_eq!(engine.enqueue(Enqueue { jobs: new }).await.unwrap().receipts, [JobReceipt::Created]);
        server.command(&["SCRIPT", "FLUSH"]);
    }
    assert_eq!(whole(&engine).await.backlog, 3);
}

/// Erratum Q37.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_when_replies_are_lost_and_redis_is_killed() {
    let plan =
        Plan { seed: 5, load: Duration::from_secs(12), kill_every: Duration::from_secs(4), abandon: false };
    let report = run(&plan).await;
    println!("{report:?}");
    assert_eq!(report.violations, [""; 0]);
    assert!(report.acknowledged > 500 && report.leases >= report.acknowledged, "{report:?}");
    assert!(report.cuts > 20 && report.dropped > 20 && report.flushes > 2 && report.kills >= 2, "{report:?}");
}
