//! Roles, callers, and routes with the permission each requires.
//!
//! Invariant: a route that is not in the table is not served. The table, the router and the API
//! description come from one declaration, the `routes` of each file in `api/`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use axum::http::Method;
use fairlane_core::GroupId;
pub use fairlane_core::kernel::Permission;
use serde::{Deserialize, Serialize};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};

/// The role of a key: a set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// The clients that a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// Programs: they send a key, and errors are problem documents.
    Api,
    /// Browsers: they send the cookie of a session too, errors are pages, and changes are accepted
    /// from pages of this server only.
    Page,
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
    /// The clients that it is for.
    pub surface: Surface,
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
    /// Every method in use.
    pub const ALL: [Self; 4] = [Self::Get, Self::Post, Self::Patch, Self::Delete];

    /// The name of the method in HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// The operation with this method in the description of a path.
    pub(crate) fn operation(self, item: &mut PathItem) -> Option<&mut Operation> {
        match self {
            Self::Get => item.get.as_mut(),
            Self::Post => item.post.as_mut(),
            Self::Patch => item.patch.as_mut(),
            Self::Delete => item.delete.as_mut(),
        }
    }

    fn matches(self, method: &Method) -> bool {
        self.as_str() == method.as_str() || (self == Self::Get && method == Method::HEAD)
    }
}

/// Every route that requires a key.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(crate::api::guarded_routes);

/// Routes that require a key, each declared once: its handler gives method and path, and the call
/// that adds it gives permission, scope and pace.
#[derive(Default)]
pub(crate) struct Routes {
    pub router: OpenApiRouter<Shared>,
    pub table: Vec<Route>,
}

impl Routes {
    /// Adds handlers of one path, with their descriptions, as `routes!` makes them.
    pub fn add(
        mut self,
        pace: Pace,
        permission: Permission,
        scope: Scope,
        mut handlers: UtoipaMethodRouter<Shared>,
    ) -> Self {
        for (path, item) in &mut handlers.1.paths {
            let path: &'static str = path.clone().leak();
            for method in Verb::ALL {
                if method.operation(item).is_some() {
                    let surface = Surface::Api;
                    self.table.push(Route { method, path, permission, scope, pace, surface });
                }
            }
        }
        Self { router: self.router.routes(handlers), ..self }
    }

    /// Adds the routes of another file.
    pub fn merge(mut self, other: Self) -> Self {
        self.table.extend(other.table);
        Self { router: self.router.merge(other.router), ..self }
    }
}

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

    /// Refuses a group that the key is not bound to; without a group, a key that is bound to groups.
    pub fn check_group_or_all(&self, group: Option<&GroupId>) -> Result<(), Problem> {
        group.map_or_else(|| self.check_all_groups(), |group| self.check_group(group))
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
