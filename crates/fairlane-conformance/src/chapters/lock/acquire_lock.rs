//! `acquire_lock`: takes a lock that is free, and otherwise joins its waiters if `wait` is set.

use fairlane_core::limits::{
    LOCK_DELAY_MS_MAX, LOCK_GRANT_ALIVE_MS, LOCK_HOLD_MS_MAX, LOCK_LOSSES_MAX, LOCK_PERMITS_MAX,
    LOCK_SLICE_MS, LOCK_TTL_MS_MAX, LOCK_TTL_MS_MIN,
};
use fairlane_core::lock::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    fences_grow_over_all_locks,
    repeated_acquisition_gets_the_same_fence_and_place,
    different_locks_do_not_affect_each_other,
    caller_that_does_not_wait_leaves_nothing_behind,
    waiter_learns_its_position_and_the_holder,
    released_lock_is_reserved_for_its_first_waiter_for_one_slice,
    released_lock_is_granted_to_a_waiter_whose_process_has_attended_lately,
    newcomer_takes_a_reserved_lock_until_its_waiter_has_lost_often_enough,
    fair_newcomer_never_overtakes,
    no_newcomer_takes_a_lock_from_a_fair_waiter,
    waiter_that_was_granted_the_lock_acquires_it_with_the_same_fence,
    readers_share_a_lock_and_queue_behind_a_waiting_writer,
    writer_displaces_all_reserved_readers,
    semaphore_has_as_many_holders_as_permits,
    lock_in_use_refuses_another_kind,
    lock_stays_free_for_its_delay_after_a_lease_that_ran_out,
    waiters_of_a_process_that_is_gone_are_skipped,
    token_with_another_mode_begins_a_new_acquisition,
    names_and_tokens_may_have_any_characters,
    arguments_out_of_range_are_invalid,
];

/// Erratum L5.
async fn fences_grow_over_all_locks(locks: Subject) {
    let mut last = locks.locked(exclusive("first")).await;
    for number in 0..20 {
        let token = format!("t{number}");
        let fence = locks.locked(exclusive_of(&format!("lock:{}", number % 3), &token)).await;
        assert!(fence > last, "{number}");
        last = fence;
        locks.release_of(&format!("lock:{}", number % 3), &token).await;
        locks.advance_ms(number % 2);
    }
}

/// Erratum L6.
async fn repeated_acquisition_gets_the_same_fence_and_place(locks: Subject) {
    let fence = locks.locked(exclusive("one")).await;
    locks.advance_ms(1000);
    let again = locks.acquire(exclusive("one")).await;
    assert_eq!(again, LockAcquired::Held { fence, remaining_us: 4_000_000 });
    for _ in 0..2 {
        assert_eq!(locks.queue_up(exclusive("two")).await.0, 1);
        assert_eq!(locks.queue_up(exclusive("three")).await.0, 2);
    }
    assert_eq!(locks.lock().await.waiters, 2);
}

async fn different_locks_do_not_affect_each_other(locks: Subject) {
    locks.locked(exclusive_of("a", "one")).await;
    locks.locked(exclusive_of("a:b", "one")).await;
    locks.queue_up(exclusive_of("a", "two")).await;
    locks.release_of("a:b", "one").await;
    assert!(locks.find_lock("a:b").await.is_none());
    let lock = locks.find_lock("a").await.expect("it is held");
    assert_eq!((lock.holders, lock.waiters, lock.claims), (1, 1, 0));
}

async fn caller_that_does_not_wait_leaves_nothing_behind(locks: Subject) {
    locks.locked(exclusive("one")).await;
    let busy = locks.acquire(AcquireLock { wait: false, ..exclusive("two") }).await;
    assert!(matches!(busy, LockAcquired::Busy(Blocked { waiters: 0, .. })), "{busy:?}");
    locks.release("one").await;
    assert_eq!(locks.find_lock("seat:1").await, None);
}

async fn waiter_learns_its_position_and_the_holder(locks: Subject) {
    let fence = locks.locked(exclusive("one")).await;
    locks.advance_ms(300);
    let (position, blocked) = locks.queue_up(exclusive("two")).await;
    assert_eq!((position, blocked.waiters, blocked.changes_in_us), (1, 1, 4_700_000));
    let holder = blocked.holder.expect("it has a holder");
    assert_eq!((holder.holder.to_string(), holder.mode), ("holder one".into(), LockMode::Exclusive));
    assert_eq!((holder.fence, holder.held_us, holder.remaining_us), (fence, 300_000, 4_700_000));
    assert_eq!(locks.queue_up(exclusive("three")).await.0, 2);
}

