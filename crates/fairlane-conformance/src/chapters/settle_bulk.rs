//! `settle_bulk`: an aggregation ends once, or is released; the fence decides whether this
//! settlement ends it.

use fairlane_core::kernel::Invalid;
use fairlane_core::limits::{
    INTEGER_MAX, LEASE_BULKS_MAX, LEASE_MS_MAX, NOTE_BYTES_MAX, PAYLOAD_BYTES_MAX, TYPES_MAX,
};
use fairlane_core::queue::*;
use fairlane_core::{Cost, Fence, JobId, Level, Trace};
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_settled_one_is_completed_with_its_summary,
    a_failed_aggregation_fails_it,
    settling_again_is_applied_without_effect,
    an_ended_one_gets_its_summary_and_stays_as_it_ended,
    an_ended_one_that_is_settled_is_never_leased_again,
    an_older_fence_is_stale,
    a_wrong_fence_is_stale_and_changes_nothing,
    one_that_was_never_leased_cannot_be_settled,
    an_overdue_aggregation_can_be_settled_until_it_is_leased_again,
    an_unknown_one_is_gone_and_not_created,
    a_removed_one_is_gone_and_not_created,
    a_released_one_can_be_leased_at_once_behind_the_others,
    one_released_with_a_delay_is_leased_after_it_and_not_before,
    many_released_with_a_delay_do_not_delay_others,
    a_delay_out_of_range_is_invalid,
    releasing_again_is_applied_without_effect,
    a_released_one_can_be_settled_until_it_is_leased_again,
    only_a_leased_one_can_be_released,
    a_summary_is_opaque,
    a_summary_out_of_range_is_invalid,
    a_callback_is_added_in_the_same_step,
    a_callback_is_added_once,
    a_callback_is_added_however_the_bulk_action_ended,
    a_settlement_that_is_not_applied_adds_no_callback,
    a_job_with_the_id_of_a_callback_is_left_as_it_is,
    a_callback_is_added_to_a_full_queue,
    a_callback_is_added_beside_the_most_types,
    a_callback_out_of_range_is_invalid,
];

async fn leased_bulk(queue: &Subject) -> LeasedBulk {
    queue.open("g", "b").await;
    queue.seal("g", "b").await;
    queue.lease_bulk().await
}

async fn a_settled_one_is_completed_with_its_summary(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    queue.advance_ms(5);
    assert_eq!(queue.settle_bulk_with(&leased, "all well", false).await, Verdict::Applied);
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, &*view.summary, view.cause), (BulkState::Completed, &b"all well"[..], None));
    assert_eq!((view.finished_at, queue.queue_view().await.aggregating), (Some(START.plus_ms(5)), 0));
}

async fn a_failed_aggregation_fails_it(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    assert_eq!(queue.settle_bulk_with(&leased, "no disk", true).await, Verdict::Applied);
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Aggregation)));
    assert_eq!((&*view.summary, view.finished_at), (&b"no disk"[..], Some(START)));
    assert_eq!(queue.lease_bulks(10).await, []);
}

/// A lost reply: the aggregator repeats the command. Erratum Q15.
async fn settling_again_is_applied_without_effect(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    queue.settle_bulk_with(&leased, "first", false).await;
    let before = queue.bulk("g", "b").await;
    queue.advance_ms(10);
    assert_eq!(queue.settle_bulk_with(&leased, "first", false).await, Verdict::Applied);
    assert_eq!(
        queue.settle_bulk_with(&leased, "second", true).await,
        Verdict::Applied,
        "the first settlement counts"
    );
    assert_eq!(queue.bulk("g", "b").await, before);
}

async fn an_ended_one_gets_its_summary_and_stays_as_it_ended(queue: Subject) {
    queue.open("g", "cancelled").await;
    queue.cancel_bulk("g", "cancelled").await;
    queue.open_within("g", "failed", None, Some(0)).await;
    queue.add_dead(in_bulk("failed", job("g", "dead"))).await;
    for leased in queue.lease_bulks(10).await {
        let before = leased.view.clone();
        queue.advance_ms(5);
        assert_eq!(queue.settle_bulk_with(&leased, "how it ended", true).await, Verdict::Applied);
        assert_eq!(queue.settle_bulk_with(&leased, "how it ended", true).await, Verdict::Applied);
        assert_eq!(
            queue.settle_bulk_with(&leased, "otherwise", false).await,
            Verdict::Applied,
            "the first counts"
        );
        let after = queue.bulk("g", &before.bulk.id.to_string()).await;
        assert_eq!(after, BulkView { summary: bytes("how it ended"), ..before });
        for fence in [0, leased.fence.0 - 1, leased.fence.0 + 1] {
            let wrong = LeasedBulk { fence: Fence(fence), ..leased.clone() };
            assert_eq!(queue.settle_bulk(&wrong).await, Verdict::Stale);
        }
    }
    let view = queue.bulk("g", "failed").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Failures)));
    assert_eq!(queue.bulk_state("g", "cancelled").await, BulkState::Cancelled);
    assert_eq!(queue.queue_view().await.aggregating, 0);
}

