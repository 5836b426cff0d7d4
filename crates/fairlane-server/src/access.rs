//! Which role may do what: every route with what it needs, in one table.
//!
//! Invariant: a route that is not in the table is not served; the table and the API's description name the same
//! routes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use axum::http::Method;
use fairlane_core::GroupId;
use serde::{Deserialize, Serialize};

use crate::problem::{Problem, ProblemKind};

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything.
    Admin,
    /// Enqueues, and cancels or repeats what was enqueued.
    Producer,
    /// Leases, extends and settles.
    Worker,
    /// Looks.
    Viewer,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Producer, Self::Worker, Self::Viewer];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Viewer => "viewer",
        }
    }

    /// Whether it may.
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

/// Not a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no role; there are admin, producer, worker and viewer")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Looking.
    Read,
    /// Adding jobs, and deciding about those added.
    Produce,
    /// Taking jobs and saying what became of them.
    Work,
    /// Changing how the queue runs.
    Operate,
}

impl Permission {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Produce => "produce",
            Self::Work => "work",
            Self::Operate => "operate",
        }
    }
}

/// Whose data a route is about: what a key that is bound to groups can do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of the group in the path.
    Path,
    /// Of the groups named in the query or the body; the handler asks [`Caller::check_group`] for each.
    Named,
    /// Of all groups: keys that are bound to some are refused.
    Whole,
    /// Of no group.
    Nobody,
}

/// How long a request may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It is answered as soon as the engine has answered.
    Brief,
    /// It waits for work or events.
    Held,
    /// It reads or writes as much as there is, and takes more memory than others.
    Stream,
}

/// A route and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Its method.
    pub method: Verb,
    /// Its path, with `{group}` and the like.
    pub path: &'static str,
    /// What it needs.
    pub permission: Permission,
    /// Whose data it is about.
    pub scope: Scope,
    /// How long it may be held.
    pub pace: Pace,
}

/// The methods in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Looks.
    Get,
    /// Does.
    Post,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
}

impl Verb {
    /// As HTTP says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    fn is(self, method: &Method) -> bool {
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

/// Every route that asks for a key.
pub static ROUTES: &[Route] = &[
    route(Get, "/api/status", Read, Scope::Whole),
    held(Get, "/api/events", Read, Scope::Whole),
    route(Get, "/api/settings", Read, Scope::Nobody),
    route(Patch, "/api/settings", Operate, Scope::Whole),
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
    held(Post, "/api/leases", Work, Scope::Whole),
    route(Post, "/api/leases/extend", Work, Scope::Named),
    route(Post, "/api/leases/settle", Work, Scope::Named),
    route(Post, "/api/bulks", Produce, Scope::Named),
    route(Get, "/api/bulks/{group}", Read, Scope::Path),
    route(Get, "/api/bulks/{group}/{bulk}", Read, Scope::Path),
    route(Post, "/api/bulks/{group}/{bulk}/seal", Produce, Scope::Path),
    route(Post, "/api/bulks/{group}/{bulk}/hold", Produce, Scope::Path),
    route(Post, "/api/bulks/{group}/{bulk}/resume", Produce, Scope::Path),
    route(Post, "/api/bulks/{group}/{bulk}/cancel", Produce, Scope::Path),
    held(Get, "/api/bulks/{group}/{bulk}/events", Read, Scope::Path),
    stream(Get, "/api/bulks/{group}/{bulk}/results", Read, Scope::Path),
    route(Get, "/api/groups", Read, Scope::Whole),
    route(Get, "/api/groups/{group}", Read, Scope::Path),
    route(Patch, "/api/groups/{group}", Operate, Scope::Path),
    route(Post, "/api/groups/{group}/make-due", Operate, Scope::Path),
    route(Get, "/api/groups/{group}/congestion", Read, Scope::Path),
    route(Delete, "/api/groups/{group}/congestion", Operate, Scope::Path),
    route(Get, "/api/groups/{group}/congestion/history", Read, Scope::Path),
    route(Get, "/api/congestion", Read, Scope::Whole),
    route(Get, "/api/types", Read, Scope::Nobody),
    route(Get, "/api/types/{type}", Read, Scope::Nobody),
    route(Patch, "/api/types/{type}", Operate, Scope::Whole),
    route(Delete, "/api/types/{type}", Operate, Scope::Whole),
    route(Get, "/api/dead", Read, Scope::Named),
    route(Post, "/api/dead/requeue", Produce, Scope::Named),
    route(Post, "/api/dead/discard", Produce, Scope::Named),
    stream(Post, "/api/audit", Operate, Scope::Whole),
    route(Get, "/metrics", Read, Scope::Whole),
    // The seam decides for each command; see `seam.rs`.
    route(Get, "/engine", Read, Scope::Nobody),
    route(Post, "/engine/execute", Read, Scope::Named),
    held(Post, "/engine/wait", Work, Scope::Whole),
    stream(Post, "/engine/walk", Operate, Scope::Whole),
];

impl Route {
    /// The route of a request, by the path it matched.
    pub fn find(method: &Method, path: &str) -> Option<&'static Self> {
        ROUTES.iter().find(|route| route.path == path && route.method.is(method))
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The key's id, or `anonymous` where no key is asked for.
    pub name: Arc<str>,
    /// What the key is for.
    pub role: Role,
    /// The groups it is bound to; none: not bound.
    pub groups: Option<Arc<BTreeSet<GroupId>>>,
}

impl Caller {
    /// Whoever comes where no key is asked for.
    pub fn anonymous() -> Self {
        static ANONYMOUS: LazyLock<Arc<str>> = LazyLock::new(|| "anonymous".into());
        Self { name: ANONYMOUS.clone(), role: Role::Admin, groups: None }
    }

