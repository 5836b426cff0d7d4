//! Renews the leases of what is in hand, and hears who is to stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::Fence;
use fairlane_core::limits::EXTEND_JOBS_MAX;
use fairlane_core::queue::{Extend, Extension, JobRef};

use tokio::time::timeout;

use super::Shared;

/// Leases are renewed when a third of them has passed, so that two renewals may fail; and looked at four times
/// as often, so that none waits much longer.
const LOOKS: u32 = 4;
const THIRDS: u32 = 3;

/// Beats until the worker has stopped.
pub(crate) async fn beat(shared: Arc<Shared>) {
    let due = shared.settings.lease / THIRDS;
    let pause = (due / LOOKS).max(Duration::from_millis(5));
    loop {
        tokio::select! {
            _ = shared.stopped.cancelled() => return,
            _ = tokio::time::sleep(pause.mul_f64(0.8 + fastrand::f64() * 0.2)) => {}
        }
        // A pool that was dropped has nobody who waits for its end; this is it.
        let takes_no_more = shared.stopping.is_cancelled() && shared.fetched.is_cancelled();
        if takes_no_more && shared.in_hand.len() == 0 {
            return shared.stopped.cancel();
        }
        let old = shared.in_hand.older_than(due.saturating_sub(pause));
        for leases in old.chunks(EXTEND_JOBS_MAX) {
            renew(&shared, leases.to_vec()).await;
        }
    }
}

async fn renew(shared: &Shared, leases: Vec<(JobRef, Fence)>) {
    let sent = Instant::now();
    let command = Extend { leases: leases.clone(), lease_ms: shared.lease_ms() };
    // An answer that takes longer would keep the next leases waiting; a renewal may be repeated.
    let answer = timeout(shared.settings.lease / THIRDS, shared.engine.extend(command)).await;
    let extended = match answer {
        Ok(Ok(extended)) => extended,
        Ok(Err(error)) => return shared.outage.failed("renewing leases", &error),
        Err(_) => return,
    };
    shared.outage.over();
    for ((job, fence), extension) in leases.iter().zip(extended.extensions) {
        match extension {
            Extension::Until(_) => shared.in_hand.renewed(job, *fence, sent),
            Extension::Cancelled(_) => {
                shared.in_hand.renewed(job, *fence, sent);
                shared.in_hand.cancel(job, *fence);
            }
            // It may just as well have been settled a moment ago; then nobody listens.
            Extension::Lost => shared.in_hand.lost(job, *fence),
        }
    }
}
