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
];

async fn attended_waiters_stay_and_others_leave(locks: Subject) {
    locks.locked(AcquireLock { ttl_ms: 60_000, ..exclusive("one") }).await;
    locks.queue_up(exclusive("gone")).await;
    locks.queue_up(exclusive("stays")).await;
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
    locks.queue_up(exclusive("two")).await;
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
