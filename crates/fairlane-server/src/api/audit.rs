//! Audits: check the consistency of the store, and repair it.

use axum::extract::State;
use fairlane_core::queue::{Finding, Suspect};
use fairlane_engine::AuditReport;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::extract::Json;
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// Findings that a response lists; it counts all of them.
const LISTED_MAX: usize = 1000;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(audit))
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

/// The result of an audit.
#[derive(Serialize, ToSchema)]
#[schema(as = Audit)]
struct AuditResponse {
    /// Whether no errors remain: every finding is repaired or only a warning.
    clean: bool,
    /// The number of groups.
    groups: u64,
    /// The number of items that were checked again because the scan suspected them.
    looked_at: u64,
    /// The number of findings.
    found: u64,
    /// Of these, the number that were repaired.
    repaired: u64,
    /// Of these, the number that are neither repaired nor warnings.
    remaining: u64,
    /// The findings; the first 1,000.
    #[schema(max_items = 1000)]
    findings: Vec<FindingResponse>,
    /// Items that are too large to be counted in one step, the first 1,000; audit again when fewer
    /// jobs wait.
    #[schema(max_items = 1000)]
    too_large: Vec<AuditItem>,
    /// What weakens the guarantees of the store, a sentence each.
    engine_warnings: Vec<String>,
}

/// An inconsistency.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditFinding)]
struct FindingResponse {
    /// A stable code for the inconsistency.
    #[schema(example = "wrong-count")]
    word: &'static str,
    /// The kind of the inconsistent item.
    #[schema(example = "group")]
    kind: &'static str,
    /// The name of the inconsistent item.
    #[schema(example = "customer-7")]
    name: String,
    /// The inconsistency and what a repair does about it, for people.
    sentence: String,
    /// The stored number, if it is about a number.
    stored: i64,
    /// The counted number, if it is about a number.
    counted: i64,
    /// Whether it was repaired.
    repaired: bool,
    /// Whether it is only a warning.
    warning: bool,
}

/// An item in the store.
#[derive(Serialize, ToSchema)]
struct AuditItem {
    /// The kind of the item.
    #[schema(example = "group")]
    kind: &'static str,
    /// The name of the item.
    #[schema(example = "customer-7")]
    name: String,
}

impl From<&Finding> for FindingResponse {
    fn from(finding: &Finding) -> Self {
        Self {
            word: finding.word(),
            kind: finding.suspect.kind(),
            name: finding.suspect.to_string(),
            sentence: finding.sentence(),
            stored: finding.stored,
            counted: finding.counted,
            repaired: finding.repaired,
            warning: finding.is_warning(),
        }
    }
}

impl From<&Suspect> for AuditItem {
    fn from(suspect: &Suspect) -> Self {
        Self { kind: suspect.kind(), name: suspect.to_string() }
    }
}

impl AuditResponse {
    fn new(report: &AuditReport, engine_warnings: Vec<String>) -> Self {
        let remaining = report.remaining() as u64;
        Self {
            clean: remaining == 0,
            groups: report.groups,
            looked_at: report.looked_at,
            found: report.findings.len() as u64,
            repaired: report.findings.iter().filter(|finding| finding.repaired).count() as u64,
            remaining,
            findings: report.findings.iter().take(LISTED_MAX).map(FindingResponse::from).collect(),
            too_large: report.too_large.iter().take(LISTED_MAX).map(AuditItem::from).collect(),
            engine_warnings,
        }
    }
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
    responses(
        (status = 200, description = "The findings", body = AuditResponse),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn audit(
    State(app): State<Shared>,
    Json(request): Json<AuditRequest>,
) -> Result<Json<AuditResponse>, Problem> {
    let _running = app.auditing.try_lock().map_err(|_| {
        ProblemKind::Conflict.because("an audit is running; wait until it has ended, or end its client")
    })?;
    let engine = app.engine();
    let report = tokio::select! {
        report = engine.audit_all(request.repair, |_| {}) => report?,
        () = app.stopping.cancelled() => {
            return Err(ProblemKind::Unavailable.because("the server is stopping; audit again when it is back"));
        }
    };
    Ok(Json(AuditResponse::new(&report, engine.info().warnings)))
}
