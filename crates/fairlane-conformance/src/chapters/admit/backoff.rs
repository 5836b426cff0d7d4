//! The backoff of refused jobs.

use fairlane_core::congestion::{Congestion, CongestionLevel};
use fairlane_core::queue::*;

use crate::subject::*;

/// Uses up a window of ten jobs per second with one group, so that each further job is refused.
async fn window_used_up(queue: &Subject) {
    queue.classic(10).await;
    queue.add((0..10).map(|number| job("g", &format!("first {number}")))).await;
    assert_eq!(queue.admit_ready(10).await.len(), 10);
}

/// Adds one job, which is refused.
async fn refuse_one(queue: &Subject, group: &str, id: &str) -> fairlane_core::congestion::Backoff {
    queue.add([job(group, id)]).await;
    let admitted = queue.admit(1).await;
    let refused = refusals(&admitted);
    assert_eq!(refused.len(), 1, "{admitted:?}");
    refused[0]
}

pub(super) async fn the_first_refused_job_waits_one_window(queue: Subject) {
    window_used_up(&queue).await;
    let backoff = refuse_one(&queue, "g", "1").await;
    assert_eq!((backoff.backoff_ms, backoff.waiting, backoff.speed), (1000, 1, 10));
    assert_eq!((backoff.level, backoff.level.as_str()), (CongestionLevel::None, "NONE"));
    assert_eq!(queue.job("g", "1").await.until, Some(START.plus_ms(1000)));
}

pub(super) async fn the_eleventh_refused_job_waits_two(queue: Subject) {
    window_used_up(&queue).await;
    for number in 1..=10 {
        refuse_one(&queue, "g", &number.to_string()).await;
    }
    let backoff = refuse_one(&queue, "g", "11").await;
    assert_eq!((backoff.backoff_ms, backoff.waiting), (2000, 11));
    assert_eq!(backoff.level, CongestionLevel::Low);
    assert_eq!(queue.job("g", "11").await.until, Some(START.plus_ms(2000)));
}

/// Erratum Q27.
pub(super) async fn two_active_groups_halve_the_speed(queue: Subject) {
    queue.classic(10).await;
    queue.add([delayed(60_000, "other", "1")]).await;
    queue.add(jobs("g", 11)).await;
    let admitted = queue.admit(100).await;
    assert_eq!((ready(&admitted).len(), admitted.group_limit), (5, 5));
    let sixth = refusals(&admitted)[5];
    assert_eq!((sixth.backoff_ms, sixth.waiting, sixth.speed), (2000, 6, 5));
}

/// Erratum Q24.
pub(super) async fn promoting_two_of_three_leaves_one(queue: Subject) {
    window_used_up(&queue).await;
    for number in 1..=3 {
        refuse_one(&queue, "g", &number.to_string()).await;
    }
    queue.advance_ms(1000);
    assert_eq!(queue.promote(2).await.moved, 2);
    assert_eq!((queue.congestion("g").await.waiting, queue.group("g").await.waiting), (1, 1));
    assert_eq!(queue.promote(10).await.moved, 1);
    assert_eq!(queue.promote(10).await.moved, 0);
    assert_eq!(queue.congestion("g").await.waiting, 0, "never below nothing");
}

/// Erratum Q24.
pub(super) async fn the_count_follows_promotions_and_refusals(queue: Subject) {
    window_used_up(&queue).await;
    for number in 1..=20 {
        refuse_one(&queue, "g", &number.to_string()).await;
    }
    assert_eq!(queue.congestion("g").await.waiting, 20);
    queue.advance_ms(2000);
    assert_eq!(queue.promote(10).await.moved, 10);
    assert_eq!(queue.congestion("g").await.waiting, 10);
    assert_eq!(queue.admit_ready(10).await.len(), 10, "the ten that came back use up the window");
    let backoff = refuse_one(&queue, "g", "one more").await;
    assert_eq!((backoff.waiting, backoff.backoff_ms), (11, 2000));
}