async fn released_lock_is_reserved_for_its_first_waiter_for_one_slice(locks: Subject) {
    let mut signals = locks.subscribe("two").await;
    locks.locked(exclusive("one")).await;
    locks.queue_up(brief("two")).await;
    locks.queue_up(exclusive("three")).await;
    locks.release("one").await;
    assert_eq!(signalled(&mut signals, 1).await, ["two"]);
    let (position, blocked) = locks.queue_up(fair("new")).await;
    assert_eq!((position, blocked.holder, blocked.changes_in_us), (3, None, LOCK_SLICE_MS * 1000));
    locks.advance_ms(LOCK_SLICE_MS - 1);
    locks.attend("three").await;
    locks.advance_ms(1);
    assert!(!locks.is_had(fair("other")).await, "it is reserved for the next");
    locks.locked(exclusive("three")).await;
    assert_eq!(locks.lock().await.waiters, 0, "the others are gone");
}

async fn released_lock_is_granted_to_a_waiter_whose_process_has_attended_lately(locks: Subject) {
    let attentive_ms = LOCK_SLICE_MS - LOCK_GRANT_ALIVE_MS;
    for (silent_ms, is_granted) in [(0, true), (attentive_ms, true), (attentive_ms + 1, false)] {
        let first = locks.locked(exclusive("one")).await;
        locks.queue_up(exclusive("two")).await;
        locks.advance_ms(silent_ms);
        locks.release("one").await;
        let lock = locks.lock().await;
        let expected = if is_granted { (1, 0, 0) } else { (0, 1, 1) };
        assert_eq!((lock.holders, lock.waiters, lock.claims), expected, "{silent_ms}");
        assert_eq!(locks.is_had(exclusive("newcomer")).await, !is_granted, "{silent_ms}");
        locks.release("newcomer").await;
        assert!(locks.locked(exclusive("two")).await > first);
        locks.release("two").await;
    }
}

/// Erratum L8.
async fn newcomer_takes_a_reserved_lock_until_its_waiter_has_lost_often_enough(locks: Subject) {
    locks.locked(exclusive("holder")).await;
    locks.queue_up(exclusive("waiter")).await;
    // A lock is reserved for the waiter of a process that has not attended lately.
    locks.advance_ms(LOCK_SLICE_MS - LOCK_GRANT_ALIVE_MS + 1);
    for number in 0..LOCK_LOSSES_MAX {
        locks.release(if number == 0 { "holder" } else { "newcomer" }).await;
        assert!(locks.is_had(exclusive("newcomer")).await, "{number}");
    }
    locks.release("newcomer").await;
    assert_eq!(locks.queue_up(exclusive("newcomer")).await.0, 1, "it was granted to the waiter");
    locks.locked(exclusive("waiter")).await;
}

/// Erratum L8.
async fn fair_newcomer_never_overtakes(locks: Subject) {
    locks.locked(fair("t0")).await;
    for number in 1..10 {
        assert_eq!(locks.queue_up(fair(&format!("t{number}"))).await.0, number);
    }
    for number in 1..10 {
        locks.release(&format!("t{}", number - 1)).await;
        assert!(!locks.is_had(fair("newcomer")).await);
        locks.locked(fair(&format!("t{number}"))).await;
    }
}

/// Erratum L8.
async fn no_newcomer_takes_a_lock_from_a_fair_waiter(locks: Subject) {
    // Less than a slice cannot be granted to a waiter, so the lock is reserved.
    let brief = AcquireLock { ttl_ms: LOCK_SLICE_MS - 1, ..fair("two") };
    let cut_off = AcquireLock { max_hold_ms: Some(LOCK_SLICE_MS - 1), ..fair("two") };
    for (number, waiter) in [brief, cut_off, fair("two")].into_iter().enumerate() {
        locks.locked(exclusive("one")).await;
        locks.queue_up(waiter.clone()).await;
        locks.release("one").await;
        let is_reserved = u64::from(number < 2);
        let lock = locks.lock().await;
        assert_eq!((lock.claims, lock.holders), (is_reserved, 1 - is_reserved));
        assert!(!locks.is_had(exclusive("newcomer")).await);
        locks.locked(waiter).await;
        locks.release("two").await;
    }
}

