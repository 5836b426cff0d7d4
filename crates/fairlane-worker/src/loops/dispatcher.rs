//! Returns due jobs to their lanes, and admits jobs to the ready lists in `classic`.
//!
//! In `share` each lease returns due jobs itself and there is nothing to admit. The dispatcher then
//! only polls, so that due jobs are returned also while no worker leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::ADMIT_JOBS_MAX;
use fairlane_core::queue::{Admit, Promote};
use fairlane_engine::EngineError;

use super::{Pace, one_round, sleep_interval};
use crate::pool::Shared;

/// The polling interval in `share`.
const SHARE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(shared: Arc<Shared>) {
    let (mut classic, mut admitted) = (false, Instant::now());
    let settings = &shared.settings.loops;
    loop {
        // Without a reply the discipline is taken to be unchanged.
        classic = shared.is_classic().await.unwrap_or(classic);
        if !sleep_interval(&shared, if classic { settings.dispatch_interval } else { SHARE_INTERVAL }).await {
            return;
        }
        while one_round(&shared, "dispatcher", promote(&shared)).await == Pace::More
            && !shared.stopping.is_cancelled()
        {}
        if classic && admitted.elapsed() >= settings.fetch_interval {
            admitted = Instant::now();
            while one_round(&shared, "fetcher", admit(&shared)).await == Pace::More
                && !shared.stopping.is_cancelled()
            {}
        }
    }
}

async fn promote(shared: &Shared) -> Result<Pace, EngineError> {
    let jobs_max = shared.settings.loops.dispatch_batch_size;
    let promoted = shared.engine.call(Promote { jobs_max }).await?;
    Ok(if promoted.moved == jobs_max { Pace::More } else { Pace::Rest })
}

async fn admit(shared: &Shared) -> Result<Pace, EngineError> {
    let admitted = shared.engine.call(Admit { jobs_max: ADMIT_JOBS_MAX }).await?;
    // A round without admissions would decide nothing if it ran again, even if there are more jobs.
    Ok(if admitted.more && !admitted.admissions.is_empty() { Pace::More } else { Pace::Rest })
}