pub(super) async fn the_backoff_falls_as_the_queue_drains(queue: Subject) {
    queue.classic(2).await;
    queue.add(jobs("g", 20)).await;
    let first = refusals(&queue.admit(100).await);
    let longest = first[17];
    assert_eq!((longest.waiting, longest.backoff_ms), (18, 10_000));
    assert!(first.is_sorted_by_key(|backoff| backoff.backoff_ms), "in steps, upwards");
    queue.make_due(Some("g"), 0, 100).await;
    queue.promote(14).await;
    let leased = queue.lease(10).await;
    queue.succeed(&leased).await;
    queue.advance_ms(1000);
    queue.admit(2).await;
    let next = refusals(&queue.admit(1).await)[0];
    assert_eq!((next.waiting, next.backoff_ms), (5, 3000));
}

/// Erratum Q22.
pub(super) async fn a_backoff_is_bounded_and_the_bounded_do_not_return_together(queue: Subject) {
    queue.set_queue(Settings { congestion: backoffs(1000, 20_000), ..classic(1) }).await;
    queue.add(jobs("g", 101)).await;
    let refused = refusals(&queue.admit(200).await);
    assert_eq!(refused.len(), 100);
    assert!(refused.iter().all(|backoff| backoff.backoff_ms <= 20_000));
    assert_eq!((refused[99].backoff_ms, refused[99].level), (20_000, CongestionLevel::High));
    let mut due = std::collections::BTreeMap::new();
    for number in 22..=101 {
        let until = queue.job("g", &number.to_string()).await.until.expect("it waits");
        *due.entry(until).or_insert(0) += 1;
        let delay_ms = until.since(START) / 1000;
        assert!((10_000..=20_000).contains(&delay_ms), "job {number} waits {delay_ms} ms");
    }
    let herd = due.values().max().expect("some wait");
    assert!(due.len() >= 10 && *herd <= 9, "{} moments, {herd} at one of them", due.len());
}

/// Erratum Q24.
pub(super) async fn switched_off_every_refusal_waits_the_same(queue: Subject) {
    let off = Congestion { enabled: false, ..Congestion::default() };
    queue.set_queue(Settings { congestion: off, ..classic(10) }).await;
    queue.add(jobs("g", 40)).await;
    let refused = refusals(&queue.admit(100).await);
    assert_eq!(refused.len(), 30);
    for backoff in refused {
        assert_eq!((backoff.backoff_ms, backoff.waiting, backoff.speed), (1000, 0, 0));
        assert_eq!(backoff.level, CongestionLevel::None);
    }
    assert_eq!(queue.job("g", "40").await.until, Some(START.plus_ms(1000)));
    let view = queue.congestion("g").await;
    assert_eq!((view.waiting, view.speed, view.backoff_ms, view.level), (0, 0, 0, CongestionLevel::None));
    assert_eq!((queue.snapshots("g", 10).await, queue.queue_view().await.saved_spins), (vec![], 0));
    assert_eq!(queue.group("g").await.waiting, 30, "jobs that wait are counted all the same");
}

/// Erratum Q24.
pub(super) async fn switching_off_leaves_those_that_wait_as_they_are(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 6)).await;
    queue.admit(10).await;
    let before = queue.job("g", "6").await.until;
    assert_eq!(before, Some(START.plus_ms(6000)));
    let off = Congestion { enabled: false, ..Congestion::default() };
    queue.set_queue(Settings { congestion: off, ..classic(1) }).await;
    assert_eq!(queue.job("g", "6").await.until, before);
    queue.add([job("g", "7")]).await;
    assert_eq!(refusals(&queue.admit(10).await)[0].backoff_ms, 1000);
    queue.advance_ms(6000);
    assert_eq!(queue.promote(10).await.moved, 6);
    queue.set_queue(classic(1)).await;
    assert_eq!(queue.congestion("g").await.waiting, 0, "the count was kept meanwhile");
}