/// This holds for every later change of its counts, its jobs or its seal.
async fn an_ended_one_that_is_settled_is_never_leased_again(queue: Subject) {
    queue.open_within("g", "b", None, Some(0)).await;
    queue.add(jobs_in("b", "g", 3)).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.cancel("g", &["b1", "b2"]).await;
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, failed()).await;
    let leased = queue.lease_bulk().await;
    assert_eq!((leased.view.state, queue.end_counts("g", "b").await), (BulkState::Failed, [0, 1, 2]));
    assert_eq!(queue.settle_bulk(&leased).await, Verdict::Applied);
    let after = queue.bulk("g", "b").await;
    assert_eq!(queue.requeue("g", &["b3"]).await, [Requeued::Requeued]);
    queue.serve_all(10).await;
    queue.cancel_bulk("g", "b").await;
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.bulk("g", "b").await, after);
    assert_eq!(queue.seal("g", "b").await, BulkView { sealed: true, ..after });
    queue.advance_ms(LEASE_MS);
    assert_eq!((queue.lease_bulks(10).await, queue.queue_view().await.aggregating), (vec![], 0));
}

/// Erratum Q15.
async fn an_older_fence_is_stale(queue: Subject) {
    let slow = leased_bulk(&queue).await;
    queue.advance_ms(LEASE_MS);
    let second = queue.lease_bulk().await;
    assert_eq!(queue.settle_bulk_with(&slow, "late", false).await, Verdict::Stale);
    queue.settle_bulk_with(&second, "in time", false).await;
    assert_eq!(queue.settle_bulk_with(&slow, "late", true).await, Verdict::Stale);
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, &*view.summary), (BulkState::Completed, &b"in time"[..]));
}

async fn a_wrong_fence_is_stale_and_changes_nothing(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    let before = queue.bulk("g", "b").await;
    for fence in [0, 1, leased.fence.0 - 1, leased.fence.0 + 1, INTEGER_MAX - 1] {
        let wrong = LeasedBulk { fence: Fence(fence), ..leased.clone() };
        assert_eq!(queue.settle_bulk(&wrong).await, Verdict::Stale);
    }
    assert_eq!(queue.bulk("g", "b").await, before);
}

async fn one_that_was_never_leased_cannot_be_settled(queue: Subject) {
    queue.open_with_jobs("g", "running", 1).await;
    queue.open("g", "complete").await;
    queue.seal("g", "complete").await;
    queue.open_within("g", "failed", None, Some(0)).await;
    queue.cancel("g", &["running1"]).await;
    queue.add_dead(in_bulk("failed", job("g", "dead"))).await;
    for id in ["running", "complete", "failed"] {
        let before = queue.bulk("g", id).await;
        for fence in [Fence(0), Fence(START.0)] {
            let guess = LeasedBulk { view: before.clone(), fence };
            assert_eq!(queue.settle_bulk(&guess).await, Verdict::Stale, "{id} under {fence}");
        }
        assert_eq!(queue.bulk("g", id).await, before);
    }
}

async fn an_overdue_aggregation_can_be_settled_until_it_is_leased_again(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    queue.advance_ms(LEASE_MS + 5000);
    assert_eq!(queue.settle_bulk(&leased).await, Verdict::Applied);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Completed);
}

/// Erratum Q13.
async fn an_unknown_one_is_gone_and_not_created(queue: Subject) {
    let command = SettleBulk {
        bulk: bulk_ref("g", "b"),
        fence: Fence(5),
        summary: bytes(""),
        outcome: Aggregation::Done,
        callback: None,
    };
    let settled = queue.engine.call(command).await.expect("settle_bulk is answered");
    assert_eq!(settled, BulkSettled(Verdict::Gone));
    assert_eq!(queue.find_bulk("g", "b").await, None);
}

/// Erratum Q13.
async fn a_removed_one_is_gone_and_not_created(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 0, ..Settings::default() }).await;
    let leased = leased_bulk(&queue).await;
    queue.settle_bulk(&leased).await;
    queue.sweep(10).await;
    assert_eq!(queue.settle_bulk(&leased).await, Verdict::Gone);
    assert_eq!(queue.find_bulk("g", "b").await, None);
}

