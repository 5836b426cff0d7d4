//! Methods for the `classic` discipline and for congestion.

use fairlane_core::congestion::{Backoff, Congestion};
use fairlane_core::queue::*;

use super::{Subject, group_id};

impl Subject {
    /// Switches this empty queue to `classic`, with this many jobs a second over all groups.
    pub async fn classic(&self, global_rps: u64) {
        self.set_queue(classic(global_rps)).await;
    }

    /// Admits up to `jobs_max` jobs.
    pub async fn admit(&self, jobs_max: usize) -> Admitted {
        self.engine.call(Admit { jobs_max }).await.expect("admit is answered")
    }

    /// Admits jobs, and returns `group/id` of those that became ready.
    pub async fn admit_ready(&self, jobs_max: usize) -> Vec<String> {
        ready(&self.admit(jobs_max).await)
    }

    /// Admits jobs one by one and leases each; returns the leased jobs.
    pub async fn serve_classic(&self, count: usize) -> Vec<LeasedJob> {
        let mut served = Vec::new();
        for _ in 0..count {
            self.admit(1).await;
            served.extend(self.lease(1).await);
        }
        served
    }

    /// A group's congestion, if the group is known.
    pub async fn find_congestion(&self, group: &str) -> Option<CongestionView> {
        let command = InspectCongestion { group: group_id(group) };
        self.engine.call(command).await.expect("inspect_congestion is answered")
    }

    /// The congestion of a group that is known.
    pub async fn congestion(&self, group: &str) -> CongestionView {
        self.find_congestion(group).await.expect("the group is known")
    }

    /// The newest snapshots of a group's congestion, oldest first.
    pub async fn snapshots(&self, group: &str, limit: usize) -> Vec<Snapshot> {
        let command = ListSnapshots { group: group_id(group), limit };
        self.engine.call(command).await.expect("list_snapshots is answered")
    }

    /// A page of the groups that have unfinished jobs.
    pub async fn groups(&self, after: Option<&str>, limit: usize) -> Vec<GroupLine> {
        let command = ListGroups { after: after.map(group_id), limit, all: false };
        self.engine.call(command).await.expect("list_groups is answered")
    }

    /// The names on a page of the groups that have unfinished jobs or settings of their own.
    pub async fn all_groups(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        let command = ListGroups { after: after.map(group_id), limit, all: true };
        let lines = self.engine.call(command).await.expect("list_groups is answered");
        lines.iter().map(|line| line.group.to_string()).collect()
    }

    /// A page of the groups that have unfinished jobs, the largest backlogs first.
    pub async fn largest(&self, after: Option<LargestCursor>, limit: usize) -> LargestGroups {
        let command = ListLargestGroups { after, limit };
        self.engine.call(command).await.expect("list_largest_groups is answered")
    }

    /// Removes the record of a group's congestion.
    pub async fn reset_congestion(&self, group: &str) {
        let command =
            SetGroup { group: group_id(group), patch: GroupPatch::default(), reset_congestion: true };
        self.engine.call(command).await.expect("set_group is answered");
    }
}

/// Settings of the `classic` discipline with this many jobs a second over all groups.
pub fn classic(global_rps: u64) -> Settings {
    Settings { discipline: Discipline::Classic, global_rps, ..Settings::default() }
}

/// Congestion settings with backoffs between these bounds.
pub fn backoffs(base_backoff_ms: u64, max_backoff_ms: u64) -> Congestion {
    Congestion { base_backoff_ms, max_backoff_ms, ..Congestion::default() }
}

/// A patch that sets a base priority.
pub fn base_priority(value: i64) -> GroupPatch {
    GroupPatch { base_priority: Some(value), ..GroupPatch::default() }
}

/// `group/id` of the jobs that became ready, in the order of admission.
pub fn ready(admitted: &Admitted) -> Vec<String> {
    let ready = admitted.admissions.iter().filter(|one| one.destination == Destination::Ready);
    ready.map(|one| format!("{}/{}", one.job.group, one.job.id)).collect()
}

/// The backoffs of the jobs that were refused, in the order of admission.
pub fn refusals(admitted: &Admitted) -> Vec<Backoff> {
    let mut backoffs = Vec::new();
    for admission in &admitted.admissions {
        if let Destination::Waiting(backoff) = admission.destination {
            backoffs.push(backoff);
        }
    }
    backoffs
}
