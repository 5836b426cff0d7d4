//! Stored bytes bound a group and the queue: payloads and notes of jobs, finished ones included,
//! and payloads and summaries of bulk actions.

use fairlane_core::limits::GROUP_IDLE_MS;
use fairlane_core::queue::*;

use crate::subject::*;

/// A job with a payload of ten bytes.
fn ten(group: &str, id: &str) -> NewJob {
    NewJob { payload: bytes("0123456789"), ..job(group, id) }
}

fn note(text: &str) -> Outcome {
    Outcome::Succeeded { result: bytes(text) }
}

/// The stored bytes of a group and of the queue.
async fn stored(queue: &Subject, group: &str) -> (u64, u64) {
    (queue.group(group).await.stored_bytes, queue.queue_view().await.stored_bytes)
}

pub(super) async fn group_with_enough_stored_bytes_is_refused_with_a_retry_time(queue: Subject) {
    queue.set_queue(Settings { group_stored_bytes_max: 25, ..Settings::default() }).await;
    let receipts = queue.enqueue((1..=5).map(|number| ten("a", &number.to_string()))).await;
    assert_eq!(receipts[..3], [const { JobReceipt::Created }; 3], "the last one may go beyond");
    assert_eq!(receipts[3..], [const { refused(Refusal::GroupBytesFull) }; 2]);
    assert_eq!((queue.find_job("a", "4").await, stored(&queue, "a").await), (None, (30, 30)));
    queue.add([ten("b", "1")]).await;
    let leased = queue.lease(10).await;
    assert_eq!(queue.enqueue([ten("a", "4")]).await, [refused(Refusal::GroupBytesFull)], "leased jobs count");
    queue.succeed(&leased).await;
    assert_eq!(
        queue.enqueue([ten("a", "4")]).await,
        [refused(Refusal::GroupBytesFull)],
        "finished jobs count"
    );
}

pub(super) async fn queue_with_enough_stored_bytes_is_refused_with_a_retry_time(queue: Subject) {
    queue.set_queue(Settings { stored_bytes_max: 20, ..Settings::default() }).await;
    let receipts = queue.enqueue([ten("a", "1"), ten("b", "1"), ten("c", "1"), ten("a", "1")]).await;
    let full = refused(Refusal::QueueBytesFull);
    assert_eq!(receipts, [JobReceipt::Created, JobReceipt::Created, full, EXISTS]);
    queue.set_queue(Settings { stored_bytes_max: 21, ..Settings::default() }).await;
    queue.add([ten("c", "1")]).await;
}

pub(super) async fn job_without_payload_or_with_a_known_id_needs_no_bytes(queue: Subject) {
    queue.add([ten("g", "1")]).await;
    queue.set_queue(Settings { group_stored_bytes_max: 1, stored_bytes_max: 1, ..Settings::default() }).await;
    let empty = NewJob { payload: bytes(""), ..job("g", "empty") };
    let receipts = queue.enqueue([ten("g", "1"), empty, ten("g", "2")]).await;
    assert_eq!(receipts, [EXISTS, JobReceipt::Created, refused(Refusal::QueueBytesFull)]);
}

pub(super) async fn stored_bytes_follow_payloads_and_notes_until_jobs_are_removed(queue: Subject) {
    queue.set_queue(Settings { max_retry_count: 1, ..Settings::default() }).await;
    queue.add([ten("g", "1"), ten("h", "1"), ten("g", "2")]).await;
    assert_eq!(stored(&queue, "g").await, (20, 30));
    let leased = queue.lease(10).await;
    let [first, of_h, second] = [("g", "1"), ("h", "1"), ("g", "2")].map(|(group, id)| {
        leased.iter().find(|leased| leased.job == job_ref(group, id)).cloned().expect("all were leased")
    });
    queue.settle(&first, Outcome::Retry { delay_ms: 0, reason: bytes("four") }).await;
    queue.settle(&of_h, note("")).await;
    queue.settle(&second, Outcome::Failed { reason: bytes("seven77") }).await;
    assert_eq!(stored(&queue, "g").await, (31, 41));
    let again = queue.lease_one().await;
    queue.settle(&again, note("ab")).await;
    assert_eq!(stored(&queue, "g").await, (29, 39), "a note replaces the one before");
    assert_eq!(queue.discard("g", &["2"]).await, [Disposal::Discarded]);
    assert_eq!(stored(&queue, "g").await, (12, 22));
    queue.set_queue(Settings { completed_retention_ms: 0, ..Settings::default() }).await;
    queue.sweep(10).await;
    assert_eq!((stored(&queue, "g").await, stored(&queue, "h").await), ((0, 0), (0, 0)));
}

