//! `sweep`: removes dropped and expired jobs, puts resumed ones back and ends overdue bulk actions,
//! a bounded number at a time.

use fairlane_core::limits::{
    GROUP_IDLE_MS, SWEEP_BULKS_MAX, SWEEP_GROUPS_MAX, SWEEP_JOBS_MAX, VISIT_SKIPS_MAX,
};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    nothing_to_do_is_nothing_done,
    dropped_jobs_leave_the_heads_of_their_lanes,
    a_sweep_drops_a_bounded_number_and_says_that_there_is_more,
    dropped_jobs_behind_a_living_one_wait_for_their_turn,
    lanes_that_cannot_be_served_are_swept_too,
    bulk_actions_are_swept_in_turn,
    a_resume_takes_one_sweep_beside_many_stuck_bulk_actions,
    lanes_and_bulk_actions_share_a_sweep,
    lanes_are_cleared_in_turn,
    a_bounded_number_of_overdue_ones_fails_at_once,
    a_finished_bulk_action_is_kept_for_its_time,
    an_outlived_bulk_action_goes_with_its_jobs,
    an_outlived_bulk_action_is_not_aggregated_any_more,
    its_name_and_its_ids_are_free_again,
    an_unfinished_bulk_action_is_kept_with_its_jobs,
    dead_jobs_of_a_bulk_action_stay_with_it,
    removing_is_bounded,
    a_job_that_outlives_its_bulk_action_never_runs,
    a_bulk_action_is_not_forgotten_before_its_jobs,
    finished_jobs_past_their_time_go,
    a_group_is_forgotten_once_nothing_of_it_is_left,
    a_group_with_jobs_settings_or_bulk_actions_is_kept,
    a_group_is_kept_while_it_would_gain_from_being_forgotten,
    a_sweep_forgets_a_bounded_number_of_groups,
    sweeping_again_changes_nothing,
    a_number_out_of_range_is_invalid,
];

async fn finished(queue: &Subject, id: &str, count: usize) {
    queue.open_with_jobs("g", id, count).await;
    queue.seal("g", id).await;
    let leased = queue.lease(count.max(1)).await;
    queue.succeed(&leased).await;
    let taken = queue.lease_bulk().await;
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Applied);
}

async fn nothing_to_do_is_nothing_done(queue: Subject) {
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
    queue.open_with_jobs("g", "b", 3).await;
    let before = (queue.queue_view().await, queue.bulk("g", "b").await);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
    assert_eq!((queue.queue_view().await, queue.bulk("g", "b").await), before);
}

async fn dropped_jobs_leave_the_heads_of_their_lanes(queue: Subject) {
    queue.open("g", "b").await;
    for (number, level) in fairlane_core::Level::ALL.into_iter().cycle().take(9).enumerate() {
        let new = NewJob { level, ..job_of(["t", "u"][number % 2], "g", &number.to_string()) };
        queue.add([in_bulk("b", new)]).await;
    }
    queue.add([job("g", "own")]).await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.sweep(100).await, Swept { dropped: 9, ..NOTHING_SWEPT });
    assert_eq!((queue.group("g").await.backlog, queue.queue_view().await.sweeping), (1, 0));
    assert_eq!(queue.state("g", "3").await, JobState::Cancelled);
    assert_eq!(ids(&queue.lease_of(&["t", "u"], 10).await), ["own"]);
}

async fn a_sweep_drops_a_bounded_number_and_says_that_there_is_more(queue: Subject) {
    queue.open_with_jobs("g", "b", 5).await;
    queue.cancel_bulk("g", "b").await;
    for (dropped, more) in [(2, true), (2, true), (1, false)] {
        assert_eq!(queue.sweep(2).await, Swept { dropped, more, ..NOTHING_SWEPT });
    }
    assert_eq!(queue.sweep(2).await, NOTHING_SWEPT);
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 5]);
}

