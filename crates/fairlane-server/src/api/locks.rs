//! Locks by name: acquire, renew and release with a token; inspect, list and break.
//!
//! The client renews: the server holds no lock for it, so a lock outlives a restart of the server
//! and passes on when its client has died.

use std::time::Duration;

use axum::extract::State;
use fairlane::views::{BlockedView, LockView, schema::lock_modes};
use fairlane::{Error, Fence, LockError, LockMode, LockName, LockOptions, LockReleased};
use fairlane_core::GroupId;
use fairlane_core::limits::INTEGER_MAX;
use fairlane_core::numbers::within;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::change::PAGE;
use crate::access::{Caller, Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::problem::{Problem, ProblemKind};

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Brief, Permission::Read, Scope::Named, routes!(list))
        .add(Pace::Brief, Permission::Read, Scope::Named, routes!(show))
        .add(Pace::Held, Permission::Work, Scope::Named, routes!(acquire))
        .add(Pace::Brief, Permission::Work, Scope::Named, routes!(renew))
        .add(Pace::Brief, Permission::Work, Scope::Named, routes!(release))
        .add(Pace::Brief, Permission::Operate, Scope::Named, routes!(break_holders))
}

/// The lock in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct LockPath {
    /// The name of the lock. What stands before its first `:` is the group that it belongs to.
    #[param(value_type = String, min_length = 1, max_length = 256, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "coupon:issue:42")]
    lock: LockName,
}

/// A request for a lock.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AcquireRequest, example = json!({"token": "0199a5b2-7d3c", "ttl_ms": 30000, "wait_ms": 10000}))]
struct AcquireRequest {
    /// A random text that renews and releases the lock; the server makes one by default. A request
    /// that is repeated with the same token gets the same hold.
    #[schema(min_length = 1, max_length = 128)]
    token: Option<String>,
    /// The name that others see; the key's name by default.
    #[schema(min_length = 1, max_length = 128, example = "app-1")]
    holder: Option<String>,
    /// `exclusive` by default; `read` and `write` for a read-write lock, `permit` for a semaphore.
    #[serde(default)]
    #[schema(schema_with = lock_modes)]
    mode: Mode,
    /// The permits of the semaphore, for the mode `permit`.
    #[schema(minimum = 1, maximum = 10000)]
    permits: Option<u32>,
    /// How many milliseconds the lock is held unless it is renewed.
    #[schema(minimum = 10, maximum = 86400000, default = 5000)]
    ttl_ms: Option<u64>,
    /// How many milliseconds to wait for the lock; a server may allow less than a minute.
    #[schema(minimum = 0, maximum = 60000, default = 0)]
    wait_ms: Option<u64>,
    /// Whether to leave a lock that has become free to the waiter that is next.
    #[serde(default)]
    fair: bool,
    /// How many milliseconds no caller gets the lock if its lease ends without a release.
    #[schema(minimum = 0, maximum = 60000, default = 0)]
    lock_delay_ms: Option<u64>,
    /// The longest time to hold the lock in milliseconds, renewals included.
    #[schema(minimum = 10, maximum = 2592000000_u64)]
    max_hold_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Exclusive,
    Read,
    Write,
    Permit,
}

impl AcquireRequest {
    /// The validated options, and how long to wait for the lock.
    fn checked(self, app: &Shared, caller: &Caller) -> Result<(LockOptions, Duration), Problem> {
        let mode = match (self.mode, self.permits) {
            (Mode::Exclusive, None) => LockMode::Exclusive,
            (Mode::Read, None) => LockMode::Read,
            (Mode::Write, None) => LockMode::Write,
            (Mode::Permit, Some(of)) => LockMode::Permit { of },
            (Mode::Permit, None) => {
                return Err(ProblemKind::Invalid
                    .because("a permit needs the number of permits")
                    .at("/permits"));
            }
            (_, Some(_)) => {
                return Err(ProblemKind::Invalid.because("permits go with the mode permit").at("/permits"));
            }
        };
        let wait_max_ms = app.settings.poll_max.as_millis() as u64;
        let wait_ms = within("a wait in ms", self.wait_ms.unwrap_or(0), 0, wait_max_ms)
            .map_err(|error| Problem::from(error).at("/wait_ms"))?;
        let default = LockOptions::default();
        let options = LockOptions {
            mode,
            ttl: self.ttl_ms.map_or(default.ttl, Duration::from_millis),
            fair: self.fair,
            lock_delay: Duration::from_millis(self.lock_delay_ms.unwrap_or(0)),
            max_hold: self.max_hold_ms.map(Duration::from_millis),
            holder: Some(self.holder.unwrap_or_else(|| caller.name.to_string())),
            token: self.token,
            ..default
        };
        Ok((options, Duration::from_millis(wait_ms)))
    }
}

