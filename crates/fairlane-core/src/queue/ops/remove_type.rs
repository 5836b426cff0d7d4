//! `remove_type`: removes a type without jobs, with its settings and the state of its downstream.
//!
//! Unfinished jobs prevent it, and so do dead jobs, which can be requeued. Finished jobs keep the
//! name of their type, and so do lanes of groups. If the name is used again, its orders start at a
//! new epoch, which invalidates the tags of those lanes.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::limits::REMOVE_TYPE_LANES_MAX;
use crate::names::TypeId;
use crate::queue::Machine;
use crate::queue::lane::{Standing, TypeState};

/// Removes a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveType {
    /// The type to remove.
    pub type_id: TypeId,
}

/// The reply to [`RemoveType`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeRemoved {
    /// The type was removed; its name can be used again.
    Removed,
    /// The type does not exist.
    Unknown,
    /// The type has unfinished or dead jobs.
    HasJobs {
        /// Number of jobs that prevent the removal.
        jobs: u64,
    },
    /// Some of its empty lanes left their order; repeat the command for the others.
    Again,
}

impl Operation for RemoveType {
    type Machine = Machine;
    type Reply = TypeRemoved;

    const STEM: &'static str = "remove_type";

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> TypeRemoved {
        machine.remove_type(&self)
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