async fn dropped_jobs_behind_a_living_one_wait_for_their_turn(queue: Subject) {
    queue.add([job("g", "alive")]).await;
    queue.open_with_jobs("g", "b", 2).await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT, "no list is searched");
    assert_eq!(queue.queue_view().await.sweeping, 0, "and is not visited again and again");
    assert_eq!(ids(&queue.lease(1).await), ["alive"]);
    assert_eq!((queue.lease(1).await, queue.end_counts("g", "b").await), (vec![], [0, 0, 2]));
}

async fn lanes_that_cannot_be_served_are_swept_too(queue: Subject) {
    queue.set_group("g", group_paused(true)).await;
    queue.open_with_jobs("g", "b", 3).await;
    queue.lease(10).await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.sweep(10).await.dropped, 3);
    let totals = queue.queue_view().await;
    assert_eq!((totals.backlog, totals.active_groups), (0, 0));
    queue.add([job("g", "1")]).await;
    queue.set_group("g", group_paused(false)).await;
    assert_eq!(ids(&queue.lease(10).await), ["1"]);
}

async fn bulk_actions_are_swept_in_turn(queue: Subject) {
    let count = SWEEP_BULKS_MAX + 4;
    for number in 0..count {
        let group = format!("g{number}");
        queue.add([job(&group, "alive")]).await;
        queue.open_with_jobs(&group, "b", 1).await;
        queue.cancel_bulk(&group, "b").await;
    }
    queue.open_with_jobs("last", "b", 1).await;
    queue.cancel_bulk("last", "b").await;
    let swept = queue.sweep(10).await;
    assert_eq!(swept, Swept { more: true, ..NOTHING_SWEPT }, "the first ones cannot be swept yet");
    assert_eq!(queue.sweep(10).await, Swept { dropped: 1, ..NOTHING_SWEPT }, "and delay no other");
    assert_eq!((queue.end_counts("last", "b").await, queue.queue_view().await.sweeping), ([0, 0, 1], 0));
}

/// Cancelled bulk actions whose last job is running are not visited until it ends.
async fn a_resume_takes_one_sweep_beside_many_stuck_bulk_actions(queue: Subject) {
    queue.open_with_jobs("g", "held", 10).await;
    queue.hold("g", "held").await;
    queue.lease(10).await;
    let stuck = 2 * SWEEP_BULKS_MAX;
    for number in 0..stuck {
        queue.open_with_jobs("stuck", &format!("b{number}-"), 1).await;
    }
    let running = queue.lease(stuck).await;
    assert_eq!(running.len(), stuck);
    for number in 0..stuck {
        queue.cancel_bulk("stuck", &format!("b{number}-")).await;
    }
    while queue.sweep(SWEEP_JOBS_MAX).await.more {}
    assert_eq!(queue.queue_view().await.sweeping, 0);
    queue.resume("g", "held").await;
    assert_eq!(queue.sweep(SWEEP_JOBS_MAX).await, Swept { resumed: 10, ..NOTHING_SWEPT });
    queue.succeed(&running).await;
    assert_eq!(
        queue.queue_view().await.aggregating,
        stuck as u64,
        "each is aggregated when its job has ended"
    );
}

async fn lanes_and_bulk_actions_share_a_sweep(queue: Subject) {
    queue.open_with_jobs("g", "held", 10).await;
    queue.hold("g", "held").await;
    queue.lease(10).await;
    queue.open_with_jobs("other", "large", 2 * VISIT_SKIPS_MAX).await;
    queue.hold("other", "large").await;
    queue.lease(10).await;
    queue.resume("g", "held").await;
    let on_hold = VISIT_SKIPS_MAX as u64;
    assert_eq!(queue.sweep(8).await, Swept { resumed: 4, more: true, ..NOTHING_SWEPT });
    assert_eq!(queue.bulk("other", "large").await.on_hold, on_hold + 4);
    assert_eq!(queue.sweep(16).await, Swept { resumed: 6, more: true, ..NOTHING_SWEPT });
    assert_eq!(queue.bulk("other", "large").await.on_hold, on_hold + 14);
}

