//! `list_locks`: lists locks in the order of their names, page by page, and changes nothing.

use fairlane_core::limits::LIST_LOCKS_MAX;
use fairlane_core::lock::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    locks_come_page_by_page_by_name,
    locks_of_a_group_are_listed_alone,
    free_locks_are_left_out,
    page_out_of_range_is_invalid,
];

async fn list(
    locks: &Subject,
    group: Option<&str>,
    after: Option<&str>,
    locks_max: usize,
) -> (Vec<String>, Option<String>) {
    let command = ListLocks { group: group.map(group_id), after: after.map(lock_name), locks_max };
    let listed = locks.engine.call(command).await.expect("list_locks is answered");
    let names = listed.locks.iter().map(|lock| lock.name.to_string()).collect();
    (names, listed.next.map(|name| name.to_string()))
}

async fn locks_come_page_by_page_by_name(locks: Subject) {
    assert_eq!(list(&locks, None, None, 10).await, (vec![], None));
    for name in ["b", "a:2", "a", "c%", "a:1"] {
        locks.locked(exclusive_of(name, "t")).await;
    }
    assert_eq!(list(&locks, None, None, 2).await, (vec!["a".into(), "a:1".into()], Some("a:1".into())));
    let rest = vec!["a:2".into(), "b".into(), "c%".into()];
    assert_eq!(list(&locks, None, Some("a:1"), 3).await, (rest, None));
    assert_eq!(list(&locks, None, Some("a:3"), 1).await, (vec!["b".into()], Some("b".into())));
    assert_eq!(list(&locks, None, Some("d"), 1).await, (vec![], None));
}

async fn locks_of_a_group_are_listed_alone(locks: Subject) {
    for name in ["a:1", "a:2", "a:3", "ab:1", "a%3Ab:1", "b:1"] {
        locks.locked(exclusive_of(name, "t")).await;
    }
    let first = list(&locks, Some("a"), None, 2).await;
    assert_eq!(first, (vec!["a:1".into(), "a:2".into()], Some("a:2".into())));
    assert_eq!(list(&locks, Some("a"), Some("a:2"), 2).await, (vec!["a:3".into()], None));
    assert_eq!(list(&locks, Some("a:b"), None, 2).await, (vec!["a%3Ab:1".into()], None));
    assert_eq!(list(&locks, Some("a"), Some("Z"), 1).await.0, ["a:1"]);
    assert_eq!(list(&locks, Some("c"), None, 2).await, (vec![], None));
}

async fn free_locks_are_left_out(locks: Subject) {
    locks.locked(AcquireLock { ttl_ms: 1000, ..exclusive_of("a", "t") }).await;
    locks.locked(exclusive_of("b", "t")).await;
    locks.locked(exclusive_of("c", "t")).await;
    locks.release_of("b", "t").await;
    locks.advance_ms(1000);
    assert_eq!(list(&locks, None, None, 10).await, (vec!["c".into()], None));
}

async fn page_out_of_range_is_invalid(locks: Subject) {
    for locks_max in [0, LIST_LOCKS_MAX + 1] {
        let refused = locks.engine.call(ListLocks { group: None, after: None, locks_max }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
