//! `inspect_type`: reads one type and the state of its downstream.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::TypeId;
use crate::numbers::Micros;
use crate::queue::lane::TypeState;
use crate::queue::{Machine, TypeSettings};

/// Reads one type; `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectType {
    /// The type to read.
    pub type_id: TypeId,
}

impl Operation for InspectType {
    type Machine = Machine;
    type Reply = Option<TypeView>;

    const STEM: &'static str = "inspect_type";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::no_group(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Self::Reply {
        machine.type_view(&self.type_id, context.now)
    }
}

/// The current state of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeView {
    /// The settings of the type.
    pub settings: TypeSettings,
    /// Leased jobs.
    pub in_flight: u64,
    /// Lanes in order, by level.
    pub active_lanes: [u64; 3],
    /// The current rate in thousandths of a job per second; below the configured
    /// one after refusals.
    pub rate_milli: Option<u64>,
    /// The end of the pause that the downstream asked for by Retry-After.
    pub closed_until: Option<Micros>,
    /// Responses of the downstream in the last second, without refusals.
    pub answers: u64,
    /// When a worker last requested jobs of this type, accurate to a second.
    pub asked_at: Option<Micros>,
    /// Admitted jobs that wait for a worker (`classic`).
    pub ready: u64,
}

impl TypeView {
    /// The view of a type's state. A type that was removed has that of a new one.
    pub(in crate::queue) fn of(state: &TypeState, now: Micros) -> Self {
        let mut downstream = state.downstream.clone();
        Self {
            settings: state.settings.clone(),
            in_flight: state.in_flight,
            active_lanes: [0, 1, 2].map(|level| state.orders[level].lanes.len() as u64),
            rate_milli: downstream.rate_milli(state.settings.rate, now),
            closed_until: Some(downstream.closed_until).filter(|until| *until > now),
            answers: state.downstream.answers(now),
            asked_at: Some(state.asked_at).filter(|at| at.0 > 0),
            ready: state.ready.len() as u64,
        }
    }
}

impl Machine {
    pub(super) fn type_view(&self, name: &TypeId, now: Micros) -> Option<TypeView> {
        Some(TypeView::of(&self.types[*self.types_by_name.get(name)?], now))
    }
}
