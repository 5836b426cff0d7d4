//! `set_queue`: the rate of all types together, level order, caps and retention.

use fairlane_core::Level;
use fairlane_core::congestion::Congestion;
use fairlane_core::limits::{
    ALPHA_MAX, ATTEMPTS_MAX, BACKOFF_MS_MAX, GLOBAL_RPS_MAX, READY_QUEUE_SIZE_LIMIT,
};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    settings_are_kept_and_shown,
    the_rate_holds_over_all_types,
    a_rate_holds_for_the_backlog_at_once,
    equal_values_change_nothing,
    strict_levels_serve_the_higher_first,
    caps_hold_for_jobs_already_there,
    a_smaller_backlog_drops_nothing,
    a_change_wakes_a_waiter,
    the_discipline_changes_only_while_nothing_is_there,
    every_kind_of_unfinished_job_keeps_the_discipline,
    a_refused_change_changes_nothing,
    a_changed_discipline_serves_every_group,
    another_setting_can_change_at_any_time,
    a_changed_global_rate_holds_at_once,
    settings_out_of_range_are_invalid,
];

async fn settings_are_kept_and_shown(queue: Subject) {
    assert_eq!(queue.queue_view().await.settings, Settings::default());
    let settings = Settings {
        discipline: Discipline::Classic,
        alpha: -(ALPHA_MAX as i64),
        global_rps: 12_345,
        ready_queue_max_size: 17,
        congestion: Congestion {
            enabled: false,
            base_backoff_ms: 2,
            max_backoff_ms: 3,
            stats_retention_ms: 4000,
        },
        rate: Some(per_second(123, 4)),
        levels: LevelOrder::Strict,
        max_retry_count: 0,
        max_throttle_count: 1,
        max_loss_count: 2,
        group_backlog_max: 3,
        queue_backlog_max: 1 << 53,
        group_stored_bytes_max: 4,
        stored_bytes_max: 5,
        completed_retention_ms: 0,
        failed_retention_ms: 6,
        bulk_retention_ms: 7,
        completed_kept_max: 0,
        failed_kept_max: 8,
    };
    queue.set_queue(settings.clone()).await;
    assert_eq!(queue.queue_view().await.settings, settings);
}

async fn the_rate_holds_over_all_types(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(10, 3)), ..Settings::default() }).await;
    for number in 0..10 {
        queue.add([job_of("a", "g", &format!("a{number}")), job_of("b", "h", &format!("b{number}"))]).await;
    }
    let leased = queue.lease_of(&["a", "b"], 20).await;
    assert_eq!(leased.len(), 3);
    assert_eq!(queue.lease_of(&["b"], 20).await, []);
    queue.advance_ms(100);
    assert_eq!(queue.lease_of(&["b", "a"], 20).await.len(), 1);
}

async fn a_rate_holds_for_the_backlog_at_once(queue: Subject) {
    queue.add(jobs("g", 100)).await;
    assert_eq!(queue.lease(10).await.len(), 10);
    queue.set_queue(Settings { rate: Some(per_second(10, 2)), ..Settings::default() }).await;
    assert_eq!(queue.lease(50).await.len(), 2);
    queue.set_queue(Settings::default()).await;
    assert_eq!(queue.lease(50).await.len(), 50);
}

async fn equal_values_change_nothing(queue: Subject) {
    let settings = Settings { rate: Some(per_second(1, 5)), ..Settings::default() };
    queue.set_queue(settings.clone()).await;
    queue.add(jobs("g", 20)).await;
    assert_eq!(queue.lease(10).await.len(), 5);
    queue.drain_wakes().await;
    queue.set_queue(settings.clone()).await;
    assert!(queue.is_silent().await);
    assert_eq!(queue.lease(10).await, []);
    queue.set_queue(Settings { max_retry_count: 9, ..settings }).await;
    assert_eq!(queue.lease(10).await, [], "another setting fills no bucket");
}

