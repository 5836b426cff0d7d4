//! `inspect_congestion`: reads the congestion of one group.

use serde::{Deserialize, Serialize};

use crate::congestion::{CongestionLevel, estimate_completion_ms};
use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::GroupId;
use crate::queue::Machine;
use crate::queue::lane::Record;

/// Reads the congestion of one group; `None` if the group does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectCongestion {
    /// The group to read.
    pub group: GroupId,
}

impl Operation for InspectCongestion {
    type Machine = Machine;
    type Reply = Option<CongestionView>;

    const STEM: &'static str = "inspect_congestion";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Read, &self.group)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Self::Reply {
        machine.congestion_view(&self.group)
    }
}

/// The current congestion of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CongestionView {
    /// Jobs held back: the waiting jobs (`classic`), or all jobs not in flight (`share`).
    pub waiting: u64,
    /// Jobs per second that the group is allowed; 0 if unknown.
    pub speed: u64,
    /// The newest backoff (`classic`) or predicted wait (`share`), in milliseconds.
    pub backoff_ms: u64,
    /// The congestion level of the backoff.
    pub level: CongestionLevel,
    /// Throttles of the jobs in `ended`.
    pub throttles: u64,
    /// Jobs that have ended since the group was last idle.
    pub ended: u64,
}

impl CongestionView {
    /// Average throttles per ended job.
    pub fn throttles_per_job(&self) -> f64 {
        if self.ended == 0 { 0.0 } else { self.throttles as f64 / self.ended as f64 }
    }

    /// The estimated time until the held-back jobs are done, in milliseconds; `None` if the
    /// speed is unknown.
    pub fn estimated_completion_ms(&self) -> Option<u64> {
        let is_known = self.speed > 0 || self.waiting == 0;
        is_known.then(|| estimate_completion_ms(self.waiting, self.speed))
    }
}

impl Machine {
    fn congestion_view(&self, name: &GroupId) -> Option<CongestionView> {
        let group = &self.groups[*self.groups_by_name.get(name)?];
        let settings = &self.settings.congestion;
        let Record { throttles, done, throttles_since, .. } = group.record;
        let ended = done - throttles_since;
        if !settings.enabled {
            let level = CongestionLevel::None;
            return Some(CongestionView { waiting: 0, speed: 0, backoff_ms: 0, level, throttles, ended });
        }
        let (waiting, speed) = if self.is_classic() {
            (group.record.waiting, self.group_speed())
        } else {
            let newest = group.record.history.back().map_or(0, |snapshot| snapshot.speed);
            (group.backlog, group.settings.rate.map_or(newest, |rate| rate.milli_per_second() / 1000))
        };
        let backoff_ms = group.record.backoff_ms;
        let level = CongestionLevel::classify(backoff_ms, settings.base_backoff_ms);
        Some(CongestionView { waiting, speed, backoff_ms, level, throttles, ended })
    }
}
