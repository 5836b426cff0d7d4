//! `renew_locks`: extends the leases of locks that the caller holds, and of no others.

use fairlane_core::limits::{LOCK_TTL_MS_MIN, RENEW_LOCKS_MAX};
use fairlane_core::lock::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    renewed_lock_is_held_for_its_ttl_from_now_on,
    renewal_does_not_reach_beyond_the_longest_hold,
    lost_lock_is_not_acquired_again,
    each_lock_has_its_own_result,
    renewal_corrects_a_lease_after_the_clock_has_stepped_back,
    lock_of_a_dead_holder_passes_on_when_a_clock_that_stepped_back_has_caught_up,
    arguments_out_of_range_are_invalid,
];

async fn renewed_lock_is_held_for_its_ttl_from_now_on(locks: Subject) {
    locks.locked(exclusive("one")).await;
    for _ in 0..4 {
        locks.advance_ms(TTL_MS / 3);
        assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Renewed { remaining_us: TTL_MS * 1000 });
        assert!(!locks.is_had(exclusive("two")).await);
    }
    assert_eq!(locks.renew("one", 10).await, LockRenewal::Renewed { remaining_us: 10_000 });
    locks.advance_ms(10);
    locks.locked(exclusive("two")).await;
}

/// Erratum L8.
async fn renewal_does_not_reach_beyond_the_longest_hold(locks: Subject) {
    locks.locked(AcquireLock { max_hold_ms: Some(7000), ..exclusive("one") }).await;
    locks.advance_ms(4000);
    assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Renewed { remaining_us: 3_000_000 });
    locks.advance_ms(3000);
    assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Lost);
    locks.locked(exclusive("two")).await;
}

async fn lost_lock_is_not_acquired_again(locks: Subject) {
    assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Lost);
    locks.locked(exclusive("one")).await;
    locks.advance_ms(TTL_MS);
    assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Lost);
    assert_eq!(locks.find_lock("seat:1").await, None);
    locks.locked(exclusive("two")).await;
    assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Lost);
    locks.queue_up(exclusive("one")).await;
    assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Lost, "a waiter does not hold it");
}

async fn each_lock_has_its_own_result(locks: Subject) {
    locks.locked(exclusive_of("a", "t")).await;
    locks.locked(AcquireLock { name: lock_name("b"), ..permit(2, "t") }).await;
    let held = |name: &str, ttl_ms| HeldLock { name: lock_name(name), token: lock_token("t"), ttl_ms };
    let command =
        RenewLocks { locks: vec![held("a", 100), held("none", 200), held("b", 300), held("a", 400)] };
    let renewals = locks.engine.call(command).await.expect("renew_locks is answered").renewals;
    let renewed = |ms: u64| LockRenewal::Renewed { remaining_us: ms * 1000 };
    assert_eq!(renewals, [renewed(100), LockRenewal::Lost, renewed(300), renewed(400)]);
    let none = locks.engine.call(RenewLocks { locks: vec![] }).await.expect("renew_locks is answered");
    assert_eq!(none.renewals, []);
}

async fn renewal_corrects_a_lease_after_the_clock_has_stepped_back(locks: Subject) {
    let first = locks.locked(exclusive("one")).await;
    locks.step_back_ms(3_600_000);
    assert_eq!(locks.renew("one", TTL_MS).await, LockRenewal::Renewed { remaining_us: TTL_MS * 1000 });
    assert!(!locks.is_had(exclusive("two")).await, "it is held");
    locks.queue_up(exclusive("two")).await;
    locks.release("one").await;
    let second = locks.locked(exclusive("two")).await;
    assert!(second > first, "fences grow although the clock is behind");
    locks.advance_ms(TTL_MS);
    assert!(locks.locked(exclusive("three")).await > second);
}

async fn lock_of_a_dead_holder_passes_on_when_a_clock_that_stepped_back_has_caught_up(locks: Subject) {
    let first = locks.locked(exclusive("one")).await;
    locks.step_back_ms(60_000);
    locks.advance_ms(TTL_MS);
    locks.sweep_locks().await;
    assert!(!locks.is_had(exclusive("two")).await, "its lease ends by the clock");
    locks.advance_ms(60_000);
    assert!(locks.locked(exclusive("two")).await > first);
}

async fn arguments_out_of_range_are_invalid(locks: Subject) {
    let held = |ttl_ms| HeldLock { name: lock_name("a"), token: lock_token("t"), ttl_ms };
    for command in [
        RenewLocks { locks: vec![held(LOCK_TTL_MS_MIN - 1)] },
        RenewLocks { locks: vec![held(TTL_MS); RENEW_LOCKS_MAX + 1] },
    ] {
        let refused = locks.engine.call(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
    let most = locks.engine.call(RenewLocks { locks: vec![held(TTL_MS); RENEW_LOCKS_MAX] }).await;
    assert_eq!(most.expect("renew_locks is answered").renewals.len(), RENEW_LOCKS_MAX);
}
