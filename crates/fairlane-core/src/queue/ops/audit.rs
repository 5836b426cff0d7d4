//! `audit`: rechecks suspects and, on request, repairs them in the same step.
//!
//! Suspects come from a page-wise scan of the store. Jobs move during a scan, so a suspicion counts
//! only after this operation has confirmed it. Invariant: on a consistent queue it finds nothing
//! and changes nothing. Left out on purpose: the scan, which belongs to the engine.
//!
//! - `audit/fault.rs`: the faults and their texts. `audit/recount.rs`: the checks.
//!   `audit/mend.rs`: the repairs.

mod fault;
mod mend;
mod recount;

use std::fmt;

pub use fault::{Fault, Finding};

use serde::{Deserialize, Serialize};

use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::AUDIT_SUSPECTS_MAX;
use crate::names::{GroupId, TypeId};
use crate::numbers::Fence;
use crate::queue::{BulkRef, JobRef, Machine};

/// An item that may be inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Suspect {
    /// A job: whether it is in exactly one place, and whether it will leave it.
    Job(JobRef),
    /// A group: its seats, its lanes, and whether it is listed as active.
    Group(GroupId),
    /// A group's backlog and waiting jobs, counted one by one.
    Backlog(GroupId),
    /// A type: its seats and fair orders.
    Type(TypeId),
    /// A bulk action: its unfinished jobs, counted one by one, and whether it is ready
    /// for aggregation.
    Bulk(BulkRef),
    /// A batch: the number of its jobs that are still leased.
    Lease(Fence),
    /// The counts of the queue.
    Queue,
}

impl Suspect {
    /// The kind of the suspect.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Group(_) | Self::Backlog(_) => "group",
            Self::Type(_) => "type",
            Self::Bulk(_) => "bulk action",
            Self::Lease(_) => "lease",
            Self::Queue => "queue",
        }
    }

    /// The group of the suspect, if it belongs to one.
    pub const fn group(&self) -> Option<&GroupId> {
        match self {
            Self::Job(JobRef { group, .. }) | Self::Bulk(BulkRef { group, .. }) => Some(group),
            Self::Group(group) | Self::Backlog(group) => Some(group),
            Self::Type(_) | Self::Lease(_) | Self::Queue => None,
        }
    }
}

impl fmt::Display for Suspect {
    /// Writes the name of the suspect, without its kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(f, "{}/{}", job.group, job.id),
            Self::Group(group) | Self::Backlog(group) => group.fmt(f),
            Self::Type(type_id) => type_id.fmt(f),
            Self::Bulk(bulk) => write!(f, "{}/{}", bulk.group, bulk.id),
            Self::Lease(batch) => batch.fmt(f),
            Self::Queue => f.write_str("the queue"),
        }
    }
}

/// Rechecks suspects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The suspects, at most 100.
    #[serde(deserialize_with = "crate::encoding::list::<AUDIT_SUSPECTS_MAX, _, _>")]
    pub suspects: Vec<Suspect>,
    /// Whether to repair the faults.
    pub repair: bool,
}

impl Operation for Audit {
    type Machine = Machine;
    type Reply = Audited;

    const STEM: &'static str = "audit";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("audit", self.suspects.len(), AUDIT_SUSPECTS_MAX)
    }

    fn is_read_only(&self) -> bool {
        !self.repair
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Audited {
        machine.audit(&self)
    }
}

/// The reply to [`Audit`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audited {
    /// The number of suspects checked, at least one if any were sent; the caller sends
    /// the others again.
    pub looked_at: usize,
    /// Whether the first suspect was too large to count in one step; all other checks
    /// on it were made.
    pub too_large: bool,
    /// The faults, in the order of the suspects.
    pub findings: Vec<Finding>,
}