async fn lanes_are_cleared_in_turn(queue: Subject) {
    for group in ["a", "b"] {
        queue.open_with_jobs(group, "held", 2 * VISIT_SKIPS_MAX).await;
        queue.hold(group, "held").await;
    }
    assert_eq!(queue.lease(10).await, []);
    for _ in 0..4 {
        queue.advance_ms(1);
        queue.sweep(10).await;
    }
    let on_hold = [queue.bulk("a", "held").await.on_hold, queue.bulk("b", "held").await.on_hold];
    assert_eq!(on_hold, [(VISIT_SKIPS_MAX + 20) as u64; 2]);
}

async fn a_bounded_number_of_overdue_ones_fails_at_once(queue: Subject) {
    for number in 0..SWEEP_BULKS_MAX + 3 {
        queue.open_within("g", &number.to_string(), Some(100 + number as u64), None).await;
    }
    queue.advance_ms(1000);
    assert_eq!(queue.sweep(10).await, Swept { overdue: SWEEP_BULKS_MAX, more: true, ..NOTHING_SWEPT });
    assert_eq!(queue.bulk_state("g", "0").await, BulkState::Failed, "the earliest first");
    assert_eq!(queue.sweep(10).await, Swept { overdue: 3, ..NOTHING_SWEPT });
}

async fn a_finished_bulk_action_is_kept_for_its_time(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 5000, ..Settings::default() }).await;
    finished(&queue, "b", 2).await;
    queue.advance_ms(4999);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Completed);
    queue.set_queue(Settings::default()).await;
    queue.advance_ms(6 * 24 * 3600 * 1000);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT, "a week by default");
    queue.advance_ms(24 * 3600 * 1000);
    assert_eq!(queue.sweep(10).await.removed, 2);
}

async fn an_outlived_bulk_action_goes_with_its_jobs(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 1000, ..Settings::default() }).await;
    finished(&queue, "done", 3).await;
    queue.open_with_jobs("g", "cancelled", 2).await;
    queue.cancel_bulk("g", "cancelled").await;
    queue.open_within("g", "failed", None, Some(0)).await;
    queue.add_dead(in_bulk("failed", job("g", "dead"))).await;
    queue.sweep(10).await;
    queue.advance_ms(1000);
    assert_eq!(queue.sweep(100).await, Swept { removed: 6, ..NOTHING_SWEPT });
    for id in ["done", "cancelled", "failed"] {
        assert_eq!(queue.find_bulk("g", id).await, None);
    }
    for id in ["done1", "cancelled1", "dead"] {
        assert_eq!(queue.find_job("g", id).await, None);
    }
    assert_eq!(queue.queue_view().await.failed, 0);
}

async fn an_outlived_bulk_action_is_not_aggregated_any_more(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 1000, ..Settings::default() }).await;
    for id in ["waits", "leased"] {
        queue.open("g", id).await;
        queue.advance_ms(1);
        queue.cancel_bulk("g", id).await;
    }
    let taken = queue.lease_bulks(1).await.remove(0);
    queue.advance_ms(1000);
    queue.sweep(10).await;
    assert_eq!(queue.lease_bulks_for(10, LEASE_MS).await, LeasedBulks { bulks: vec![], wake_in_us: None });
    assert_eq!((queue.queue_view().await.aggregating, queue.settle_bulk(&taken).await), (0, Verdict::Gone));
}

async fn its_name_and_its_ids_are_free_again(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 1000, ..Settings::default() }).await;
    finished(&queue, "b", 2).await;
    queue.advance_ms(1000);
    queue.sweep(10).await;
    queue.open_with_jobs("g", "b", 2).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.total, view.succeeded, view.state), (2, 0, BulkState::Created));
    assert_eq!(queue.serve_all(10).await.len(), 2);
}

async fn an_unfinished_bulk_action_is_kept_with_its_jobs(queue: Subject) {
    let settings = Settings {
        bulk_retention_ms: 0,
        completed_retention_ms: 0,
        completed_kept_max: 0,
        ..Settings::default()
    };
    queue.set_queue(settings).await;
    queue.open_with_jobs("g", "b", 3).await;
    let leased = queue.lease(2).await;
    queue.succeed(&leased).await;
    queue.advance_ms(30 * 24 * 3600 * 1000);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
    assert_eq!(queue.state("g", "b1").await, JobState::Completed);
    let receipts = queue.enqueue(jobs_in("b", "g", 1)).await;
    assert_eq!(receipts, [JobReceipt::Exists { bulk: Some(bulk_id("b")) }], "no job runs twice in one");
}

