//! `inspect_group`: reads one group and its lanes.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::{GroupId, TypeId};
use crate::numbers::{Level, Micros};
use crate::queue::lane::{Group, Record, Standing};
use crate::queue::{GroupSettings, Machine};

/// Reads one group; `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectGroup {
    /// The group to read.
    pub group: GroupId,
}

impl Operation for InspectGroup {
    type Machine = Machine;
    type Reply = Option<GroupView>;

    const STEM: &'static str = "inspect_group";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Read, &self.group)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Self::Reply {
        machine.group_view(&self.group)
    }
}

/// The current state of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// The settings of the group.
    pub settings: GroupSettings,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Jobs of the backlog that must not run yet.
    pub waiting: u64,
    /// Jobs enqueued since the group was last idle.
    pub total: u64,
    /// Jobs of `total` that have ended.
    pub done: u64,
    /// Stored bytes of the group, finished jobs included.
    pub stored_bytes: u64,
    /// The group's lanes that have jobs, by (level, type).
    pub lanes: Vec<LaneView>,
}

/// The current state of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneView {
    /// The level of the lane.
    pub level: Level,
    /// The type of the lane.
    pub type_id: TypeId,
    /// Jobs that were never leased, or were promoted for the first time.
    pub backlog: u64,
    /// Jobs that came back; they are served first.
    pub returned: u64,
    /// Whether it can be served.
    pub standing: LaneStanding,
}

/// Whether a lane can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaneStanding {
    /// The lane has no jobs.
    Idle,
    /// The lane is in its fair order.
    Active,
    /// Its group's rate is used up until this time.
    RateParked(Micros),
    /// All seats of its group are in use.
    SeatParked,
    /// Its group is paused.
    Paused,
    /// The jobs at its head are held or cancelled, and `sweep` removes them; the time is that
    /// of the last visit.
    Clearing(Micros),
}

impl Machine {
    pub(super) fn group_view(&self, name: &GroupId) -> Option<GroupView> {
        let group = &self.groups[*self.groups_by_name.get(name)?];
        let mut lanes: Vec<LaneView> = Vec::new();
        for lane in group.lanes.iter().filter(|lane| !lane.is_empty()) {
            lanes.push(LaneView {
                level: lane.level,
                type_id: self.types[lane.type_key].name.clone(),
                backlog: lane.backlog.len() as u64,
                returned: lane.returned.len() as u64,
                standing: match lane.standing {
                    Standing::Idle => LaneStanding::Idle,
                    Standing::Active => LaneStanding::Active,
                    Standing::RateParked(until) => LaneStanding::RateParked(until),
                    Standing::SeatParked => LaneStanding::SeatParked,
                    Standing::Paused => LaneStanding::Paused,
                    Standing::Clearing(since) => LaneStanding::Clearing(since),
                },
            });
        }
        lanes.sort_by(|a, b| (a.level, &a.type_id).cmp(&(b.level, &b.type_id)));
        let settings = group.settings.clone();
        let Record { waiting, total, done, .. } = group.record;
        let Group { backlog, in_flight, stored_bytes, .. } = *group;
        Some(GroupView { settings, backlog, in_flight, waiting, total, done, stored_bytes, lanes })
    }
}
