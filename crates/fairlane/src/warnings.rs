//! What somebody should know of a queue: what `fairlane status`, `fairlane top` and a server's `/api/status` say.

use fairlane_core::TypeId;
use fairlane_core::limits::WORKER_SILENCE_MS;
use fairlane_core::queue::{TypeView, WholeView};
use fairlane_engine::Clock;

/// Of the backlog that is allowed, in percent, from which on it is spoken of.
const NEARLY_FULL: u64 = 90;

/// What somebody should know of a queue that stands like this, a sentence each: its types that have jobs and no worker,
/// and whether it is nearly full. What weakens its store says [`Engine::warnings`](crate::Engine::warnings).
pub fn warnings_of<'a>(
    whole: &WholeView,
    types: impl IntoIterator<Item = (&'a TypeId, &'a TypeView)>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (type_id, view) in types {
        let has_jobs = view.ready > 0 || view.active_lanes.iter().sum::<u64>() > 0;
        // The clock of this machine; engines have their own, which is near it.
        let silence_us = view.asked_at.map(|asked_at| Clock::System.now().since(asked_at));
        let is_attended = silence_us.is_some_and(|us| us <= WORKER_SILENCE_MS * 1000);
        // A lane keeps a job that was cancelled until a lease meets it.
        let is_waited_for = has_jobs && whole.backlog > 0;
        if is_waited_for && !is_attended && !view.settings.paused {
            warnings.push(format!("no worker asks for jobs of the type {type_id}, and some wait"));
        }
    }
    let most = whole.settings.whole_backlog_max;
    if whole.backlog.saturating_mul(100) >= most.saturating_mul(NEARLY_FULL) {
        warnings.push(format!("the queue is nearly full: {} of {most} jobs", whole.backlog));
    }
    let (bytes, most) = (whole.stored_bytes, whole.settings.stored_bytes_max);
    if u128::from(bytes) * 100 >= u128::from(most) * u128::from(NEARLY_FULL) {
        warnings.push(format!(
            "the queue is nearly full: {bytes} of {most} stored bytes, finished jobs included"
        ));
    }
    warnings
}