impl Machine {
    pub(in crate::queue) fn audit(&mut self, command: &Audit) -> Audited {
        let mut findings = Vec::new();
        for suspect in &command.suspects {
            for mut finding in self.findings_about(suspect) {
                finding.repaired = command.repair && self.mend(&finding);
                findings.push(finding);
            }
        }
        Audited { looked_at: command.suspects.len(), too_large: false, findings }
    }

    /// All suspects, for an engine that uses this machine as its store: conspicuous jobs, then
    /// every group with its bulk actions, batches, types and the counts of the queue.
    pub fn suspects(&self) -> Vec<Suspect> {
        let mut suspects = self.odd_jobs();
        for group in self.groups.values() {
            suspects.extend([Suspect::Group(group.name.clone()), Suspect::Backlog(group.name.clone())]);
            let bulk = |id: &crate::names::BulkId| BulkRef { group: group.name.clone(), id: id.clone() };
            suspects.extend(group.bulks.keys().map(|id| Suspect::Bulk(bulk(id))));
        }
        suspects.extend(self.batches.keys().map(|batch| Suspect::Lease(*batch)));
        suspects.extend(self.types_by_name.keys().cloned().map(Suspect::Type));
        suspects.push(Suspect::Queue);
        suspects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashing::HashSeed;
    use crate::names::{JobId, WorkerId};
    use crate::numbers::{Micros, RequestNumber};
    use crate::queue::lane::Standing;
    use crate::queue::{CancelBulk, Command, Enqueue, Lease, NewJob, OpenBulk, Reply, Settings};

    const NOW: Micros = Micros(1_700_000_000_000_000);

    /// Four jobs of one group, one of them leased.
    fn machine() -> Machine {
        let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, NOW);
        machine.apply(Command::Enqueue(Enqueue { jobs: (1..=4).map(new_job).collect() }), NOW);
        let lease = Lease {
            worker: WorkerId::new("w").unwrap(),
            request: RequestNumber(1),
            types: vec![TypeId::new("t").unwrap()],
            jobs_max: 1,
            lease_ms: 1000,
        };
        machine.apply(Command::Lease(lease), NOW);
        machine
    }

    fn new_job(number: u32) -> NewJob {
        NewJob::new(
            JobRef { group: group(), id: JobId::new(number.to_string()).unwrap() },
            TypeId::new("t").unwrap(),
            b"{}".as_slice().into(),
        )
    }

    fn group() -> GroupId {
        GroupId::new("g").unwrap()
    }

