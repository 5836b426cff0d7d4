//! The permission that an operation needs and the groups whose data it accesses.
//!
//! REST routes and the engine's RPC endpoint check the same values.

use crate::names::GroupId;

/// The permission that the caller of an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Read state.
    Read,
    /// Add jobs, and cancel, discard or requeue them.
    Produce,
    /// Lease jobs and settle them.
    Work,
    /// Change settings, limits and types.
    Operate,
}

impl Permission {
    /// The lower-case name of the permission.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Produce => "produce",
            Self::Work => "work",
            Self::Operate => "operate",
        }
    }
}

/// The groups whose data an operation accesses. A key that is bound to groups is
/// checked against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subjects<'a> {
    /// The data of these groups.
    Groups(Vec<&'a GroupId>),
    /// The data of every group.
    AllGroups,
    /// No group's data.
    NoGroup,
}

/// The permission and the subjects of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access<'a> {
    /// The permission that the caller needs.
    pub permission: Permission,
    /// The groups whose data the operation accesses.
    pub subjects: Subjects<'a>,
}

impl<'a> Access<'a> {
    /// Access to the data of one group.
    pub fn group(permission: Permission, group: &'a GroupId) -> Self {
        Self::groups(permission, [group])
    }

    /// Access to the data of these groups.
    pub fn groups(permission: Permission, groups: impl IntoIterator<Item = &'a GroupId>) -> Self {
        Self { permission, subjects: Subjects::Groups(groups.into_iter().collect()) }
    }

    /// Access to the data of one group, or of every group if none is named.
    pub fn group_or_all(permission: Permission, group: Option<&'a GroupId>) -> Self {
        group.map_or(Self::all_groups(permission), |group| Self::group(permission, group))
    }

    /// Access to the data of every group.
    pub const fn all_groups(permission: Permission) -> Self {
        Self { permission, subjects: Subjects::AllGroups }
    }

    /// Access to data that belongs to no group.
    pub const fn no_group(permission: Permission) -> Self {
        Self { permission, subjects: Subjects::NoGroup }
    }
}