    /// Refuses what the role is not for.
    pub fn check(&self, permission: Permission) -> Result<(), Problem> {
        if self.role.may(permission) {
            return Ok(());
        }
        let allowed: Vec<&str> =
            Role::ALL.into_iter().filter(|role| role.may(permission)).map(Role::as_str).collect();
        Err(ProblemKind::Forbidden.because(format!(
            "this needs the permission to {}, which a key with the role {} does not give; use a key with the role {}",
            permission.as_str(),
            self.role,
            allowed.join(" or ")
        )))
    }

    /// Refuses a group that the key is not bound to.
    pub fn check_group(&self, group: &GroupId) -> Result<(), Problem> {
        match &self.groups {
            Some(groups) if !groups.contains(group) => Err(ProblemKind::Forbidden.because(format!(
                "this key is bound to other groups than {group}; use a key that is bound to it or to none"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a key that is bound to groups.
    pub fn check_whole(&self) -> Result<(), Problem> {
        match &self.groups {
            Some(_) => Err(ProblemKind::Forbidden.because(
                "this concerns all groups, and this key is bound to some; use a key that is not bound to groups",
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
        let seam = |path: &str| path.starts_with("/engine");
        let missing: Vec<_> =
            described.difference(&table).filter(|(_, path)| !open.contains(&path.as_str())).collect();
        let undescribed: Vec<_> = table.difference(&described).filter(|(_, path)| !seam(path)).collect();
        assert!(missing.is_empty() && undescribed.is_empty(), "{missing:?} {undescribed:?}");
    }

    #[test]
    fn a_key_that_is_bound_to_groups_is_refused_others_and_the_whole() {
        let own = GroupId::new("own").unwrap();
        let bound = Caller {
            name: "k".into(),
            role: Role::Viewer,
            groups: Some(Arc::new(BTreeSet::from([own.clone()]))),
        };
        assert!(bound.check_group(&own).is_ok());
        assert!(bound.check_group(&GroupId::new("other").unwrap()).is_err());
        assert!(bound.check_whole().is_err());
        assert!(bound.check(Permission::Read).is_ok() && bound.check(Permission::Produce).is_err());
    }
}
