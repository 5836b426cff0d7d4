//! An audit of everything: an engine walks through what it stores, and every suspect it names is looked at again.
//!
//! The walk reads page by page while others work, so it only suspects; [`Command::Audit`] decides, in one step.
//! Invariant: what was only in motion is never a finding.
//!
//! [`Command::Audit`]: fairlane_core::queue::Command::Audit

use std::collections::BTreeSet;

use fairlane_core::GroupId;
use fairlane_core::limits::AUDIT_SUSPECTS_MAX;
use fairlane_core::queue::*;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::engine::{Engine, EngineError};

/// Pages that a walk may be ahead of those who look at its suspects.
const PAGES_AHEAD: usize = 1;

/// What a walk has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkPage {
    /// What does not look right, any number.
    pub suspects: Vec<Suspect>,
    /// Groups walked through so far …
    pub groups_walked: u64,
    /// … of this many.
    pub groups: u64,
}

/// How far an audit has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditProgress {
    /// Groups walked through so far …
    pub groups_walked: u64,
    /// … of this many.
    pub groups: u64,
    /// Findings so far.
    pub findings: u64,
}

/// What an audit gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What could not be counted in one step because it is too large.
    pub too_large: Vec<Suspect>,
    /// How many groups there are.
    pub groups: u64,
    /// How many suspects were looked at again.
    pub looked_at: u64,
}

impl AuditReport {
    /// Findings that were not put right and are no mere warnings.
    pub fn remaining(&self) -> usize {
        self.findings.iter().filter(|finding| !finding.repaired && !finding.is_warning()).count()
    }
}

impl dyn Engine {
    /// Walks through everything, looks again at what does not look right and, with `repair`, puts it right.
    /// Safe while others work; may be stopped at any moment and repeated.
    pub async fn audit_all(
        &self,
        repair: bool,
        mut progress: impl FnMut(AuditProgress) + Send,
    ) -> Result<AuditReport, EngineError> {
        let mut report = AuditReport::default();
        let (sender, mut pages) = mpsc::channel(PAGES_AHEAD);
        let looking = async {
            while let Some(WalkPage { suspects, groups_walked, groups }) = pages.recv().await {
                self.look_again(&suspects, repair, &mut report).await?;
                report.groups = groups;
                progress(AuditProgress { groups_walked, groups, findings: report.findings.len() as u64 });
            }
            Ok(())
        };
        tokio::try_join!(self.walk(sender), looking)?;
        self.look_at_counts(repair, &mut report).await?;
        Ok(report)
    }

    /// Looks again at these suspects and at the counts that putting them right changes, and repairs them.
    pub(crate) async fn repair(&self, suspects: &[Suspect]) -> Result<AuditReport, EngineError> {
        let mut report = AuditReport::default();
        self.look_again(suspects, true, &mut report).await?;
        self.look_at_counts(true, &mut report).await?;
        Ok(report)
    }

    /// Last come counts that a repair may have left wrong.
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
        suspects.push(Suspect::Whole);
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
            let audited = self.audit(Audit { suspects: page, repair }).await?;
            if audited.too_large {
                report.too_large.push(rest[0].clone());
            }
            // A step that looked at nothing would be repeated for ever.
            let looked_at = audited.looked_at.clamp(1, rest.len());
            report.findings.extend(audited.findings);
            report.looked_at += looked_at as u64;
            rest = &rest[looked_at..];
        }
        Ok(())
    }
}