/// An aggregator that cannot aggregate it must not keep it from one that can.
async fn a_released_one_can_be_leased_at_once_behind_the_others(queue: Subject) {
    let unknown = leased_bulk(&queue).await;
    queue.advance_ms(5);
    for id in ["second", "third"] {
        queue.open("g", id).await;
        queue.seal("g", id).await;
    }
    queue.advance_ms(5);
    assert_eq!(queue.release_bulk(&unknown).await, Verdict::Applied);
    assert_eq!(queue.queue_view().await.aggregating, 3);
    let again = queue.lease_bulks(10).await;
    let order: Vec<String> = again.iter().map(|leased| leased.view.bulk.id.to_string()).collect();
    assert_eq!(order, ["second", "third", "b"]);
    assert!(again[2].fence > unknown.fence && again[2].view == unknown.view);
    assert_eq!(queue.release_bulk(&unknown).await, Verdict::Stale, "another worker has leased it");
    assert_eq!(queue.lease_bulks(10).await, []);
    assert_eq!(queue.settle_bulk(&again[2]).await, Verdict::Applied);
}

async fn one_released_with_a_delay_is_leased_after_it_and_not_before(queue: Subject) {
    let first = leased_bulk(&queue).await;
    assert_eq!(queue.release_bulk_for(&first, 2000).await, Verdict::Applied);
    queue.advance_ms(500);
    assert_eq!(queue.release_bulk_for(&first, 60_000).await, Verdict::Applied, "it was released before");
    queue.advance_ms(1499);
    let none = queue.lease_bulks_for(10, LEASE_MS).await;
    assert_eq!((none.bulks, none.wake_in_us), (vec![], Some(1000)));
    queue.advance_ms(1);
    assert!(queue.lease_bulk().await.fence > first.fence);
}

/// An aggregation that no worker can perform must not delay others.
async fn many_released_with_a_delay_do_not_delay_others(queue: Subject) {
    for number in 0..3 * LEASE_BULKS_MAX {
        let id = number.to_string();
        queue.open("stuck", &id).await;
        queue.seal("stuck", &id).await;
    }
    for _ in 0..3 {
        for leased in queue.lease_bulks(LEASE_BULKS_MAX).await {
            assert_eq!(queue.release_bulk_for(&leased, 1000).await, Verdict::Applied);
        }
    }
    queue.open("other", "b").await;
    queue.seal("other", "b").await;
    let next = queue.lease_bulks(LEASE_BULKS_MAX).await;
    assert_eq!((next.len(), next[0].view.bulk.clone()), (1, bulk_ref("other", "b")));
    assert_eq!(queue.queue_view().await.aggregating, 3 * LEASE_BULKS_MAX as u64 + 1);
}

async fn a_delay_out_of_range_is_invalid(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    let with = |delay_ms| settle_bulk_command(&leased, Aggregation::Released { delay_ms });
    let refused = queue.engine.call(with(LEASE_MS_MAX + 1)).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    assert_eq!(queue.engine.call(with(LEASE_MS_MAX)).await, Ok(BulkSettled(Verdict::Applied)));
}

/// An aggregator that lost the reply releases again.
async fn releasing_again_is_applied_without_effect(queue: Subject) {
    let unknown = queue_of_two(&queue).await;
    assert_eq!(queue.release_bulk(&unknown).await, Verdict::Applied);
    queue.advance_ms(5);
    queue.open("g", "later").await;
    queue.seal("g", "later").await;
    queue.advance_ms(5);
    assert_eq!(queue.release_bulk(&unknown).await, Verdict::Applied);
    let order: Vec<String> =
        queue.lease_bulks(10).await.iter().map(|leased| leased.view.bulk.id.to_string()).collect();
    assert_eq!(order, ["other", "b", "later"], "it has kept its position");
}

async fn queue_of_two(queue: &Subject) -> LeasedBulk {
    let first = leased_bulk(queue).await;
    queue.open("g", "other").await;
    queue.seal("g", "other").await;
    queue.advance_ms(5);
    first
}

async fn a_released_one_can_be_settled_until_it_is_leased_again(queue: Subject) {
    let first = leased_bulk(&queue).await;
    queue.release_bulk(&first).await;
    assert_eq!(queue.settle_bulk_with(&first, "after all", false).await, Verdict::Applied);
    assert_eq!(queue.release_bulk(&first).await, Verdict::Applied, "a settled bulk action stays settled");
    assert_eq!((queue.lease_bulks(10).await, queue.queue_view().await.aggregating), (vec![], 0));
    assert_eq!(&*queue.bulk("g", "b").await.summary, b"after all");
}