/// Erratum Q22. Erratum Q27.
pub(super) async fn many_new_groups_change_only_what_comes_after(queue: Subject) {
    queue.classic(100).await;
    queue.add(jobs("g", 150)).await;
    queue.admit(500).await;
    let before = queue.job("g", "150").await.until;
    assert_eq!(before, Some(START.plus_ms(1000)));
    for number in 0..49 {
        queue.add([job(&format!("new {number}"), "1")]).await;
    }
    assert_eq!(queue.job("g", "150").await.until, before, "who waits already keeps the time");
    assert_eq!(queue.congestion("g").await.speed, 2);
    let admitted = {
        queue.add([job("g", "151")]).await;
        queue.admit(500).await
    };
    assert_eq!(admitted.group_limit, 2);
    let late = refusals(&admitted).into_iter().find(|backoff| backoff.waiting == 51);
    assert_eq!(late.expect("it was refused").backoff_ms, 1000 + 25 * 1000);
}

/// Erratum Q30.
pub(super) async fn a_throttled_job_comes_back_through_congestion_control(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 4)).await;
    queue.admit(10).await;
    let leased = queue.lease_one().await;
    assert_eq!(queue.settle(&leased, throttled(0, 0)).await, Verdict::Applied);
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, view.until), (JobState::Waiting, Some(START.plus_ms(5000))));
    let record = queue.congestion("g").await;
    assert_eq!((record.waiting, record.backoff_ms), (4, 5000));
    queue.advance_ms(5000);
    queue.promote(10).await;
    queue.admit(1).await;
    let again = queue.lease_one().await;
    queue.settle(&again, throttled(60_000, 0)).await;
    let until = queue.job(&again.job.group.to_string(), &again.job.id.to_string()).await.until;
    assert_eq!(until, Some(START.plus_ms(65_000)), "a longer wait that was asked for holds");
}

/// Erratum Q30.
pub(super) async fn a_retried_job_does_not(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 4)).await;
    queue.admit(10).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, retry(50)).await;
    assert_eq!(queue.job("g", "1").await.until, Some(START.plus_ms(50)), "it waits for its backoff");
    assert_eq!(queue.congestion("g").await.backoff_ms, 4000, "and is no sign of congestion");
}

/// Erratum Q38.
pub(super) async fn a_recovered_job_comes_back_through_congestion_control(queue: Subject) {
    queue.classic(1).await;
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 4)).await;
    queue.admit(10).await;
    assert_eq!(queue.lease(1).await.len(), 1);
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1);
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, view.until), (JobState::Waiting, Some(queue.now().plus_ms(5000))));
    assert_eq!(queue.lease(10).await, []);
    queue.advance_ms(5000);
    queue.promote(10).await;
    assert_eq!(queue.lease(10).await, [], "it is admitted before it runs");
    assert_eq!(queue.admit_ready(10).await.len(), 1);
}

pub(super) async fn a_released_job_is_admitted_again(queue: Subject) {
    queue.classic(100).await;
    queue.add(jobs("g", 3)).await;
    queue.admit(1).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, Outcome::Released).await;
    assert_eq!((queue.state("g", "1").await, queue.lease(10).await), (JobState::Pending, vec![]));
    assert_eq!(queue.admit_ready(3).await, ["g/1", "g/2", "g/3"], "before the rest of its lane");
    assert_eq!(queue.lease(10).await[0].attempt, 1);
}

/// Erratum Q23.
pub(super) async fn a_job_that_waits_is_counted_once(queue: Subject) {
    queue.classic(1).await;
    queue.add([job("g", "1"), job("g", "2")]).await;
    queue.admit(10).await;
    for _ in 0..3 {
        queue.admit(10).await;
        assert_eq!(queue.enqueue([job("g", "2")]).await, [EXISTS]);
    }
    let leased = queue.lease_one().await;
    for _ in 0..3 {
        queue.settle(&leased, throttled(0, 0)).await;
    }
    assert_eq!((queue.congestion("g").await.waiting, queue.queue_view().await.waiting), (2, 2));
}
