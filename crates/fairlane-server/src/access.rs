//! Roles, callers, and the table of all routes with the permission each requires.
//!
//! Invariant: a route that is not in the table is not served; the table and the API description
//! name the same routes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use axum::http::Method;
use fairlane_core::GroupId;
pub use fairlane_core::kernel::Permission;
use serde::{Deserialize, Serialize};

use crate::problem::{Problem, ProblemKind};

/// The role of a key: a set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Has every permission.
    Admin,
    /// Reads, enqueues jobs, and cancels or requeues them.
    Producer,
    /// Reads, leases, extends and settles.
    Worker,
    /// Reads and changes nothing.
    Viewer,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Producer, Self::Worker, Self::Viewer];

    /// The name of the role, as in key files and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Viewer => "viewer",
        }
    }

    /// Whether the role grants a permission.
    pub const fn may(self, permission: Permission) -> bool {
        match permission {
            Permission::Read => true,
            Permission::Produce => matches!(self, Self::Admin | Self::Producer),
            Permission::Work => matches!(self, Self::Admin | Self::Worker),
            Permission::Operate => matches!(self, Self::Admin),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not the name of a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a role; the roles are admin, producer, worker and viewer")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// The groups whose data a route reads or changes. It decides what a key bound to groups may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The group in the path.
    Path,
    /// The groups named in the query or the body; the handler calls [`Caller::check_group`] for
    /// each.
    Named,
    /// All groups: keys bound to groups are refused.
    AllGroups,
    /// No group.
    NoGroup,
}

/// How long a request may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The response follows as soon as the engine has replied.
    Brief,
    /// The request waits for work or events.
    Held,
    /// The body or the response is a stream of any length; it takes more memory than other
    /// requests.
    Stream,
}

/// A route and the permission it requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The HTTP method.
    pub method: Verb,
    /// The path template, with parameters such as `{group}`.
    pub path: &'static str,
    /// The permission that the caller's role must grant.
    pub permission: Permission,
    /// The groups whose data it reads or changes.
    pub scope: Scope,
    /// How long a request may last.
    pub pace: Pace,
}

/// The HTTP methods in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads and changes nothing.
    Get,
    /// Adds something or runs an operation.
    Post,
    /// Changes settings.
    Patch,
    /// Removes something.
    Delete,
}

impl Verb {
    /// The name of the method in HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    fn matches(self, method: &Method) -> bool {
        self.as_str() == method.as_str() || (self == Self::Get && method == Method::HEAD)
    }
}

const fn route(method: Verb, path: &'static str, permission: Permission, scope: Scope) -> Route {
    Route { method, path, permission, scope, pace: Pace::Brief }
}

const fn held(method: Verb, path: &'static str, permission: Permission, scope: Scope) -> Route {
    Route { method, path, permission, scope, pace: Pace::Held }
}

const fn stream(method: Verb, path: &'static str, permission: Permission, scope: Scope) -> Route {
    Route { method, path, permission, scope, pace: Pace::Stream }
}

use Permission::{Operate, Produce, Read, Work};
use Verb::{Delete, Get, Patch, Post};

/// Every route that requires a key.
pub static ROUTES: &[Route] = &[
    route(Get, "/api/status", Read, Scope::AllGroups),
    held(Get, "/api/events", Read, Scope::AllGroups),
    route(Get, "/api/settings", Read, Scope::NoGroup),
    route(Patch, "/api/settings", Operate, Scope::AllGroups),
    route(Post, "/api/jobs", Produce, Scope::Named),
    route(Get, "/api/jobs", Read, Scope::Named),
    route(Post, "/api/jobs/batch", Produce, Scope::Named),
    stream(Post, "/api/jobs/stream", Produce, Scope::Named),
    route(Get, "/api/jobs/stream", Produce, Scope::Named),
    route(Post, "/api/jobs/cancel", Produce, Scope::Named),
    route(Get, "/api/jobs/{group}/{job}", Read, Scope::Path),
    route(Get, "/api/jobs/{group}/{job}/why", Read, Scope::Path),
    route(Post, "/api/jobs/{group}/{job}/cancel", Produce, Scope::Path),
    route(Post, "/api/jobs/{group}/{job}/requeue", Produce, Scope::Path),
    held(Post, "/api/leases", Work, Scope::AllGroups),
    route(Post, "/api/leases/extend", Work, Scope::Named),
    route(Post, "/api/leases/settle", Work, Scope::Named),
    route(Get, "/api/locks", Read, Scope::Named),
    route(Get, "/api/locks/{lock}", Read, Scope::Named),
    held(Post, "/api/locks/{lock}/acquire", Work, Scope::Named),
    route(Post, "/api/locks/{lock}/renew", Work, Scope::Named),
    route(Post, "/api/locks/{lock}/release", Work, Scope::Named),
    route(Post, "/api/locks/{lock}/break", Operate, Scope::Named),
    route(Post, "/api/bulks", Produce, Scope::Named),
    route(Get, "/api/bulks/{group}", Read, Scope::Path),
    route(Get, "/api/bulks/{group}/{bulk}", Read, Scope::Path),
    route(Post, "/api/bulks/{group}/{bulk}/seal", Produce, Scope::Path),
    route(Post, "/api/bulks/{group}/{bulk}/hold", Produce, Scope::Path),
    route(Post, "/api/bulks/{group}/{bulk}/resume", Produce, Scope::Path),
    route(Post, "/api/bulks/{group}/{bulk}/cancel", Produce, Scope::Path),
    held(Get, "/api/bulks/{group}/{bulk}/events", Read, Scope::Path),
    stream(Get, "/api/bulks/{group}/{bulk}/results", Read, Scope::Path),
    route(Get, "/api/groups", Read, Scope::AllGroups),
    route(Get, "/api/groups/{group}", Read, Scope::Path),
    route(Patch, "/api/groups/{group}", Operate, Scope::Path),
    route(Post, "/api/groups/{group}/make-due", Operate, Scope::Path),
    route(Get, "/api/groups/{group}/congestion", Read, Scope::Path),
    route(Delete, "/api/groups/{group}/congestion", Operate, Scope::Path),
    route(Get, "/api/groups/{group}/congestion/history", Read, Scope::Path),
    route(Get, "/api/congestion", Read, Scope::AllGroups),
    route(Get, "/api/types", Read, Scope::NoGroup),
    route(Get, "/api/types/{type}", Read, Scope::NoGroup),
    route(Patch, "/api/types/{type}", Operate, Scope::AllGroups),
    route(Delete, "/api/types/{type}", Operate, Scope::AllGroups),
    route(Get, "/api/dead", Read, Scope::Named),
    route(Post, "/api/dead/requeue", Produce, Scope::Named),
    route(Post, "/api/dead/discard", Produce, Scope::Named),
    stream(Post, "/api/audit", Operate, Scope::AllGroups),
    route(Get, "/metrics", Read, Scope::AllGroups),
    // The command decides about its permission; see `engine_rpc.rs`.
    route(Get, "/engine", Read, Scope::NoGroup),
    route(Post, "/engine/execute", Read, Scope::Named),
    held(Post, "/engine/wait", Work, Scope::AllGroups),
    // A process id is unguessable, and the signals to it name no lock and no group.
    held(Post, "/engine/subscribe", Work, Scope::NoGroup),
    stream(Post, "/engine/walk", Operate, Scope::AllGroups),
];

