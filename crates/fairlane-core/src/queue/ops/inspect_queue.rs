//! `inspect_queue`: reads the queue's settings, counts and types.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::TypeId;
use crate::queue::{Machine, Settings};

/// Reads the queue's settings, counts and types. Settings and types belong to no group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectQueue;

impl Operation for InspectQueue {
    type Machine = Machine;
    type Reply = QueueView;

    const STEM: &'static str = "inspect_queue";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::no_group(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Self::Reply {
        machine.queue_view()
    }
}

/// The current state of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    /// The settings of the queue.
    pub settings: Settings,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Jobs of the backlog that must not run yet.
    pub waiting: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Lanes that are parked because their group's rate is used up.
    pub parked_lanes: u64,
    /// Completed and cancelled jobs that are still kept and belong to no bulk action.
    pub completed: u64,
    /// Dead jobs that are still kept.
    pub failed: u64,
    /// Bytes stored, finished jobs included: payloads and results of jobs, payloads and summaries
    /// of bulk actions.
    pub stored_bytes: u64,
    /// Groups that have unfinished jobs.
    pub active_groups: u64,
    /// Complete bulk actions that wait for aggregation or are leased for it.
    pub aggregating: u64,
    /// Bulk actions with dropped or resumed jobs that `sweep` has to move.
    pub sweeping: u64,
    /// Estimated number of useless attempts that backoff has avoided.
    pub saved_spins: u64,
    /// Lanes in order over all types, by level.
    pub active_lanes: [u64; 3],
    /// The existing types, by name.
    pub types: Vec<TypeId>,
    /// Jobs that have succeeded since the queue was made, including those of bulk actions and those
    /// that are no longer kept.
    pub succeeded_total: u64,
    /// Times that a job has become dead since the queue was made. A job that is requeued and dies
    /// again counts again.
    pub dead_total: u64,
}

impl Machine {
    fn queue_view(&self) -> QueueView {
        let lanes =
            |level: usize| self.types.values().map(|state| state.orders[level].lanes.len() as u64).sum();
        QueueView {
            settings: self.settings.clone(),
            backlog: self.backlog,
            waiting: self.waiting.len() as u64,
            in_flight: self.types.values().map(|state| state.in_flight).sum(),
            parked_lanes: self.parked.len() as u64,
            completed: self.completed.jobs,
            failed: self.dead.len() as u64,
            stored_bytes: self.stored_bytes,
            active_groups: self.active_groups.len() as u64,
            aggregating: self.aggregating.len() as u64,
            sweeping: self.sweeping.len() as u64,
            saved_spins: self.saved_spins,
            active_lanes: [0, 1, 2].map(lanes),
            types: self.types_by_name.keys().cloned().collect(),
            succeeded_total: self.succeeded_total,
            dead_total: self.dead_total,
        }
    }
}
