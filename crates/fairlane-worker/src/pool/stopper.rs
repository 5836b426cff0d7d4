//! Stops attempts: those that were requested to stop, and those that have timed out.
//!
//! Timeouts take one timer for all attempts, set to the first deadline of those that run. A new
//! attempt has a later deadline than the shortest timeout from now, which is the longest pause.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::{Shared, attempt};
use crate::context::{CancelReason, Context};

pub(crate) type StopRequests = mpsc::UnboundedReceiver<Context>;

/// Stop requests taken at once.
const REQUESTS_MAX: usize = 1000;
/// Active jobs per millisecond between two scans of them: many jobs with deadlines close to each
/// other time out together, a little late.
const JOBS_PER_MS: usize = 1000;

/// Stops attempts until the worker has stopped.
pub(crate) async fn stop_attempts(shared: Arc<Shared>, mut requests: StopRequests) {
    let (mut requested, mut scan_at) = (Vec::new(), None);
    loop {
        tokio::select! {
            _ = shared.stopped.cancelled() => return,
            count = requests.recv_many(&mut requested, REQUESTS_MAX) => {
                if count == 0 {
                    return; // The worker has no types.
                }
                for context in requested.drain(..) {
                    tokio::spawn(attempt::stop(shared.clone(), context));
                }
            }
            () = next_scan(&shared, scan_at) => scan_at = cancel_overdue(&shared),
        }
    }
}

async fn next_scan(shared: &Shared, scan_at: Option<Instant>) {
    match scan_at {
        Some(scan_at) => sleep_until(scan_at).await,
        None => shared.active_jobs.filled().await,
    }
}

/// Requests attempts that have timed out to stop. Returns the time of the next scan; `None` if no
/// job is active.
fn cancel_overdue(shared: &Shared) -> Option<Instant> {
    let now = Instant::now();
    let (overdue, next) = shared.active_jobs.overdue(now);
    overdue.iter().for_each(|context| context.cancel(CancelReason::TimedOut));
    let jobs = shared.active_jobs.len();
    let least = Duration::from_millis(1 + (jobs / JOBS_PER_MS) as u64);
    let latest = now + shared.shortest_timeout;
    (jobs > 0).then(|| next.map_or(latest, |next| next.min(latest)).max(now + least))
}
