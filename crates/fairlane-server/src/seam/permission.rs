//! What a command needs: the same as the route that does the same.

use fairlane_core::GroupId;
use fairlane_core::queue::{
    Command, Inspect, Inspected, JobRef, ListJobs, Listing, Reply, TypePatch, WholeView,
};
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

/// Takes out of a reply what the caller's key is not for: of the whole, one that is bound to groups sees what is nobody's
/// data, its settings and the types, as by the routes of these. The counts are of all groups.
pub(super) fn without_others(caller: &Caller, reply: Reply) -> Reply {
    match reply {
        Reply::Inspected(Inspected::Whole(whole)) if caller.groups.is_some() => {
            let WholeView { settings, types, .. } = whole;
            Reply::Inspected(Inspected::Whole(WholeView {
                settings,
                types,
                backlog: 0,
                waiting: 0,
                in_flight: 0,
                parked_lanes: 0,
                completed: 0,
                failed: 0,
                stored_bytes: 0,
                active_groups: 0,
                aggregating: 0,
                sweeping: 0,
                saved_spins: 0,
                active_lanes: [0; 3],
            }))
        }
        reply => reply,
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
        // Makes room for a type and changes nothing, as enqueueing the first job of it does. Room is everybody's; that
        // for callbacks is made by whoever opens a bulk action with one.
        Command::SetType(set) if set.patch == TypePatch::default() => {
            let is_callback = set.type_id.escaped() == CALLBACK_TYPE;
            (Produce, if is_callback { Touched::Nobody } else { Touched::Whole })
        }
        Command::SetType(_) | Command::RemoveType(_) | Command::SetWhole(_) | Command::Audit(_) => {
            (Operate, Touched::Whole)
        }
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
        // See `without_others`.
        Inspect::Type(_) | Inspect::Whole => Touched::Nobody,
        Inspect::Groups { .. } => Touched::Whole,
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

    fn set_type(name: &str, paused: Option<bool>) -> Command {
        let patch = TypePatch { paused, ..TypePatch::default() };
        Command::SetType(SetType { type_id: TypeId::new(name).unwrap(), patch })
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
            (set_type("t", Some(true)), "PATCH", "/api/types/{type}"),
            (
                Command::RemoveType(RemoveType { type_id: TypeId::new("t").unwrap() }),
                "DELETE",
                "/api/types/{type}",
            ),
            (Command::SetWhole(SetWhole { settings: Settings::default() }), "PATCH", "/api/settings"),
            (Command::Inspect(Inspect::Whole), "GET", "/api/settings"),
            (Command::Inspect(Inspect::Whole), "GET", "/api/types"),
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
            Command::TakeCompleted(TakeCompleted {
                worker: fairlane_core::WorkerId::new("w").unwrap(),
                bulks_max: 1,
                lease_ms: 1000,
            }),
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
        let producer = caller(Role::Producer, None);
        assert!(check_command(&producer, &set_type("t", None)).is_ok());
        assert!(check_command(&producer, &set_type("t", Some(true))).is_err());
    }

    #[test]
    fn a_producer_who_is_bound_to_groups_makes_room_for_callbacks_alone() {
        let bound = caller(Role::Producer, Some(&["g"]));
        assert!(check_command(&bound, &set_type("t", None)).is_err());
        assert!(check_command(&bound, &set_type(CALLBACK_TYPE, None)).is_ok());
        assert!(check_command(&bound, &set_type(CALLBACK_TYPE, Some(true))).is_err());
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
            Command::Inspect(Inspect::Groups { after: None, limit: 1 }),
            Command::Promote(Promote { jobs_max: 1 }),
        ] {
            let refused = check_command(&admin, &command).expect_err("it is bound");
            assert!(refused.detail().contains("bound"), "{command:?}: {}", refused.detail());
        }
    }

    #[test]
    fn a_key_that_is_bound_to_groups_sees_of_the_whole_its_settings_and_types_alone() {
        let now = fairlane_core::Micros(1_000_000_000_000_000);
        let mut machine = Machine::new(
            Settings { max_retry_count: 7, ..Settings::default() },
            fairlane_core::HashSeed::FIXED,
            now,
        );
        machine.apply(enqueue("t", &["g", "other"]), now);
        let reply = machine.apply(Command::Inspect(Inspect::Whole), now);
        let seen = |groups| match without_others(&caller(Role::Viewer, groups), reply.clone()) {
            Reply::Inspected(Inspected::Whole(whole)) => whole,
            other => panic!("{other:?}"),
        };
        let (all, bound) = (seen(None), seen(Some(&["g"][..])));
        assert_eq!((all.backlog, all.active_groups, all.active_lanes), (2, 2, [0, 2, 0]));
        assert_eq!((bound.backlog, bound.active_groups, bound.active_lanes), (0, 0, [0; 3]));
        assert_eq!((bound.settings, bound.types), (all.settings, all.types));
    }
}
