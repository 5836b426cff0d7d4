//! Sweeps: clears held and cancelled jobs from the heads of lanes, returns jobs of resumed bulk
//! actions, fails overdue bulk actions, and removes what is past its retention. Each step is small
//! enough not to delay leases noticeably. Locks, waiting rooms and boards are swept in the same round:
//! leases and places whose time is over end, old windows are removed, old events forgotten.
//!
//! While there is more to sweep, the janitor sleeps after each step for as long as the step took.
//! So the janitors of all processes together leave the engine time for other work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::{SWEEP_BOARDS_MAX, SWEEP_JOBS_MAX, SWEEP_LOCKS_MAX, SWEEP_ROOMS_MAX};
use fairlane_core::lock::SweepLocks;
use fairlane_core::queue::Sweep;
use fairlane_core::ranking::SweepBoards;
use fairlane_core::room::SweepRooms;

use super::{Pace, rounds};
use crate::pool::{Shared, TARGET};

/// Longest pause between two steps while there is more to sweep.
const STEP_PAUSE_MAX: Duration = Duration::from_millis(50);

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.sweep_interval;
    let shared = &*shared;
    rounds(shared, "janitor", interval, || async {
        let started = Instant::now();
        let swept = shared.engine.call(Sweep { jobs_max: SWEEP_JOBS_MAX }).await?;
        if swept.overdue > 0 {
            tracing::warn!(target: TARGET, bulk_actions = swept.overdue, "bulk actions missed their deadline");
        }
        if swept.dropped > 0 || swept.overdue > 0 {
            shared.bulk_progress.notify_one();
        }
        let locks = shared.engine.call(SweepLocks { locks_max: SWEEP_LOCKS_MAX }).await?.next_in_us;
        let rooms = shared.engine.call(SweepRooms { rooms_max: SWEEP_ROOMS_MAX }).await?.next_in_us;
        let boards = shared.engine.call(SweepBoards { boards_max: SWEEP_BOARDS_MAX }).await?.next_in_us;
        let due_in = [locks, rooms, boards].into_iter().flatten().min();
        if !swept.more && due_in != Some(0) {
            return Ok(due_in.map_or(Pace::Rest, |us| Pace::RestAtMost(Duration::from_micros(us))));
        }
        tokio::time::sleep(started.elapsed().min(STEP_PAUSE_MAX)).await;
        Ok(Pace::More)
    })
    .await;
}
