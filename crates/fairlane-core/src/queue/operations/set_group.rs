//! `set_group`: weight, rate, concurrency and pause of a group, effective on its backlog at once.

use crate::limits::CONCURRENCY_MAX;
use crate::names::GroupId;
use crate::numbers::{Micros, within};
use crate::queue::lane::Standing;
use crate::queue::{GroupPatch, GroupSettings, Machine};
use crate::rate::{Bucket, Rate};

use super::Invalid;

/// Changes a group, made if need be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetGroup {
    /// Which.
    pub group: GroupId,
    /// What changes.
    pub patch: GroupPatch,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSet {
    /// What holds now.
    pub settings: GroupSettings,
}

impl SetGroup {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        valid_concurrency(self.patch.concurrency)
    }
}

pub(super) fn valid_concurrency(patch: Option<Option<u32>>) -> Result<(), Invalid> {
    if let Some(Some(concurrency)) = patch {
        within("a concurrency", concurrency.into(), 1, CONCURRENCY_MAX.into())?;
    }
    Ok(())
}

/// A bucket under a changed rate: equal rates change nothing, otherwise whole jobs carry over.
pub(super) fn changed_bucket(bucket: &mut Bucket, from: Option<Rate>, to: Option<Rate>, now: Micros) {
    match (from, to) {
        _ if from == to => {}
        (Some(from), Some(to)) => bucket.carry_over(from.flow(), to.flow(), now),
        (None, Some(to)) => *bucket = Bucket::full(to.flow(), now),
        (_, None) => *bucket = Bucket::default(),
    }
}

impl Machine {
    pub(in crate::queue) fn set_group(&mut self, command: SetGroup, now: Micros) -> GroupSet {
        let known = self.groups_by_name.get(&command.group);
        let before =
            known.map_or_else(GroupSettings::default, |&key| self.groups[key].settings.clone());
        let settings = command.patch.applied_to(&before);
        if settings == before {
            return GroupSet { settings };
        }
        let key = self.group_key(&command.group);
        let group = &mut self.groups[key];
        changed_bucket(&mut group.bucket, group.settings.rate, settings.rate, now);
        if settings.weight != group.settings.weight {
            for lane in &mut group.lanes {
                lane.remainder = lane.remainder.min(0);
            }
        }
        group.settings = settings.clone();
        self.wake_lanes_of(key, |standing| !matches!(standing, Standing::Idle | Standing::Active));
        GroupSet { settings }
    }
}