async fn only_a_leased_one_can_be_released(queue: Subject) {
    queue.open("g", "b").await;
    queue.seal("g", "b").await;
    let view = queue.bulk("g", "b").await;
    for fence in [Fence(0), Fence(START.0)] {
        let guess = LeasedBulk { view: view.clone(), fence };
        assert_eq!(queue.release_bulk(&guess).await, Verdict::Stale);
    }
    let held = queue.lease_bulk().await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.release_bulk(&held).await, Verdict::Stale, "it was queued for aggregation again");
    assert_eq!(queue.lease_bulks(10).await.len(), 1);
}

async fn a_summary_is_opaque(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    let every_byte: Vec<u8> = (0..=255).chain([b':', b':', 0]).collect();
    let command = SettleBulk {
        bulk: leased.view.bulk.clone(),
        fence: leased.fence,
        summary: every_byte.clone().into(),
        outcome: Aggregation::Done,
        callback: None,
    };
    queue.engine.call(command).await.expect("settle_bulk is answered");
    assert_eq!(&*queue.bulk("g", "b").await.summary, every_byte);
}

async fn a_summary_out_of_range_is_invalid(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    let with = |bytes: usize| SettleBulk {
        bulk: leased.view.bulk.clone(),
        fence: leased.fence,
        summary: vec![7; bytes].into(),
        outcome: Aggregation::Done,
        callback: None,
    };
    let refused = queue.engine.call(with(NOTE_BYTES_MAX + 1)).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooLarge { .. }))));
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
    let settled = queue.engine.call(with(NOTE_BYTES_MAX)).await.expect("64 KiB are accepted");
    assert_eq!(settled, BulkSettled(Verdict::Applied));
    assert_eq!(queue.bulk("g", "b").await.summary.len(), NOTE_BYTES_MAX);
}

fn callback(id: &str) -> Callback {
    let trace = Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").ok();
    Callback { id: JobId::new(id).expect("a valid id"), payload: bytes("to: whom"), trace }
}

/// Ends an aggregation and adds the callback `c`.
fn with_callback(leased: &LeasedBulk) -> SettleBulk {
    SettleBulk { callback: Some(callback("c")), ..settle_bulk_command(leased, Aggregation::Done) }
}

async fn settle_with_callback(queue: &Subject, leased: &LeasedBulk) -> Verdict {
    queue.engine.call(with_callback(leased)).await.expect("settle_bulk is answered").0
}

async fn a_callback_is_added_in_the_same_step(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    queue.advance_ms(5);
    assert_eq!(settle_with_callback(&queue, &leased).await, Verdict::Applied);
    assert_eq!(queue.bulk("g", "b").await.total, 0, "it is no job of the bulk action");
    let view = queue.job("g", "c").await;
    assert_eq!((view.type_id, view.level, view.cost), (type_id(CALLBACK_TYPE), Level::High, Cost::default()));
    assert_eq!((view.bulk, &*view.payload, view.created_at), (None, &b"to: whom"[..], START.plus_ms(5)));
    assert_eq!(view.trace, callback("c").trace);
    assert_eq!((queue.queue_view().await.backlog, queue.group("g").await.backlog), (1, 1));
    let job = &queue.lease_of(&[CALLBACK_TYPE], 10).await[0];
    assert_eq!((&job.job, &*job.payload), (&job_ref("g", "c"), &b"to: whom"[..]));
    assert_eq!(queue.settle(job, succeeded()).await, Verdict::Applied);
}

/// An aggregator that lost the reply repeats the command.
async fn a_callback_is_added_once(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    for _ in 0..2 {
        assert_eq!(settle_with_callback(&queue, &leased).await, Verdict::Applied);
    }
    assert_eq!(queue.queue_view().await.backlog, 1);
    let job = &queue.lease_of(&[CALLBACK_TYPE], 10).await[0];
    queue.settle(job, succeeded()).await;
    assert_eq!(settle_with_callback(&queue, &leased).await, Verdict::Applied);
    assert_eq!(queue.queue_view().await.backlog, 0);
}

async fn a_callback_is_added_however_the_bulk_action_ended(queue: Subject) {
    queue.open("g", "cancelled").await;
    queue.cancel_bulk("g", "cancelled").await;
    let leased = queue.lease_bulk().await;
    assert_eq!(settle_with_callback(&queue, &leased).await, Verdict::Applied);
    let leased = leased_bulk(&queue).await;
    let failed =
        SettleBulk { callback: Some(callback("d")), ..settle_bulk_command(&leased, Aggregation::Failed) };
    assert_eq!(queue.engine.call(failed).await, Ok(BulkSettled(Verdict::Applied)));
    assert_eq!(queue.queue_view().await.backlog, 2);
}

