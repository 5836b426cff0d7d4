//! A lease serves a bounded number of lanes.

use std::collections::BTreeSet;

use fairlane_core::limits::{LEASE_JOBS_MAX, LEASE_LANES_MAX};

use crate::subject::*;

/// More groups than one lease serves, with a job each: the rest is left for another worker, which is
/// woken.
pub(super) async fn a_lease_ends_when_it_has_served_enough_lanes(queue: Subject) {
    let more = 10;
    let groups: Vec<String> = (0..LEASE_LANES_MAX + more).map(|number| format!("g{number}")).collect();
    queue.add(groups.iter().map(|group| job(group, "1"))).await;
    queue.drain_wakes().await;
    let first = queue.lease(LEASE_JOBS_MAX).await;
    assert_eq!(first.len(), LEASE_LANES_MAX);
    assert!(!queue.is_silent().await, "another worker is woken for the rest");
    let second = queue.lease(LEASE_JOBS_MAX).await;
    assert_eq!(second.len(), more);
    let served: BTreeSet<_> = first.iter().chain(&second).map(|leased| &leased.job.group).collect();
    assert_eq!(served.len(), groups.len());
}
