//! The mirror: states written by workers, under fences.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlane::{Context, Outcome};
use fairlane_core::WorkerId;
use fairlane_core::queue::{Reclaim, Settle, Settlement};
use fairlane_engine::Leaser;
use fairlane_testkit::wait::{until, until_async};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{Setup, quick};

#[tokio::test(flavor = "multi_thread")]
async fn the_row_says_running_when_work_begins_and_how_it_ended() {
    let setup = Setup::new().await;
    for id in ["good", "bad", "again"] {
        setup.commit("a", id).await;
    }
    setup.relay().drain().await.unwrap();
    let (started, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counter, gate) = (started.clone(), go.clone());
    let worker = setup.fairlane.worker().configure(quick).process(
        "mail",
        move |_: serde_json::Value, job: Context| {
            let (counter, gate) = (counter.clone(), gate.clone());
            async move {
                counter.fetch_add(1, Ordering::SeqCst);
                if job.attempt() == 1 {
                    gate.notified().await;
                }
                match (job.id().to_string().as_str(), job.attempt()) {
                    ("bad", _) => Outcome::failed("address", "no such address"),
                    ("again", 1) => Outcome::retry("smtp", "busy"),
                    (id, _) => Outcome::done(&json!({ "sent": id })),
                }
            }
        },
    );
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    until("all three run", || started.load(Ordering::SeqCst) == 3).await;
    for id in ["good", "bad", "again"] {
        assert_eq!(setup.status("a", id).await, "RUNNING");
    }
    go.notify_waiters();
    until_async("all have ended", async || {
        setup.postgres.sql("SELECT count(*) FROM fairlane_jobs WHERE ended_at IS NOT NULL") == "3"
    })
    .await;
    let job = async |id: &str| setup.outbox.job("a", id).await.unwrap().unwrap();
    let good = job("good").await;
    assert_eq!(
        (good.status.as_str(), good.attempts, good.result),
        ("SUCCEEDED", 1, Some(json!({"sent": "good"})))
    );
    assert!(good.queued_at_ms <= good.started_at_ms.unwrap() && good.started_at_ms <= good.ended_at_ms);
    let bad = job("bad").await;
    assert_eq!(bad.status, "FAILED");
    assert_eq!(bad.error, Some(json!({"code": "address", "message": "no such address"})));
    let again = job("again").await;
    assert_eq!((again.status.as_str(), again.attempts), ("SUCCEEDED", 2));
    pool.stop().await;
}

/// Erratum Q40. A slow worker whose lease was lost does not overwrite the result of the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_worker_does_not_overwrite_a_newer_result() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    let (runs, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counter, gate) = (runs.clone(), go.clone());
    let worker = setup.fairlane.worker().configure(quick).process(
        "mail",
        move |_: serde_json::Value, job: Context| {
            let (counter, gate) = (counter.clone(), gate.clone());
            async move {
                match counter.fetch_add(1, Ordering::SeqCst) {
                    0 => {
                        // The slow one ignores that its lease is lost.
                        gate.notified().await;
                        Outcome::done(&"slow")
                    }
                    _ => Outcome::done(&format!("run by fence {}", job.fence().0)),
                }
            }
        },
    );
    let pool = setup.outbox.mirror(worker.without_loops(), &setup.fairlane).start().unwrap();
    until("the slow run has begun", || runs.load(Ordering::SeqCst) == 1).await;
    // A younger lease begins and ends while the slow one still runs.
    setup.postgres.sql("UPDATE fairlane_mirror SET fence = fence + 1000000000");
    go.notify_waiters();
    until_async("the slow run is settled", async || {
        let view = setup.fairlane.job("a", "1").view().await.unwrap().unwrap();
        view.state == fairlane::JobState::Completed
    })
    .await;
    let job = setup.outbox.job("a", "1").await.unwrap().unwrap();
    assert_eq!((job.status.as_str(), job.result), ("RUNNING", None), "the younger lease has the row");
    pool.stop().await;
}

