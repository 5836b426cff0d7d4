//! The permission a command requires: the same as that of the equivalent route.

use fairlane_core::kernel::{Access, Subjects};
use fairlane_core::queue::{self, QueueView};
use fairlane_core::{Command, Reply};

use crate::access::Caller;
use crate::problem::Problem;

/// Refuses a command that the caller's key does not permit.
pub(super) fn check_command(caller: &Caller, command: &Command) -> Result<(), Problem> {
    let Access { permission, subjects } = command.access();
    caller.check(permission)?;
    match subjects {
        Subjects::Groups(groups) => groups.into_iter().try_for_each(|group| caller.check_group(group)),
        Subjects::AllGroups => caller.check_all_groups(),
        Subjects::NoGroup => Ok(()),
    }
}

/// Removes from a reply what the caller's key may not read: of the queue, a key bound to groups
/// reads the settings and the types, as through the routes for these, and no counts over all
/// groups.
pub(super) fn redact(caller: &Caller, reply: Reply) -> Reply {
    match reply {
        Reply::Queue(queue::Reply::InspectQueue(view)) if caller.groups.is_some() => {
            let QueueView { settings, types, .. } = view;
            Reply::Queue(queue::Reply::InspectQueue(QueueView {
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
                succeeded_total: 0,
                dead_total: 0,
            }))
        }
        reply => reply,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use fairlane_core::activity::ListActivity;
    use fairlane_core::kernel::Registered;
    use fairlane_core::lock::{BreakLock, InspectLock, ListLocks, LockName, ReleaseLock, SweepLocks};
    use fairlane_core::queue::{
        Admit, Audit, BulkRef, CALLBACK_TYPE, CancelBulk, CancelJob, Discard, Enqueue, Explain, Extend,
        GroupPatch, HoldBulk, InspectBulk, InspectCongestion, InspectGroup, InspectJob, InspectQueue,
        InspectType, JobRef, LeaseBulks, ListGroups, ListJobs, ListLargestGroups, Listing, Machine, MakeDue,
        NewJob, Outcome, Promote, Reclaim, RemoveType, ReportProgress, RequeueDead, ResumeBulk, SealBulk,
        SetGroup, SetQueue, SetType, Settings, Settle, Settlement, Sweep, TypePatch,
    };
    use fairlane_core::{BulkId, Fence, GroupId, HashSeed, JobId, LockToken, Micros, TypeId, WorkerId};

    use super::*;
    use crate::access::{ROUTES, Role, Route, Scope};

    fn group(name: &str) -> GroupId {
        GroupId::new(name).unwrap()
    }

    fn lock() -> LockName {
        LockName::new("g:seat").unwrap()
    }

    fn job(name: &str) -> JobRef {
        JobRef { group: group(name), id: JobId::new("1").unwrap() }
    }

    fn bulk() -> BulkRef {
        BulkRef { group: group("g"), id: BulkId::new("b").unwrap() }
    }

    fn type_id(name: &str) -> TypeId {
        TypeId::new(name).unwrap()
    }

    fn enqueue(type_name: &str, groups: &[&str]) -> Enqueue {
        let new = |name: &&str| NewJob::new(job(name), type_id(type_name), Arc::from(&b"{}"[..]));
        Enqueue { jobs: groups.iter().map(new).collect() }
    }

    fn set_type(name: &str, paused: Option<bool>) -> Command {
        let patch = TypePatch { paused, ..TypePatch::default() };
        SetType { type_id: type_id(name), patch }.into_command()
    }

    fn list(listing: Listing, group: Option<GroupId>) -> Command {
        ListJobs { listing, group, type_id: None, cursor: 0, limit: 1 }.into_command()
    }

    fn set_group() -> Command {
        let patch = GroupPatch::default();
        SetGroup { group: group("g"), patch, reset_congestion: false }.into_command()
    }

    fn settle() -> Command {
        let one = Settlement { job: job("g"), fence: Fence(1), outcome: Outcome::Released };
        Settle { settlements: vec![one] }.into_command()
    }

    /// Commands and the equivalent routes.
    fn routes_of_commands() -> Vec<(Command, &'static str, &'static str)> {
        vec![
            (enqueue("t", &["g"]).into_command(), "POST", "/api/jobs"),
            (Extend { leases: vec![], lease_ms: 1000 }.into_command(), "POST", "/api/leases/extend"),
            (ReportProgress { reports: vec![] }.into_command(), "POST", "/api/leases/extend"),
            (settle(), "POST", "/api/leases/settle"),
            (
                SealBulk { bulk: bulk(), expected: None }.into_command(),
                "POST",
                "/api/bulks/{group}/{bulk}/seal",
            ),
            (HoldBulk { bulk: bulk() }.into_command(), "POST", "/api/bulks/{group}/{bulk}/hold"),
            (ResumeBulk { bulk: bulk() }.into_command(), "POST", "/api/bulks/{group}/{bulk}/resume"),
            (CancelBulk { bulk: bulk() }.into_command(), "POST", "/api/bulks/{group}/{bulk}/cancel"),
            (CancelJob { jobs: vec![job("g")] }.into_command(), "POST", "/api/jobs/cancel"),
            (RequeueDead { jobs: vec![job("g")] }.into_command(), "POST", "/api/dead/requeue"),
            (Discard { jobs: vec![job("g")] }.into_command(), "POST", "/api/dead/discard"),
            (set_group(), "PATCH", "/api/groups/{group}"),
            (set_type("t", Some(true)), "PATCH", "/api/types/{type}"),
            (RemoveType { type_id: type_id("t") }.into_command(), "DELETE", "/api/types/{type}"),
            (SetQueue { settings: Settings::default() }.into_command(), "PATCH", "/api/settings"),
            (InspectQueue.into_command(), "GET", "/api/settings"),
            (InspectQueue.into_command(), "GET", "/api/types"),
            (ListGroups { after: None, limit: 1, all: true }.into_command(), "GET", "/api/groups"),
            (ListLargestGroups { after: None, limit: 1 }.into_command(), "GET", "/api/groups"),
            (InspectGroup { group: group("g") }.into_command(), "GET", "/api/groups/{group}"),
            (InspectType { type_id: type_id("t") }.into_command(), "GET", "/api/types/{type}"),
            (InspectBulk { bulk: bulk() }.into_command(), "GET", "/api/bulks/{group}/{bulk}"),
            (InspectCongestion { group: group("g") }.into_command(), "GET", "/api/groups/{group}/congestion"),
            (Explain { job: job("g") }.into_command(), "GET", "/api/jobs/{group}/{job}/why"),
            (list(Listing::Dead, Some(group("g"))), "GET", "/api/dead"),
            (Audit { suspects: vec![], repair: true }.into_command(), "POST", "/api/audit"),
            (ListActivity { before: None, subject: None, limit: 1 }.into_command(), "GET", "/api/activity"),
            (InspectLock { name: lock() }.into_command(), "GET", "/api/locks/{lock}"),
            (
                ReleaseLock { name: lock(), token: LockToken::new("t").unwrap() }.into_command(),
                "POST",
                "/api/locks/{lock}/release",
            ),
            (BreakLock { name: lock(), fence: None }.into_command(), "POST", "/api/locks/{lock}/break"),
        ]
    }

    #[test]
    fn a_command_requires_the_permission_of_its_route() {
        for (command, method, path) in routes_of_commands() {
            let found = ROUTES.iter().find(|route| route.path == path && route.method.as_str() == method);
            let Route { permission, scope, .. } = found.unwrap_or_else(|| panic!("{method} {path}"));
            let access = command.access();
            assert_eq!(access.permission, *permission, "{command:?}");
            let is_same = match access.subjects {
                Subjects::Groups(_) => matches!(scope, Scope::Path | Scope::Named),
                Subjects::AllGroups => *scope == Scope::AllGroups,
                Subjects::NoGroup => *scope == Scope::NoGroup,
            };
            assert!(is_same, "{command:?} has other subjects than {path}");
        }
    }

    fn caller(role: Role, groups: Option<&[&str]>) -> Caller {
        let groups =
            groups.map(|names| Arc::new(names.iter().map(|name| group(name)).collect::<BTreeSet<_>>()));
        Caller { name: "key".into(), role, groups }
    }

    #[test]
    fn a_worker_may_run_the_maintenance_loops() {
        for command in [
            Promote { jobs_max: 1 }.into_command(),
            Reclaim { jobs_max: 1 }.into_command(),
            Admit { jobs_max: 1 }.into_command(),
            Sweep { jobs_max: 1 }.into_command(),
            SweepLocks { locks_max: 1 }.into_command(),
            LeaseBulks { worker: WorkerId::new("w").unwrap(), bulks_max: 1, lease_ms: 1000 }.into_command(),
        ] {
            assert!(check_command(&caller(Role::Worker, None), &command).is_ok(), "{command:?}");
            assert!(check_command(&caller(Role::Admin, None), &command).is_ok(), "{command:?}");
            assert!(check_command(&caller(Role::Viewer, None), &command).is_err(), "{command:?}");
        }
        for type_name in ["t", CALLBACK_TYPE] {
            let enqueue = enqueue(type_name, &["g"]).into_command();
            assert!(check_command(&caller(Role::Worker, None), &enqueue).is_err());
        }
    }

    #[test]
    fn a_producer_may_add_a_type_and_not_change_it() {
        let producer = caller(Role::Producer, None);
        assert!(check_command(&producer, &set_type("t", None)).is_ok());
        assert!(check_command(&producer, &set_type("t", Some(true))).is_err());
    }

    #[test]
    fn a_producer_bound_to_groups_may_add_no_type() {
        let bound = caller(Role::Producer, Some(&["g"]));
        for type_name in ["t", CALLBACK_TYPE] {
            assert!(check_command(&bound, &set_type(type_name, None)).is_err());
        }
    }

    #[test]
    fn a_key_bound_to_groups_may_not_access_other_groups_or_all_groups() {
        let admin = caller(Role::Admin, Some(&["g"]));
        let inspect_lock = |name: &str| InspectLock { name: LockName::new(name).unwrap() }.into_command();
        for command in [
            enqueue("t", &["g", "g"]).into_command(),
            settle(),
            list(Listing::Dead, Some(group("g"))),
            inspect_lock("g:seat:1"),
        ] {
            assert!(check_command(&admin, &command).is_ok(), "{command:?}");
        }
        for command in [
            enqueue("t", &["g", "other"]).into_command(),
            list(Listing::Dead, None),
            list(Listing::Pending(group("other")), Some(group("g"))),
            MakeDue { group: None, cursor: 0, jobs_max: 1 }.into_command(),
            InspectJob { job: job("other") }.into_command(),
            inspect_lock("other:seat:1"),
            inspect_lock("seat"),
            ListLocks { group: None, after: None, locks_max: 1 }.into_command(),
            ListGroups { after: None, limit: 1, all: true }.into_command(),
            Promote { jobs_max: 1 }.into_command(),
        ] {
            let refused = check_command(&admin, &command).expect_err("the key is bound");
            assert!(refused.detail().contains("bound"), "{command:?}: {}", refused.detail());
        }
    }

    #[test]
    fn a_key_bound_to_groups_reads_only_the_settings_and_types_of_the_queue() {
        let now = Micros(1_000_000_000_000_000);
        let settings = Settings { max_retry_count: 7, ..Settings::default() };
        let mut machine = Machine::new(settings, HashSeed::FIXED, now);
        machine.call(enqueue("t", &["g", "other"]), now);
        let all = machine.call(InspectQueue, now);
        let reply = Reply::Queue(queue::Reply::InspectQueue(all.clone()));
        let read = |groups| match redact(&caller(Role::Viewer, groups), reply.clone()) {
            Reply::Queue(queue::Reply::InspectQueue(view)) => view,
            other => panic!("{other:?}"),
        };
        assert_eq!(read(None), all);
        let bound = read(Some(&["g"][..]));
        assert_eq!((all.backlog, all.active_groups, all.active_lanes), (2, 2, [0, 2, 0]));
        assert_eq!((bound.backlog, bound.active_groups, bound.active_lanes), (0, 0, [0; 3]));
        assert_eq!((bound.settings, bound.types), (all.settings, all.types));
    }
}
