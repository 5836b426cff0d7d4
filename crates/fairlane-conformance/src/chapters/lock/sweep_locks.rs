//! `sweep_locks`: ends leases and claims that have run out, so that locks pass on.

use fairlane_core::limits::{LOCK_SLICE_MS, SWEEP_LOCKS_MAX};
use fairlane_core::lock::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    lease_that_ran_out_passes_the_lock_on,
    claim_that_ran_out_passes_the_lock_on,
    grant_that_ran_out_passes_the_lock_on_after_its_delay,
    waiter_that_is_gone_before_it_began_causes_no_delay,
    delay_that_is_over_passes_the_lock_on,
    reply_says_when_the_next_lock_is_due,
    number_of_locks_is_bounded,
    leases_that_ran_out_are_counted_once_however_they_were_found,
    arguments_out_of_range_are_invalid,
];

fn swept(locks: usize, expired: u64, next_in_us: Option<u64>) -> LocksSwept {
    LocksSwept { locks, expired, next_in_us }
}

/// Erratum L2.
async fn lease_that_ran_out_passes_the_lock_on(locks: Subject) {
    let mut signals = locks.subscribe("two").await;
    locks.locked(exclusive("one")).await;
    locks.advance_ms(TTL_MS - 100);
    locks.queue_up(exclusive("two")).await;
    locks.advance_ms(100);
    assert_eq!(locks.sweep_locks().await.locks, 1);
    assert_eq!(signalled(&mut signals, 1).await, ["two"]);
    locks.locked(exclusive("two")).await;
}

async fn claim_that_ran_out_passes_the_lock_on(locks: Subject) {
    let mut signals = locks.subscribe("three").await;
    locks.locked(exclusive("one")).await;
    locks.queue_up(brief("two")).await;
    locks.queue_up(brief("three")).await;
    locks.release("one").await;
    locks.advance_ms(LOCK_SLICE_MS - 1);
    locks.attend("three").await;
    locks.advance_ms(1);
    locks.sweep_locks().await;
    assert_eq!(signalled(&mut signals, 1).await, ["three"]);
    assert_eq!(locks.lock().await.waiters, 1, "the first waiter is gone");
}

/// The waiter may already use the resource, so its lock delay applies.
async fn grant_that_ran_out_passes_the_lock_on_after_its_delay(locks: Subject) {
    locks.locked(fair("one")).await;
    locks.queue_up(AcquireLock { lock_delay_ms: 500, ..fair("two") }).await;
    locks.queue_up(fair("three")).await;
    locks.release("one").await;
    for (ms, holders) in [(LOCK_SLICE_MS - 1, 1), (1, 0), (499, 0), (1, 1)] {
        locks.advance_ms(ms);
        locks.attend("three").await;
        locks.sweep_locks().await;
        assert_eq!(locks.lock().await.holders, holders);
    }
    assert_eq!(locks.renew("two", TTL_MS).await, LockRenewal::Lost);
    locks.locked(fair("three")).await;
}

/// A lock with a delay is reserved for a waiter that is not fair, and a newcomer may take it.
async fn waiter_that_is_gone_before_it_began_causes_no_delay(locks: Subject) {
    locks.locked(exclusive("one")).await;
    locks.queue_up(AcquireLock { lock_delay_ms: 60_000, ..exclusive("two") }).await;
    locks.release("one").await;
    let lock = locks.lock().await;
    assert_eq!((lock.holders, lock.claims), (0, 1));
    locks.advance_ms(LOCK_SLICE_MS);
    locks.sweep_locks().await;
    assert_eq!(locks.find_lock("seat:1").await, None);
    locks.locked(exclusive("three")).await;
}

async fn delay_that_is_over_passes_the_lock_on(locks: Subject) {
    locks.locked(AcquireLock { lock_delay_ms: 2000, ..exclusive("one") }).await;
    locks.advance_ms(TTL_MS);
    assert_eq!(locks.sweep_locks().await, swept(1, 1, Some(2_000_000)));
    locks.advance_ms(1500);
    locks.queue_up(exclusive("two")).await;
    locks.advance_ms(500);
    assert_eq!(locks.sweep_locks().await.locks, 1);
    assert_eq!(locks.attend("two").await, ["two"]);
}

async fn reply_says_when_the_next_lock_is_due(locks: Subject) {
    assert_eq!(locks.sweep_locks().await, swept(0, 0, None));
    locks.locked(exclusive_of("a", "t")).await;
    locks.locked(AcquireLock { ttl_ms: 300, ..exclusive_of("b", "t") }).await;
    assert_eq!(locks.sweep_locks().await, swept(0, 0, Some(300_000)));
    locks.advance_ms(400);
    assert_eq!(locks.sweep_locks().await, swept(1, 1, Some(4_600_000)));
    locks.release_of("a", "t").await;
    assert_eq!(locks.sweep_locks().await, swept(0, 0, None));
}

async fn number_of_locks_is_bounded(locks: Subject) {
    for number in 0..5 {
        locks.locked(exclusive_of(&format!("lock {number}"), "t")).await;
    }
    locks.advance_ms(TTL_MS);
    let sweep = |locks_max| SweepLocks { locks_max };
    let first = locks.engine.call(sweep(3)).await.expect("sweep_locks is answered");
    assert_eq!(first, swept(3, 3, Some(0)));
    let second = locks.engine.call(sweep(3)).await.expect("sweep_locks is answered");
    assert_eq!(second, swept(2, 2, None));
}

async fn leases_that_ran_out_are_counted_once_however_they_were_found(locks: Subject) {
    locks.locked(exclusive("one")).await;
    for token in ["a", "b"] {
        locks.locked(AcquireLock { name: lock_name("gpu"), ..permit(2, token) }).await;
    }
    locks.advance_ms(TTL_MS);
    locks.locked(exclusive("two")).await;
    locks.release("two").await;
    assert_eq!(locks.sweep_locks().await, swept(1, 3, None));
    assert_eq!(locks.sweep_locks().await, swept(0, 0, None));
}

async fn arguments_out_of_range_are_invalid(locks: Subject) {
    for locks_max in [0, SWEEP_LOCKS_MAX + 1] {
        let refused = locks.engine.call(SweepLocks { locks_max }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
