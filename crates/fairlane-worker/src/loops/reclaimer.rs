//! Takes back leases that ran out: their workers died, or could not be reached for too long.

use std::sync::Arc;

use fairlane_core::limits::RECLAIM_JOBS_MAX;
use fairlane_core::queue::Reclaim;

use super::{Pace, rounds};
use crate::pool::{Shared, TARGET};

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.reclaim_interval;
    let engine = &shared.engine;
    rounds(&shared, "reclaimer", interval, || async {
        let reclaimed = engine.reclaim(Reclaim { jobs_max: RECLAIM_JOBS_MAX }).await?;
        let taken = reclaimed.recovered + reclaimed.dead + reclaimed.cancelled;
        if taken > 0 {
            let (recovered, dead) = (reclaimed.recovered, reclaimed.dead);
            tracing::warn!(target: TARGET, recovered, dead, "leases ran out and were taken back");
        }
        Ok(if taken >= RECLAIM_JOBS_MAX { Pace::More } else { Pace::Rest })
    })
    .await;
}