/// Erratum L6.
async fn waiter_that_was_granted_the_lock_acquires_it_with_the_same_fence(locks: Subject) {
    let first = locks.locked(fair("one")).await;
    locks.queue_up(AcquireLock { max_hold_ms: Some(7000), ..fair("two") }).await;
    locks.release("one").await;
    let lock = locks.lock().await;
    assert_eq!((lock.holders, lock.waiters, lock.claims), (1, 0, 0));
    let granted = &lock.held_by[0];
    assert_eq!((granted.holder.to_string(), granted.mode), ("holder two".into(), LockMode::Exclusive));
    assert_eq!(granted.remaining_us, LOCK_SLICE_MS * 1000);
    assert!(granted.fence > first);
    locks.advance_ms(LOCK_SLICE_MS - 1);
    for passed_ms in [0, 1000] {
        locks.advance_ms(passed_ms);
        let remaining_us = (TTL_MS - passed_ms) * 1000;
        let held = locks.acquire(fair("two")).await;
        assert_eq!(held, LockAcquired::Held { fence: granted.fence, remaining_us }, "it is extended once");
    }
    let rest_us = (7000 - LOCK_SLICE_MS + 1 - 1000) * 1000;
    assert_eq!(locks.renew("two", 9000).await, LockRenewal::Renewed { remaining_us: rest_us });
}

async fn readers_share_a_lock_and_queue_behind_a_waiting_writer(locks: Subject) {
    locks.locked(reader("r1")).await;
    locks.locked(reader("r2")).await;
    locks.queue_up(writer("w")).await;
    locks.queue_up(reader("r3")).await;
    locks.queue_up(reader("r4")).await;
    locks.release("r1").await;
    assert_eq!((locks.lock().await.claims, locks.lock().await.kind), (0, LockKind::ReadWrite));
    locks.release("r2").await;
    assert_eq!(locks.attend("w").await, ["w"]);
    locks.locked(writer("w")).await;
    locks.release("w").await;
    assert_eq!(locks.lock().await.claims, 2);
    locks.locked(reader("r4")).await;
    locks.locked(reader("r3")).await;
}

async fn writer_displaces_all_reserved_readers(locks: Subject) {
    locks.locked(writer("w")).await;
    for token in ["r1", "r2", "r3"] {
        locks.queue_up(reader(token)).await;
    }
    locks.release("w").await;
    assert_eq!(locks.lock().await.claims, 3);
    assert!(locks.is_had(writer("newcomer")).await);
    let lock = locks.lock().await;
    assert_eq!((lock.holders, lock.claims, lock.waiters), (1, 0, 3));
    locks.release("newcomer").await;
    assert_eq!(locks.lock().await.claims, 3);
}

async fn semaphore_has_as_many_holders_as_permits(locks: Subject) {
    locks.locked(permit(2, "one")).await;
    locks.locked(permit(2, "two")).await;
    locks.queue_up(permit(2, "three")).await;
    locks.release("one").await;
    assert_eq!(locks.attend("three").await, ["three"]);
    assert!(locks.is_had(permit(2, "newcomer")).await, "it displaces the waiter");
    assert_eq!(locks.attend("three").await, [""; 0]);
    locks.queue_up(permit(2, "four")).await;
    locks.release("newcomer").await;
    assert!(!locks.is_had(permit(2, "newcomer")).await, "another waiter is in front");
    locks.release("two").await;
    let lock = locks.lock().await;
    assert_eq!((lock.holders, lock.claims, lock.waiters), (0, 2, 2));
    locks.locked(permit(2, "three")).await;
    locks.locked(permit(2, "four")).await;
}

async fn lock_in_use_refuses_another_kind(locks: Subject) {
    locks.locked(permit(2, "one")).await;
    let in_use = LockKind::Semaphore { permits: 2 };
    for (command, wanted) in [
        (exclusive("two"), LockKind::Exclusive),
        (reader("two"), LockKind::ReadWrite),
        (permit(3, "two"), LockKind::Semaphore { permits: 3 }),
    ] {
        let refused = locks.acquire(command).await;
        assert_eq!(refused, LockAcquired::Refused(LockRefusal::OtherKind { in_use, wanted }));
    }
    locks.release("one").await;
    locks.locked(exclusive("two")).await;
}

