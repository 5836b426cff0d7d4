//! Renews the leases of active jobs, and cancels jobs that must stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::EXTEND_JOBS_MAX;
use fairlane_core::queue::{Extend, Extension};

use tokio::time::timeout;

use super::Shared;
use crate::context::{CancelReason, Context};

/// Renewals per lease, so that two renewals may fail.
const RENEWALS_PER_LEASE: u32 = 3;
/// Checks per renewal, so that no lease is renewed much later than due.
const CHECKS_PER_RENEWAL: u32 = 4;

/// Renews leases until the worker has stopped.
pub(crate) async fn beat(shared: Arc<Shared>) {
    let due = shared.settings.lease / RENEWALS_PER_LEASE;
    let pause = (due / CHECKS_PER_RENEWAL).max(Duration::from_millis(5));
    loop {
        tokio::select! {
            _ = shared.stopped.cancelled() => return,
            _ = tokio::time::sleep(pause.mul_f64(0.8 + fastrand::f64() * 0.2)) => {}
        }
        // No stop waits for a dropped pool, so its end is detected here.
        let leases_no_more = shared.stopping.is_cancelled() && shared.fetched.is_cancelled();
        if leases_no_more && shared.active_jobs.len() == 0 {
            return shared.stopped.cancel();
        }
        let old = shared.active_jobs.older_than(due.saturating_sub(pause));
        for contexts in old.chunks(EXTEND_JOBS_MAX) {
            renew(&shared, contexts).await;
        }
    }
}

async fn renew(shared: &Shared, contexts: &[Context]) {
    let sent = Instant::now();
    let leases = contexts.iter().map(|context| (context.job().clone(), context.fence())).collect();
    let command = Extend { leases, lease_ms: shared.lease_ms() };
    // A slower reply would delay the next renewals, and a renewal is idempotent.
    let reply = timeout(shared.settings.lease / RENEWALS_PER_LEASE, shared.engine.call(command)).await;
    let extended = match reply {
        Ok(Ok(extended)) => extended,
        Ok(Err(error)) => return shared.outage.failed("renewing leases", &error),
        Err(_) => return,
    };
    shared.outage.replied();
    for (context, extension) in contexts.iter().zip(extended.extensions) {
        match extension {
            Extension::Until(_) => shared.active_jobs.renewed(context, sent),
            Extension::Cancelled(_) => {
                shared.active_jobs.renewed(context, sent);
                context.cancel(CancelReason::Cancelled);
            }
            // The job may also have been settled a moment ago; then it is no longer active.
            Extension::Lost => shared.active_jobs.lost(context),
        }
    }
}
