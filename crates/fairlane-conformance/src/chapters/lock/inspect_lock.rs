//! `inspect_lock`: shows the state of one lock, and changes nothing.

use fairlane_core::limits::LOCK_HOLDERS_SHOWN_MAX;
use fairlane_core::lock::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    free_lock_is_not_shown,
    holders_are_shown_by_the_end_of_their_leases,
    lease_that_ran_out_is_not_shown,
    number_of_holders_shown_is_bounded,
];

async fn free_lock_is_not_shown(locks: Subject) {
    assert_eq!(locks.find_lock("seat:1").await, None);
    locks.locked(exclusive("one")).await;
    assert_eq!(locks.lock().await.name, lock_name("seat:1"));
    locks.release("one").await;
    assert_eq!(locks.find_lock("seat:1").await, None);
}

async fn holders_are_shown_by_the_end_of_their_leases(locks: Subject) {
    let first = locks.locked(AcquireLock { ttl_ms: 9000, ..permit(3, "one") }).await;
    locks.advance_ms(500);
    let second = locks.locked(permit(3, "two")).await;
    locks.locked(permit(3, "three")).await;
    locks.queue_up(permit(3, "four")).await;
    locks.release("three").await;
    let lock = locks.lock().await;
    assert_eq!(lock.kind, LockKind::Semaphore { permits: 3 });
    assert_eq!((lock.holders, lock.waiters, lock.claims, lock.delay_us), (2, 1, 1, 0));
    let shown: Vec<_> = lock.held_by.iter().map(|one| (one.fence, one.held_us, one.remaining_us)).collect();
    assert_eq!(shown, [(second, 0, 5_000_000), (first, 500_000, 8_500_000)]);
    assert!(lock.held_by.iter().all(|one| one.mode == LockMode::Permit { of: 3 }));
}

async fn lease_that_ran_out_is_not_shown(locks: Subject) {
    locks.locked(AcquireLock { ttl_ms: 1000, ..reader("one") }).await;
    locks.locked(reader("two")).await;
    locks.advance_ms(1000);
    let lock = locks.lock().await;
    assert_eq!((lock.holders, lock.held_by.len()), (1, 1));
    locks.advance_ms(4000);
    assert_eq!(locks.find_lock("seat:1").await, None);
    assert_eq!(locks.sweep_locks().await.locks, 1, "the read has not removed it");
}

async fn number_of_holders_shown_is_bounded(locks: Subject) {
    for number in 0..LOCK_HOLDERS_SHOWN_MAX + 5 {
        locks.locked(reader(&format!("r{number}"))).await;
    }
    let lock = locks.lock().await;
    assert_eq!(lock.holders as usize, LOCK_HOLDERS_SHOWN_MAX + 5);
    assert_eq!(lock.held_by.len(), LOCK_HOLDERS_SHOWN_MAX);
}
