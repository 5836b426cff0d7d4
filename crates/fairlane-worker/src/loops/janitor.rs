//! Sweeps: the heads of lanes are cleared of held and cancelled jobs, jobs of resumed bulk actions return, overdue
//! bulk actions fail, and what is outlived is removed; in steps so small that leases hardly notice.
//!
//! While there is more to sweep, a step follows the last one after as long as that one took: the janitors of all
//! processes together leave the engine time for everything else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::SWEEP_JOBS_MAX;
use fairlane_core::queue::Sweep;

use super::{Pace, rounds};
use crate::pool::{Shared, TARGET};

/// Longest pause between two steps while there is more to sweep.
const STEP_PAUSE_MAX: Duration = Duration::from_millis(50);

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.sweep_interval;
    let shared = &*shared;
    rounds(shared, "janitor", interval, || async {
        let begun = Instant::now();
        let swept = shared.engine.sweep(Sweep { jobs_max: SWEEP_JOBS_MAX }).await?;
        if swept.overdue > 0 {
            tracing::warn!(target: TARGET, bulk_actions = swept.overdue, "failed by their deadline");
        }
        if swept.dropped > 0 || swept.overdue > 0 {
            shared.bulk_moved.notify_one();
        }
        if !swept.more {
            return Ok(Pace::Rest);
        }
        tokio::time::sleep(begun.elapsed().min(STEP_PAUSE_MAX)).await;
        Ok(Pace::More)
    })
    .await;
}
