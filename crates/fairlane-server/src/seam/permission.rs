//! What a command needs: the same as the route that does the same.

use fairlane_core::GroupId;
use fairlane_core::queue::{Command, Inspect, JobRef, ListJobs, Listing, TypePatch};
use fairlane_worker::CALLBACK_TYPE;

use crate::access::{Caller, Permission};
use crate::problem::Problem;

/// Whose data a command is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Touched<'a> {
    /// Of these groups.
    Groups(Vec<&'a GroupId>),
    /// Of all groups.
    Whole,
    /// Of no group.
    Nobody,
}

/// Refuses a command that the caller's key is not for.
pub(super) fn check_command(caller: &Caller, command: &Command) -> Result<(), Problem> {
    let (permission, touched) = permission_of(command);
    if !(is_callback(command) && caller.role.may(Permission::Work)) {
        caller.check(permission)?;
    }
    match touched {
        Touched::Groups(groups) => groups.into_iter().try_for_each(|group| caller.check_group(group)),
        Touched::Whole => caller.check_whole(),
        Touched::Nobody => Ok(()),
    }
}

/// Whoever aggregates a bulk action has its callback sent; that is a worker's task, and no route does it.
fn is_callback(command: &Command) -> bool {
    let Command::Enqueue(enqueue) = command else { return false };
    enqueue.jobs.iter().all(|job| job.type_id.escaped() == CALLBACK_TYPE)
}

/// What a command needs, and whose data it is about.
pub(super) fn permission_of(command: &Command) -> (Permission, Touched<'_>) {
    use Permission::{Operate, Produce, Read, Work};
    match command {
        Command::Enqueue(enqueue) => (Produce, of_jobs(enqueue.jobs.iter().map(|job| &job.job))),
        Command::Lease(_) => (Work, Touched::Whole),
        Command::Extend(extend) => (Work, of_jobs(extend.leases.iter().map(|(job, _)| job))),
        Command::Settle(settle) => (Work, of_jobs(settle.settlements.iter().map(|one| &one.job))),
        Command::Promote(_)
        | Command::Reclaim(_)
        | Command::Admit(_)
        | Command::Sweep(_)
        | Command::TakeCompleted(_) => (Work, Touched::Whole),
        Command::FinishBulk(finish) => (Work, of(&finish.bulk.group)),
        Command::OpenBulk(open) => (Produce, of(&open.bulk.group)),
        Command::SealBulk(seal) => (Produce, of(&seal.bulk.group)),
        Command::HoldBulk(hold) => (Produce, of(&hold.bulk.group)),
        Command::ResumeBulk(resume) => (Produce, of(&resume.bulk.group)),
        Command::CancelBulk(cancel) => (Produce, of(&cancel.bulk.group)),
        Command::CancelJob(cancel) => (Produce, of_jobs(cancel.jobs.iter())),
        Command::RequeueDead(requeue) => (Produce, of_jobs(requeue.jobs.iter())),
        Command::Discard(discard) => (Produce, of_jobs(discard.jobs.iter())),
        Command::SetGroup(set) => (Operate, of(&set.group)),
        // Makes room for a type and changes nothing, as enqueueing the first job of it does.
        Command::SetType(set) if set.patch == TypePatch::default() => (Produce, Touched::Nobody),
        Command::SetType(_) | Command::SetWhole(_) | Command::Audit(_) => (Operate, Touched::Whole),
        Command::MakeDue(make) => (Operate, of_all_or(make.group.as_ref())),
        Command::Inspect(inspect) => (Read, looked_at(inspect)),
        Command::ListJobs(list) => (Read, listed(list)),
        Command::Explain(explain) => (Read, of(&explain.job.group)),
    }
}

fn looked_at(inspect: &Inspect) -> Touched<'_> {
    match inspect {
        Inspect::Job(job) => of(&job.group),
        Inspect::Bulk(bulk) => of(&bulk.group),
        Inspect::Group(group)
        | Inspect::Congestion(group)
        | Inspect::Bulks { group, .. }
        | Inspect::History { group, .. } => of(group),
        Inspect::Type(_) => Touched::Nobody,
        Inspect::Groups { .. } | Inspect::Whole => Touched::Whole,
    }
}

