//! `set_whole`: the rate of all types together, level order, caps and retention.

use fairlane_core::Level;
use fairlane_core::limits::ATTEMPTS_MAX;
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
    settings_out_of_range_are_invalid,
];

async fn settings_are_kept_and_shown(queue: Subject) {
    assert_eq!(queue.whole().await.settings, Settings::default());
    let settings = Settings {
        rate: Some(per_second(123, 4)),
        levels: LevelOrder::Strict,
        max_retry_count: 0,
        max_throttle_count: 1,
        max_loss_count: 2,
        group_backlog_max: 3,
        whole_backlog_max: 1 << 53,
        completed_retention_ms: 0,
        failed_retention_ms: 6,
        completed_kept_max: 0,
        failed_kept_max: 8,
    };
    queue.set_whole(settings.clone()).await;
    assert_eq!(queue.whole().await.settings, settings);
}

async fn the_rate_holds_over_all_types(queue: Subject) {
    queue.set_whole(Settings { rate: Some(per_second(10, 3)), ..Settings::default() }).await;
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
    queue.set_whole(Settings { rate: Some(per_second(10, 2)), ..Settings::default() }).await;
    assert_eq!(queue.lease(50).await.len(), 2);
    queue.set_whole(Settings::default()).await;
    assert_eq!(queue.lease(50).await.len(), 50);
}

async fn equal_values_change_nothing(queue: Subject) {
    let settings = Settings { rate: Some(per_second(1, 5)), ..Settings::default() };
    queue.set_whole(settings.clone()).await;
    queue.add(jobs("g", 20)).await;
    assert_eq!(queue.lease(10).await.len(), 5);
    queue.drain_wakes().await;
    queue.set_whole(settings.clone()).await;
    assert!(queue.is_silent().await);
    assert_eq!(queue.lease(10).await, []);
    queue.set_whole(Settings { max_retry_count: 9, ..settings }).await;
    assert_eq!(queue.lease(10).await, [], "another setting fills no bucket");
}

async fn strict_levels_serve_the_higher_first(queue: Subject) {
    queue.set_whole(Settings { levels: LevelOrder::Strict, ..Settings::default() }).await;
    for level in [Level::Low, Level::Normal, Level::High] {
        queue.add((0..20).map(|number| job_at(level, "g", &format!("{level} {number}")))).await;
    }
    let levels: Vec<Level> = queue.serve_all(7).await.iter().map(|job| job.level).collect();
    assert!(levels.is_sorted());
    queue.set_group("g", group_paused(true)).await;
    queue.add([job_at(Level::High, "g", "paused"), job_at(Level::Low, "h", "1")]).await;
    assert_eq!(names(&queue.lease(5).await), ["h/1"], "a higher level that rests holds nobody up");
}

async fn caps_hold_for_jobs_already_there(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], retry(0)).await;
    queue.set_whole(Settings { max_retry_count: 0, ..Settings::default() }).await;
    queue.settle(&leased[1], retry(0)).await;
    assert_eq!(queue.state("g", "1").await, JobState::Waiting);
    assert_eq!(queue.state("g", "2").await, JobState::Failed);
    let again = queue.lease_one().await;
    queue.settle(&again, retry(0)).await;
    assert_eq!(queue.state("g", "1").await, JobState::Failed);
}

async fn a_smaller_backlog_drops_nothing(queue: Subject) {
    queue.add(jobs("g", 10)).await;
    queue.set_whole(Settings { group_backlog_max: 5, whole_backlog_max: 5, ..Settings::default() }).await;
    assert_eq!(queue.whole().await.backlog, 10);
    assert!(matches!(queue.enqueue([job("h", "1")]).await[..], [JobReceipt::Refused { .. }]));
    assert_eq!(queue.serve_all(5).await.len(), 10);
}

async fn a_change_wakes_a_waiter(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    queue.drain_wakes().await;
    queue.set_whole(Settings { rate: Some(per_second(5, 1)), ..Settings::default() }).await;
    assert!(queue.is_woken().await);
}

async fn settings_out_of_range_are_invalid(queue: Subject) {
    let wrong = [
        Settings { max_retry_count: ATTEMPTS_MAX + 1, ..Settings::default() },
        Settings { group_backlog_max: 0, ..Settings::default() },
        Settings { whole_backlog_max: u64::MAX, ..Settings::default() },
        Settings { completed_retention_ms: u64::MAX, ..Settings::default() },
    ];
    for settings in wrong {
        let refused = queue.engine.set_whole(SetWhole { settings }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.whole().await.settings, Settings::default());
}
