//! What runs beside a pool and keeps a queue going, one file each.
//!
//! - `loops/dispatcher.rs`: lets refused and delayed jobs come back, and in `classic` admits jobs.
//! - `loops/reclaimer.rs`: takes back leases that ran out.
//! - `loops/watcher.rs`: reports bulk actions that do not move and types that nobody works on.
//! - `loops/aggregator.rs`: summarises bulk actions that have ended and tells their callbacks.
//! - `loops/janitor.rs`: drops, resumes and forgets; fails what is overdue.
//!
//! Every loop may run in every process: each step is one operation that the engine carries out once. Rounds
//! are spread at random, so that processes started together do not act together. A loop that fails says so
//! and tries again.

mod aggregator;
mod dispatcher;
mod janitor;
mod reclaimer;
mod watcher;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fairlane_engine::EngineError;
use metrics::counter;
use tokio::task::JoinHandle;

use crate::names::LOOP_RUNS;
use crate::pool::Shared;
pub(crate) use watcher::BulksMet;

/// A round comes earlier or later than its interval by up to this part of it.
const JITTER: f64 = 0.2;

/// Whether a loop has more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// At once.
    More,
    /// At the next round.
    Rest,
}

pub(crate) fn start(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(dispatcher::run(shared.clone())),
        tokio::spawn(reclaimer::run(shared.clone())),
        tokio::spawn(watcher::run(shared.clone())),
        tokio::spawn(aggregator::run(shared.clone())),
        tokio::spawn(janitor::run(shared.clone())),
    ]
}

/// Runs `step` each interval, and again at once while it has more to do, until the worker stops.
async fn rounds<'a, S, F>(shared: &'a Shared, name: &'static str, interval: Duration, mut step: S)
where
    S: FnMut() -> F,
    F: Future<Output = Result<Pace, EngineError>> + 'a,
{
    loop {
        if !rest(shared, interval).await {
            return;
        }
        while one_round(shared, name, step()).await == Pace::More && !shared.stopping.is_cancelled() {}
    }
}

/// One step, counted and reported.
async fn one_round(
    shared: &Shared,
    name: &'static str,
    step: impl Future<Output = Result<Pace, EngineError>>,
) -> Pace {
    let (pace, result) = match step.await {
        Ok(pace) => {
            shared.outage.over();
            (pace, "ok")
        }
        Err(error) => {
            shared.outage.failed(name, &error);
            (Pace::Rest, "error")
        }
    };
    counter!(LOOP_RUNS, "loop" => name, "result" => result).increment(1);
    pace
}

/// Waits about an interval; false if the worker stops.
async fn rest(shared: &Shared, interval: Duration) -> bool {
    let about = interval.mul_f64(1.0 - JITTER + fastrand::f64() * 2.0 * JITTER);
    tokio::select! {
        biased;
        _ = shared.stopping.cancelled() => false,
        _ = tokio::time::sleep(about) => true,
    }
}
