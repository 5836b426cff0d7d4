//! Words for the `classic` discipline and for congestion.

use fairlane_core::congestion::{Backoff, Congestion};
use fairlane_core::queue::*;

use super::{Subject, group_id};

impl Subject {
    /// Lets this empty queue be `classic`, with so many jobs a second over all groups.
    pub async fn classic(&self, global_rps: u64) {
        self.set_whole(classic(global_rps)).await;
    }

    /// Admits.
    pub async fn admit(&self, jobs_max: usize) -> Admitted {
        self.engine.admit(Admit { jobs_max }).await.expect("admit is answered")
    }

    /// Admits, and gives `group/id` of what became ready.
    pub async fn admit_ready(&self, jobs_max: usize) -> Vec<String> {
        ready(&self.admit(jobs_max).await)
    }

    /// Admits jobs one by one, leases each and gives the job.
    pub async fn serve_classic(&self, count: usize) -> Vec<LeasedJob> {
        let mut served = Vec::new();
        for _ in 0..count {
            self.admit(1).await;
            served.extend(self.lease(1).await);
        }
        served
    }

    /// A group's congestion.
    pub async fn congestion(&self, group: &str) -> CongestionView {
        match self.inspect(Inspect::Congestion(group_id(group))).await {
            Inspected::Congestion(Some(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    /// The newest snapshots of a group's congestion.
    pub async fn history(&self, group: &str, limit: usize) -> Vec<Snapshot> {
        match self.inspect(Inspect::History { group: group_id(group), limit }).await {
            Inspected::History(snapshots) => snapshots,
            other => panic!("{other:?}"),
        }
    }

    /// A page of the groups that have unfinished jobs.
    pub async fn groups(&self, after: Option<&str>, limit: usize) -> Vec<GroupLine> {
        match self.inspect(Inspect::Groups { after: after.map(group_id), limit }).await {
            Inspected::Groups(lines) => lines,
            other => panic!("{other:?}"),
        }
    }

    /// Forgets what is recorded of a group's congestion.
    pub async fn reset_congestion(&self, group: &str) {
        let command =
            SetGroup { group: group_id(group), patch: GroupPatch::default(), reset_congestion: true };
        self.engine.set_group(command).await.expect("set_group is answered");
    }
}

/// Settings of the `classic` discipline with so many jobs a second over all groups.
pub fn classic(global_rps: u64) -> Settings {
    Settings { discipline: Discipline::Classic, global_rps, ..Settings::default() }
}

/// Backoffs between these bounds.
pub fn backoffs(base_backoff_ms: u64, max_backoff_ms: u64) -> Congestion {
    Congestion { base_backoff_ms, max_backoff_ms, ..Congestion::default() }
}

/// A patch that sets a base priority.
pub fn base_priority(value: i64) -> GroupPatch {
    GroupPatch { base_priority: Some(value), ..GroupPatch::default() }
}

/// `group/id` of what became ready, in the order it was decided.
pub fn ready(admitted: &Admitted) -> Vec<String> {
    let ready = admitted.admissions.iter().filter(|one| one.destination == Destination::Ready);
    ready.map(|one| format!("{}/{}", one.job.group, one.job.id)).collect()
}

/// The backoffs of what was refused, in the order it was decided.
pub fn refusals(admitted: &Admitted) -> Vec<Backoff> {
    let mut backoffs = Vec::new();
    for admission in &admitted.admissions {
        if let Destination::Waiting(backoff) = admission.destination {
            backoffs.push(backoff);
        }
    }
    backoffs
}
