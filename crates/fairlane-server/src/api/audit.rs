//! Audits: check the consistency of the store, and repair it.

use axum::extract::State;
use fairlane::views::AuditView;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::Json;
use crate::problem::{Problem, ProblemKind};

/// Most findings that a response lists; it counts all of them.
const LISTED_MAX: usize = 1000;

pub(super) fn routes() -> Routes {
    Routes::default().add(Pace::Stream, Permission::Operate, Scope::AllGroups, routes!(audit))
}

/// The options of an audit.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"repair": false}))]
struct AuditRequest {
    /// Whether to repair findings; otherwise nothing is changed.
    #[serde(default)]
    repair: bool,
}

/// Audits the store
///
/// Finds jobs, lanes and counts that are inconsistent. It scans the store, which may take a while,
/// and may run while producers and workers do: changes in progress are no findings. Without
/// `repair` it changes nothing; with it each finding is repaired in one step. A server runs one
/// audit at a time (409). An audit ends when its client disconnects, and may be repeated.
#[utoipa::path(
    post,
    path = "/api/audit",
    tag = "queue",
    request_body = AuditRequest,
    responses((status = 200, description = "The findings", body = AuditView)),
)]
async fn audit(
    State(app): State<Shared>,
    Json(request): Json<AuditRequest>,
) -> Result<Json<AuditView>, Problem> {
    let _running = app.auditing.try_lock().map_err(|_| {
        ProblemKind::Conflict.because("an audit is running; wait until it has ended, or end its client")
    })?;
    let report = tokio::select! {
        report = app.fairlane.audit(request.repair, |_| {}) => report?,
        () = app.stopping.cancelled() => {
            return Err(ProblemKind::Unavailable.because("the server is stopping; audit again when it is back"));
        }
    };
    Ok(Json(AuditView::new(&report, app.engine().info().warnings, LISTED_MAX)))
}
