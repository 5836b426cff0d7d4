//! `open_bulk`: opens a bulk action of a group, with its deadline and failure limit; opening it
//! again changes nothing.

use fairlane_core::kernel::Invalid;
use fairlane_core::limits::{BULK_PAYLOAD_BYTES_MAX, DELAY_MS_MAX, GROUP_BULKS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_new_bulk_action_is_open_and_empty,
    opening_again_changes_nothing,
    its_payload_is_shown_to_the_aggregator,
    a_payload_is_opaque,
    a_payload_out_of_range_is_invalid,
    a_bulk_action_belongs_to_its_group,
    a_second_bulk_action_starts_at_nothing,
    one_failure_too_many_fails_it_and_drops_the_rest,
    a_threshold_of_none_fails_at_the_first_failure,
    failures_within_the_threshold_leave_it_alone,
    without_a_threshold_no_number_of_failures_fails_it,
    lost_leases_count_as_failures,
    a_deadline_that_passes_fails_it_and_drops_its_jobs,
    a_deadline_holds_during_aggregation,
    what_has_finished_in_time_does_not_fail_later,
    more_bulk_actions_than_are_kept_are_refused,
    bounds_out_of_range_are_invalid,
];

async fn a_new_bulk_action_is_open_and_empty(queue: Subject) {
    queue.advance_ms(7);
    let view = queue.open_within("g", "b", Some(5000), Some(3)).await;
    let expected = BulkView {
        bulk: bulk_ref("g", "b"),
        state: BulkState::Created,
        mode: BulkMode::Run,
        sealed: false,
        total: 0,
        succeeded: 0,
        failed: 0,
        cancelled: 0,
        on_hold: 0,
        created_at: START.plus_ms(7),
        started_at: None,
        finished_at: None,
        deadline: Some(START.plus_ms(5007)),
        failures_max: Some(3),
        cause: None,
        payload: bytes(""),
        summary: bytes(""),
    };
    assert_eq!(view, expected);
    assert_eq!(queue.bulk("g", "b").await, expected);
    let unbounded = queue.open("g", "c").await;
    assert_eq!((unbounded.deadline, unbounded.failures_max), (None, None));
    assert_eq!(queue.queue_view().await.active_groups, 0, "a bulk action without jobs is no work");
}

/// A producer that lost the reply opens again, perhaps with other limits.
async fn opening_again_changes_nothing(queue: Subject) {
    queue.open_within("g", "b", Some(5000), None).await;
    queue.add(jobs_in("b", "g", 2)).await;
    queue.lease_one().await;
    queue.advance_ms(10);
    let before = queue.bulk("g", "b").await;
    let again = OpenBulk { deadline_ms: Some(1), failures_max: Some(0), ..with_payload("b", b"other") };
    for _ in 0..2 {
        let opened = queue.engine.call(again.clone()).await.expect("open_bulk is answered");
        assert_eq!(opened, BulkOpened::Exists(before.clone()));
    }
    queue.cancel_bulk("g", "b").await;
    let ended = queue.bulk("g", "b").await;
    let opened = queue.engine.call(again).await.expect("open_bulk is answered");
    assert_eq!(opened, BulkOpened::Exists(ended), "one that has ended is not opened anew");
}

fn with_payload(id: &str, payload: &[u8]) -> OpenBulk {
    OpenBulk { bulk: bulk_ref("g", id), deadline_ms: None, failures_max: None, payload: payload.into() }
}

async fn its_payload_is_shown_to_the_aggregator(queue: Subject) {
    let open = with_payload("b", b"tell whom");
    let opened = queue.engine.call(open.clone()).await.expect("open_bulk is answered");
    assert!(matches!(&opened, BulkOpened::Created(view) if view.payload == open.payload), "{opened:?}");
    queue.add(jobs_in("b", "g", 1)).await;
    let leased = queue.lease_one().await;
    queue.succeed(&[leased]).await;
    assert_eq!(queue.hold("g", "b").await.expect("it is there").payload, open.payload);
    assert_eq!(queue.seal("g", "b").await.payload, open.payload);
    let taken = queue.lease_bulk().await;
    assert_eq!(taken.view.payload, open.payload);
    queue.settle_bulk(&taken).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((&*view.payload, &*view.summary), (&b"tell whom"[..], &b"summary"[..]));
}

