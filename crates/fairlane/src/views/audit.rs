//! Audits of the store.

use fairlane_core::queue::{Finding, Suspect};
use fairlane_engine::AuditReport;
use serde::Serialize;

/// The result of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Audit))]
pub struct AuditView {
    /// Whether no errors remain: every finding is repaired or only a warning.
    pub clean: bool,
    /// The number of groups.
    pub groups: u64,
    /// The number of items that were checked again because the scan suspected them.
    pub rechecked: u64,
    /// The number of findings.
    pub found: u64,
    /// Of these, the number that were repaired.
    pub repaired: u64,
    /// Of these, the number that are neither repaired nor warnings.
    pub remaining: u64,
    /// The findings; the HTTP API lists the first 1,000.
    pub findings: Vec<FindingView>,
    /// Items that are too large to be counted in one step, listed as the findings are; audit again
    /// when fewer jobs wait.
    pub too_large: Vec<AuditItemView>,
    /// What weakens the guarantees of the store, a sentence each.
    pub engine_warnings: Vec<String>,
}

/// An inconsistency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AuditFinding))]
pub struct FindingView {
    /// A stable code for the inconsistency.
    #[cfg_attr(feature = "openapi", schema(example = "wrong-count"))]
    pub code: &'static str,
    /// The kind of the inconsistent item.
    #[cfg_attr(feature = "openapi", schema(example = "group"))]
    pub kind: &'static str,
    /// The name of the inconsistent item.
    #[cfg_attr(feature = "openapi", schema(example = "customer-7"))]
    pub name: String,
    /// The inconsistency and what a repair does about it, for people.
    pub sentence: String,
    /// The stored number, if it is about a number.
    pub stored: i64,
    /// The counted number, if it is about a number.
    pub counted: i64,
    /// Whether it was repaired.
    pub repaired: bool,
    /// Whether it is only a warning.
    pub warning: bool,
}

/// An item in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AuditItem))]
pub struct AuditItemView {
    /// The kind of the item.
    #[cfg_attr(feature = "openapi", schema(example = "group"))]
    pub kind: &'static str,
    /// The name of the item.
    #[cfg_attr(feature = "openapi", schema(example = "customer-7"))]
    pub name: String,
}

impl AuditView {
    /// The view of a report that lists at most `listed_max` findings and as many large items.
    pub fn new(report: &AuditReport, engine_warnings: Vec<String>, listed_max: usize) -> Self {
        let remaining = report.remaining() as u64;
        Self {
            clean: remaining == 0,
            groups: report.groups,
            rechecked: report.looked_at,
            found: report.findings.len() as u64,
            repaired: report.findings.iter().filter(|finding| finding.repaired).count() as u64,
            remaining,
            findings: report.findings.iter().take(listed_max).map(FindingView::from).collect(),
            too_large: report.too_large.iter().take(listed_max).map(AuditItemView::from).collect(),
            engine_warnings,
        }
    }
}

impl From<&Finding> for FindingView {
    fn from(finding: &Finding) -> Self {
        Self {
            code: finding.word(),
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

impl From<&Suspect> for AuditItemView {
    fn from(suspect: &Suspect) -> Self {
        Self { kind: suspect.kind(), name: suspect.to_string() }
    }
}