    fn audit(machine: &mut Machine, repair: bool) -> Vec<&'static str> {
        let suspects = machine.suspects();
        match machine.apply(Command::Audit(Audit { suspects, repair }), NOW) {
            Reply::Audit(audited) => audited.findings.iter().map(Finding::word).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// The word of a finding, and a change that causes it.
    type Damage = (&'static str, fn(&mut Machine));

    #[test]
    fn inconsistent_state_is_found_and_repaired() {
        let damages: [Damage; 18] = [
            ("seat-without-job", |machine| machine.groups[0].in_flight += 2),
            ("seat-without-job", |machine| machine.types[0].in_flight += 1),
            ("wrong-count", |machine| machine.groups[0].backlog += 1),
            ("wrong-count", |machine| machine.groups[0].record.waiting += 1),
            ("wrong-count", |machine| machine.groups[0].seat_parked += 1),
            ("wrong-count", |machine| machine.backlog += 1),
            ("wrong-count", |machine| machine.completed.jobs += 1),
            ("wrong-count", |machine| machine.stored_bytes += 1),
            ("wrong-count", |machine| machine.groups[0].stored_bytes += 1),
            ("wrong-count", |machine| machine.batches.values_mut().for_each(|batch| batch.left += 1)),
            ("lane-out-of-order", |machine| machine.types[0].orders[1].lanes.clear()),
            ("lane-out-of-order", |machine| {
                machine.types[0].orders[1].lanes.clear();
                machine.groups[0].lanes[0].standing = Standing::Idle;
            }),
            ("lane-out-of-order", |machine| {
                machine.types[0].orders[1].lanes.clear();
                machine.groups[0].lanes[0].standing = Standing::Clearing(NOW);
            }),
            ("orphan", |machine| machine.active_groups.clear()),
            ("orphan", |machine| {
                machine.configured_groups.insert(group());
            }),
            ("orphan", |machine| machine.groups[0].settings.base_priority = 1),
            ("wrong-count", |machine| machine.groups[0].magnitude = 7),
            ("wrong-count", |machine| {
                machine.groups[0].magnitude = 9;
                machine.large_groups.insert((9, group()));
            }),
        ];
        for (number, (word, inflict)) in damages.into_iter().enumerate() {
            let mut machine = machine();
            inflict(&mut machine);
            let found = audit(&mut machine, false);
            assert!(
                found.contains(&word) && found.iter().all(|other| *other == word),
                "damage {number}: {found:?}"
            );
            assert_eq!(audit(&mut machine, true), [word], "damage {number}");
            assert_eq!(machine.check(), Ok(()), "damage {number}");
            assert_eq!(audit(&mut machine, false), [""; 0], "damage {number}");
        }
    }

    #[test]
    fn bulk_actions_that_would_be_aggregated_never_or_too_early_are_found_and_repaired() {
        let damages: [fn(&mut Machine); 3] = [
            |machine| machine.aggregating.clear(),
            |machine| machine.bulk_mut(1).expect("it is there").aggregated = true,
            |machine| machine.bulk_mut(1).expect("it is there").total += 1,
        ];
        for (number, inflict) in damages.into_iter().enumerate() {
            let mut machine = machine();
            let bulk = BulkRef { group: group(), id: crate::names::BulkId::new("b").unwrap() };
            let open =
                OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload: [].into() };
            machine.apply(Command::OpenBulk(open), NOW);
            machine.apply(Command::CancelBulk(CancelBulk { bulk }), NOW);
            assert_eq!((machine.check(), audit(&mut machine, false)), (Ok(()), vec![]));
            inflict(&mut machine);
            assert!(audit(&mut machine, true).contains(&"orphan"), "damage {number}");
            assert_eq!((machine.check(), audit(&mut machine, false)), (Ok(()), vec![]), "damage {number}");
        }
    }

    #[test]
    fn a_delayed_job_that_its_bulk_action_does_not_list_is_found_and_listed() {
        let mut machine = machine();
        let bulk = BulkRef { group: group(), id: crate::names::BulkId::new("b").unwrap() };
        let id = Some(bulk.id.clone());
        let open = OpenBulk { bulk, deadline_ms: None, failures_max: None, payload: [].into() };
        machine.apply(Command::OpenBulk(open), NOW);
        let later = NewJob { bulk: id, delay_ms: 60_000, ..new_job(5) };
        machine.apply(Command::Enqueue(Enqueue { jobs: vec![later] }), NOW);
        assert_eq!((machine.check(), audit(&mut machine, false)), (Ok(()), vec![]));
        machine.bulk_mut(1).expect("it is there").waiting.clear();
        assert_eq!(audit(&mut machine, true), ["orphan"]);
        assert_eq!((machine.check(), audit(&mut machine, false)), (Ok(()), vec![]));
    }

    #[test]
    fn jobs_that_would_never_run_or_end_are_found_and_repaired() {
        let damages: [Damage; 2] = [
            ("active-without-lease", |machine| machine.deadlines.clear()),
            ("no-place", |machine| {
                machine.groups[0].lanes[0].backlog.pop_back();
            }),
        ];
        for (word, inflict) in damages {
            let mut machine = machine();
            inflict(&mut machine);
            assert_eq!(audit(&mut machine, false), [word]);
            assert_eq!(audit(&mut machine, true), [word]);
            assert_eq!((machine.check(), audit(&mut machine, false)), (Ok(()), vec![]));
        }
    }
}