async fn dead_jobs_of_a_bulk_action_stay_with_it(queue: Subject) {
    queue.set_queue(Settings { failed_kept_max: 0, failed_retention_ms: 0, ..Settings::default() }).await;
    queue.open("g", "b").await;
    queue.add_dead(in_bulk("b", job("g", "of b"))).await;
    queue.add_dead(job("g", "of none")).await;
    queue.sweep(10).await;
    assert_eq!(queue.find_job("g", "of none").await, None);
    assert_eq!(queue.state("g", "of b").await, JobState::Failed);
    assert_eq!(queue.queue_view().await.failed, 0, "it is no longer listed among the dead jobs");
    assert_eq!(queue.requeue("g", &["of b"]).await, [Requeued::Requeued]);
    assert_eq!(ids(&queue.lease(10).await), ["of b"]);
}

async fn removing_is_bounded(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 0, ..Settings::default() }).await;
    for id in ["x", "y", "z"] {
        finished(&queue, id, 4).await;
    }
    let mut removed = 0;
    for _ in 0..20 {
        let swept = queue.sweep(2).await;
        assert!(swept.removed <= 4, "about as many as requested: {swept:?}");
        removed += swept.removed;
        if !swept.more {
            break;
        }
    }
    assert_eq!((removed, queue.find_bulk("g", "z").await), (12, None));
}

async fn a_job_that_outlives_its_bulk_action_never_runs(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 0, ..Settings::default() }).await;
    queue.open("g", "b").await;
    queue.add([in_bulk("b", delayed(5000, "g", "late")), in_bulk("b", job("g", "running"))]).await;
    let running = queue.lease_one().await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.find_bulk("g", "b").await, None);
    assert!(matches!(queue.extend(&running, LEASE_MS).await, Extension::Cancelled(_)));
    queue.settle(&running, retry(0)).await;
    queue.advance_ms(5000);
    assert_eq!((queue.lease(10).await, queue.queue_view().await.backlog), (vec![], 0));
    queue.open("g", "b").await;
    assert_eq!(queue.bulk("g", "b").await.total, 0, "a namesake is another one");
}

async fn a_bulk_action_is_not_forgotten_before_its_jobs(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 0, ..Settings::default() }).await;
    let count = SWEEP_BULKS_MAX + 3;
    for number in 0..count {
        queue.open_with_jobs("g", &format!("b{number}-"), 1).await;
        queue.hold("g", &format!("b{number}-")).await;
    }
    queue.lease(10).await;
    queue.sweep(SWEEP_JOBS_MAX).await;
    for number in 0..count {
        queue.cancel_bulk("g", &format!("b{number}-")).await;
    }
    let mut dropped = 0;
    for _ in 0..5 {
        dropped += queue.sweep(SWEEP_JOBS_MAX).await.dropped;
    }
    assert_eq!((dropped, queue.queue_view().await.backlog), (count, 0));
}

async fn finished_jobs_past_their_time_go(queue: Subject) {
    let settings =
        Settings { completed_retention_ms: 1000, failed_retention_ms: 1000, ..Settings::default() };
    queue.set_queue(settings).await;
    queue.add(jobs("g", 1)).await;
    queue.serve_all(10).await;
    queue.add_dead(job("g", "dead")).await;
    queue.advance_ms(1000);
    assert_eq!(queue.sweep(10).await, Swept { removed: 2, ..NOTHING_SWEPT }, "and it says how many");
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.failed), (0, 0), "without any further settlement");
    assert_eq!(queue.find_job("g", "1").await, None);
}

/// Longer than the default retention of finished jobs, in milliseconds.
const RETENTION_MS: u64 = 25 * 3600 * 1000;

async fn is_known(queue: &Subject, group: &str) -> bool {
    queue.find_group(group).await.is_some()
}

