//! `remove_type`: a type without jobs is forgotten, with its settings and what refusals have taught.
//!
//! Jobs that have not ended count, and dead ones, which can be requeued. Finished jobs keep the name of their type.
//! Lanes of groups keep theirs, too: an epoch that no type had before makes them mean nothing if the name comes back.

use serde::{Deserialize, Serialize};

use crate::limits::REMOVE_TYPE_LANES_MAX;
use crate::names::TypeId;
use crate::queue::Machine;
use crate::queue::lane::{Standing, TypeState};

use super::Invalid;

/// Removes a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveType {
    /// The type to remove.
    pub type_id: TypeId,
}

/// The reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeRemoved {
    /// The type is gone; its name can be used again.
    Removed,
    /// There is no such type.
    Unknown,
    /// The type has jobs that have not ended, or dead ones.
    HasJobs {
        /// How many.
        jobs: u64,
    },
    /// Some of its empty lanes left their order; repeat the command for the others.
    Again,
}

impl RemoveType {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn remove_type(&mut self, command: &RemoveType) -> TypeRemoved {
        let Some(&key) = self.types_by_name.get(&command.type_id) else { return TypeRemoved::Unknown };
        let jobs = self.types[key].jobs;
        if jobs > 0 {
            return TypeRemoved::HasJobs { jobs };
        }
        let mut left = REMOVE_TYPE_LANES_MAX;
        for level in 0..3 {
            let before = left;
            while left > 0
                && let Some((_, lane)) = self.types[key].orders[level].lanes.pop_first()
            {
                let lane = self.lane_mut(lane);
                lane.standing = Standing::Idle;
                (lane.tag, lane.epoch, lane.remainder) = (0, 0, 0);
                left -= 1;
            }
            let order = &mut self.types[key].orders[level];
            if left < before && order.lanes.is_empty() {
                order.virtual_time = 0;
                order.epoch += 1;
            }
        }
        if self.types[key].is_active() {
            return TypeRemoved::Again;
        }
        let epoch = self.types[key].orders.iter().map(|order| order.epoch).max().unwrap_or(0);
        self.epochs = self.epochs.max(epoch);
        self.types_by_name.remove(&command.type_id);
        self.types[key] = TypeState::removed(command.type_id.clone());
        self.removed_types.insert(command.type_id.clone(), key);
        TypeRemoved::Removed
    }
}