/// Erratum Q37. A worker that died after it had written the end, and before it could settle, leaves
/// a job that is settled without being run.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_ended_in_the_database_is_settled_without_being_run() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    setup.postgres.sql(
        "UPDATE fairlane_mirror SET status = 'SUCCEEDED', ended_at = now(), result = '{\"sent\": true}', fence = 5",
    );
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let worker = setup.fairlane.worker().process("mail", move |_: serde_json::Value, _: Context| {
        counter.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    let result: serde_json::Value = setup.fairlane.job("a", "1").result().await.unwrap();
    assert_eq!((result, runs.load(Ordering::SeqCst)), (json!({"sent": true}), 0));
    pool.stop().await;
}

/// Erratum Q38. A worker that died leaves no row running for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_worker_died_runs_again_under_a_younger_fence() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    // A queue that reclaims for the first time waits for the workers of before.
    setup.fairlane.engine().call(Reclaim { jobs_max: 1 }).await.unwrap();
    let mut dying = Leaser::new(setup.fairlane.engine().clone(), WorkerId::new("dying").unwrap());
    let leased = dying.lease(&[fairlane::TypeId::new("mail").unwrap()], 1, 100).await.unwrap();
    let fence = leased.jobs[0].fence;
    setup.postgres.sql(&format!("UPDATE fairlane_mirror SET status = 'RUNNING', fence = {}", fence.0));
    let worker = setup.fairlane.worker().configure(quick);
    let worker =
        worker.process("mail", |_: serde_json::Value, _: Context| async { Outcome::done(&"second") });
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    until_async("the job has ended", async || setup.status("a", "1").await == "SUCCEEDED").await;
    let settled = setup.postgres.sql(&format!("SELECT fence > {} FROM fairlane_mirror", fence.0));
    assert_eq!(settled, "t");
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_retries_left_and_one_that_timed_out_end_in_the_database() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    setup.fairlane.job_type("mail").max_retry_count(1).apply().await.unwrap();
    let worker = setup.fairlane.worker().configure(quick).configure(|settings| {
        settings.job_timeout = Duration::from_millis(50);
        settings.cancel_grace_period = Duration::from_millis(50);
    });
    let worker = worker.process("mail", |_: serde_json::Value, _: Context| std::future::pending::<()>());
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    until_async("the job is dead", async || setup.status("a", "1").await == "FAILED").await;
    let job = setup.outbox.job("a", "1").await.unwrap().unwrap();
    assert_eq!((job.attempts, job.error.unwrap()["code"].clone()), (2, json!("timeout")));
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_wait_for_a_database_that_does_not_reply() {
    let mut setup = Setup::new().await;
    for number in 0..20 {
        setup.commit("a", &number.to_string()).await;
    }
    setup.relay().drain().await.unwrap();
    let (runs, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counter, gate) = (runs.clone(), go.clone());
    let worker = setup.fairlane.worker().configure(|settings| settings.worker_count = 5);
    let worker = worker.process("mail", move |_: serde_json::Value, _: Context| {
        let (counter, gate) = (counter.clone(), gate.clone());
        async move {
            if counter.fetch_add(1, Ordering::SeqCst) < 5 {
                gate.notified().await;
            }
        }
    });
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    until("five jobs run", || runs.load(Ordering::SeqCst) == 5).await;
    setup.postgres.kill();
    go.notify_waiters();
    setup.postgres.restart();
    until_async("all have ended", async || {
        setup.postgres.sql("SELECT count(*) FROM fairlane_mirror WHERE status = 'SUCCEEDED'") == "20"
    })
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 20, "none ran twice");
    pool.stop().await;
}

/// Erratum Q36. A worker may begin a job before the relay has committed: the row of the worker gets
/// the job later, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_begin_a_job_before_the_relay_has_committed() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    let job = fairlane::Job::new("a", "mail", &json!({ "to": "1" })).id("1");
    let job = job.clone().into_command(None).map(|new| (job, new)).unwrap();
    let bytes: Arc<[u8]> = b"{\"to\": \"1\"}"[..].into();
    let sent = fairlane_core::queue::NewJob { payload: bytes, ..job.1 };
    setup.fairlane.enqueue_commands(vec![sent]).await.unwrap();
    let worker = setup.fairlane.worker();
    let worker = worker.process("mail", |_: serde_json::Value, _: Context| async { Outcome::done(&1) });
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    until_async("the job has ended", async || setup.status("a", "1").await == "SUCCEEDED").await;
    assert_eq!(setup.postgres.sql("SELECT job IS NULL FROM fairlane_mirror"), "t");
    setup.passes(1).await;
    assert_eq!(setup.postgres.sql("SELECT status, job->>'id' FROM fairlane_mirror"), "SUCCEEDED|1");
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_sent_again_late_is_compared_with_the_mirror_first() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.postgres.sql(
        "INSERT INTO fairlane_mirror (group_id, id, type, status, ended_at) VALUES ('a', '1', 'mail', 'SUCCEEDED', now())",
    );
    setup.postgres.sql("UPDATE fairlane_outbox SET created_at = now() - interval '2 minutes'");
    setup.passes(1).await;
    assert!(!setup.is_queued("a", "1").await, "the job has ended long ago");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_that_is_requeued_runs_again() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    let mut first = Leaser::new(setup.fairlane.engine().clone(), WorkerId::new("first").unwrap());
    let leased = first.lease(&[fairlane::TypeId::new("mail").unwrap()], 1, 60_000).await.unwrap();
    let fence = leased.jobs[0].fence;
    let outcome = fairlane_core::queue::Outcome::Failed { reason: Arc::from(&b"broken"[..]) };
    let settlement = Settlement { job: leased.jobs[0].job.clone(), fence, outcome };
    setup.fairlane.engine().call(Settle { settlements: vec![settlement] }).await.unwrap();
    setup.postgres.sql("UPDATE fairlane_mirror SET status = 'FAILED', ended_at = now(), error = '{}'");
    setup.fairlane.dead().requeue().await.unwrap();
    let worker = setup.fairlane.worker();
    let worker = worker.process("mail", |_: serde_json::Value, _: Context| async { Outcome::done(&1) });
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    until_async("the job has ended", async || setup.status("a", "1").await == "SUCCEEDED").await;
    pool.stop().await;
}

