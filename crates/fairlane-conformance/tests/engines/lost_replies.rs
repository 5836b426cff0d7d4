//! The soak in short: lost replies, dropped futures, flushed scripts and killed servers have no
//! visible effect.

use std::sync::Arc;
use std::time::Duration;

use fairlane_conformance::soak::{Plan, run};
use fairlane_conformance::subject::{
    EXISTS, LEASE_MS, NOTHING_SWEPT, bulk_ref, bytes, classic, delayed, failed, jobs, jobs_in, refs,
    settle_bulk_command, succeeded, type_id,
};
use fairlane_core::WorkerId;
use fairlane_core::queue::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError, Leaser};
use fairlane_testkit::proxy::Proxy;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

/// A server, a proxy before it, and an engine that connects through the proxy.
async fn behind_a_proxy() -> (RedisServer, Proxy, Arc<dyn Engine>) {
    let server = RedisServer::start(ServerOptions::default());
    let proxy = Proxy::start(server.port()).await;
    let engine = RedisEngine::connect(&proxy.url(), RedisOptions::default()).await.expect("Redis is there");
    (server, proxy, Arc::new(engine))
}

async fn queue_view(engine: &Arc<dyn Engine>) -> QueueView {
    engine.call(InspectQueue).await.expect("inspect_queue is answered")
}