async fn strict_levels_serve_the_higher_first(queue: Subject) {
    queue.set_queue(Settings { levels: LevelOrder::Strict, ..Settings::default() }).await;
    for level in [Level::Low, Level::Normal, Level::High] {
        queue.add((0..20).map(|number| job_at(level, "g", &format!("{level} {number}")))).await;
    }
    let levels: Vec<Level> = queue.serve_all(7).await.iter().map(|job| job.level).collect();
    assert!(levels.is_sorted());
    queue.set_group("g", group_paused(true)).await;
    queue.add([job_at(Level::High, "g", "paused"), job_at(Level::Low, "h", "1")]).await;
    assert_eq!(names(&queue.lease(5).await), ["h/1"], "a higher level without servable jobs delays no other");
}

async fn caps_hold_for_jobs_already_there(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], retry(0)).await;
    queue.set_queue(Settings { max_retry_count: 0, ..Settings::default() }).await;
    queue.settle(&leased[1], retry(0)).await;
    assert_eq!(queue.state("g", "1").await, JobState::Waiting);
    assert_eq!(queue.state("g", "2").await, JobState::Failed);
    let again = queue.lease_one().await;
    queue.settle(&again, retry(0)).await;
    assert_eq!(queue.state("g", "1").await, JobState::Failed);
}

async fn a_smaller_backlog_drops_nothing(queue: Subject) {
    queue.add(jobs("g", 10)).await;
    queue.set_queue(Settings { group_backlog_max: 5, queue_backlog_max: 5, ..Settings::default() }).await;
    assert_eq!(queue.queue_view().await.backlog, 10);
    assert!(matches!(queue.enqueue([job("h", "1")]).await[..], [JobReceipt::Refused { .. }]));
    assert_eq!(queue.serve_all(5).await.len(), 10);
}

async fn a_change_wakes_a_waiter(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    queue.drain_wakes().await;
    queue.set_queue(Settings { rate: Some(per_second(5, 1)), ..Settings::default() }).await;
    assert!(queue.is_woken().await);
}

async fn settings_out_of_range_are_invalid(queue: Subject) {
    let wrong = [
        Settings { max_retry_count: ATTEMPTS_MAX + 1, ..Settings::default() },
        Settings { group_backlog_max: 0, ..Settings::default() },
        Settings { queue_backlog_max: u64::MAX, ..Settings::default() },
        Settings { group_stored_bytes_max: 0, ..Settings::default() },
        Settings { stored_bytes_max: u64::MAX, ..Settings::default() },
        Settings { completed_retention_ms: u64::MAX, ..Settings::default() },
        Settings { bulk_retention_ms: u64::MAX, ..Settings::default() },
        Settings { alpha: ALPHA_MAX as i64 + 1, ..Settings::default() },
        Settings { alpha: i64::MIN, ..Settings::default() },
        Settings { global_rps: 0, ..Settings::default() },
        Settings { global_rps: GLOBAL_RPS_MAX + 1, ..Settings::default() },
        Settings { ready_queue_max_size: 0, ..Settings::default() },
        Settings { ready_queue_max_size: READY_QUEUE_SIZE_LIMIT + 1, ..Settings::default() },
        Settings { congestion: backoffs(0, 1000), ..Settings::default() },
        Settings { congestion: backoffs(1000, 999), ..Settings::default() },
        Settings { congestion: backoffs(1000, BACKOFF_MS_MAX + 1), ..Settings::default() },
        Settings {
            congestion: Congestion { stats_retention_ms: 999, ..Congestion::default() },
            ..Settings::default()
        },
    ];
    for settings in wrong {
        let refused = queue.engine.call(SetQueue { settings }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.queue_view().await.settings, Settings::default());
}

async fn the_discipline_changes_only_while_nothing_is_there(queue: Subject) {
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.try_set_queue(classic(10)).await, QueueSet::DisciplineInUse);
    let leased = queue.lease_one().await;
    assert_eq!(queue.try_set_queue(classic(10)).await, QueueSet::DisciplineInUse, "it is running");
    queue.succeed(&[leased]).await;
    assert_eq!(queue.try_set_queue(classic(10)).await, QueueSet::Set, "ended jobs do not prevent it");
    queue.add([job("g", "2")]).await;
    assert_eq!(queue.try_set_queue(Settings::default()).await, QueueSet::DisciplineInUse);
    queue.admit(1).await;
    assert_eq!(queue.try_set_queue(Settings::default()).await, QueueSet::DisciplineInUse);
    let leased = queue.lease_one().await;
    queue.succeed(&[leased]).await;
    assert_eq!(queue.try_set_queue(Settings::default()).await, QueueSet::Set);
    queue.add([job("g", "3")]).await;
    assert_eq!(ids(&queue.lease(10).await), ["3"], "without being admitted");
}

