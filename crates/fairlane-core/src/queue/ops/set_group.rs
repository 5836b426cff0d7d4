//! `set_group`: changes weight, rate, concurrency and pause of a group, with immediate
//! effect on its backlog.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{BASE_PRIORITY_MAX, CONCURRENCY_MAX};
use crate::names::GroupId;
use crate::numbers::{Micros, within};
use crate::queue::lane::{GroupKey, LaneKey, Standing};
use crate::queue::{GroupPatch, GroupSettings, Machine};

/// Changes a group; creates it if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetGroup {
    /// The group to change.
    pub group: GroupId,
    /// The settings to change.
    pub patch: GroupPatch,
    /// Whether to forget its congestion record: history, backoff, throttles. Jobs and
    /// their counts stay.
    pub reset_congestion: bool,
}

/// The reply to [`SetGroup`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSet {
    /// The settings after the change.
    pub settings: GroupSettings,
}

impl Operation for SetGroup {
    type Machine = Machine;
    type Reply = GroupSet;

    const STEM: &'static str = "set_group";

    fn validate(&self) -> Result<(), Invalid> {
        let base_priority = self.patch.base_priority.unwrap_or(0).unsigned_abs();
        within("a base priority without its sign", base_priority, 0, BASE_PRIORITY_MAX)?;
        valid_concurrency(self.patch.concurrency)
    }

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Operate, &self.group)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> GroupSet {
        machine.set_group(self, context.now)
    }
}

pub(super) fn valid_concurrency(patch: Option<Option<u32>>) -> Result<(), Invalid> {
    if let Some(Some(concurrency)) = patch {
        within("a concurrency", concurrency.into(), 1, CONCURRENCY_MAX.into())?;
    }
    Ok(())
}

impl Machine {
    pub(in crate::queue) fn set_group(&mut self, command: SetGroup, now: Micros) -> GroupSet {
        let known = self.groups_by_name.get(&command.group);
        let before = known.map_or_else(GroupSettings::default, |&key| self.groups[key].settings.clone());
        let settings = command.patch.applied_to(&before);
        if command.reset_congestion
            && let Some(&key) = known
        {
            self.forget_congestion(key);
        }
        if settings == before {
            return GroupSet { settings };
        }
        let key = self.group_key(&command.group);
        let group = &mut self.groups[key];
        group.bucket.change_rate(group.settings.rate, settings.rate, now);
        if settings.weight != group.settings.weight {
            for lane in &mut group.lanes {
                lane.remainder = lane.remainder.min(0);
            }
        }
        let difference = settings.base_priority - group.settings.base_priority;
        group.settings = settings.clone();
        let is_idle = !group.active && settings == GroupSettings::default();
        self.list_settings(key);
        if is_idle {
            self.watch_idle(key);
        }
        if self.is_classic() && difference != 0 {
            self.move_scores(key, difference);
        }
        self.wake_lanes_of(key, |standing| !matches!(standing, Standing::Idle | Standing::Active));
        GroupSet { settings }
    }

    /// Moves a group's lanes that are in order by a difference in score; they keep
    /// their time stamp.
    fn move_scores(&mut self, group: GroupKey, difference: i64) {
        for lane in self.groups[group].lanes.iter_mut().enumerate() {
            let (index, lane) = (lane.0 as u32, lane.1);
            if lane.standing != Standing::Active {
                continue;
            }
            let order = &mut self.types[lane.type_key].orders[lane.level.index()].lanes;
            order.remove(&(lane.tag, lane.sequence));
            lane.tag = lane.tag.saturating_add_signed(-difference);
            order.insert((lane.tag, lane.sequence), LaneKey { group, lane: index });
        }
    }
}
