//! Does everything that is stored fit together, and if not, put it right.

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

/// Findings that are listed; all are counted.
const LISTED_MAX: usize = 1000;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(audit))
}

/// What an audit is to do.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AuditOrder, example = json!({"repair": false}))]
struct Order {
    /// Whether to put right what is found; without, nothing is changed.
    #[serde(default)]
    repair: bool,
}

/// What an audit gave.
#[derive(Serialize, ToSchema)]
#[schema(as = Audit)]
struct Report {
    /// Nothing is wrong any more: whatever was found is repaired, or only a warning.
    clean: bool,
    /// How many groups there are.
    groups: u64,
    /// How many things were looked at again because they did not look right at first.
    looked_at: u64,
    /// How many things are wrong, or were.
    found: u64,
    /// Of these, how many were put right.
    repaired: u64,
    /// Of these, how many are neither repaired nor mere warnings.
    remaining: u64,
    /// What was found; the first 1,000.
    #[schema(max_items = 1000)]
    findings: Vec<FindingShown>,
    /// What could not be counted in one step because it is too large, the first 1,000; audit again when less is waiting.
    #[schema(max_items = 1000)]
    too_large: Vec<Thing>,
    /// What weakens the promises of the store, a sentence each.
    engine_warnings: Vec<String>,
}

/// Something that is wrong, or was.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditFinding)]
struct FindingShown {
    /// What is wrong; a word that stays the same.
    #[schema(example = "wrong-count")]
    word: &'static str,
    /// What kind of thing it is wrong with.
    #[schema(example = "group")]
    kind: &'static str,
    /// Its name.
    #[schema(example = "customer-7")]
    name: String,
    /// What is wrong, for people, and what repair does about it.
    sentence: String,
    /// The number that is stored, if it is about numbers.
    stored: i64,
    /// The number that was counted.
    counted: i64,
    /// Whether it was put right.
    repaired: bool,
    /// Whether it is only something to know.
    warning: bool,
}

/// Something that is stored.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditThing)]
struct Thing {
    /// What kind of thing it is.
    #[schema(example = "group")]
    kind: &'static str,
    /// Its name.
    #[schema(example = "customer-7")]
    name: String,
}

impl From<&Finding> for FindingShown {
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

impl From<&Suspect> for Thing {
    fn from(suspect: &Suspect) -> Self {
        Self { kind: suspect.kind(), name: suspect.to_string() }
    }
}

impl Report {
    fn new(report: &AuditReport, engine_warnings: Vec<String>) -> Self {
        let remaining = report.remaining() as u64;
        Self {
            clean: remaining == 0,
            groups: report.groups,
            looked_at: report.looked_at,
            found: report.findings.len() as u64,
            repaired: report.findings.iter().filter(|finding| finding.repaired).count() as u64,
            remaining,
            findings: report.findings.iter().take(LISTED_MAX).map(FindingShown::from).collect(),
            too_large: report.too_large.iter().take(LISTED_MAX).map(Thing::from).collect(),
            engine_warnings,
        }
    }
}

/// Looks for jobs, lanes and counts that do not fit together
///
/// It walks through everything that is stored, which may take a while, and may run while producers and workers do: what
/// was only in motion is no finding. Without `repair` it changes nothing; with it each finding is put right in one step.
/// A server runs one audit at a time (409); it ends when its client goes away, and may be begun again.
#[utoipa::path(
    post,
    path = "/api/audit",
    tag = "whole",
    request_body = Order,
    responses(
        (status = 200, description = "What was found", body = Report),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn audit(State(app): State<Shared>, Json(order): Json<Order>) -> Result<Json<Report>, Problem> {
    let _alone = app.auditing.try_lock().map_err(|_| {
        ProblemKind::Conflict.because("an audit is running; wait until it has ended, or end its client")
    })?;
    let engine = app.engine();
    let report = tokio::select! {
        report = engine.audit_all(order.repair, |_| {}) => report?,
        () = app.stopping.cancelled() => {
            return Err(ProblemKind::Unavailable.because("the server stops; audit again when it is back"));
        }
    };
    Ok(Json(Report::new(&report, engine.warnings())))
}