async fn every_kind_of_unfinished_job_keeps_the_discipline(queue: Subject) {
    queue.add([delayed(1000, "g", "waiting")]).await;
    assert_eq!(queue.try_set_queue(classic(10)).await, QueueSet::DisciplineInUse);
    queue.cancel("g", &["waiting"]).await;
    queue.open_with_jobs("g", "b", 1).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    assert_eq!(queue.try_set_queue(classic(10)).await, QueueSet::DisciplineInUse, "it is only set aside");
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.try_set_queue(classic(10)).await, QueueSet::Set);
}

async fn a_refused_change_changes_nothing(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let before = queue.queue_view().await;
    let other = Settings { max_retry_count: 9, rate: Some(per_second(1, 1)), ..classic(10) };
    assert_eq!(queue.try_set_queue(other).await, QueueSet::DisciplineInUse);
    assert_eq!(queue.queue_view().await, before);
}

/// A cancelled job may still be in its list when the discipline changes.
async fn a_changed_discipline_serves_every_group(queue: Subject) {
    queue.classic(100).await;
    queue.add([job("g", "in its lane"), job_of("u", "h", "ready")]).await;
    queue.set_type("t", type_paused(true)).await;
    queue.admit(10).await;
    queue.set_type("t", type_paused(false)).await;
    queue.cancel("g", &["in its lane"]).await;
    queue.cancel("h", &["ready"]).await;
    let share = Settings { completed_retention_ms: 1000, ..Settings::default() };
    assert_eq!(
        queue.try_set_queue(share.clone()).await,
        QueueSet::DisciplineInUse,
        "both still stand in a list"
    );
    queue.admit(10).await;
    assert!(queue.lease_of(&["t", "u"], 10).await.is_empty(), "their turn comes, and they leave");
    assert_eq!(queue.try_set_queue(share).await, QueueSet::Set);
    queue.add(jobs("other", 60)).await;
    queue.add([job("g", "1")]).await;
    let served = queue.lease_of(&["t", "u"], 20).await;
    assert_eq!(count_of("g", &served), 1, "no score of before holds it back");
    queue.succeed(&served).await;
    queue.advance_ms(1000);
    for _ in 0..5 {
        queue.lease_of(&["t", "u"], 1).await;
        queue.sweep(10).await;
    }
    assert_eq!(queue.find_job("g", "in its lane").await, None, "it is past its time");
    assert_eq!(queue.find_job("h", "ready").await, None, "and so is this one");
    assert_eq!(queue.type_view("u").await.ready, 0);
}

async fn another_setting_can_change_at_any_time(queue: Subject) {
    queue.classic(10).await;
    queue.add(jobs("g", 3)).await;
    let settings = Settings { alpha: -5, ready_queue_max_size: 1, ..classic(1000) };
    assert_eq!(queue.try_set_queue(settings.clone()).await, QueueSet::Set);
    assert_eq!(queue.queue_view().await.settings, settings);
    assert_eq!(queue.admit_ready(10).await, ["g/1"]);
}

async fn a_changed_global_rate_holds_at_once(queue: Subject) {
    queue.classic(2).await;
    queue.add(jobs("g", 12)).await;
    assert_eq!(queue.admit_ready(3).await.len(), 2);
    queue.set_queue(classic(5)).await;
    assert_eq!(queue.admit_ready(9).await.len(), 3, "in the same second");
}