/// The result of an acquisition. Without `held`, the client does not wait for the lock any more.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = Acquired)]
struct AcquireResponse {
    /// Whether the lock is held.
    held: bool,
    /// The token that renews and releases the lock, if it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The fence of this acquisition, larger than that of every earlier one. Let the resource refuse
    /// smaller ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// How many milliseconds the lock is held unless it is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    /// Why the lock is not free, if it is not held.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<BlockedView>,
}

/// Acquires a lock
///
/// With `wait_ms` the response waits until the lock is held or the time is over (long poll). Renew
/// the lock three times per ttl, and stop working when it is lost. A lock whose lease has ended
/// passes on even if its holder works on: let the resource check the fence where that matters.
///
/// **Lost responses.** Send a random token and repeat the request with it: a holder gets its fence
/// again. Release the token if you give up, in case the lock was granted meanwhile.
#[utoipa::path(
    post,
    path = "/api/locks/{lock}/acquire",
    tag = "locks",
    params(LockPath),
    request_body = AcquireRequest,
    responses((status = 200, description = "Whether the lock is held", body = AcquireResponse)),
)]
async fn acquire(
    State(app): State<Shared>,
    caller: Caller,
    Path(LockPath { lock: name }): Path<LockPath>,
    Json(request): Json<AcquireRequest>,
) -> Result<Json<AcquireResponse>, Problem> {
    caller.check_group_or_all(name.group())?;
    let (options, wait) = request.checked(&app, &caller)?;
    let lock = app.fairlane.lock(&name).options(options);
    let acquired = tokio::select! {
        acquired = async {
            match wait.is_zero() {
                true => lock.try_lock().await,
                false => lock.lock_until(Instant::now() + wait).await,
            }
        } => acquired,
        () = app.stopping.cancelled() => {
            let stopping = ProblemKind::Unavailable.because("the server is stopping; try again");
            return Err(stopping.retry_after(Duration::from_secs(1)));
        }
    };
    match acquired {
        Ok(guard) => {
            let held = guard.detach().await?;
            Ok(Json(AcquireResponse {
                held: true,
                token: Some(held.token.to_string()),
                fence: Some(held.fence.0),
                remaining_ms: Some(held.remaining.as_millis() as u64),
                blocked: None,
            }))
        }
        Err(Error::Lock(LockError::Busy { blocked, .. })) => Ok(Json(busy(Some(blocked)))),
        Err(Error::Lock(LockError::WaitTimeout { blocked, .. })) => Ok(Json(busy(blocked))),
        Err(error) => Err(error.into()),
    }
}

fn busy(blocked: Option<fairlane::Blocked>) -> AcquireResponse {
    AcquireResponse { blocked: blocked.map(BlockedView::from), ..AcquireResponse::default() }
}

/// A lock to renew.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenewRequest)]
struct RenewRequest {
    /// The token of the acquisition.
    #[schema(min_length = 1, max_length = 128)]
    token: String,
    /// How many milliseconds the lock is held from now on.
    #[schema(minimum = 10, maximum = 86400000, default = 5000)]
    ttl_ms: Option<u64>,
}

/// The result of a renewal.
#[derive(Serialize, ToSchema)]
#[schema(as = Renewed)]
struct RenewResponse {
    /// Whether the lock is held. If it is not, stop working: it may have another holder.
    held: bool,
    /// How many milliseconds it is held unless it is renewed again; less than the ttl if the longest
    /// hold ends before.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
}

/// Renews a lock
///
/// A lock that was lost is never acquired again by it.
#[utoipa::path(
    post,
    path = "/api/locks/{lock}/renew",
    tag = "locks",
    params(LockPath),
    request_body = RenewRequest,
    responses((status = 200, description = "Whether the lock is held", body = RenewResponse)),
)]
async fn renew(
    State(app): State<Shared>,
    caller: Caller,
    Path(LockPath { lock: name }): Path<LockPath>,
    Json(request): Json<RenewRequest>,
) -> Result<Json<RenewResponse>, Problem> {
    caller.check_group_or_all(name.group())?;
    let ttl = request.ttl_ms.map_or(LockOptions::default().ttl, Duration::from_millis);
    let remaining = app.fairlane.lock(&name).ttl(ttl).renew_token(&request.token).await?;
    let remaining_ms = remaining.map(|remaining| remaining.as_millis() as u64);
    Ok(Json(RenewResponse { held: remaining.is_some(), remaining_ms }))
}