/// A relay and the first lease of a job do not wait for the disk. A crash of the database then puts
/// the row back into the outbox while the job runs; its end is written all the same, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_crashed_database_forgot_to_have_begun_still_ends_once() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.postgres.sql("CREATE TABLE before AS SELECT job FROM fairlane_outbox");
    setup.relay().drain().await.unwrap();
    let (started, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runs = Arc::new(AtomicUsize::new(0));
    let (begun, may_end, counted) = (started.clone(), go.clone(), runs.clone());
    let worker = setup.fairlane.worker().process("mail", move |_: serde_json::Value, _: Context| {
        counted.fetch_add(1, Ordering::SeqCst);
        let (begun, may_end) = (begun.clone(), may_end.clone());
        async move {
            begun.notify_one();
            may_end.notified().await;
            Outcome::done(&7)
        }
    });
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    started.notified().await;
    assert_eq!(setup.status("a", "1").await, "RUNNING");
    setup
        .postgres
        .sql("DELETE FROM fairlane_mirror; INSERT INTO fairlane_outbox (job) SELECT job FROM before");
    assert_eq!(setup.status("a", "1").await, "QUEUED");
    go.notify_one();
    until_async("the job has ended", async || setup.status("a", "1").await == "SUCCEEDED").await;
    setup.relay().drain().await.unwrap();
    let row =
        "SELECT status, result, job IS NULL, (SELECT count(*) FROM fairlane_outbox) FROM fairlane_mirror";
    assert_eq!(setup.postgres.sql(row), "SUCCEEDED|7|f|0");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    pool.stop().await;
}

