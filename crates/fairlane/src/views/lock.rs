//! Locks: their holders and waiters.

use fairlane_core::lock::{self, Blocked, LockKind};
use serde::Serialize;

#[cfg(feature = "openapi")]
use super::schema;

/// A lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Lock))]
pub struct LockView {
    /// The name of the lock.
    #[cfg_attr(feature = "openapi", schema(example = "coupon:issue:42"))]
    pub lock: String,
    /// One holder at a time (`exclusive`), one writer or many readers (`read-write`), or as many
    /// holders as there are permits (`semaphore`).
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::lock_kinds))]
    pub kind: &'static str,
    /// The permits of a semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// The number of holders.
    pub holders: u64,
    /// The holders whose leases end first, at most 20.
    pub held_by: Vec<HolderView>,
    /// Waiters, including those that the lock is reserved for.
    pub waiters: u64,
    /// Waiters that the lock is reserved for.
    pub reserved: u64,
    /// For how many more milliseconds no caller gets the lock, because a holder has died.
    pub delay_ms: u64,
}

/// A holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LockHolder))]
pub struct HolderView {
    /// The name that the holder has given itself.
    #[cfg_attr(feature = "openapi", schema(example = "app-1:shop:4711"))]
    pub holder: String,
    /// How the lock is held.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::lock_modes))]
    pub mode: &'static str,
    /// The fence of the acquisition.
    pub fence: u64,
    /// How many milliseconds the lock has been held.
    pub held_ms: u64,
    /// How many milliseconds the lock is held unless it is renewed.
    pub remaining_ms: u64,
}

/// Why a lock is not free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LockBlocked))]
pub struct BlockedView {
    /// The holder whose lease ends first; absent if the lock is reserved for another waiter or in
    /// its delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<HolderView>,
    /// Waiters, including those that the lock is reserved for.
    pub waiters: u64,
    /// After how many milliseconds the lock changes even if no one releases it.
    pub changes_in_ms: u64,
}

impl From<lock::LockView> for LockView {
    fn from(view: lock::LockView) -> Self {
        let (kind, permits) = match view.kind {
            LockKind::Exclusive => ("exclusive", None),
            LockKind::ReadWrite => ("read-write", None),
            LockKind::Semaphore { permits } => ("semaphore", Some(permits)),
        };
        Self {
            lock: view.name.to_string(),
            kind,
            permits,
            holders: view.holders,
            held_by: view.held_by.into_iter().map(HolderView::from).collect(),
            waiters: view.waiters,
            reserved: view.claims,
            delay_ms: view.delay_us.div_ceil(1000),
        }
    }
}

impl From<lock::HolderView> for HolderView {
    fn from(view: lock::HolderView) -> Self {
        Self {
            holder: view.holder.to_string(),
            mode: view.mode.as_str(),
            fence: view.fence.0,
            held_ms: view.held_us / 1000,
            remaining_ms: view.remaining_us.div_ceil(1000),
        }
    }
}

impl From<Blocked> for BlockedView {
    fn from(blocked: Blocked) -> Self {
        Self {
            holder: blocked.holder.map(HolderView::from),
            waiters: blocked.waiters,
            changes_in_ms: blocked.changes_in_us.div_ceil(1000),
        }
    }
}
