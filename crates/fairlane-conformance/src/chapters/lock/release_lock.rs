//! `release_lock`: gives up a lock, or a place among its waiters.

use fairlane_core::lock::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    released_lock_is_free,
    release_signals_the_process_of_the_next_waiter_only,
    only_the_token_of_the_holder_releases,
    release_after_the_lease_ran_out_is_reported,
    withdrawn_waiter_gets_no_signal,
    withdrawal_passes_a_reserved_lock_on,
    waiter_that_was_granted_the_lock_passes_it_on,
];

async fn released_lock_is_free(locks: Subject) {
    locks.locked(exclusive("one")).await;
    assert_eq!(locks.release("one").await, LockReleased::Released);
    assert_eq!(locks.find_lock("seat:1").await, None);
    assert_eq!(locks.release("one").await, LockReleased::NotHeld);
    locks.locked(exclusive("two")).await;
}

/// Erratum L3.
async fn release_signals_the_process_of_the_next_waiter_only(locks: Subject) {
    let (mut two, mut three) = (locks.subscribe("two").await, locks.subscribe("three").await);
    locks.locked(exclusive("one")).await;
    locks.queue_up(exclusive("two")).await;
    locks.queue_up(exclusive("three")).await;
    locks.release("one").await;
    assert_eq!(signalled(&mut two, 1).await, ["two"]);
    locks.locked(exclusive("two")).await;
    locks.release("two").await;
    assert_eq!(signalled(&mut three, 1).await, ["three"]);
    assert!(is_unsignalled(&mut two).await && is_unsignalled(&mut three).await);
}

async fn only_the_token_of_the_holder_releases(locks: Subject) {
    locks.locked(exclusive("one")).await;
    assert_eq!(locks.release("other").await, LockReleased::NotHeld);
    assert_eq!(locks.lock().await.holders, 1);
}

async fn release_after_the_lease_ran_out_is_reported(locks: Subject) {
    locks.locked(exclusive("one")).await;
    locks.advance_ms(TTL_MS);
    assert_eq!(locks.release("one").await, LockReleased::NotHeld);
    locks.locked(exclusive("two")).await;
    assert_eq!(locks.release("one").await, LockReleased::NotHeld);
    assert_eq!(locks.lock().await.holders, 1);
}

async fn withdrawn_waiter_gets_no_signal(locks: Subject) {
    let mut signals = locks.subscribe("two").await;
    locks.locked(exclusive("one")).await;
    locks.queue_up(exclusive("two")).await;
    assert_eq!(locks.release("two").await, LockReleased::Withdrawn);
    assert_eq!(locks.release("two").await, LockReleased::NotHeld);
    locks.release("one").await;
    assert!(is_unsignalled(&mut signals).await);
    assert_eq!(locks.find_lock("seat:1").await, None);
}

async fn withdrawal_passes_a_reserved_lock_on(locks: Subject) {
    locks.locked(exclusive("one")).await;
    locks.queue_up(brief("two")).await;
    locks.queue_up(exclusive("three")).await;
    locks.release("one").await;
    assert_eq!((locks.attend("two").await, locks.attend("three").await), (vec!["two".into()], vec![]));
    assert_eq!(locks.release("two").await, LockReleased::Withdrawn);
    assert_eq!((locks.attend("two").await, locks.attend("three").await), (vec![], vec!["three".into()]));
}

/// A caller that gives up does not know whether the lock was granted to it meanwhile.
async fn waiter_that_was_granted_the_lock_passes_it_on(locks: Subject) {
    let (mut two, mut three) = (locks.subscribe("two").await, locks.subscribe("three").await);
    locks.locked(fair("one")).await;
    locks.queue_up(fair("two")).await;
    locks.queue_up(fair("three")).await;
    for (holder, signals, waiter) in [("one", &mut two, "two"), ("two", &mut three, "three")] {
        assert_eq!(locks.release(holder).await, LockReleased::Released);
        let signal = next_signal(signals).await;
        assert_eq!(signal.waiter, lock_token(waiter));
        let fence = locks.lock().await.held_by[0].fence;
        // An engine behind a server signals only the waiter, without the grant.
        assert!(signal.grant.is_none_or(|grant| grant.fence == fence));
    }
    assert_eq!(locks.release("two").await, LockReleased::NotHeld);
    assert_eq!(locks.release("three").await, LockReleased::Released);
    assert_eq!(locks.find_lock("seat:1").await, None);
    assert_eq!(locks.sweep_locks().await.next_in_us, None);
}
