//! Bulk actions from their jobs to their summary and callback.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use fairlane_core::queue::{
    BulkCause, BulkState, BulkView, CancelBulk, JobState, NewJob, OpenBulk, SealBulk,
};
use fairlane_core::{BulkId, GroupId};
use fairlane_engine::Engine;
use fairlane_worker::*;

async fn open_bulk(engine: &Arc<dyn Engine>, id: &str, plan: &BulkPlan, failures_max: Option<u64>) {
    let bulk = bulk_ref("a", id);
    let command = OpenBulk { bulk, deadline_ms: None, failures_max, payload: plan.to_bytes() };
    engine.call(command).await.expect("it works");
}

async fn seal(engine: &Arc<dyn Engine>, id: &str) {
    engine.call(SealBulk { bulk: bulk_ref("a", id), expected: None }).await.expect("it works");
}

fn jobs(bulk: &str, count: usize) -> Vec<NewJob> {
    let of = |n: usize| NewJob {
        bulk: Some(BulkId::new(bulk).expect("it works")),
        ..job("a", &format!("{bulk}-{n}"), "work", &n.to_string())
    };
    (0..count).map(of).collect()
}

async fn aggregated(engine: &Arc<dyn Engine>, id: &str) -> BulkView {
    eventually(async || {
        let view = bulk_view(engine, "a", id).await;
        if view.state.is_final() && !view.summary.is_empty() { Ok(view) } else { Err(view) }
    })
    .await
}

fn worker(engine: &Arc<dyn Engine>) -> Worker {
    Worker::new(engine.clone()).settings(quick()).process("work", |number: u64, job: Context| async move {
        match number % 10 {
            3 => Outcome::failed("odd", format!("{number} is odd")),
            4 if job.attempt() == 1 => Outcome::retry("again", "once more"),
            _ => Outcome::done(&number),
        }
    })
}

#[tokio::test]
async fn a_bulk_action_is_summarised_once_and_its_summary_equals_a_recount() {
    on_both_engines(|engine| async move {
        let plan = BulkPlan { fold: Some("sum".into()), ..BulkPlan::default() };
        open_bulk(&engine, "sums", &plan, None).await;
        enqueue(&engine, jobs("sums", 1200)).await;
        seal(&engine, "sums").await;
        let events = RecordedEvents::default();
        let pools: Vec<Pool> = (0..3)
            .map(|_| {
                let add = |sum: &mut u64, job: &EndedJob| {
                    *sum += job.result().and_then(|result| result.as_u64()).unwrap_or(0);
                };
                worker(&engine).on_event(events.hook()).fold("sum", add).start().unwrap()
            })
            .collect();
        let view = aggregated(&engine, "sums").await;
        let summary: Summary = serde_json::from_slice(&view.summary).unwrap();
        assert_eq!((view.state, view.total), (BulkState::Completed, 1200));
        assert_eq!((summary.total, summary.succeeded, summary.failed), (1200, 1080, 120));
        assert_eq!(summary.attempts, 1200 + 120, "jobs whose number ends in 4 took two");
        assert_eq!((summary.errors.len(), summary.other_errors), (1, 0));
        assert_eq!((summary.errors[0].code.as_str(), summary.errors[0].count), ("odd", 120));
        assert_eq!(summary.errors[0].samples.len(), 3);
        let sum: u64 = (0..1200).filter(|number| number % 10 != 3).sum();
        assert_eq!(summary.fold, Some(sum.into()));
        assert!(summary.wait_ms.max >= summary.wait_ms.p50 && summary.wait_ms.max > 0.0);
        for pool in pools {
            pool.stop().await;
        }
        assert_eq!(events.count(|event| matches!(event, Event::BulkEnded { .. })), 1);
    })
    .await;
}