/// The plan is made while statistics say that the mirror is empty, and kept by the connection.
#[tokio::test(flavor = "multi_thread")]
async fn beginning_a_lease_reads_no_other_rows_of_a_large_mirror() {
    let setup = Setup::new().await;
    setup.postgres.sql("VACUUM ANALYZE fairlane_mirror");
    // The second of the jobs has a younger lease.
    let begin = |fence: u32| {
        let lease = "jsonb_build_object('group_id', 'a', 'id', number::text, 'type', 't', 'attempts', 1, \
                     'fence', CASE number WHEN 2 THEN 1 ELSE FENCE END)";
        let lease = lease.replace("FENCE", &fence.to_string());
        format!(
            "SELECT jsonb_path_query_array(\
                 fairlane_mirror_begin((SELECT jsonb_agg({lease}) FROM generate_series(1, 50) AS number)), '$[*].id')"
        )
    };
    let read = setup.postgres.sql(&format!(
        "SELECT count(fairlane_mirror_begin('[]')); \
         INSERT INTO fairlane_mirror (group_id, id, type, status, fence, queued_at) \
             SELECT 'a', number::text, 't', 'QUEUED', CASE number WHEN 2 THEN 9 ELSE 0 END, now() \
             FROM generate_series(1, 5000) AS number; \
         BEGIN; {}; \
         SELECT 'read ' || idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'fairlane_mirror'; \
         COMMIT",
        begin(5)
    ));
    let read = read.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let [_, superseded, count] = read[..] else { panic!("{read:?}") };
    assert_eq!(superseded, r#"["2"]"#);
    let count: u64 = count.strip_prefix("read ").and_then(|count| count.parse().ok()).expect("a count");
    assert!(count < 500, "{count} rows were read to begin 50 of 5,000");
}

/// A crash may undo the first lease, which leaves the job queued; a later one fences off another.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_lease_is_written_to_the_disk_and_the_first_need_not_be() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    let begin = |fence: u32| {
        let lease =
            format!(r#"[{{"group_id": "a", "id": "1", "type": "t", "attempts": 1, "fence": {fence}}}]"#);
        setup
            .postgres
            .sql(&format!("BEGIN; SELECT fairlane_mirror_begin('{lease}'); SHOW synchronous_commit; COMMIT"))
    };
    assert!(begin(1).ends_with("off"));
    assert!(begin(2).ends_with("on"));
    assert!(begin(1).contains(r#""ended": false"#), "an older lease is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_stopping_worker_gives_back_is_not_failed() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    let started = Arc::new(Notify::new());
    let begun = started.clone();
    let worker = setup.fairlane.worker().configure(|settings| {
        settings.shutdown_grace_period = Duration::from_millis(50);
        settings.cancel_grace_period = Duration::from_secs(20);
    });
    let worker = worker.process("mail", move |_: serde_json::Value, job: Context| {
        let begun = begun.clone();
        async move {
            begun.notify_one();
            job.cancelled().await;
            Outcome::cancelled("stopped")
        }
    });
    setup.postgres.sql(
        "CREATE TABLE ends AS SELECT status FROM fairlane_mirror LIMIT 0; \
         CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN INSERT INTO ends VALUES (NEW.status); RETURN NEW; END'; \
         CREATE TRIGGER keep AFTER UPDATE ON fairlane_mirror FOR EACH ROW EXECUTE FUNCTION keep()",
    );
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    started.notified().await;
    pool.stop().await;
    let view = setup.fairlane.job("a", "1").view().await.unwrap().unwrap();
    assert_eq!(view.state, fairlane::JobState::Pending, "the worker hands the job back");
    until_async("the job is queued again", async || setup.status("a", "1").await == "QUEUED").await;
    assert_eq!(setup.postgres.sql("SELECT string_agg(status, ' ') FROM ends"), "RUNNING QUEUED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_a_missing_right_and_loses_no_attempt() {
    let setup = Setup::new().await;
    setup
        .postgres
        .sql("CREATE ROLE worker LOGIN; GRANT SELECT ON fairlane_outbox, fairlane_mirror TO worker");
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    let url = setup.postgres.url().replace("postgres@", "worker@");
    let outbox = fairlane_postgres::Outbox::connect(&url).await.unwrap();
    let (events, attempts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (settled, run) = (events.clone(), attempts.clone());
    let worker = setup.fairlane.worker().configure(quick).process(
        "mail",
        move |_: serde_json::Value, job: Context| {
            run.fetch_add(job.attempt() as usize, Ordering::SeqCst);
            async { Outcome::done(&1) }
        },
    );
    let worker = worker.on_event(move |event| {
        if let fairlane::Event::Settled { .. } = event {
            settled.fetch_add(1, Ordering::SeqCst);
        }
    });
    let pool = outbox.mirror(worker, &setup.fairlane).start().unwrap();
    until("the database has denied a write", || {
        events.load(Ordering::SeqCst) > 0 || setup.postgres.log().matches("permission denied").count() >= 3
    })
    .await;
    setup.postgres.sql("GRANT INSERT, UPDATE ON fairlane_mirror TO worker");
    until_async("the job has ended", async || setup.status("a", "1").await == "SUCCEEDED").await;
    assert_eq!(attempts.load(Ordering::SeqCst), 1, "the first attempt ran, and no other");
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_too_large_fails_in_the_database_as_in_the_queue() {
    let setup = Setup::new().await;
    setup.commit("a", "1").await;
    setup.relay().drain().await.unwrap();
    let worker = setup.fairlane.worker().process("mail", |_: serde_json::Value, _: Context| async {
        Outcome::done(&"x".repeat(fairlane_core::limits::NOTE_BYTES_MAX))
    });
    let pool = setup.outbox.mirror(worker, &setup.fairlane).start().unwrap();
    until_async("the job has ended in the queue", async || {
        let view = setup.fairlane.job("a", "1").view().await.unwrap().unwrap();
        view.state == fairlane::JobState::Failed
    })
    .await;
    let error = setup.outbox.job("a", "1").await.unwrap().unwrap().error.unwrap();
    assert_eq!(error["code"], "result_too_large");
    assert!(error["message"].as_str().unwrap().contains("store it elsewhere"), "{error}");
    pool.stop().await;
}