async fn a_settlement_that_is_not_applied_adds_no_callback(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    let stale = LeasedBulk { fence: Fence(leased.fence.0 + 1), ..leased.clone() };
    assert_eq!(settle_with_callback(&queue, &stale).await, Verdict::Stale);
    let mut unknown = with_callback(&leased);
    unknown.bulk = bulk_ref("g", "unknown");
    assert_eq!(queue.engine.call(unknown).await, Ok(BulkSettled(Verdict::Gone)));
    let released = SettleBulk { outcome: Aggregation::Released { delay_ms: 0 }, ..with_callback(&leased) };
    assert_eq!(queue.engine.call(released).await, Ok(BulkSettled(Verdict::Applied)));
    assert_eq!((queue.find_job("g", "c").await, queue.queue_view().await.backlog), (None, 0));
    assert_eq!(settle_with_callback(&queue, &leased).await, Verdict::Applied);
    assert_eq!(queue.queue_view().await.backlog, 1);
}

async fn a_job_with_the_id_of_a_callback_is_left_as_it_is(queue: Subject) {
    queue.add([job("g", "c")]).await;
    let before = queue.job("g", "c").await;
    let leased = leased_bulk(&queue).await;
    assert_eq!(settle_with_callback(&queue, &leased).await, Verdict::Applied);
    assert_eq!((queue.job("g", "c").await, queue.queue_view().await.backlog), (before, 1));
}

/// A group with a full backlog must not keep its bulk actions from ending.
async fn a_callback_is_added_to_a_full_queue(queue: Subject) {
    let full = Settings { group_backlog_max: 1, queue_backlog_max: 1, ..Settings::default() };
    queue.set_queue(Settings { stored_bytes_max: 8, group_stored_bytes_max: 8, ..full }).await;
    let leased = leased_bulk(&queue).await;
    queue.add([NewJob { payload: bytes("12345678"), ..job("g", "1") }]).await;
    assert_eq!(settle_with_callback(&queue, &leased).await, Verdict::Applied);
    let view = queue.queue_view().await;
    assert_eq!((view.backlog, view.stored_bytes), (2, 16));
}

/// The type of callbacks does not count towards the limit on types.
async fn a_callback_is_added_beside_the_most_types(queue: Subject) {
    let add = async |number: usize| {
        let command = SetType { type_id: type_id(&number.to_string()), patch: TypePatch::default() };
        queue.engine.call(command).await.expect("set_type is answered")
    };
    for number in 1..TYPES_MAX {
        add(number).await;
    }
    let leased = leased_bulk(&queue).await;
    assert_eq!(settle_with_callback(&queue, &leased).await, Verdict::Applied);
    assert!(matches!(add(TYPES_MAX).await, TypeSet::Set(_)), "it takes no other type's place");
    assert_eq!(add(TYPES_MAX + 1).await, TypeSet::TooManyTypes);
    assert_eq!(queue.queue_view().await.types.len(), TYPES_MAX + 1);
    queue.succeed(&queue.lease_of(&[CALLBACK_TYPE], 1).await).await;
    let remove = RemoveType { type_id: type_id(CALLBACK_TYPE) };
    assert_eq!(queue.engine.call(remove).await, Ok(TypeRemoved::Removed));
    queue.open("g", "late").await;
    queue.seal("g", "late").await;
    let leased = queue.lease_bulk().await;
    let late =
        SettleBulk { callback: Some(callback("late")), ..settle_bulk_command(&leased, Aggregation::Done) };
    assert_eq!(queue.engine.call(late).await, Ok(BulkSettled(Verdict::Applied)));
    assert_eq!(queue.queue_view().await.types.len(), TYPES_MAX + 1);
}

async fn a_callback_out_of_range_is_invalid(queue: Subject) {
    let leased = leased_bulk(&queue).await;
    let with = |bytes: usize| SettleBulk {
        callback: Some(Callback { payload: vec![7; bytes].into(), ..callback("c") }),
        ..settle_bulk_command(&leased, Aggregation::Done)
    };
    let refused = queue.engine.call(with(PAYLOAD_BYTES_MAX + 1)).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooLarge { .. }))), "{refused:?}");
    assert_eq!(queue.engine.call(with(PAYLOAD_BYTES_MAX)).await, Ok(BulkSettled(Verdict::Applied)));
}
