//! Jobs on their way to a client, released if it is gone.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::{LeasedJob, Outcome, Settle, Settlement};
use fairlane_engine::Engine;

/// How many attempts to release the jobs; after that their leases run out.
const ATTEMPTS: u32 = 3;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Leased jobs that return to their lanes unless they are taken.
pub(super) struct ReleaseOnDrop {
    /// `None` if the jobs stay leased, for a client that repeats its request.
    engine: Option<Arc<dyn Engine>>,
    jobs: Vec<LeasedJob>,
}

impl ReleaseOnDrop {
    pub fn new(engine: Option<Arc<dyn Engine>>, jobs: Vec<LeasedJob>) -> Self {
        Self { engine, jobs }
    }

    /// The jobs, for a client that is connected.
    pub fn take(mut self) -> Vec<LeasedJob> {
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        let (Some(engine), false) = (self.engine.take(), self.jobs.is_empty()) else { return };
        let jobs = std::mem::take(&mut self.jobs);
        // Without a runtime the process is exiting, and the leases run out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(release(engine, jobs));
        }
    }
}

async fn release(engine: Arc<dyn Engine>, jobs: Vec<LeasedJob>) {
    let released = |job: LeasedJob| Settlement { job: job.job, fence: job.fence, outcome: Outcome::Released };
    let settle = Settle { settlements: jobs.into_iter().map(released).collect() };
    for _ in 0..ATTEMPTS {
        match engine.call(settle.clone()).await {
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(target: "fairlane", %error, "jobs for a client that is gone could not be released")
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
