//! `audit`: looks again at what does not look right and, if asked to, puts it right in the same step.
//!
//! Suspects come from a walk over what is stored, a page at a time. Jobs move while somebody walks, so what a walk
//! saw counts for nothing until this operation has looked at it. Invariant: on a sound queue it finds nothing and
//! changes nothing. Left out on purpose: the walk, which is the engine's.
//!
//! - `audit/fault.rs`: what can be wrong, in words. `audit/recount.rs`: the checks. `audit/mend.rs`: the repairs.

mod fault;
mod mend;
mod recount;

use std::fmt;

pub use fault::{Fault, Finding};

use serde::{Deserialize, Serialize};

use crate::limits::AUDIT_SUSPECTS_MAX;
use crate::names::{GroupId, TypeId};
use crate::numbers::Fence;
use crate::queue::{BulkRef, JobRef, Machine};

use super::{Invalid, at_most};

/// What may be wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Suspect {
    /// Where a job stands, and whether somebody would come for it.
    Job(JobRef),
    /// A group's seats, its lanes, and whether it is known to have jobs.
    Group(GroupId),
    /// A group's backlog and waiting jobs, counted one by one.
    Backlog(GroupId),
    /// A type's seats and fair orders.
    Type(TypeId),
    /// How many jobs of a bulk action have not ended, counted one by one, and whether it is to be aggregated.
    Bulk(BulkRef),
    /// How many jobs of a batch are still leased.
    Lease(Fence),
    /// The counts of the whole.
    Whole,
}

impl Suspect {
    /// What kind of thing it is.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Group(_) | Self::Backlog(_) => "group",
            Self::Type(_) => "type",
            Self::Bulk(_) => "bulk action",
            Self::Lease(_) => "lease",
            Self::Whole => "whole",
        }
    }

    /// The group it belongs to, if it belongs to one.
    pub const fn group(&self) -> Option<&GroupId> {
        match self {
            Self::Job(JobRef { group, .. }) | Self::Bulk(BulkRef { group, .. }) => Some(group),
            Self::Group(group) | Self::Backlog(group) => Some(group),
            Self::Type(_) | Self::Lease(_) | Self::Whole => None,
        }
    }
}

impl fmt::Display for Suspect {
    /// Its name, without its kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(f, "{}/{}", job.group, job.id),
            Self::Group(group) | Self::Backlog(group) => group.fmt(f),
            Self::Type(type_id) => type_id.fmt(f),
            Self::Bulk(bulk) => write!(f, "{}/{}", bulk.group, bulk.id),
            Self::Lease(batch) => batch.fmt(f),
            Self::Whole => f.write_str("the whole"),
        }
    }
}

/// Looks again at suspects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// At most 100 at a time.
    #[serde(deserialize_with = "crate::encoding::list::<AUDIT_SUSPECTS_MAX, _, _>")]
    pub suspects: Vec<Suspect>,
    /// Whether to put right what is found.
    pub repair: bool,
}

impl Audit {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        at_most("audit", self.suspects.len(), AUDIT_SUSPECTS_MAX)
    }
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audited {
    /// So many of the suspects were looked at; the others are to be sent again. At least one, if any were sent.
    pub looked_at: usize,
    /// Whether the first of them is too large to be counted in one step; what could be seen without is seen.
    pub too_large: bool,
    /// What is wrong, in the order of the suspects.
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

    /// Everything that `audit` should look at, for an engine whose store is this machine: jobs that look odd, then
    /// every group with its bulk actions, batches, types and the counts over all groups.
    pub fn suspects(&self) -> Vec<Suspect> {
        let mut suspects = self.odd_jobs();
        for group in self.groups.values() {
            suspects.extend([Suspect::Group(group.name.clone()), Suspect::Backlog(group.name.clone())]);
            let bulk = |id: &crate::names::BulkId| BulkRef { group: group.name.clone(), id: id.clone() };
            suspects.extend(group.bulks.keys().map(|id| Suspect::Bulk(bulk(id))));
        }
        suspects.extend(self.batches.keys().map(|batch| Suspect::Lease(*batch)));
        suspects.extend(self.types_by_name.keys().cloned().map(Suspect::Type));
        suspects.push(Suspect::Whole);
        suspects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashing::HashSeed;
    use crate::names::{JobId, WorkerId};
    use crate::numbers::{Cost, Level, Micros, RequestNumber};
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
        NewJob {
            job: JobRef { group: group(), id: JobId::new(number.to_string()).unwrap() },
            type_id: TypeId::new("t").unwrap(),
            level: Level::Normal,
            cost: Cost::default(),
            payload: b"{}".as_slice().into(),
            delay_ms: 0,
            bulk: None,
            trace: None,
        }
    }

    fn group() -> GroupId {
        GroupId::new("g").unwrap()
    }

    fn audit(machine: &mut Machine, repair: bool) -> Vec<&'static str> {
        let suspects = machine.suspects();
        match machine.apply(Command::Audit(Audit { suspects, repair }), NOW) {
            Reply::Audited(audited) => audited.findings.iter().map(Finding::word).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// A word, and what makes it a finding.
    type Damage = (&'static str, fn(&mut Machine));

    #[test]
    fn what_was_changed_behind_the_machines_back_is_found_and_put_right() {
        let damages: [Damage; 14] = [
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
    fn bulk_actions_that_would_be_aggregated_never_or_too_early_are_found_and_put_right() {
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
    fn jobs_that_nobody_would_come_for_are_found_and_put_right() {
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