fn listed(list: &ListJobs) -> Touched<'_> {
    match &list.listing {
        Listing::Pending(group) => of(group),
        Listing::OfBulk(bulk) | Listing::OnHold(bulk) => of(&bulk.group),
        Listing::Ready | Listing::Waiting | Listing::InFlight | Listing::Dead | Listing::Finished => {
            of_all_or(list.group.as_ref())
        }
    }
}

fn of(group: &GroupId) -> Touched<'_> {
    Touched::Groups(vec![group])
}

fn of_jobs<'a>(jobs: impl Iterator<Item = &'a JobRef>) -> Touched<'a> {
    Touched::Groups(jobs.map(|job| &job.group).collect())
}

fn of_all_or(group: Option<&GroupId>) -> Touched<'_> {
    group.map_or(Touched::Whole, of)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use fairlane_core::queue::*;
    use fairlane_core::{BulkId, Cost, Fence, JobId, Level, TypeId};

    use super::*;
    use crate::access::{ROUTES, Role, Route, Scope};

    fn group(name: &str) -> GroupId {
        GroupId::new(name).unwrap()
    }

    fn job(name: &str) -> JobRef {
        JobRef { group: group(name), id: JobId::new("1").unwrap() }
    }

    fn bulk() -> BulkRef {
        BulkRef { group: group("g"), id: BulkId::new("b").unwrap() }
    }

    fn enqueue(type_id: &str, groups: &[&str]) -> Command {
        let new = |name: &&str| NewJob {
            job: job(name),
            type_id: TypeId::new(type_id).unwrap(),
            level: Level::Normal,
            cost: Cost::default(),
            payload: Arc::from(&b"{}"[..]),
            delay_ms: 0,
            bulk: None,
            trace: None,
        };
        Command::Enqueue(Enqueue { jobs: groups.iter().map(new).collect() })
    }

    fn set_type(paused: Option<bool>) -> Command {
        let patch = TypePatch { paused, ..TypePatch::default() };
        Command::SetType(SetType { type_id: TypeId::new("t").unwrap(), patch })
    }

    fn list(listing: Listing, group: Option<GroupId>) -> Command {
        Command::ListJobs(ListJobs { listing, group, type_id: None, cursor: 0, limit: 1 })
    }

    fn set_group() -> Command {
        let patch = GroupPatch::default();
        Command::SetGroup(SetGroup { group: group("g"), patch, reset_congestion: false })
    }

    fn settle() -> Command {
        let one = Settlement { job: job("g"), fence: Fence(1), outcome: Outcome::Released };
        Command::Settle(Settle { settlements: vec![one] })
    }

    /// Commands and the routes that do the same.
    fn twins() -> Vec<(Command, &'static str, &'static str)> {
        vec![
            (enqueue("t", &["g"]), "POST", "/api/jobs"),
            (Command::Extend(Extend { leases: vec![], lease_ms: 1000 }), "POST", "/api/leases/extend"),
            (settle(), "POST", "/api/leases/settle"),
            (
                Command::SealBulk(SealBulk { bulk: bulk(), expected: None }),
                "POST",
                "/api/bulks/{group}/{bulk}/seal",
            ),
            (Command::HoldBulk(HoldBulk { bulk: bulk() }), "POST", "/api/bulks/{group}/{bulk}/hold"),
            (Command::ResumeBulk(ResumeBulk { bulk: bulk() }), "POST", "/api/bulks/{group}/{bulk}/resume"),
            (Command::CancelBulk(CancelBulk { bulk: bulk() }), "POST", "/api/bulks/{group}/{bulk}/cancel"),
            (Command::CancelJob(CancelJob { jobs: vec![job("g")] }), "POST", "/api/jobs/cancel"),
            (Command::RequeueDead(RequeueDead { jobs: vec![job("g")] }), "POST", "/api/dead/requeue"),
            (Command::Discard(Discard { jobs: vec![job("g")] }), "POST", "/api/dead/discard"),
            (set_group(), "PATCH", "/api/groups/{group}"),
            (set_type(Some(true)), "PATCH", "/api/types/{type}"),
            (Command::SetWhole(SetWhole { settings: Settings::default() }), "PATCH", "/api/settings"),
            (Command::Inspect(Inspect::Whole), "GET", "/api/status"),
            (Command::Inspect(Inspect::Groups { after: None, limit: 1 }), "GET", "/api/groups"),
            (Command::Inspect(Inspect::Group(group("g"))), "GET", "/api/groups/{group}"),
            (Command::Inspect(Inspect::Type(TypeId::new("t").unwrap())), "GET", "/api/types/{type}"),
            (Command::Inspect(Inspect::Bulk(bulk())), "GET", "/api/bulks/{group}/{bulk}"),
            (Command::Inspect(Inspect::Congestion(group("g"))), "GET", "/api/groups/{group}/congestion"),
            (Command::Explain(Explain { job: job("g") }), "GET", "/api/jobs/{group}/{job}/why"),
            (list(Listing::Dead, Some(group("g"))), "GET", "/api/dead"),
            (Command::Audit(Audit { suspects: vec![], repair: true }), "POST", "/api/audit"),
        ]
    }

    #[test]
    fn a_command_needs_what_its_route_needs() {
        for (command, method, path) in twins() {
            let found = ROUTES.iter().find(|route| route.path == path && route.method.as_str() == method);
            let Route { permission, scope, .. } = found.unwrap_or_else(|| panic!("{method} {path}"));
            let (needed, touched) = permission_of(&command);
            assert_eq!(needed, *permission, "{command:?}");
            let same = match touched {
                Touched::Groups(_) => matches!(scope, Scope::Path | Scope::Named),
                Touched::Whole => *scope == Scope::Whole,
                Touched::Nobody => *scope == Scope::Nobody,
            };
            assert!(same, "{command:?} is about other data than {path}");
        }
    }

    fn caller(role: Role, groups: Option<&[&str]>) -> Caller {
        let groups =
            groups.map(|names| Arc::new(names.iter().map(|name| group(name)).collect::<BTreeSet<_>>()));
        Caller { name: "key".into(), role, groups }
    }

    #[test]
    fn the_loops_of_a_worker_are_a_workers() {
        for command in [
            Command::Promote(Promote { jobs_max: 1 }),
            Command::Reclaim(Reclaim { jobs_max: 1 }),
            Command::Admit(Admit { jobs_max: 1 }),
            Command::Sweep(Sweep { jobs_max: 1 }),
            Command::TakeCompleted(TakeCompleted { bulks_max: 1, lease_ms: 1000 }),
            enqueue(CALLBACK_TYPE, &["g"]),
        ] {
            assert!(check_command(&caller(Role::Worker, None), &command).is_ok(), "{command:?}");
            assert!(check_command(&caller(Role::Admin, None), &command).is_ok(), "{command:?}");
            assert!(check_command(&caller(Role::Viewer, None), &command).is_err(), "{command:?}");
        }
        let mixed = enqueue("t", &["g"]);
        assert!(check_command(&caller(Role::Worker, None), &mixed).is_err());
    }

    #[test]
    fn a_producer_makes_room_for_a_type_and_changes_none() {
        let producer = caller(Role::Producer, Some(&["g"]));
        assert!(check_command(&producer, &set_type(None)).is_ok());
        assert!(check_command(&producer, &set_type(Some(true))).is_err());
    }

    #[test]
    fn a_key_that_is_bound_to_groups_touches_no_others_and_not_the_whole() {
        let admin = caller(Role::Admin, Some(&["g"]));
        for command in [enqueue("t", &["g", "g"]), settle(), list(Listing::Dead, Some(group("g")))] {
            assert!(check_command(&admin, &command).is_ok(), "{command:?}");
        }
        for command in [
            enqueue("t", &["g", "other"]),
            list(Listing::Dead, None),
            list(Listing::Pending(group("other")), Some(group("g"))),
            Command::MakeDue(MakeDue { group: None, cursor: 0, jobs_max: 1 }),
            Command::Inspect(Inspect::Job(job("other"))),
            Command::Inspect(Inspect::Whole),
            Command::Promote(Promote { jobs_max: 1 }),
        ] {
            let refused = check_command(&admin, &command).expect_err("it is bound");
            assert!(refused.detail().contains("bound"), "{command:?}: {}", refused.detail());
        }
    }
}