async fn lock_stays_free_for_its_delay_after_a_lease_that_ran_out(locks: Subject) {
    locks.locked(AcquireLock { lock_delay_ms: 2000, ..exclusive("one") }).await;
    locks.advance_ms(TTL_MS + 100);
    let busy = locks.acquire(AcquireLock { wait: false, ..exclusive("two") }).await;
    let expected = Blocked { holder: None, waiters: 0, changes_in_us: 1_900_000 };
    assert_eq!(busy, LockAcquired::Busy(expected));
    assert_eq!(locks.lock().await.delay_us, 1_900_000);
    locks.advance_ms(1900);
    // A release has no delay, and the lock may have another kind now.
    locks.locked(AcquireLock { lock_delay_ms: 2000, ..reader("two") }).await;
    locks.release("two").await;
    locks.locked(exclusive("three")).await;
}

/// Erratum L2.
async fn waiters_of_a_process_that_is_gone_are_skipped(locks: Subject) {
    locks.locked(exclusive("holder")).await;
    for number in 0..200 {
        let process = process_id("gone");
        locks.queue_up(AcquireLock { process, ..exclusive(&format!("t{number}")) }).await;
    }
    locks.advance_ms(LOCK_SLICE_MS);
    locks.queue_up(brief("alive")).await;
    locks.release("holder").await;
    locks.sweep_locks().await;
    assert_eq!(locks.attend("alive").await, ["alive"]);
    assert_eq!(locks.lock().await.waiters, 1);
}

async fn token_with_another_mode_begins_a_new_acquisition(locks: Subject) {
    locks.locked(writer("w")).await;
    assert_eq!(locks.queue_up(writer("one")).await.0, 1);
    assert_eq!(locks.queue_up(reader("two")).await.0, 2);
    assert_eq!(locks.queue_up(reader("one")).await.0, 2);
    assert_eq!(locks.lock().await.waiters, 2);
}

async fn names_and_tokens_may_have_any_characters(locks: Subject) {
    for name in ["a b", "%", "%3A", "좌석:1", "release:x", "{0}:x"] {
        for token in ["t:1", "50%", "열쇠"] {
            let fence = locks.locked(exclusive_of(name, token)).await;
            let lock = locks.find_lock(name).await.expect("it is held");
            assert_eq!((lock.name.to_string(), lock.held_by[0].fence), (name.to_owned(), fence));
            locks.queue_up(AcquireLock { name: lock_name(name), ..brief("w:%") }).await;
            assert_eq!(locks.release_of(name, token).await, LockReleased::Released);
            assert_eq!(locks.attend("w:%").await, ["w:%"]);
            assert_eq!(locks.release_of(name, "w:%").await, LockReleased::Withdrawn);
            locks.locked(exclusive_of(name, token)).await;
            locks.queue_up(exclusive_of(name, "g:%")).await;
            assert_eq!(locks.release_of(name, token).await, LockReleased::Released);
            let lock = locks.find_lock(name).await.expect("it is granted");
            assert_eq!((lock.holders, lock.held_by[0].holder.to_string()), (1, "holder g:%".to_owned()));
            assert_eq!(locks.attend("g:%").await, ["g:%"]);
            assert_eq!(locks.release_of(name, "g:%").await, LockReleased::Released);
        }
    }
    assert_eq!(locks.sweep_locks().await.next_in_us, None);
}

async fn arguments_out_of_range_are_invalid(locks: Subject) {
    for command in [
        AcquireLock { ttl_ms: LOCK_TTL_MS_MIN - 1, ..exclusive("t") },
        AcquireLock { ttl_ms: LOCK_TTL_MS_MAX + 1, ..exclusive("t") },
        AcquireLock { lock_delay_ms: LOCK_DELAY_MS_MAX + 1, ..exclusive("t") },
        AcquireLock { max_hold_ms: Some(LOCK_HOLD_MS_MAX + 1), ..exclusive("t") },
        permit(0, "t"),
        permit(LOCK_PERMITS_MAX + 1, "t"),
    ] {
        let refused = locks.engine.call(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
    let longest =
        AcquireLock { ttl_ms: LOCK_TTL_MS_MAX, max_hold_ms: Some(LOCK_HOLD_MS_MAX), ..exclusive("t") };
    locks.locked(longest).await;
}
