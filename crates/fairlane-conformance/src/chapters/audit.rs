//! `audit`: a sound queue has no findings, whatever state it is in, and repairing it changes
//! nothing.

use fairlane_core::Fence;
use fairlane_core::limits::AUDIT_SUSPECTS_MAX;
use fairlane_core::queue::*;
use fairlane_engine::{AuditProgress, AuditReport, EngineError};

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    nothing_is_found_in_an_empty_queue,
    nothing_is_found_wherever_jobs_stand,
    nothing_is_found_in_lanes_that_cannot_be_served,
    nothing_is_found_in_a_classic_queue,
    nothing_is_found_while_bulk_actions_are_held_cancelled_and_swept,
    an_extended_lease_is_no_finding_while_it_lives_and_after,
    repairing_a_sound_queue_changes_nothing,
    a_suspect_that_does_not_exist_is_no_finding,
    every_suspect_is_checked,
    the_scan_reports_its_progress,
    more_suspects_than_one_step_takes_are_refused,
];

/// Audits everything, with and without repair, and asserts that there are no findings.
async fn sound(queue: &Subject) -> AuditReport {
    let mut report = AuditReport::default();
    for repair in [false, true] {
        report = queue.engine.audit_all(repair, |_| {}).await.expect("audit is answered");
        assert_eq!((&report.findings[..], &report.too_large[..]), (&[][..], &[][..]), "repair {repair}");
    }
    report
}

async fn nothing_is_found_in_an_empty_queue(queue: Subject) {
    assert_eq!(sound(&queue).await.groups, 0);
}

/// Adds jobs in every state: in a lane, waiting, leased, completed, dead, cancelled in a lane and
/// cancelled elsewhere.
async fn everywhere(queue: &Subject) {
    queue.add(jobs("g", 10)).await;
    queue.add([delayed(5000, "g", "later"), delayed(9000, "g", "never")]).await;
    let leased = queue.lease(7).await;
    queue.settle(&leased[0], succeeded()).await;
    queue.settle(&leased[1], failed()).await;
    queue.settle(&leased[2], retry(1000)).await;
    queue.settle(&leased[3], throttled(100, 0)).await;
    queue.settle(&leased[4], Outcome::Released).await;
    queue.cancel("g", &["never", "9", "7"]).await;
}

async fn nothing_is_found_wherever_jobs_stand(queue: Subject) {
    everywhere(&queue).await;
    sound(&queue).await;
    queue.advance_ms(20_000);
    queue.promote(100).await;
    sound(&queue).await;
    assert_eq!(queue.requeue("g", &["2"]).await, [Requeued::Requeued]);
    sound(&queue).await;
    queue.serve_all(3).await;
    sound(&queue).await;
}

async fn nothing_is_found_in_lanes_that_cannot_be_served(queue: Subject) {
    for group in ["paused", "seated", "slow"] {
        queue.add(jobs(group, 5)).await;
    }
    queue.set_group("paused", group_paused(true)).await;
    queue.set_group("seated", group_seats(1)).await;
    queue.set_group("slow", group_rate(per_second(1, 1))).await;
    let leased = queue.lease(100).await;
    assert_eq!(leased.len(), 2);
    sound(&queue).await;
    queue.succeed(&leased).await;
    queue.set_group("paused", group_paused(false)).await;
    sound(&queue).await;
    for _ in 0..10 {
        let leased = queue.lease(100).await;
        queue.succeed(&leased).await;
        queue.advance_ms(1000);
    }
    assert_eq!(queue.queue_view().await.completed, 15);
    sound(&queue).await;
}

async fn nothing_is_found_in_a_classic_queue(queue: Subject) {
    queue.classic(4).await;
    queue.add(jobs("a", 6)).await;
    queue.add(jobs("b", 6)).await;
    let admitted = queue.admit(10).await;
    assert!(!ready(&admitted).is_empty() && !refusals(&admitted).is_empty());
    queue.cancel("a", &["1"]).await;
    queue.cancel("b", &["6"]).await;
    sound(&queue).await;
    let leased = queue.lease(1).await;
    queue.settle(&leased[0], throttled(0, 0)).await;
    sound(&queue).await;
}