async fn a_payload_is_opaque(queue: Subject) {
    let every_byte: Vec<u8> = (0..=255).chain([b':', b':', 0]).collect();
    for (id, payload) in [("bytes", &every_byte[..]), ("zero", b"0"), ("none", b"")] {
        queue.engine.call(with_payload(id, payload)).await.expect("open_bulk is answered");
        assert_eq!(&*queue.bulk("g", id).await.payload, payload);
    }
}

async fn a_payload_out_of_range_is_invalid(queue: Subject) {
    let largest = vec![7; BULK_PAYLOAD_BYTES_MAX];
    let refused = queue.engine.call(with_payload("b", &[&largest[..], b"7"].concat())).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooLarge { .. }))), "{refused:?}");
    assert_eq!(queue.find_bulk("g", "b").await, None);
    queue.engine.call(with_payload("b", &largest)).await.expect("16 KiB are taken");
    assert_eq!(&*queue.bulk("g", "b").await.payload, largest);
}

/// Erratum Q6.
async fn a_bulk_action_belongs_to_its_group(queue: Subject) {
    for (group, id) in [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c"), ("가", "나 다")] {
        queue.open(group, id).await;
        queue.add([in_bulk(id, job(group, "1"))]).await;
    }
    queue.seal("a:b", "c").await;
    assert!(!queue.bulk("a", "b:c").await.sealed && !queue.bulk("a%3Ab", "c").await.sealed);
    assert_eq!(queue.bulk("a:b", "c").await.total, 1);
    assert_eq!(queue.find_bulk("a", "c").await, None);
    let leased = queue.lease(10).await;
    for job in &leased {
        let name = job.bulk.clone().expect("each is of a bulk action");
        assert_eq!(queue.bulk(&job.job.group.to_string(), &name.to_string()).await.bulk.id, name);
    }
    assert_eq!(leased.len(), 4);
}

/// Erratum Q3.
async fn a_second_bulk_action_starts_at_nothing(queue: Subject) {
    queue.open_with_jobs("g", "first", 5).await;
    queue.seal("g", "first").await;
    let leased = queue.lease(10).await;
    queue.succeed(&leased).await;
    assert_eq!(queue.bulk_state("g", "first").await, BulkState::Aggregating);
    let second = queue.open("g", "second").await;
    assert_eq!((second.total, second.succeeded, second.state), (0, 0, BulkState::Created));
    queue.add(jobs_in("second", "g", 2)).await;
    queue.seal("g", "second").await;
    let leased = queue.lease(10).await;
    queue.succeed(&leased[..1]).await;
    assert_eq!(queue.bulk_state("g", "second").await, BulkState::Running, "five of before do not count");
    queue.succeed(&leased[1..]).await;
    assert_eq!(queue.bulk_state("g", "second").await, BulkState::Aggregating);
}

/// Erratum Q17.
async fn one_failure_too_many_fails_it_and_drops_the_rest(queue: Subject) {
    queue.open_within("g", "b", None, Some(1)).await;
    queue.add(jobs_in("b", "g", 6)).await;
    queue.add([job("g", "other")]).await;
    let leased = queue.lease(3).await;
    queue.settle(&leased[0], failed()).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Running);
    queue.advance_ms(5);
    queue.settle(&leased[1], failed()).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Failures)));
    assert_eq!((view.mode, view.finished_at), (BulkMode::Drop, Some(START.plus_ms(5))));
    assert!(matches!(queue.extend(&leased[2], LEASE_MS).await, Extension::Cancelled(_)));
    assert_eq!(ids(&queue.lease(10).await), ["other"], "what is left of it never runs");
    assert_eq!(queue.end_counts("g", "b").await, [0, 2, 3]);
    queue.succeed(&leased[2..]).await;
    assert_eq!(queue.end_counts("g", "b").await, [1, 2, 3], "what was running still counts as it ended");
    assert_eq!(queue.lease_bulk().await.view, queue.bulk("g", "b").await, "and it is leased for aggregation");
}

async fn a_threshold_of_none_fails_at_the_first_failure(queue: Subject) {
    queue.open_within("g", "b", None, Some(0)).await;
    queue.add(jobs_in("b", "g", 2)).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, failed()).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Failed, "sealed or not");
    let receipts = queue.enqueue([in_bulk("b", job("g", "more"))]).await;
    assert_eq!(receipts, [refused(Refusal::BulkSealed)]);
}

async fn failures_within_the_threshold_leave_it_alone(queue: Subject) {
    queue.open_within("g", "b", None, Some(2)).await;
    queue.add(jobs_in("b", "g", 3)).await;
    queue.seal("g", "b").await;
    let leased = queue.lease(3).await;
    for job in &leased[..2] {
        queue.settle(job, failed()).await;
    }
    queue.succeed(&leased[2..]).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.failed, view.cause), (BulkState::Aggregating, 2, None));
}

