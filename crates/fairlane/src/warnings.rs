//! Warnings about the state of a queue, shown by `fairlane status`, `fairlane top` and
//! `/api/status`.

use fairlane_core::TypeId;
use fairlane_core::limits::WORKER_SILENCE_MS;
use fairlane_core::queue::{QueueView, TypeView};
use fairlane_engine::Clock;

/// The queue is reported as nearly full from this percentage of its limit.
const NEARLY_FULL: u64 = 90;

/// Warnings about a queue, a sentence each: types that have jobs and no worker, and a queue that is
/// nearly full. Warnings about its store are in [`EngineInfo`](crate::EngineInfo).
pub fn warnings_of<'a>(
    queue: &QueueView,
    types: impl IntoIterator<Item = (&'a TypeId, &'a TypeView)>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (type_id, view) in types {
        let has_jobs = view.ready > 0 || view.active_lanes.iter().sum::<u64>() > 0;
        // This machine's clock; that of the engine is close to it.
        let silence_us = view.asked_at.map(|asked_at| Clock::System.now().since(asked_at));
        let is_attended = silence_us.is_some_and(|us| us <= WORKER_SILENCE_MS * 1000);
        // A lane keeps a cancelled job until a lease removes it.
        let is_waited_for = has_jobs && queue.backlog > 0;
        if is_waited_for && !is_attended && !view.settings.paused {
            warnings.push(format!("no worker asks for jobs of the type {type_id}, and some wait"));
        }
    }
    let most = queue.settings.whole_backlog_max;
    if queue.backlog.saturating_mul(100) >= most.saturating_mul(NEARLY_FULL) {
        warnings.push(format!("the queue is nearly full: {} of {most} jobs", queue.backlog));
    }
    let (bytes, most) = (queue.stored_bytes, queue.settings.stored_bytes_max);
    if u128::from(bytes) * 100 >= u128::from(most) * u128::from(NEARLY_FULL) {
        warnings.push(format!(
            "the queue is nearly full: {bytes} of {most} stored bytes, finished jobs included"
        ));
    }
    warnings
}
