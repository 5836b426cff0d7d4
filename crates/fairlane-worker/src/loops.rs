//! The background loops of a queue, one file each.
//!
//! - `loops/dispatcher.rs`: returns due jobs to their lanes, and admits jobs in `classic`.
//! - `loops/reclaimer.rs`: reclaims expired leases.
//! - `loops/watcher.rs`: reports bulk actions without progress and types without a worker.
//! - `loops/aggregator.rs`: summarises ended bulk actions.
//! - `loops/janitor.rs`: sweeps dropped, resumed, overdue and expired items.
//! - `loops/room_keeper.rs`: brings waiting rooms up to date, one process at a time.
//!
//! Every loop may run in every process: each step is one operation that the engine carries out
//! once. Rounds are jittered, so that processes started together do not act together. A loop that
//! fails reports the error and retries.

mod aggregator;
mod dispatcher;
mod janitor;
mod reclaimer;
mod room_keeper;
mod watcher;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fairlane_engine::EngineError;
use metrics::counter;
use tokio::task::JoinHandle;

use crate::names::LOOP_RUNS;
use crate::pool::Shared;
pub(crate) use watcher::SeenBulks;

/// Relative jitter: a round starts earlier or later than its interval by up to this fraction of it.
const JITTER: f64 = 0.2;

/// When a loop runs its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// At once: there is more to do.
    More,
    /// At the next interval.
    Rest,
    /// At the next interval, or when something is due.
    RestAtMost(Duration),
}

pub(crate) fn start(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(dispatcher::run(shared.clone())),
        tokio::spawn(reclaimer::run(shared.clone())),
        tokio::spawn(watcher::run(shared.clone())),
        tokio::spawn(aggregator::run(shared.clone())),
        tokio::spawn(janitor::run(shared.clone())),
        tokio::spawn(room_keeper::run(shared.clone())),
    ]
}

/// Runs `step` once per interval, and again at once while it returns [`Pace::More`], until the
/// worker stops.
async fn rounds<'a, S, F>(shared: &'a Shared, name: &'static str, interval: Duration, mut step: S)
where
    S: FnMut() -> F,
    F: Future<Output = Result<Pace, EngineError>> + 'a,
{
    let mut pause = interval;
    loop {
        if !sleep_interval(shared, pause).await {
            return;
        }
        pause = loop {
            match one_round(shared, name, step()).await {
                Pace::More if !shared.stopping.is_cancelled() => {}
                Pace::RestAtMost(due_in) => break interval.min(due_in),
                Pace::More | Pace::Rest => break interval,
            }
        };
    }
}

/// Runs one step, counts it and reports its error.
async fn one_round(
    shared: &Shared,
    name: &'static str,
    step: impl Future<Output = Result<Pace, EngineError>>,
) -> Pace {
    let (pace, result) = match step.await {
        Ok(pace) => {
            shared.outage.replied();
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

/// Sleeps for the jittered interval; false if the worker stops.
async fn sleep_interval(shared: &Shared, interval: Duration) -> bool {
    let jittered = interval.mul_f64(1.0 - JITTER + fastrand::f64() * 2.0 * JITTER);
    tokio::select! {
        biased;
        _ = shared.stopping.cancelled() => false,
        _ = tokio::time::sleep(jittered) => true,
    }
}
