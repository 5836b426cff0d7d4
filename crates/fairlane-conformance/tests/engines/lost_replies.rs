//! The soak in short: lost replies, dropped futures, flushed scripts and killed servers do not show.

use std::sync::Arc;
use std::time::Duration;

use fairlane_conformance::proxy::Proxy;
use fairlane_conformance::servers::{RedisServer, ServerOptions};
use fairlane_conformance::soak::{Plan, run};
use fairlane_conformance::subject::{
    EXISTS, LEASE_MS, NOTHING_SWEPT, bulk_ref, bytes, classic, delayed, failed, finish_command, jobs,
    jobs_in, refs, succeeded, type_id,
};
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
    assert_eq!(engine.enqueue(command).await.unwrap().receipts, [EXISTS; 5]);
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

/// A command whose reply is lost, and the answer when it is sent again.
async fn lost_then_repeated(proxy: &Proxy, engine: &Arc<dyn Engine>, command: Command) -> Reply {
    proxy.cut_before_reply(0);
    assert_lost(engine.execute(command.clone()).await);
    engine.execute(command).await.expect("it is answered the second time")
}

/// Every script once: a server that does not know one answers twice.
async fn warm_up(engine: &Arc<dyn Engine>, commands: &[Command]) {
    for command in commands {
        engine.execute(command.clone()).await.expect("nothing is lost yet");
    }
}

fn open(id: &str) -> Command {
    let bulk = bulk_ref("g", id);
    Command::OpenBulk(OpenBulk { bulk, deadline_ms: None, failures_max: None, payload: bytes("for later") })
}

fn finish(taken: &TakenBulk) -> Command {
    Command::FinishBulk(FinishBulk { summary: bytes("sum"), ..finish_command(taken, Aggregation::Done) })
}

async fn bulk(engine: &Arc<dyn Engine>, id: &str) -> BulkView {
    match engine.inspect(Inspect::Bulk(bulk_ref("g", id))).await {
        Ok(Inspected::Bulk(Some(view))) => view,
        other => panic!("{other:?}"),
    }
}