async fn without_a_threshold_no_number_of_failures_fails_it(queue: Subject) {
    queue.open_with_jobs("g", "b", 4).await;
    queue.seal("g", "b").await;
    for job in queue.lease(10).await {
        queue.settle(&job, failed()).await;
    }
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating, "a person may judge");
}

/// Erratum Q17.
async fn lost_leases_count_as_failures(queue: Subject) {
    queue.set_queue(Settings { max_loss_count: 0, ..Settings::default() }).await;
    queue.end_reclaim_grace().await;
    queue.open_within("g", "b", None, Some(0)).await;
    queue.add(jobs_in("b", "g", 2)).await;
    queue.lease(1).await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.dead, 1);
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.failed), (BulkState::Failed, 1));
    assert_eq!(queue.lease(10).await, []);
}

async fn a_deadline_that_passes_fails_it_and_drops_its_jobs(queue: Subject) {
    queue.open_within("g", "b", Some(1000), None).await;
    queue.add(jobs_in("b", "g", 3)).await;
    queue.seal("g", "b").await;
    let running = queue.lease_one().await;
    queue.advance_ms(999);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
    queue.advance_ms(1);
    let swept = queue.sweep(10).await;
    assert_eq!((swept.overdue, swept.dropped), (1, 2));
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Deadline)));
    assert_eq!(view.finished_at, Some(START.plus_ms(1000)));
    assert_eq!(queue.settle(&running, retry(0)).await, Verdict::Applied);
    assert_eq!(queue.lease(10).await, [], "what was running is not tried again");
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 3]);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT, "it fails once");
}

async fn a_deadline_holds_during_aggregation(queue: Subject) {
    queue.open_within("g", "b", Some(1000), None).await;
    queue.seal("g", "b").await;
    let taken = queue.lease_bulk().await;
    queue.advance_ms(1000);
    assert_eq!(queue.sweep(10).await.overdue, 1);
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Deadline)));
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Stale, "a summary that is not kept is not applied");
    assert_eq!(queue.lease_bulk().await.view, view, "it is given anew, as failed");
    assert_eq!(queue.bulk("g", "b").await, view);
}

async fn what_has_finished_in_time_does_not_fail_later(queue: Subject) {
    for id in ["completed", "cancelled"] {
        queue.open_within("g", id, Some(1000), None).await;
    }
    queue.seal("g", "completed").await;
    let taken = queue.lease_bulk().await;
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Applied);
    queue.cancel_bulk("g", "cancelled").await;
    queue.advance_ms(5000);
    assert_eq!(queue.sweep(10).await.overdue, 0);
    assert_eq!(queue.bulk_state("g", "completed").await, BulkState::Completed);
    assert_eq!(queue.bulk_state("g", "cancelled").await, BulkState::Cancelled);
}

async fn more_bulk_actions_than_are_kept_are_refused(queue: Subject) {
    let mut producers = Vec::new();
    for producer in 0..4 {
        let queue = queue.clone();
        producers.push(tokio::spawn(async move {
            for number in 0..GROUP_BULKS_MAX / 4 {
                queue.open("g", &format!("{producer}-{number}")).await;
            }
        }));
    }
    for producer in producers {
        producer.await.expect("no producer panics");
    }
    let open = |id: &str| with_payload(id, b"");
    let refused = queue.engine.call(open("one more")).await.expect("open_bulk is answered");
    assert_eq!(refused, BulkOpened::TooMany);
    assert_eq!(queue.find_bulk("g", "one more").await, None);
    let known = queue.engine.call(open("0-0")).await.expect("open_bulk is answered");
    assert!(matches!(known, BulkOpened::Exists(_)), "{known:?}");
    queue.open("h", "one more").await;
}

async fn bounds_out_of_range_are_invalid(queue: Subject) {
    let wrong = [
        (Some(0), None),
        (Some(DELAY_MS_MAX + 1), None),
        (Some(u64::MAX), None),
        (None, Some(u64::from(u32::MAX) + 1)),
    ];
    for (deadline_ms, failures_max) in wrong {
        let command = OpenBulk { deadline_ms, failures_max, ..with_payload("b", b"") };
        assert!(matches!(queue.engine.call(command).await, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.find_bulk("g", "b").await, None);
    queue.open_within("g", "b", Some(DELAY_MS_MAX), Some(u64::from(u32::MAX))).await;
}
