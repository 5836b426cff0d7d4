//! The reconciler: a flushed queue, ends that no worker wrote, retention.

use std::sync::Arc;
use std::time::Duration;

use fairlane::Fairlane;
use fairlane_postgres::{ReconcileSettings, sqlx};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until;
use tokio::sync::Semaphore;

use crate::support::Setup;

fn at_once() -> ReconcileSettings {
    ReconcileSettings { stale_after: Duration::ZERO, ..ReconcileSettings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_queue_is_refilled_in_order_from_the_mirror() {
    let redis = RedisServer::start(ServerOptions::default());
    let setup = Setup::with_queue(Fairlane::open(&redis.url()).await.unwrap()).await;
    for number in 0..300 {
        setup.commit("a", &format!("{number:03}")).await;
    }
    setup.relay().drain().await.unwrap();
    redis.command(&["FLUSHALL"]);
    assert!(!setup.is_queued("a", "000").await);
    let report = setup.outbox.reconcile(&setup.fairlane, at_once()).await.unwrap();
    assert_eq!((report.checked, report.refilled), (300, 300), "{report}");
    assert!(report.to_string().contains("300 enqueued again"), "{report}");
    let worker = fairlane_core::WorkerId::new("test").unwrap();
    let mut leaser = fairlane_engine::Leaser::new(setup.fairlane.engine().clone(), worker);
    let mail = [fairlane::TypeId::new("mail").unwrap()];
    let leased = leaser.lease(&mail, 300, 60_000).await.unwrap().jobs;
    let ids: Vec<String> = leased.iter().map(|job| job.job.id.to_string()).collect();
    assert!(ids.is_sorted() && ids.len() == 300, "{ids:?}");
    let report = setup.outbox.reconcile(&setup.fairlane, at_once()).await.unwrap();
    assert!(report.is_empty() && report.checked == 300, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_no_worker_wrote_is_copied_from_the_queue() {
    let setup = Setup::new().await;
    for id in ["cancelled", "waits", "runs"] {
        setup.commit("a", id).await;
    }
    setup.relay().drain().await.unwrap();
    setup.fairlane.job("a", "cancelled").cancel().await.unwrap();
    setup.postgres.sql("UPDATE fairlane_mirror SET status = 'RUNNING', fence = 1 WHERE id = 'runs'");
    setup.postgres.sql(
        "INSERT INTO fairlane_mirror (group_id, id, type, status, fence) VALUES ('a', 'direct', 'mail', 'RUNNING', 1)",
    );
    let report = setup.outbox.reconcile(&setup.fairlane, at_once()).await.unwrap();
    assert_eq!((report.ended, report.requeued, report.lost, report.refilled), (1, 1, 1, 0), "{report}");
    assert_eq!(setup.status("a", "cancelled").await, "FAILED");
    assert_eq!(setup.status("a", "waits").await, "QUEUED");
    assert_eq!(setup.status("a", "runs").await, "QUEUED");
    let lost = setup.outbox.job("a", "direct").await.unwrap().unwrap();
    assert_eq!((lost.status.as_str(), lost.error.unwrap()["code"].as_str()), ("FAILED", Some("lost")));
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_rows_expire_and_open_ones_never_do() {
    let setup = Setup::new().await;
    for id in ["waits", "ended", "failed", "young"] {
        setup.commit("a", id).await;
    }
    setup.relay().drain().await.unwrap();
    let end = |id: &str, status: &str, days: u32| {
        setup.postgres.sql(&format!(
            "UPDATE fairlane_mirror SET status = '{status}', ended_at = now() - interval '{days} days' WHERE id = '{id}'"
        ))
    };
    end("ended", "SUCCEEDED", 8);
    end("failed", "FAILED", 8);
    end("young", "SUCCEEDED", 6);
    setup.postgres.sql("UPDATE fairlane_mirror SET queued_at = now() - interval '1 year'");
    let report = setup.outbox.reconcile(&setup.fairlane, Default::default()).await.unwrap();
    assert_eq!(report.removed, 2);
    assert_eq!(
        setup.postgres.sql("SELECT string_agg(id, ' ' ORDER BY id) FROM fairlane_mirror"),
        "waits young"
    );
}

/// One job that the queue cannot read ends neither the pass nor the removal of ended rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_the_queue_cannot_read_ends_no_pass() {
    use fairlane_core::queue::Command;
    for is_outage in [false, true] {
        let hooks = fairlane_engine::Hooks::default().submit(move |inner, command| {
            Box::pin(async move {
                let reason = "its row is damaged".to_owned();
                match command.queue() {
                    Some(Command::InspectJob(inspect)) if inspect.job.id.to_string() == "bad" => {
                        match is_outage {
                            true => Err(fairlane::EngineError::Unavailable { engine: "test", reason }),
                            false => Err(fairlane::EngineError::Broken { reason }),
                        }
                    }
                    _ => inner.submit(command).await,
                }
            })
        });
        let inner = Fairlane::open("memory:").await.unwrap().engine().clone();
        let setup = Setup::with_queue(Fairlane::from_engine(fairlane_engine::layer(inner, hooks))).await;
        for id in ["bad", "good"] {
            setup.commit("a", id).await;
        }
        setup.relay().drain().await.unwrap();
        setup.postgres.sql(
            "UPDATE fairlane_mirror SET status = 'RUNNING'; \
             INSERT INTO fairlane_mirror (group_id, id, type, status, ended_at) \
             VALUES ('a', 'old', 'mail', 'SUCCEEDED', now() - interval '8 days')",
        );
        let report = setup.outbox.reconcile(&setup.fairlane, at_once()).await;
        assert_eq!(report.is_err(), is_outage, "{report:?}");
        let expected = if is_outage { "bad RUNNING, good RUNNING" } else { "bad RUNNING, good QUEUED" };
        let states = "SELECT string_agg(id || ' ' || status, ', ' ORDER BY id) FROM fairlane_mirror";
        assert_eq!(setup.postgres.sql(states), expected);
    }
}

/// Reconcilers of two relays meet between pages: neither ends the pass of the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_pass_goes_on_after_another_process_has_had_the_lock() {
    use fairlane_core::queue::Command;
    let (gate, entered) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (opened, begun) = (gate.clone(), entered.clone());
    let hooks = fairlane_engine::Hooks::default().submit(move |inner, command| {
        let (opened, begun) = (opened.clone(), begun.clone());
        Box::pin(async move {
            if let Some(Command::InspectJob(_)) = command.queue() {
                begun.add_permits(1);
                let _open = opened.acquire().await;
            }
            inner.submit(command).await
        })
    });
    let inner = Fairlane::open("memory:").await.unwrap().engine().clone();
    let setup = Setup::with_queue(Fairlane::from_engine(fairlane_engine::layer(inner, hooks))).await;
    for number in 0..300 {
        setup.commit("a", &number.to_string()).await;
    }
    setup.relay().drain().await.unwrap();
    let (outbox, fairlane) = (setup.outbox.clone(), setup.fairlane.clone());
    let pass = tokio::spawn(async move { outbox.reconcile(&fairlane, at_once()).await.unwrap() });
    entered.acquire().await.unwrap().forget();
    // The first page has the lock, and this statement waits for it.
    let mut other = setup.outbox.begin().await.unwrap();
    let locked = tokio::spawn(async move {
        sqlx::query("SELECT pg_advisory_xact_lock(1717660018, -2)").execute(&mut *other).await.unwrap();
        other
    });
    let activity = |condition: &str| {
        let count = format!("SELECT count(*) > 0 FROM pg_stat_activity WHERE {condition}");
        setup.postgres.sql(&count) == "t"
    };
    until("it waits", || activity("wait_event = 'advisory'")).await;
    gate.add_permits(100);
    let other = locked.await.unwrap();
    until("the pass has found the lock taken", || {
        activity(
            "query = 'ROLLBACK' AND query_start > (SELECT max(query_start) FROM pg_stat_activity \
             WHERE query LIKE '%advisory_xact_lock(1717660018%' AND pid <> pg_backend_pid())",
        ) || pass.is_finished()
    })
    .await;
    other.rollback().await.unwrap();
    let report = pass.await.unwrap();
    assert_eq!((report.checked, report.busy), (300, false), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pass_removes_any_number_of_ended_rows() {
    let setup = Setup::new().await;
    setup.postgres.sql(
        "INSERT INTO fairlane_mirror (group_id, id, type, status, ended_at) \
         SELECT 'a', n::text, 'mail', 'SUCCEEDED', now() - interval '8 days' + n * interval '1 ms' \
         FROM generate_series(1, 120000) AS n",
    );
    let report = setup.outbox.reconcile(&setup.fairlane, Default::default()).await.unwrap();
    assert_eq!(report.removed, 120_000);
}
