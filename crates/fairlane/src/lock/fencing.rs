//! How a resource refuses a holder that has lost its lock without noticing.
//!
//! Each grant of a lock has a [`Fence`](crate::Fence) larger than that of every earlier one. A
//! resource that remembers the largest fence it has seen, and refuses smaller ones, is safe even if
//! two processes believe that they hold the lock. For exclusive and write locks only: the holders of
//! a semaphore or read lock live side by side, so refusing the older fence would refuse a live one.
//!
//! # SQL
//!
//! Give the table a column `fence BIGINT NOT NULL DEFAULT 0`, set it in each change, and make the
//! change conditional with [`SQL_CONDITION`]. The number of changed rows says whether the fence was
//! current; [`check_rows`] turns it into an error. Read what the change depends on after the lock was
//! acquired.
//!
//! ```
//! use fairlane::fencing::{SQL_CONDITION, check_rows};
//! # fn execute(_: &str, _: (i64, i64)) -> u64 { 1 }
//! # fn issue(fence: fairlane::Fence) -> Result<(), fairlane::fencing::StaleFence> {
//! let update = format!("UPDATE coupon SET issued = issued + 1, fence = $1 WHERE id = $2 AND {SQL_CONDITION}");
//! let rows = execute(&update, (fence.0 as i64, 42));
//! check_rows(rows, fence)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Redis
//!
//! [`REDIS_SET`] sets a value unless a larger fence has set it before.

use fairlane_core::Fence;

/// The condition of a fenced `UPDATE` or `DELETE`; the first parameter is the fence.
pub const SQL_CONDITION: &str = "fence <= $1";

/// Sets the value in a Redis hash, unless a larger fence has set it before. `KEYS[1]` is the hash,
/// `ARGV` the fence and the value; the reply is 1 if the value was set and 0 if the fence is stale.
/// The hash has the fields `fence` and `value`.
pub const REDIS_SET: &str = "\
local latest = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < latest then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1";

/// A change that was refused, because a later holder has changed the resource, or because there is no
/// such row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing was changed under fence {0}: a later holder of the lock has changed the resource, or it does not exist"
)]
pub struct StaleFence(pub Fence);

/// Checks the number of rows that a fenced change has affected, or the reply of [`REDIS_SET`].
pub fn check_rows(rows: u64, fence: Fence) -> Result<(), StaleFence> {
    if rows == 0 { Err(StaleFence(fence)) } else { Ok(()) }
}