/// A lock to release.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReleaseRequest)]
struct ReleaseRequest {
    /// The token of the acquisition.
    #[schema(min_length = 1, max_length = 128)]
    token: String,
}

/// The result of a release.
#[derive(Serialize, ToSchema)]
#[schema(as = Released)]
struct ReleaseResponse {
    /// Whether the lock was held until now. If it was not, it may have had another holder meanwhile.
    released: bool,
}

/// Releases a lock
///
/// The waiter that is next gets it at once. Also withdraws an acquisition that was given up.
#[utoipa::path(
    post,
    path = "/api/locks/{lock}/release",
    tag = "locks",
    params(LockPath),
    request_body = ReleaseRequest,
    responses((status = 200, description = "Whether the lock was held until now", body = ReleaseResponse)),
)]
async fn release(
    State(app): State<Shared>,
    caller: Caller,
    Path(LockPath { lock: name }): Path<LockPath>,
    Json(request): Json<ReleaseRequest>,
) -> Result<Json<ReleaseResponse>, Problem> {
    caller.check_group_or_all(name.group())?;
    let released = app.fairlane.lock(&name).release_token(&request.token).await?;
    Ok(Json(ReleaseResponse { released: released == LockReleased::Released }))
}

/// Shows a lock
///
/// Its holders with their fences and times, and the number of waiters.
#[utoipa::path(
    get,
    path = "/api/locks/{lock}",
    tag = "locks",
    params(LockPath),
    responses((status = 200, description = "The lock", body = LockView)),
)]
async fn show(
    State(app): State<Shared>,
    caller: Caller,
    Path(LockPath { lock: name }): Path<LockPath>,
) -> Result<Json<LockView>, Problem> {
    caller.check_group_or_all(name.group())?;
    let view = app.fairlane.lock(&name).view().await?;
    let view =
        view.ok_or_else(|| ProblemKind::NotFound.because(format!("lock {name} is free and has no waiters")));
    Ok(Json(view?.into()))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Only locks of this group; a key bound to groups must name one.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    group: Option<GroupId>,
    /// Where the page begins: the `next` of the last page.
    #[param(value_type = Option<String>, min_length = 1, max_length = 256, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$")]
    cursor: Option<LockName>,
    /// The maximum number of locks on the page; 100 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A page of locks.
#[derive(Serialize, ToSchema)]
#[schema(as = Locks)]
struct LocksPage {
    /// The locks by name.
    locks: Vec<LockView>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists locks that have holders or waiters
///
/// In the order of their names, page by page.
#[utoipa::path(
    get,
    path = "/api/locks",
    tag = "locks",
    params(Page),
    responses((status = 200, description = "A page", body = LocksPage)),
)]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Result<Json<LocksPage>, Problem> {
    caller.check_group_or_all(page.group.as_ref())?;
    let listed = app.fairlane.locks(page.group, page.cursor, page.limit.unwrap_or(PAGE)).await?;
    let locks = listed.locks.into_iter().map(LockView::from).collect();
    Ok(Json(LocksPage { locks, next: listed.next.map(|next| next.to_string()) }))
}

/// Whose lock to break.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BreakRequest)]
struct BreakRequest {
    /// Only the holder with this fence, so that no other one loses the lock.
    #[schema(minimum = 1, maximum = 9007199254740991_u64)]
    fence: Option<u64>,
}

/// The result of breaking a lock.
#[derive(Serialize, ToSchema)]
#[schema(as = Broken)]
struct BreakResponse {
    /// The number of holders that have lost the lock.
    holders: u64,
}

/// Takes a lock away from its holders
///
/// For operators. A holder is not stopped by it: it finds out at its next renewal, and resources
/// that check fences refuse it once the next holder has written.
#[utoipa::path(
    post,
    path = "/api/locks/{lock}/break",
    tag = "locks",
    params(LockPath),
    request_body = BreakRequest,
    responses((status = 200, description = "The number of holders that have lost it", body = BreakResponse)),
)]
async fn break_holders(
    State(app): State<Shared>,
    caller: Caller,
    Path(LockPath { lock: name }): Path<LockPath>,
    Json(request): Json<BreakRequest>,
) -> Result<Json<BreakResponse>, Problem> {
    caller.check_group_or_all(name.group())?;
    let fence = request.fence.map(|fence| within("a fence", fence, 1, INTEGER_MAX - 1)).transpose();
    let fence = fence.map_err(|error| Problem::from(error).at("/fence"))?;
    let holders = app.fairlane.lock(&name).break_holders(fence.map(Fence)).await?;
    Ok(Json(BreakResponse { holders }))
}
