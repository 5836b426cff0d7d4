//! `report_progress`: stores the progress of running attempts. A report belongs to its lease: it is
//! removed when the lease ends, and a report for a lost lease is ignored.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{INTEGER_MAX, PROGRESS_REPORTS_MAX};
use crate::numbers::{Fence, within};
use crate::queue::job::Place;
use crate::queue::{JobRef, Machine};

use super::each_once;

/// The progress of an attempt, in a unit that its processor chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done so far; at most `total`.
    pub done: u64,
    /// Units in total.
    pub total: u64,
}

/// The progress of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressReport {
    /// The job, by group and id.
    pub job: JobRef,
    /// The fence of its lease.
    pub fence: Fence,
    /// The progress of the attempt.
    pub progress: Progress,
}

/// Stores the progress of attempts. Repeating a report changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportProgress {
    /// The reports, at most 500, each job at most once.
    #[serde(deserialize_with = "crate::encoding::list::<PROGRESS_REPORTS_MAX, _, _>")]
    pub reports: Vec<ProgressReport>,
}

/// The reply to [`ReportProgress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressReported {
    /// Number of reports that were stored; the others are of leases that have ended.
    pub stored: usize,
}

impl Operation for ReportProgress {
    type Machine = Machine;
    type Reply = ProgressReported;

    const STEM: &'static str = "report_progress";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("report_progress", self.reports.len(), PROGRESS_REPORTS_MAX)?;
        for ProgressReport { progress: Progress { done, total }, .. } in &self.reports {
            within("the total of a progress", *total, 1, INTEGER_MAX - 1)?;
            within("the units done of a progress", *done, 0, *total)?;
        }
        each_once(self.reports.iter().map(|report| &report.job))
    }

    fn access(&self) -> Access<'_> {
        Access::groups(Permission::Work, self.reports.iter().map(|report| &report.job.group))
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.reports.len())
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> ProgressReported {
        machine.report_progress(self)
    }
}

impl Machine {
    fn report_progress(&mut self, command: ReportProgress) -> ProgressReported {
        let mut stored = 0;
        for ProgressReport { job, fence, progress } in command.reports {
            let held = self.find_job(&job).filter(|key| self.jobs[*key].held_under(fence).is_some());
            let Some(key) = held else { continue };
            if let Place::InFlight(held) = &mut self.jobs[key].place {
                held.progress = Some(progress);
                stored += 1;
            }
        }
        ProgressReported { stored }
    }
}