pub(super) async fn stored_bytes_of_bulk_actions_go_with_them(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 1000, ..Settings::default() }).await;
    let bulk = bulk_ref("g", "b");
    let open = OpenBulk { bulk, deadline_ms: None, failures_max: None, payload: bytes("12345") };
    queue.engine.call(open).await.expect("it is opened");
    queue.add([in_bulk("b", ten("g", "1")), in_bulk("b", ten("g", "2"))]).await;
    queue.seal("g", "b").await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], note("xyz")).await;
    queue.settle(&leased[1], failed()).await;
    let reason = queue.job("g", "2").await.note.len() as u64;
    let taken = queue.lease_bulk().await;
    queue.settle_bulk_with(&taken, "summary", false).await;
    assert_eq!(stored(&queue, "g").await, (35 + reason, 35 + reason));
    queue.advance_ms(1000);
    while queue.sweep(10).await.more {}
    assert_eq!((queue.find_bulk("g", "b").await, stored(&queue, "g").await), (None, (0, 0)));
}

pub(super) async fn cancelled_jobs_hold_their_bytes_until_they_are_removed(queue: Subject) {
    queue.add([ten("g", "1"), NewJob { delay_ms: 5000, ..ten("g", "2") }, ten("g", "3")]).await;
    let retried = queue.lease_one().await;
    queue.settle(&retried, Outcome::Retry { delay_ms: 0, reason: bytes("why") }).await;
    queue.promote(10).await;
    assert_eq!(queue.cancel("g", &["1", "2", "3"]).await, [Cancellation::Cancelled; 3]);
    assert_eq!(stored(&queue, "g").await, (33, 33));
    assert_eq!(queue.lease(10).await, [], "those in the lane are taken out");
    queue.set_queue(Settings { completed_kept_max: 0, ..Settings::default() }).await;
    queue.sweep(10).await;
    assert_eq!((queue.queue_view().await.completed, stored(&queue, "g").await), (0, (0, 0)));
}

/// One sweep removes the last job of a group and forgets the group.
pub(super) async fn group_forgotten_with_its_last_job_starts_without_bytes(queue: Subject) {
    queue.add([ten("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.succeed(&[leased]).await;
    queue.set_queue(Settings { completed_retention_ms: GROUP_IDLE_MS, ..Settings::default() }).await;
    queue.advance_ms(GROUP_IDLE_MS + 1000);
    queue.sweep(10).await;
    assert_eq!(queue.find_group("g").await, None);
    queue.add([ten("g", "2")]).await;
    assert_eq!(stored(&queue, "g").await, (10, 10));
}

pub(super) async fn dead_jobs_are_requeued_however_many_bytes_are_stored(queue: Subject) {
    queue.add_dead(ten("g", "dead")).await;
    queue.set_queue(Settings { group_stored_bytes_max: 1, stored_bytes_max: 1, ..Settings::default() }).await;
    let before = stored(&queue, "g").await;
    assert_eq!(queue.requeue("g", &["dead"]).await, [Requeued::Requeued]);
    assert_eq!(stored(&queue, "g").await, before);
    let leased = queue.lease_one().await;
    assert_eq!(queue.settle(&leased, note("results are always taken")).await, Verdict::Applied);
}

pub(super) async fn bulk_action_with_a_payload_is_refused_when_bytes_are_full(queue: Subject) {
    queue.add([ten("g", "1")]).await;
    let open = async |id: &str, payload: &str| {
        let (bulk, payload) = (bulk_ref("g", id), bytes(payload));
        let open = OpenBulk { bulk, deadline_ms: None, failures_max: None, payload };
        queue.engine.call(open).await.expect("a valid command")
    };
    for (settings, full) in [
        (Settings { group_stored_bytes_max: 10, ..Settings::default() }, Refusal::GroupBytesFull),
        (Settings { stored_bytes_max: 10, ..Settings::default() }, Refusal::QueueBytesFull),
    ] {
        queue.set_queue(settings).await;
        let opened = open("b", "plan").await;
        assert!(matches!(opened, BulkOpened::Full { refusal, .. } if refusal == full), "{opened:?}");
        assert_eq!((queue.find_bulk("g", "b").await, stored(&queue, "g").await), (None, (10, 10)));
    }
    assert!(matches!(open("empty", "").await, BulkOpened::Created(_)), "it adds no bytes");
}
