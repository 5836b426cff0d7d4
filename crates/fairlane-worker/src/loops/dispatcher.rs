//! Lets jobs come back whose time has come, and in `classic` admits jobs to the ready lists.
//!
//! In `share` each lease does the first itself and there is nothing to admit; the dispatcher then only looks
//! now and again, so that what is due is seen also while nobody leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::ADMIT_JOBS_MAX;
use fairlane_core::queue::{Admit, Promote};
use fairlane_engine::EngineError;

use super::{Pace, one_round, rest};
use crate::pool::Shared;

/// How often `share` looks.
const SHARE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(shared: Arc<Shared>) {
    let (mut classic, mut admitted) = (false, Instant::now());
    let settings = &shared.settings.loops;
    loop {
        // Unanswered, it is as it was.
        classic = shared.is_classic().await.unwrap_or(classic);
        if !rest(&shared, if classic { settings.dispatch_interval } else { SHARE_INTERVAL }).await {
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
    let promoted = shared.engine.promote(Promote { jobs_max }).await?;
    Ok(if promoted.moved == jobs_max { Pace::More } else { Pace::Rest })
}

async fn admit(shared: &Shared) -> Result<Pace, EngineError> {
    let admitted = shared.engine.admit(Admit { jobs_max: ADMIT_JOBS_MAX }).await?;
    // Where nothing was decided there is nothing to decide now, whatever else may be.
    Ok(if admitted.more && !admitted.admissions.is_empty() { Pace::More } else { Pace::Rest })
}
