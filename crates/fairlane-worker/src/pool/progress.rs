//! Stores the progress that processors report. Reports of all jobs of a worker go out together, at
//! once and then at most twice a second; of several reports of one job the last one counts. A report
//! that the engine does not take is dropped: the next one replaces it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane_core::limits::{INTEGER_MAX, PROGRESS_REPORTS_MAX};
use fairlane_core::queue::{JobRef, Progress, ProgressReport, ReportProgress};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Shared;

/// The shortest time between two commands.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reports that are still to be sent.
#[derive(Default)]
pub(crate) struct Reports {
    latest: Mutex<HashMap<JobRef, ProgressReport>>,
    added: Notify,
}

impl Reports {
    /// Adds a report. Values that the engine would refuse are brought into range.
    pub fn add(&self, job: &JobRef, fence: fairlane_core::Fence, done: u64, total: u64) {
        let total = total.clamp(1, INTEGER_MAX - 1);
        let progress = Progress { done: done.min(total), total };
        self.latest().insert(job.clone(), ProgressReport { job: job.clone(), fence, progress });
        self.added.notify_one();
    }

    fn take(&self) -> Vec<ProgressReport> {
        std::mem::take(&mut *self.latest()).into_values().collect()
    }

    fn latest(&self) -> std::sync::MutexGuard<'_, HashMap<JobRef, ProgressReport>> {
        self.latest.lock().expect("nothing panics while it holds the reports")
    }
}

/// Sends reports until the worker has stopped.
pub(crate) async fn send(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            _ = shared.stopped.cancelled() => return,
            () = shared.reports.added.notified() => {}
        }
        for reports in shared.reports.take().chunks(PROGRESS_REPORTS_MAX) {
            let command = ReportProgress { reports: reports.to_vec() };
            let _ = timeout(TIMEOUT, shared.engine.call(command)).await;
        }
        tokio::select! {
            _ = shared.stopped.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}