impl Route {
    /// The route of a request, by the path template it matched.
    pub fn find(method: &Method, path: &str) -> Option<&'static Self> {
        ROUTES.iter().find(|route| route.path == path && route.method.matches(method))
    }
}

/// The sender of a request, as its key identifies it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The id of the key, or `anonymous` where no key is required.
    pub name: Arc<str>,
    /// The role of the key.
    pub role: Role,
    /// The groups the key is bound to; `None` if it is not bound.
    pub groups: Option<Arc<BTreeSet<GroupId>>>,
}

impl Caller {
    /// The caller of a server that requires no key.
    pub fn anonymous() -> Self {
        static ANONYMOUS: LazyLock<Arc<str>> = LazyLock::new(|| "anonymous".into());
        Self { name: ANONYMOUS.clone(), role: Role::Admin, groups: None }
    }

    /// Refuses a permission that the role does not grant.
    pub fn check(&self, permission: Permission) -> Result<(), Problem> {
        if self.role.may(permission) {
            return Ok(());
        }
        let allowed: Vec<&str> =
            Role::ALL.into_iter().filter(|role| role.may(permission)).map(Role::as_str).collect();
        Err(ProblemKind::Forbidden.because(format!(
            "this requires the permission to {}, which the role {} does not give; use a key with the role {}",
            permission.as_str(),
            self.role,
            allowed.join(" or ")
        )))
    }

    /// Refuses a group that the key is not bound to.
    pub fn check_group(&self, group: &GroupId) -> Result<(), Problem> {
        match &self.groups {
            Some(groups) if !groups.contains(group) => Err(ProblemKind::Forbidden.because(format!(
                "this key is bound to other groups than {group}; use a key that is bound to it or to no group"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a key that is bound to groups.
    pub fn check_all_groups(&self) -> Result<(), Problem> {
        match &self.groups {
            Some(_) => Err(ProblemKind::Forbidden.because(
                "this concerns all groups, and this key is bound to groups; use a key that is not bound to groups",
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_description_name_the_same_routes() {
        let api = crate::openapi();
        let mut described: BTreeSet<(String, String)> = BTreeSet::new();
        for (path, item) in &api.paths.paths {
            for (method, operation) in [
                ("GET", &item.get),
                ("POST", &item.post),
                ("PATCH", &item.patch),
                ("DELETE", &item.delete),
                ("PUT", &item.put),
            ] {
                if operation.is_some() {
                    described.insert((method.into(), path.clone()));
                }
            }
        }
        let table: BTreeSet<(String, String)> =
            ROUTES.iter().map(|route| (route.method.as_str().to_owned(), route.path.to_owned())).collect();
        let open = ["/healthz", "/readyz", "/openapi.json"];
        let is_rpc = |path: &str| path.starts_with("/engine");
        let missing: Vec<_> =
            described.difference(&table).filter(|(_, path)| !open.contains(&path.as_str())).collect();
        let undescribed: Vec<_> = table.difference(&described).filter(|(_, path)| !is_rpc(path)).collect();
        assert!(missing.is_empty() && undescribed.is_empty(), "{missing:?} {undescribed:?}");
    }

    #[test]
    fn a_key_bound_to_groups_is_refused_other_groups_and_all_groups() {
        let own = GroupId::new("own").unwrap();
        let bound = Caller {
            name: "k".into(),
            role: Role::Viewer,
            groups: Some(Arc::new(BTreeSet::from([own.clone()]))),
        };
        assert!(bound.check_group(&own).is_ok());
        assert!(bound.check_group(&GroupId::new("other").unwrap()).is_err());
        assert!(bound.check_all_groups().is_err());
        assert!(bound.check(Permission::Read).is_ok() && bound.check(Permission::Produce).is_err());
    }
}
