//! `list_activity`: changes come newest first, page by page, of one subject or of all.

use fairlane_core::activity::*;
use fairlane_core::limits::LIST_ACTIVITY_MAX;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    changes_come_newest_first_page_by_page,
    changes_of_one_subject_are_found,
    a_page_out_of_range_is_invalid,
];

fn texts(page: &ActivityListed) -> Vec<&str> {
    page.entries.iter().map(|entry| entry.text.as_str()).collect()
}

async fn changes_come_newest_first_page_by_page(queue: Subject) {
    assert_eq!(queue.activity(None, None, 1).await, ActivityListed { entries: vec![], next: None });
    for number in 0..5 {
        queue.advance_ms(10);
        queue.record_change(change(&number.to_string(), "ada", None, &format!("change {number}"))).await;
    }
    let first = queue.activity(None, None, 2).await;
    assert_eq!(texts(&first), ["change 4", "change 3"]);
    let second = queue.activity(first.next, None, 2).await;
    assert_eq!(texts(&second), ["change 2", "change 1"]);
    let third = queue.activity(second.next, None, 2).await;
    assert_eq!((texts(&third), third.next), (vec!["change 0"], None));
}

async fn changes_of_one_subject_are_found(queue: Subject) {
    let kinds = [(SubjectKind::Group, "a"), (SubjectKind::Type, "a"), (SubjectKind::Group, "b:1")];
    for number in 0..250 {
        let subject = Some(kinds[number % 3]).filter(|_| number != 100);
        queue.record_change(change(&number.to_string(), "ada", subject, &number.to_string())).await;
    }
    let about = |kind, name: &str| Some(ActivitySubject { kind, name: name.to_owned() });
    assert_eq!(texts(&queue.activity(None, about(SubjectKind::Group, "a"), 2).await), ["249", "246"]);
    assert_eq!(texts(&queue.activity(None, about(SubjectKind::Type, "a"), 2).await), ["247", "244"]);
    let page = queue.activity(None, about(SubjectKind::Group, "b:1"), 300).await;
    assert_eq!((page.entries.len(), page.next), (83, None));
    assert_eq!(texts(&queue.activity(None, about(SubjectKind::Room, "a"), 2).await), [""; 0]);
}

async fn a_page_out_of_range_is_invalid(queue: Subject) {
    for limit in [0, LIST_ACTIVITY_MAX + 1] {
        let refused = queue.engine.call(ListActivity { before: None, subject: None, limit }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