/// What the aggregator has in hand although the first reply was lost.
fn in_hand(reply: Reply) -> TakenBulk {
    match reply {
        Reply::CompletedTaken(taken) if taken.bulks.len() == 1 => taken.bulks[0].clone(),
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
    let take = Command::TakeCompleted(TakeCompleted {
        worker: WorkerId::new("aggregator").unwrap(),
        bulks_max: 1,
        lease_ms: 600_000,
    });
    let nobody = BulkRef { group: fairlane_core::GroupId::new("nobody").unwrap(), ..of("b") };
    let outcome = Aggregation::Done;
    let unknown = FinishBulk { bulk: nobody, fence: fairlane_core::Fence(1), summary: bytes(""), outcome };
    let sweep = Command::Sweep(Sweep { jobs_max: 10 });
    let warm =
        [open("w"), hold("w"), resume("w"), seal("none", None), cancel("none"), take.clone(), sweep.clone()];
    warm_up(&engine, &warm).await;
    warm_up(&engine, &[Command::FinishBulk(unknown)]).await;

    let opened = lost_then_repeated(&proxy, &engine, open("b")).await;
    assert!(matches!(opened, Reply::BulkOpened(BulkOpened::Exists(view)) if view.total == 0));
    engine.enqueue(Enqueue { jobs: jobs_in("b", "g", 3) }).await.unwrap();
    lost_then_repeated(&proxy, &engine, hold("b")).await;
    assert_eq!(bulk(&engine, "b").await.course, Course::Hold);
    lost_then_repeated(&proxy, &engine, resume("b")).await;
    assert_eq!(bulk(&engine, "b").await.course, Course::Run);
    let sealed = lost_then_repeated(&proxy, &engine, seal("b", Some(3))).await;
    assert!(matches!(sealed, Reply::BulkSealed(BulkSealed::Sealed(view)) if view.sealed));
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    for job in leaser.lease(&[type_id("t")], 3, LEASE_MS).await.unwrap().jobs {
        let settlements = vec![Settlement { job: job.job, fence: job.fence, outcome: succeeded() }];
        engine.settle(Settle { settlements }).await.unwrap();
    }
    let taken = in_hand(lost_then_repeated(&proxy, &engine, take.clone()).await);
    let finished = lost_then_repeated(&proxy, &engine, finish(&taken)).await;
    assert_eq!(finished, Reply::BulkFinished(BulkFinished(Verdict::Applied)));
    let view = bulk(&engine, "b").await;
    assert_eq!((view.state, view.succeeded, &*view.summary), (BulkState::Completed, 3, &b"sum"[..]));

    engine.execute(open("c")).await.unwrap();
    engine.enqueue(Enqueue { jobs: jobs_in("c", "g", 2) }).await.unwrap();
    lost_then_repeated(&proxy, &engine, cancel("c")).await;
    let swept = lost_then_repeated(&proxy, &engine, sweep).await;
    assert_eq!(swept, Reply::Swept(NOTHING_SWEPT), "what was to be done was done the first time");
    assert_eq!((bulk(&engine, "c").await.cancelled, whole(&engine).await.backlog), (2, 0));
    let taken = in_hand(lost_then_repeated(&proxy, &engine, take.clone()).await);
    let release = Command::FinishBulk(finish_command(&taken, Aggregation::Released { delay_ms: 0 }));
    let released = lost_then_repeated(&proxy, &engine, release).await;
    assert_eq!(released, Reply::BulkFinished(BulkFinished(Verdict::Applied)));
    let taken = in_hand(lost_then_repeated(&proxy, &engine, take).await);
    let finished = lost_then_repeated(&proxy, &engine, finish(&taken)).await;
    assert_eq!(finished, Reply::BulkFinished(BulkFinished(Verdict::Applied)));
    let view = bulk(&engine, "c").await;
    assert_eq!(
        (view.state, &*view.summary, &*view.payload),
        (BulkState::Cancelled, &b"sum"[..], &b"for later"[..])
    );
    assert_eq!(whole(&engine).await.aggregating, 0);
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
    engine.enqueue(Enqueue { jobs: jobs("g", 3) }).await.unwrap();
    for job in leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs {
        let settlements = vec![Settlement { job: job.job, fence: job.fence, outcome: failed() }];
        engine.settle(Settle { settlements }).await.unwrap();
    }
    let cancelled = lost_then_repeated(&proxy, &engine, cancel(&["2"])).await;
    assert_eq!(cancelled, Reply::JobsCancelled(JobsCancelled { cancellations: vec![Cancellation::Ended] }));
    assert_eq!(whole(&engine).await.backlog, 1);
    let requeued = lost_then_repeated(&proxy, &engine, requeue(&["1"])).await;
    assert_eq!(requeued, Reply::DeadRequeued(DeadRequeued { jobs: vec![Requeued::NotDead] }));
    assert_eq!(whole(&engine).await.backlog, 2);
    for job in leaser.lease(&[type_id("t")], 1, LEASE_MS).await.unwrap().jobs {
        let settlements = vec![Settlement { job: job.job, fence: job.fence, outcome: failed() }];
        engine.settle(Settle { settlements }).await.unwrap();
    }
    let discarded = lost_then_repeated(&proxy, &engine, discard(&["1"])).await;
    assert_eq!(discarded, Reply::Discarded(Discarded { jobs: vec![Disposal::Unknown] }));
    assert_eq!(whole(&engine).await.failed, 0);
    engine.enqueue(Enqueue { jobs: vec![delayed(3_600_000, "g", "late")] }).await.unwrap();
    let due = lost_then_repeated(&proxy, &engine, make_due).await;
    assert_eq!(due, Reply::MadeDue(MadeDue { moved: 0, next: None }));
    assert_eq!(leaser.lease(&[type_id("t")], 10, LEASE_MS).await.unwrap().jobs.len(), 2);
}

/// Erratum Q18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_an_admission_whose_reply_was_lost_are_ready() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    let admit = Command::Admit(Admit { jobs_max: 10 });
    warm_up(&engine, &[Command::SetWhole(SetWhole { settings: classic(5) }), admit.clone()]).await;
    engine.enqueue(Enqueue { jobs: jobs("g", 5) }).await.unwrap();
    let again = lost_then_repeated(&proxy, &engine, admit).await;
    assert!(matches!(again, Reply::Admitted(admitted) if admitted.admissions.is_empty()));
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new("w").unwrap());
    assert_eq!(leaser.lease(&[type_id("t")], 10, LEASE_MS).await.unwrap().jobs.len(), 5);
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
