//! An audit of the store: an engine scans what it stores, and every suspect that it
//! reports is rechecked.
//!
//! The scan reads page by page while others work, so it only suspects. [`Command::Audit`] decides
//! in one step. Invariant: an item that was only moving during the scan is never a finding.
//!
//! [`Command::Audit`]: fairlane_core::queue::Command::Audit

use std::collections::BTreeSet;

use fairlane_core::GroupId;
use fairlane_core::limits::AUDIT_SUSPECTS_MAX;
use fairlane_core::queue::*;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::engine::{Engine, EngineError};

/// Pages that a scan may be ahead of the checks of its suspects.
const PAGES_AHEAD: usize = 1;

/// A page of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPage {
    /// Items that may be inconsistent, in any number.
    pub suspects: Vec<Suspect>,
    /// Groups scanned so far.
    pub groups_scanned: u64,
    /// Groups in total.
    pub groups: u64,
}

/// The progress of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditProgress {
    /// Groups scanned so far.
    pub groups_scanned: u64,
    /// Groups in total.
    pub groups: u64,
    /// Findings so far.
    pub findings: u64,
}

/// The result of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// The faults that were found.
    pub findings: Vec<Finding>,
    /// Suspects that are too large to count in one step.
    pub too_large: Vec<Suspect>,
    /// Groups in total.
    pub groups: u64,
    /// Number of suspects that were rechecked.
    pub looked_at: u64,
}

impl AuditReport {
    /// The number of findings that were neither repaired nor only warnings.
    pub fn remaining(&self) -> usize {
        self.findings.iter().filter(|finding| !finding.repaired && !finding.is_warning()).count()
    }
}

impl dyn Engine {
    /// Scans the store, rechecks the suspects and, with `repair`, repairs them. Safe while others
    /// work. It may be stopped at any time and repeated.
    pub async fn audit_all(
        &self,
        repair: bool,
        mut progress: impl FnMut(AuditProgress) + Send,
    ) -> Result<AuditReport, EngineError> {
        let mut report = AuditReport::default();
        let (sender, mut pages) = mpsc::channel(PAGES_AHEAD);
        let looking = async {
            while let Some(ScanPage { suspects, groups_scanned, groups }) = pages.recv().await {
                self.look_again(&suspects, repair, &mut report).await?;
                report.groups = groups;
                progress(AuditProgress { groups_scanned, groups, findings: report.findings.len() as u64 });
            }
            Ok(())
        };
        tokio::try_join!(self.admin().scan(sender), looking)?;
        self.look_at_counts(repair, &mut report).await?;
        Ok(report)
    }

    /// Rechecks and repairs these suspects, and the counts that their repair changes.
    pub(crate) async fn repair(&self, suspects: &[Suspect]) -> Result<AuditReport, EngineError> {
        let mut report = AuditReport::default();
        self.look_again(suspects, true, &mut report).await?;
        self.look_at_counts(true, &mut report).await?;
        Ok(report)
    }

    /// Rechecks the counts that a repair may have left wrong; it runs last.
    async fn look_at_counts(&self, repair: bool, report: &mut AuditReport) -> Result<(), EngineError> {
        let repaired = report.findings.iter().filter(|finding| finding.repaired);
        let groups: BTreeSet<GroupId> =
            repaired.filter_map(|finding| finding.suspect.group().cloned()).collect();
        if report.findings.iter().all(|finding| !finding.repaired) {
            return Ok(());
        }
        let mut suspects = Vec::new();
        for group in groups {
            suspects.extend([Suspect::Group(group.clone()), Suspect::Backlog(group)]);
        }
        suspects.push(Suspect::Queue);
        self.look_again(&suspects, repair, report).await
    }

    async fn look_again(
        &self,
        suspects: &[Suspect],
        repair: bool,
        report: &mut AuditReport,
    ) -> Result<(), EngineError> {
        let mut rest = suspects;
        while !rest.is_empty() {
            let page = rest[..rest.len().min(AUDIT_SUSPECTS_MAX)].to_vec();
            let audited = self.call(Audit { suspects: page, repair }).await?;
            if audited.too_large {
                report.too_large.push(rest[0].clone());
            }
            // A step that checked nothing would be repeated forever.
            let looked_at = audited.looked_at.clamp(1, rest.len());
            report.findings.extend(audited.findings);
            report.looked_at += looked_at as u64;
            rest = &rest[looked_at..];
        }
        Ok(())
    }
}