fn assert_lost<T: std::fmt::Debug>(reply: Result<T, EngineError>) {
    assert!(reply.as_ref().is_err_and(EngineError::is_retryable), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_whose_reply_was_lost_is_repeated_without_effect() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    let command = Enqueue { jobs: jobs("g", 5) };
    engine.call(Enqueue { jobs: vec![] }).await.unwrap();
    proxy.cut_before_reply(0);
    assert_lost(engine.call(command.clone()).await);
    assert_eq!(engine.call(command).await.unwrap().receipts, [EXISTS; 5]);
    assert_eq!(queue_view(&engine).await.backlog, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_lease_whose_reply_was_lost_come_with_the_next() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    engine.call(Enqueue { jobs: jobs("g", 10) }).await.unwrap();
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    assert_eq!(leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs.len(), 1);
    proxy.cut_before_reply(0);
    assert_lost(leaser.lease(&[type_id("t")], 4, LEASE_MS).await);
    assert_eq!(leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs.len(), 4);
    assert_eq!(queue_view(&engine).await.in_flight, 5);
    assert_eq!(leaser.lease(&[type_id("t")], 10, LEASE_MS).await.unwrap().jobs.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_whose_reply_was_lost_counts_once() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    engine.call(Enqueue { jobs: jobs("g", 2) }).await.unwrap();
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    let leased = leaser.lease(&[type_id("t")], 2, LEASE_MS).await.unwrap().jobs;
    let settlement =
        |job: &LeasedJob| Settlement { job: job.job.clone(), fence: job.fence, outcome: succeeded() };
    let settle = |job: &LeasedJob| Settle { settlements: vec![settlement(job)] };
    engine.call(settle(&leased[0])).await.unwrap();
    proxy.cut_before_reply(0);
    assert_lost(engine.call(settle(&leased[1])).await);
    assert_eq!(engine.call(settle(&leased[1])).await.unwrap().verdicts, [Verdict::Applied]);
    let view = queue_view(&engine).await;
    assert_eq!((view.completed, view.in_flight), (2, 0));
}

/// Sends a command whose reply is lost, and returns the reply to its repetition.
async fn lost_then_repeated(proxy: &Proxy, engine: &Arc<dyn Engine>, command: Command) -> Reply {
    proxy.cut_before_reply(0);
    assert_lost(engine.submit(command.clone().into()).await);
    submit(engine, command).await
}

/// Sends a command whose reply is not lost.
async fn submit(engine: &Arc<dyn Engine>, command: Command) -> Reply {
    let reply = engine.submit(command.into()).await.expect("the command is answered");
    reply.queue().expect("a command of the queue has its reply").clone()
}

/// Runs every command once: a server without the library replies more than once.
async fn warm_up(engine: &Arc<dyn Engine>, commands: &[Command]) {
    for command in commands {
        submit(engine, command.clone()).await;
    }
}

fn open(id: &str) -> Command {
    let bulk = bulk_ref("g", id);
    Command::OpenBulk(OpenBulk { bulk, deadline_ms: None, failures_max: None, payload: bytes("for later") })
}

fn settle(leased: &LeasedBulk) -> Command {
    Command::SettleBulk(SettleBulk {
        summary: bytes("sum"),
        ..settle_bulk_command(leased, Aggregation::Done)
    })
}

async fn bulk(engine: &Arc<dyn Engine>, id: &str) -> BulkView {
    let view = engine.call(InspectBulk { bulk: bulk_ref("g", id) }).await;
    view.expect("inspect_bulk is answered").expect("the bulk action exists")
}

/// The only bulk action that was leased, although the first reply was lost.
fn only_leased(reply: Reply) -> LeasedBulk {
    match reply {
        Reply::LeaseBulks(leased) if leased.bulks.len() == 1 => leased.bulks[0].clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_action_outlives_the_loss_of_every_reply() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    let of = |id: &str| bulk_ref("g", id);
    let seal = |id: &str, expected| Command::SealBulk(SealBulk { bulk: of(id), expected });
    let hold = |id: &str| Command::HoldBulk(HoldBulk { bulk: of(id) });
    let resume = |id: &str| Command::ResumeBulk(ResumeBulk { bulk: of(id) });
    let cancel = |id: &str| Command::CancelBulk(CancelBulk { bulk: of(id) });
    let lease = Command::LeaseBulks(LeaseBulks {
        worker: WorkerId::new("aggregator").unwrap(),
        bulks_max: 1,
        lease_ms: 600_000,
    });
    let outcome = Aggregation::Done;
    let unknown = SettleBulk {
        bulk: bulk_ref("unknown", "b"),
        fence: fairlane_core::Fence(1),
        summary: bytes(""),
        outcome,
        callback: None,
    };
    let sweep = Command::Sweep(Sweep { jobs_max: 10 });
    let warm =
        [open("w"), hold("w"), resume("w"), seal("none", None), cancel("none"), lease.clone(), sweep.clone()];
    warm_up(&engine, &warm).await;
    warm_up(&engine, &[Command::SettleBulk(unknown)]).await;

    let opened = lost_then_repeated(&proxy, &engine, open("b")).await;
    assert!(matches!(opened, Reply::OpenBulk(BulkOpened::Exists(view)) if view.total == 0));
    engine.call(Enqueue { jobs: jobs_in("b", "g", 3) }).await.unwrap();
    lost_then_repeated(&proxy, &engine, hold("b")).await;
    assert_eq!(bulk(&engine, "b").await.mode, BulkMode::Hold);
    lost_then_repeated(&proxy, &engine, resume("b")).await;
    assert_eq!(bulk(&engine, "b").await.mode, BulkMode::Run);
    let sealed = lost_then_repeated(&proxy, &engine, seal("b", Some(3))).await;
    assert!(matches!(sealed, Reply::SealBulk(BulkSealed::Sealed(view)) if view.sealed));
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    for job in leaser.lease(&[type_id("t")], 3, LEASE_MS).await.unwrap().jobs {
        let settlements = vec![Settlement { job: job.job, fence: job.fence, outcome: succeeded() }];
        engine.call(Settle { settlements }).await.unwrap();
    }
    let leased = only_leased(lost_then_repeated(&proxy, &engine, lease.clone()).await);
    let settled = lost_then_repeated(&proxy, &engine, settle(&leased)).await;
    assert_eq!(settled, Reply::SettleBulk(BulkSettled(Verdict::Applied)));
    let view = bulk(&engine, "b").await;
    assert_eq!((view.state, view.succeeded, &*view.summary), (BulkState::Completed, 3, &b"sum"[..]));

    submit(&engine, open("c")).await;
    engine.call(Enqueue { jobs: jobs_in("c", "g", 2) }).await.unwrap();
    lost_then_repeated(&proxy, &engine, cancel("c")).await;
    let swept = lost_then_repeated(&proxy, &engine, sweep).await;
    assert_eq!(swept, Reply::Sweep(NOTHING_SWEPT), "the first sweep did everything");
    assert_eq!((bulk(&engine, "c").await.cancelled, queue_view(&engine).await.backlog), (2, 0));
    let leased = only_leased(lost_then_repeated(&proxy, &engine, lease.clone()).await);
    let release = Command::SettleBulk(settle_bulk_command(&leased, Aggregation::Released { delay_ms: 0 }));
    let released = lost_then_repeated(&proxy, &engine, release).await;
    assert_eq!(released, Reply::SettleBulk(BulkSettled(Verdict::Applied)));
    let leased = only_leased(lost_then_repeated(&proxy, &engine, lease).await);
    let settled = lost_then_repeated(&proxy, &engine, settle(&leased)).await;
    assert_eq!(settled, Reply::SettleBulk(BulkSettled(Verdict::Applied)));
    let view = bulk(&engine, "c").await;
    assert_eq!(
        (view.state, &*view.summary, &*view.payload),
        (BulkState::Cancelled, &b"sum"[..], &b"for later"[..])
    );
    assert_eq!(queue_view(&engine).await.aggregating, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_picked_by_name_are_picked_once_when_the_reply_is_lost() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    let cancel = |ids: &[&str]| Command::CancelJob(CancelJob { jobs: refs("g", ids) });
    let requeue = |ids: &[&str]| Command::RequeueDead(RequeueDead { jobs: refs("g", ids) });
    let discard = |ids: &[&str]| Command::Discard(Discard { jobs: refs("g", ids) });
    let make_due = Command::MakeDue(MakeDue { group: None, cursor: 0, jobs_max: 10 });
    warm_up(&engine, &[cancel(&["none"]), requeue(&["none"]), discard(&["none"]), make_due.clone()]).await;
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    engine.call(Enqueue { jobs: jobs("g", 3) }).await.unwrap();
    for job in leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs {
        let settlements = vec![Settlement { job: job.job, fence: job.fence, outcome: failed() }];
        engine.call(Settle { settlements }).await.unwrap();
    }
    let cancelled = lost_then_repeated(&proxy, &engine, cancel(&["2"])).await;
    assert_eq!(cancelled, Reply::CancelJob(JobsCancelled { cancellations: vec![Cancellation::Ended] }));
    assert_eq!(queue_view(&engine).await.backlog, 1);
    let requeued = lost_then_repeated(&proxy, &engine, requeue(&["1"])).await;
    assert_eq!(requeued, Reply::RequeueDead(DeadRequeued { jobs: vec![Requeued::NotDead] }));
    assert_eq!(queue_view(&engine).await.backlog, 2);
    for job in leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs {
        let settlements = vec![Settlement { job: job.job, fence: job.fence, outcome: failed() }];
        engine.call(Settle { settlements }).await.unwrap();
    }
    let discarded = lost_then_repeated(&proxy, &engine, discard(&["1"])).await;
    assert_eq!(discarded, Reply::Discard(Discarded { jobs: vec![Disposal::Unknown] }));
    assert_eq!(queue_view(&engine).await.failed, 0);
    engine.call(Enqueue { jobs: vec![delayed(3_600_000, "g", "late")] }).await.unwrap();
    let due = lost_then_repeated(&proxy, &engine, make_due).await;
    assert_eq!(due, Reply::MakeDue(MadeDue { moved: 0, next: None }));
    assert_eq!(leaser.lease(&[type_id("t")], 10, LEASE_MS).await.unwrap().jobs.len(), 2);
}

/// Erratum Q18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_an_admission_whose_reply_was_lost_are_ready() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    let admit = Command::Admit(Admit { jobs_max: 10 });
    warm_up(&engine, &[Command::SetQueue(SetQueue { settings: classic(5) }), admit.clone()]).await;
    engine.call(Enqueue { jobs: jobs("g", 5) }).await.unwrap();
    let again = lost_then_repeated(&proxy, &engine, admit).await;
    assert!(matches!(again, Reply::Admit(admitted) if admitted.admissions.is_empty()));
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    assert_eq!(leaser.lease(&[type_id("t")], 10, LEASE_MS).await.unwrap().jobs.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_sent_again_to_a_server_that_lost_them() {
    let (server, _proxy, engine) = behind_a_proxy().await;
    for round in 0..3 {
        let mut new = jobs("g", 1);
        new[0].job.id = fairlane_core::JobId::new(format!("{round}")).unwrap();
        assert_eq!(engine.call(Enqueue { jobs: new }).await.unwrap().receipts, [JobReceipt::Created]);
        server.command(&["FUNCTION", "FLUSH"]);
    }
    assert_eq!(queue_view(&engine).await.backlog, 3);
}

/// Erratum Q37.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_when_replies_are_lost_and_redis_is_killed() {
    let (load, kill_every) = (Duration::from_secs(12), Duration::from_secs(4));
    let plan = Plan { seed: 5, load, kill_every, abandon: false, scripts: false };
    let report = run(&plan).await;
    println!("{report:?}");
    assert_eq!(report.violations, [""; 0]);
    assert!(report.acknowledged > 500 && report.leases >= report.acknowledged, "{report:?}");
    assert!(report.cuts > 20 && report.dropped > 20 && report.flushes > 2 && report.kills >= 2, "{report:?}");
}
