//! Reclaims expired leases: their workers died, or were unreachable for too long.

use std::sync::Arc;

use fairlane_core::limits::RECLAIM_JOBS_MAX;
use fairlane_core::queue::Reclaim;

use super::{Pace, rounds};
use crate::pool::{Shared, TARGET};

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.reclaim_interval;
    let engine = &shared.engine;
    rounds(&shared, "reclaimer", interval, || async {
        let reclaimed = engine.call(Reclaim { jobs_max: RECLAIM_JOBS_MAX }).await?;
        let total = reclaimed.recovered + reclaimed.dead + reclaimed.cancelled;
        if total > 0 {
            let (recovered, dead) = (reclaimed.recovered, reclaimed.dead);
            tracing::warn!(target: TARGET, recovered, dead, "expired leases were reclaimed");
        }
        Ok(if total >= RECLAIM_JOBS_MAX { Pace::More } else { Pace::Rest })
    })
    .await;
}