#[tokio::test]
async fn a_callback_is_enqueued_once_under_a_stable_id_however_a_bulk_action_ends() {
    on_both_engines(|engine| async move {
        let url = "https://example.com/hook".to_owned();
        let plan = BulkPlan { callback: Some(CallbackPlan { url }), ..BulkPlan::default() };
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let traced = BulkPlan { trace: Some(trace.to_owned()), ..plan.clone() };
        let unreadable = BulkPlan { trace: Some("no trace".to_owned()), ..plan.clone() };
        open_bulk(&engine, "good", &traced, None).await;
        open_bulk(&engine, "failing", &plan, Some(2)).await;
        open_bulk(&engine, "unwanted", &plan, None).await;
        open_bulk(&engine, "empty", &unreadable, None).await;
        for (bulk, count) in [("good", 30), ("failing", 100), ("unwanted", 50)] {
            enqueue(&engine, jobs(bulk, count)).await;
            seal(&engine, bulk).await;
        }
        engine.call(CancelBulk { bulk: bulk_ref("a", "unwanted") }).await.unwrap();
        seal(&engine, "empty").await;
        let pool = worker(&engine).start().unwrap();
        for (bulk, state, cause) in [
            ("good", BulkState::Completed, None),
            ("failing", BulkState::Failed, Some(BulkCause::Failures)),
            ("unwanted", BulkState::Cancelled, None),
            ("empty", BulkState::Completed, None),
        ] {
            let view = aggregated(&engine, bulk).await;
            assert_eq!((view.state, view.cause), (state, cause), "{bulk}");
            let summary: Summary = serde_json::from_slice(&view.summary).unwrap();
            assert_eq!(summary.succeeded + summary.failed + summary.cancelled, summary.total, "{bulk}");
            let callback = reaches(&engine, "a", &callback_id(&view), JobState::Pending).await;
            let payload: serde_json::Value = serde_json::from_slice(&callback.payload).unwrap();
            assert_eq!((&payload["bulk"], &payload["group"]), (&bulk.into(), &"a".into()));
            assert_eq!(callback.type_id.to_string(), CALLBACK_TYPE);
            let expected = (bulk == "good").then_some(trace);
            assert_eq!(callback.trace.as_ref().map(|trace| trace.as_str()), expected, "{bulk}");
        }
        assert_eq!(queue_view(&engine).await.backlog, 4, "and no other job");
        pool.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_fold_that_panics_fails_its_bulk_action_with_its_message() {
    let engine = embedded().await;
    let plan = BulkPlan { fold: Some("bad".into()), ..BulkPlan::default() };
    open_bulk(&engine, "folded", &plan, None).await;
    enqueue(&engine, jobs("folded", 3)).await;
    seal(&engine, "folded").await;
    let add = |_: &mut u64, _: &EndedJob| panic!("no arithmetic today");
    let pool = worker(&engine).fold("bad", add).start().unwrap();
    let view = aggregated(&engine, "folded").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Aggregation)));
    assert!(String::from_utf8_lossy(&view.summary).contains("its fold panicked: no arithmetic today"));
    pool.stop().await;
}

#[tokio::test]
async fn a_stuck_bulk_action_is_reported_once_with_advice() {
    let engine = embedded().await;
    open_bulk(&engine, "open", &BulkPlan::default(), None).await;
    enqueue(&engine, jobs("open", 3)).await;
    let mut settings = quick();
    settings.loops.watch_interval = Duration::from_millis(10);
    settings.loops.stuck_after = Duration::from_millis(30);
    let events = RecordedEvents::default();
    let pool = worker(&engine).settings(settings).on_event(events.hook()).start().unwrap();
    let reported = |event: &Event| matches!(event, Event::BulkStuck { advice, .. } if advice.starts_with("all 3 jobs have ended but it is not"));
    until("it is reported", || events.any(reported)).await;
    seal(&engine, "open").await;
    aggregated(&engine, "open").await;
    pool.stop().await;
    assert_eq!(events.count(reported), 1);
}

#[tokio::test]
async fn a_missed_deadline_fails_the_bulk_action_and_summarises_what_was_done() {
    on_both_engines(|engine| async move {
        let command = OpenBulk {
            bulk: bulk_ref("a", "late"),
            deadline_ms: Some(1),
            failures_max: None,
            payload: BulkPlan::default().to_bytes(),
        };
        engine.call(command).await.unwrap();
        enqueue(&engine, jobs("late", 500)).await;
        let pool = worker(&engine).start().unwrap();
        let view = aggregated(&engine, "late").await;
        assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Deadline)));
        assert_eq!(view.succeeded + view.failed + view.cancelled, 500);
        pool.stop().await;
    })
    .await;
}

#[test]
fn the_id_of_a_callback_depends_on_group_name_and_time() {
    let view = |group: &str, id: &str, at: u64| BulkView {
        bulk: fairlane_core::queue::BulkRef {
            group: GroupId::new(group).unwrap(),
            id: BulkId::new(id).unwrap(),
        },
        state: BulkState::Completed,
        mode: Default::default(),
        sealed: true,
        total: 0,
        succeeded: 0,
        failed: 0,
        cancelled: 0,
        on_hold: 0,
        created_at: fairlane_core::Micros(at),
        started_at: None,
        finished_at: None,
        deadline: None,
        failures_max: None,
        cause: None,
        summary: Arc::from(&[][..]),
        payload: Arc::from(&[][..]),
    };
    let id = callback_id(&view("a", "b", 1));
    assert_eq!(id, callback_id(&view("a", "b", 1)));
    for other in [view("a", "b", 2), view("a", "c", 1), view("b", "b", 1)] {
        assert_ne!(id, callback_id(&other));
    }
}
