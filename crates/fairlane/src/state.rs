//! The state of a queue for operators: its counts, its types and warnings.

use fairlane_core::TypeId;
use fairlane_core::limits::WORKER_SILENCE_MS;
use fairlane_core::queue::{InspectType, QueueView, TypeView};
use fairlane_engine::Clock;

use crate::error::Error;
use crate::fairlane::Fairlane;

/// The queue is reported as nearly full from this percentage of its limit.
const NEARLY_FULL: u64 = 90;

/// The state of a queue: what `fairlane status`, `fairlane top` and `/api/status` show.
#[derive(Debug, Clone)]
pub struct QueueState {
    /// The kind of engine.
    pub engine: &'static str,
    /// Its settings and counts.
    pub queue: QueueView,
    /// Its types, by name.
    pub types: Vec<(TypeId, TypeView)>,
    /// Warnings, a sentence each: what weakens the guarantees of its store, types that have jobs
    /// and no worker, a queue that is nearly full.
    pub warnings: Vec<String>,
}

impl Fairlane {
    /// The settings and counts of the queue with its types and warnings.
    pub async fn state(&self) -> Result<QueueState, Error> {
        let queue = self.queue_view().await?;
        let mut types = Vec::with_capacity(queue.types.len());
        for type_id in &queue.types {
            if let Some(view) = self.engine().call(InspectType { type_id: type_id.clone() }).await? {
                types.push((type_id.clone(), view));
            }
        }
        let info = self.engine().info();
        let mut warnings = info.warnings;
        warnings.extend(unattended_types(&queue, &types));
        warnings.extend(nearly_full(&queue));
        Ok(QueueState { engine: info.name, queue, types, warnings })
    }
}

impl QueueState {
    /// Responses of all downstreams in the last second.
    pub fn answers_last_second(&self) -> u64 {
        self.types.iter().map(|(_, view)| view.answers).sum()
    }
}

fn unattended_types(queue: &QueueView, types: &[(TypeId, TypeView)]) -> impl Iterator<Item = String> {
    let is_unattended = |view: &TypeView| {
        let has_jobs = view.ready > 0 || view.active_lanes.iter().sum::<u64>() > 0;
        // Measured with this machine's clock, which is close to that of the engine.
        let silence_us = view.asked_at.map(|asked_at| Clock::System.now().since(asked_at));
        let is_attended = silence_us.is_some_and(|us| us <= WORKER_SILENCE_MS * 1000);
        // A lane keeps a cancelled job until a lease removes it.
        has_jobs && queue.backlog > 0 && !is_attended && !view.settings.paused
    };
    types
        .iter()
        .filter(move |(_, view)| is_unattended(view))
        .map(|(name, _)| format!("jobs of type {name} are waiting, but no worker requests them"))
}

fn nearly_full(queue: &QueueView) -> impl Iterator<Item = String> {
    let is_nearly =
        |used: u64, most: u64| u128::from(used) * 100 >= u128::from(most) * u128::from(NEARLY_FULL);
    let (backlog, backlog_max) = (queue.backlog, queue.settings.queue_backlog_max);
    let jobs = is_nearly(backlog, backlog_max)
        .then(|| format!("the queue is nearly full: {backlog} of {backlog_max} jobs"));
    let (bytes, bytes_max) = (queue.stored_bytes, queue.settings.stored_bytes_max);
    let stored = is_nearly(bytes, bytes_max).then(|| {
        format!("the queue is nearly full: {bytes} of {bytes_max} stored bytes, finished jobs included")
    });
    jobs.into_iter().chain(stored)
}