async fn a_group_is_forgotten_once_nothing_of_it_is_left(queue: Subject) {
    queue.add([job("g", "1")]).await;
    queue.serve_all(1).await;
    queue.advance_ms(GROUP_IDLE_MS);
    queue.sweep(10).await;
    assert!(is_known(&queue, "g").await, "its finished job is kept");
    queue.advance_ms(RETENTION_MS);
    queue.sweep(10).await;
    assert!(!is_known(&queue, "g").await);
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.lease(1).await.len(), 1);
}

async fn a_group_with_jobs_settings_or_bulk_actions_is_kept(queue: Subject) {
    queue.set_group("limited", group_seats(3)).await;
    for group in ["limited", "busy"] {
        queue.add([job(group, "1")]).await;
    }
    queue.serve_all(2).await;
    queue.open("bulk", "b").await;
    queue.add([delayed(2 * RETENTION_MS, "busy", "later")]).await;
    queue.advance_ms(RETENTION_MS);
    queue.sweep(10).await;
    for group in ["limited", "busy", "bulk"] {
        assert!(is_known(&queue, group).await, "{group}");
    }
    queue.set_group("limited", GroupPatch { concurrency: Some(None), ..GroupPatch::default() }).await;
    queue.cancel_bulk("bulk", "b").await;
    let taken = queue.lease_bulk().await;
    queue.settle_bulk(&taken).await;
    for _ in 0..3 {
        queue.advance_ms(8 * RETENTION_MS);
        queue.sweep(10).await;
    }
    assert!(!is_known(&queue, "limited").await, "its settings are gone");
    assert!(!is_known(&queue, "bulk").await, "its bulk action is gone");
    assert!(is_known(&queue, "busy").await);
}

/// If it returned as a new group, it would be ahead of the others once more.
async fn a_group_is_kept_while_it_would_gain_from_being_forgotten(queue: Subject) {
    let settings = Settings { completed_kept_max: 0, ..Settings::default() };
    queue.engine.call(SetQueue { settings }).await.expect("set_queue is answered");
    queue.add(jobs("a", 40)).await;
    queue.add(jobs("b", 400)).await;
    let served = queue.lease(80).await;
    assert_eq!(served.iter().filter(|leased| leased.job.group == group_id("a")).count(), 40);
    queue.succeed(&served).await;
    queue.advance_ms(GROUP_IDLE_MS);
    while queue.sweep(100).await.removed > 0 {}
    assert_eq!(queue.queue_view().await.completed, 0);
    assert!(is_known(&queue, "a").await, "others have not been served past it");
    for _ in 0..4 {
        let served = queue.lease(50).await;
        queue.succeed(&served).await;
    }
    queue.advance_ms(GROUP_IDLE_MS);
    while queue.sweep(100).await.removed > 0 {}
    assert!(!is_known(&queue, "a").await);
}

async fn a_sweep_forgets_a_bounded_number_of_groups(queue: Subject) {
    let settings = Settings { completed_kept_max: 0, ..Settings::default() };
    queue.engine.call(SetQueue { settings }).await.expect("set_queue is answered");
    queue.add((0..SWEEP_GROUPS_MAX + 1).map(|number| job(&format!("g{number}"), "1"))).await;
    queue.serve_all(SWEEP_GROUPS_MAX + 1).await;
    while queue.sweep(100).await.removed > 0 {}
    queue.advance_ms(GROUP_IDLE_MS);
    assert!(queue.sweep(10).await.more);
    assert!(!queue.sweep(10).await.more);
    for number in 0..=SWEEP_GROUPS_MAX {
        assert!(!is_known(&queue, &format!("g{number}")).await, "g{number}");
    }
}

async fn sweeping_again_changes_nothing(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    let before = (queue.queue_view().await, queue.bulk("g", "b").await, queue.group("g").await);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
    assert_eq!((queue.queue_view().await, queue.bulk("g", "b").await, queue.group("g").await), before);
}

async fn a_number_out_of_range_is_invalid(queue: Subject) {
    for jobs_max in [0, SWEEP_JOBS_MAX + 1] {
        let refused = queue.engine.call(Sweep { jobs_max }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.sweep(SWEEP_JOBS_MAX).await, NOTHING_SWEPT);
}
