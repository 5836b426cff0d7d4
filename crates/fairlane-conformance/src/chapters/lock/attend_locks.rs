//! `attend_locks`: keeps the waiters of a process alive, and reports locks reserved for them.

use fairlane_core::limits::LOCK_SLICE_MS;
use fairlane_core::lock::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    attended_waiters_stay_and_others_leave,
    process_learns_of_claims_whose_signal_was_lost,
    claims_are_reported_by_lock_and_token,
    process_learns_of_a_grant_until_it_is_used,
    reply_has_the_time_of_the_store,
];

async fn attended_waiters_stay_and_others_leave(locks: Subject) {
    locks.locked(AcquireLock { ttl_ms: 60_000, ..exclusive("one") }).await;
    locks.queue_up(exclusive("gone")).await;
    locks.queue_up(brief("stays")).await;
    for _ in 0..6 {
        locks.advance_ms(LOCK_SLICE_MS / 3);
        assert_eq!(locks.attend("stays").await, [""; 0]);
    }
    locks.release("one").await;
    assert_eq!(locks.attend("stays").await, ["stays"]);
    assert_eq!(locks.lock().await.waiters, 1);
}

/// Erratum L2.
async fn process_learns_of_claims_whose_signal_was_lost(locks: Subject) {
    locks.locked(exclusive("one")).await;
    locks.queue_up(brief("two")).await;
    locks.release("one").await;
    let command = AttendLocks { process: process_id("two") };
    let attended = locks.engine.call(command.clone()).await.expect("attend_locks is answered");
    let claim = LockClaim { name: lock_name("seat:1"), token: lock_token("two") };
    assert_eq!(attended.claims, [claim]);
    locks.locked(exclusive("two")).await;
    assert_eq!(locks.attend("two").await, [""; 0]);
}

async fn claims_are_reported_by_lock_and_token(locks: Subject) {
    let names = ["a", "a b", "a:1", "ab", "b%"];
    for name in names {
        locks.locked(AcquireLock { name: lock_name(name), ..permit(2, "holder") }).await;
        locks.locked(AcquireLock { name: lock_name(name), ..permit(2, "another") }).await;
        for token in ["z", "y:"] {
            let process = process_id("p");
            locks.queue_up(AcquireLock { name: lock_name(name), process, ..permit(2, token) }).await;
        }
    }
    for name in names {
        locks.release_of(name, "holder").await;
        locks.release_of(name, "another").await;
    }
    let command = AttendLocks { process: process_id("p") };
    let attended = locks.engine.call(command).await.expect("attend_locks is answered");
    let claims: Vec<_> =
        attended.claims.iter().map(|claim| (claim.name.as_str(), claim.token.escaped())).collect();
    let expected: Vec<_> = names.iter().flat_map(|name| [(*name, "y%3A"), (*name, "z")]).collect();
    assert_eq!(claims, expected);
}

/// Erratum L2.
async fn process_learns_of_a_grant_until_it_is_used(locks: Subject) {
    for uses in ["renews", "acquires", "releases", "loses"] {
        locks.locked(fair("one")).await;
        locks.queue_up(fair("two")).await;
        locks.release("one").await;
        // The process has no waiter to keep alive any more, but the signal may have been lost.
        assert_eq!(locks.attend("two").await, ["two"], "{uses}");
        match uses {
            "renews" => drop(locks.renew("two", TTL_MS).await),
            "acquires" => drop(locks.locked(fair("two")).await),
            "releases" => drop(locks.release("two").await),
            _ => {
                locks.advance_ms(LOCK_SLICE_MS);
                assert_eq!(locks.sweep_locks().await.expired, 1);
            }
        }
        assert_eq!(locks.attend("two").await, [""; 0], "{uses}");
        locks.release("two").await;
    }
}

async fn reply_has_the_time_of_the_store(locks: Subject) {
    let time = async || {
        let command = AttendLocks { process: process_id("p") };
        locks.engine.call(command).await.expect("attend_locks is answered").time
    };
    let before = time().await;
    locks.advance_ms(1500);
    assert_eq!(time().await, before.plus_ms(1500));
}
