//! `record_activity`: a change is recorded once under its id, and the log is bounded.

use fairlane_core::activity::*;
use fairlane_core::limits::{
    ACTIVITY_MAX, ACTIVITY_NAME_BYTES_MAX, ACTIVITY_TEXT_BYTES_MAX, LIST_ACTIVITY_MAX,
};
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_change_is_recorded_with_its_actor_and_subject,
    a_repeated_change_is_one_entry_with_the_most_jobs,
    times_increase_although_the_clock_stands_still,
    the_oldest_change_is_forgotten_beyond_the_limit,
    a_change_that_is_not_one_line_is_invalid,
];

async fn a_change_is_recorded_with_its_actor_and_subject(queue: Subject) {
    let change = change("c:1", "ada: 100%", Some((SubjectKind::Group, "acme:%")), "paused");
    let at = queue.record_change(change.clone()).await;
    let listed = queue.activity(None, None, 10).await;
    let RecordActivity { id, actor, subject, text, jobs } = change;
    assert_eq!(listed.entries, [ActivityEntry { at, id, actor, subject, text, jobs }]);
    assert_eq!((at, listed.next), (START, None));
}

async fn a_repeated_change_is_one_entry_with_the_most_jobs(queue: Subject) {
    let requeued = |jobs| RecordActivity { jobs, ..change("c", "ada", None, "requeued") };
    let at = queue.record_change(requeued(100)).await;
    for jobs in [100, 500, 200] {
        queue.advance_ms(1000);
        assert_eq!(queue.record_change(requeued(jobs)).await, at);
    }
    let entries = queue.activity(None, None, 10).await.entries;
    assert_eq!((entries.len(), entries[0].jobs, entries[0].at), (1, 500, at));
}

async fn times_increase_although_the_clock_stands_still(queue: Subject) {
    let mut times = Vec::new();
    for number in 0..3 {
        times.push(queue.record_change(change(&number.to_string(), "ada", None, "paused")).await);
    }
    assert!(times.is_sorted_by(|one, other| one < other), "{times:?}");
}

async fn the_oldest_change_is_forgotten_beyond_the_limit(queue: Subject) {
    for number in 0..ACTIVITY_MAX + 2 {
        queue.record_change(change(&format!("c{number}"), "ada", None, &number.to_string())).await;
    }
    let (mut count, mut before, mut oldest) = (0, None, String::new());
    loop {
        let page = queue.activity(before, None, LIST_ACTIVITY_MAX).await;
        count += page.entries.len();
        oldest = page.entries.last().map_or(oldest, |entry| entry.text.clone());
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!((count, oldest.as_str()), (ACTIVITY_MAX, "2"));
    queue.record_change(change("c0", "ada", None, "again")).await;
    let newest = queue.activity(None, None, 1).await.entries;
    assert_eq!(newest[0].text, "again", "a forgotten id may be used again");
}

async fn a_change_that_is_not_one_line_is_invalid(queue: Subject) {
    let group = |name: &str| change("c", "ada", Some((SubjectKind::Group, name)), "paused");
    for wrong in [
        change("c", "ada", None, "two\nlines"),
        change("c", "ada", None, ""),
        change("c", "", None, "paused"),
        change("c", "ada", None, &"x".repeat(ACTIVITY_TEXT_BYTES_MAX + 1)),
        group("a\nb"),
        group(&"x".repeat(ACTIVITY_NAME_BYTES_MAX + 1)),
        RecordActivity { jobs: u64::MAX, ..change("c", "ada", None, "requeued") },
    ] {
        let refused = queue.engine.call(wrong.clone()).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{wrong:?}: {refused:?}");
    }
    assert_eq!(queue.activity(None, None, 10).await.entries, []);
}
