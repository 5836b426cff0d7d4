//! Sweeps: jobs of cancelled bulk actions are dropped, those of resumed ones return, overdue bulk actions fail,
//! and what is outlived is removed; in steps so small that leases hardly notice.

use std::sync::Arc;

use fairlane_core::limits::SWEEP_JOBS_MAX;
use fairlane_core::queue::Sweep;

use super::{Pace, rounds};
use crate::pool::{Shared, TARGET};

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.sweep_interval;
    let shared = &*shared;
    rounds(shared, "janitor", interval, || async {
        let swept = shared.engine.sweep(Sweep { jobs_max: SWEEP_JOBS_MAX }).await?;
        if swept.overdue > 0 {
            tracing::warn!(target: TARGET, bulk_actions = swept.overdue, "failed by their deadline");
        }
        if swept.dropped > 0 || swept.overdue > 0 {
            shared.bulk_moved.notify_one();
        }
        // Others' commands come in between.
        tokio::task::yield_now().await;
        Ok(if swept.more { Pace::More } else { Pace::Rest })
    })
    .await;
}