async fn nothing_is_found_while_bulk_actions_are_held_cancelled_and_swept(queue: Subject) {
    for bulk in ["held", "cancelled", "running"] {
        queue.open("g", bulk).await;
        let new = |number: usize| in_bulk(bulk, job("g", &format!("{bulk}-{number}")));
        queue.add((0..6).map(new)).await;
    }
    queue.hold("g", "held").await;
    let leased = queue.lease(3).await;
    queue.cancel_bulk("g", "cancelled").await;
    sound(&queue).await;
    queue.sweep(4).await;
    sound(&queue).await;
    queue.resume("g", "held").await;
    queue.sweep(2).await;
    sound(&queue).await;
    queue.succeed(&leased).await;
    queue.seal("g", "running").await;
    queue.serve_all(2).await;
    sound(&queue).await;
    queue.advance_ms(8 * 24 * 3600 * 1000);
    while queue.sweep(3).await.more {
        sound(&queue).await;
    }
    sound(&queue).await;
}

async fn an_extended_lease_is_no_finding_while_it_lives_and_after(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    queue.end_reclaim_grace().await;
    let leased = queue.lease(3).await;
    queue.extend(&leased[0], LEASE_MS * 2).await;
    sound(&queue).await;
    queue.advance_reclaiming_ms(LEASE_MS + 1000).await;
    queue.reclaim(10).await;
    assert_eq!((queue.queue_view().await.in_flight, queue.queue_view().await.waiting), (1, 2));
    sound(&queue).await;
    queue.succeed(&leased[..1]).await;
    sound(&queue).await;
}

async fn repairing_a_sound_queue_changes_nothing(queue: Subject) {
    everywhere(&queue).await;
    let before = (queue.queue_view().await, queue.group("g").await, queue.type_view("t").await);
    sound(&queue).await;
    assert_eq!((queue.queue_view().await, queue.group("g").await, queue.type_view("t").await), before);
    queue.advance_ms(20_000);
    let mut served = ids(&queue.serve_all(100).await);
    served.sort();
    assert_eq!(served, ["10", "3", "4", "5", "8", "later"]);
}

async fn a_suspect_that_does_not_exist_is_no_finding(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let suspects = vec![
        Suspect::Job(job_ref("g", "2")),
        Suspect::Job(job_ref("unknown", "1")),
        Suspect::Group(group_id("unknown")),
        Suspect::Backlog(group_id("unknown")),
        Suspect::Type(type_id("never-seen")),
        Suspect::Bulk(bulk_ref("g", "b")),
        Suspect::Lease(Fence(1)),
    ];
    let looked_at = suspects.len();
    for repair in [false, true] {
        let audited = queue.engine.call(Audit { suspects: suspects.clone(), repair }).await;
        assert_eq!(audited, Ok(Audited { looked_at, too_large: false, findings: vec![] }));
    }
    assert_eq!(queue.queue_view().await.types, [type_id("t")], "an audit creates nothing");
}

async fn every_suspect_is_checked(queue: Subject) {
    queue.add(jobs("g", 150)).await;
    let suspects: Vec<Suspect> =
        (1..=AUDIT_SUSPECTS_MAX).map(|number| Suspect::Job(job_ref("g", &number.to_string()))).collect();
    let audited = queue.engine.call(Audit { suspects, repair: false }).await;
    assert_eq!(audited, Ok(Audited { looked_at: AUDIT_SUSPECTS_MAX, too_large: false, findings: vec![] }));
}

async fn the_scan_reports_its_progress(queue: Subject) {
    for number in 0..5 {
        queue.add(jobs(&format!("g{number}"), 2)).await;
    }
    let mut reported = Vec::new();
    let report =
        queue.engine.audit_all(false, |progress| reported.push(progress)).await.expect("audit is answered");
    assert_eq!(report.groups, 5);
    assert!(reported.is_sorted_by_key(|progress| progress.groups_scanned), "{reported:?}");
    let in_range = |progress: &AuditProgress| progress.groups == 5 && progress.groups_scanned <= 5;
    assert!(reported.iter().all(in_range), "{reported:?}");
}

async fn more_suspects_than_one_step_takes_are_refused(queue: Subject) {
    let suspects = vec![Suspect::Queue; AUDIT_SUSPECTS_MAX + 1];
    let refused = queue.engine.call(Audit { suspects, repair: false }).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}
