//! The state of the queue.

use serde::Serialize;

use super::TypeView;
#[cfg(feature = "openapi")]
use super::schema;
use crate::rate::rate_text;
use crate::state::QueueState;

/// The state of the queue: counts over all groups and types, and what operators should know.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Queue))]
pub struct QueueView {
    /// The kind of engine, where the state lives.
    #[cfg_attr(feature = "openapi", schema(example = "redis"))]
    pub engine: &'static str,
    /// The discipline: the rules for order, gate and denial.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::disciplines))]
    pub discipline: &'static str,
    /// The rate of all types together; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "1000/s"))]
    pub rate: Option<String>,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Of these, jobs that must not run yet.
    pub waiting: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Completed and cancelled jobs that are kept and belong to no bulk action.
    pub completed: u64,
    /// Dead jobs that are kept.
    pub dead: u64,
    /// Jobs that have succeeded since the queue was made, including those of bulk actions and those
    /// that are no longer kept.
    pub succeeded_total: u64,
    /// Times that a job has become dead since the queue was made.
    pub dead_total: u64,
    /// Stored bytes, including finished jobs: payloads and results of jobs, payloads and summaries
    /// of bulk actions.
    pub stored_bytes: u64,
    /// The stored bytes at which every enqueue is refused.
    pub stored_bytes_max: u64,
    /// Groups with unfinished jobs.
    pub active_groups: u64,
    /// Lanes in order, by level, over all types.
    pub active_lanes: LaneCounts,
    /// Lanes whose group's rate is used up.
    pub parked_lanes: u64,
    /// Complete bulk actions that wait for aggregation or are being aggregated.
    pub aggregating: u64,
    /// Bulk actions with dropped or resumed jobs to be swept.
    pub sweeping: u64,
    /// Useless attempts that backoff has avoided, an estimate.
    pub saved_spins: u64,
    /// Responses of all downstreams in the last second, without refusals.
    pub answers_last_second: u64,
    /// The types by name; at most 64.
    pub types: Vec<TypeView>,
    /// Warnings for operators, a sentence each: what weakens the guarantees of the store, types
    /// with jobs and no worker, a queue that is nearly full.
    pub warnings: Vec<String>,
}

/// The number of lanes by level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LaneCounts {
    /// Lanes of the level `high`.
    pub high: u64,
    /// Lanes of the level `normal`.
    pub normal: u64,
    /// Lanes of the level `low`.
    pub low: u64,
}

impl LaneCounts {
    /// The number of lanes of all levels.
    pub fn sum(self) -> u64 {
        self.high + self.normal + self.low
    }
}

impl From<[u64; 3]> for LaneCounts {
    fn from([high, normal, low]: [u64; 3]) -> Self {
        Self { high, normal, low }
    }
}

impl From<&QueueState> for QueueView {
    fn from(state: &QueueState) -> Self {
        let (queue, settings) = (&state.queue, &state.queue.settings);
        Self {
            engine: state.engine,
            discipline: settings.discipline.as_str(),
            rate: settings.rate.map(rate_text),
            backlog: queue.backlog,
            waiting: queue.waiting,
            in_flight: queue.in_flight,
            completed: queue.completed,
            dead: queue.failed,
            succeeded_total: queue.succeeded_total,
            dead_total: queue.dead_total,
            stored_bytes: queue.stored_bytes,
            stored_bytes_max: settings.stored_bytes_max,
            active_groups: queue.active_groups,
            active_lanes: queue.active_lanes.into(),
            parked_lanes: queue.parked_lanes,
            aggregating: queue.aggregating,
            sweeping: queue.sweeping,
            saved_spins: queue.saved_spins,
            answers_last_second: state.answers_last_second(),
            types: state.types.iter().map(|(name, view)| TypeView::new(name, view)).collect(),
            warnings: state.warnings.clone(),
        }
    }
}
