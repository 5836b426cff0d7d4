//! `break_lock`: takes a lock away from its holders.

use fairlane_core::Fence;
use fairlane_core::lock::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    broken_lock_passes_on_and_its_holder_finds_out,
    one_of_many_holders_is_named_by_its_fence,
    all_holders_lose_the_lock_without_a_fence,
    waiter_that_was_granted_the_lock_loses_it,
];

async fn break_lock(locks: &Subject, fence: Option<Fence>) -> u64 {
    let command = BreakLock { name: lock_name("seat:1"), fence };
    locks.engine.call(command).await.expect("break_lock is answered").holders
}

async fn broken_lock_passes_on_and_its_holder_finds_out(locks: Subject) {
    assert_eq!(break_lock(&locks, None).await, 0);
    let fence = locks.locked(AcquireLock { lock_delay_ms: 1000, ..exclusive("one") }).await;
    locks.queue_up(exclusive("two")).await;
    assert_eq!(break_lock(&locks, Some(Fence(fence.0 + 1))).await, 0);
    assert_eq!(break_lock(&locks, Some(fence)).await, 1);
    assert_eq!(locks.attend("two").await, ["two"]);
    assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Lost);
    assert_eq!(locks.release("one").await, LockReleased::NotHeld);
    assert!(locks.locked(exclusive("two")).await > fence);
}

async fn one_of_many_holders_is_named_by_its_fence(locks: Subject) {
    locks.locked(reader("one")).await;
    let second = locks.locked(reader("two")).await;
    assert_eq!(break_lock(&locks, Some(second)).await, 1);
    assert_eq!(locks.renew("two", TTL_MS).await, LockRenewal::Lost);
    assert_eq!(locks.lock().await.holders, 1);
}

async fn all_holders_lose_the_lock_without_a_fence(locks: Subject) {
    for number in 0..5 {
        locks.locked(permit(5, &format!("t{number}"))).await;
    }
    assert_eq!(break_lock(&locks, None).await, 5);
    assert_eq!(locks.find_lock("seat:1").await, None);
}

async fn waiter_that_was_granted_the_lock_loses_it(locks: Subject) {
    locks.locked(fair("one")).await;
    locks.queue_up(fair("two")).await;
    locks.queue_up(fair("three")).await;
    locks.release("one").await;
    let granted = locks.lock().await.held_by[0].fence;
    assert_eq!(break_lock(&locks, Some(granted)).await, 1);
    assert_eq!(locks.renew("two", TTL_MS).await, LockRenewal::Lost);
    assert_eq!((locks.attend("two").await, locks.attend("three").await), (vec![], vec!["three".into()]));
    assert!(locks.locked(fair("three")).await > granted);
}
