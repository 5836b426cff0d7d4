//! Jobs on their way to a client: handed back if nobody takes them.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::{LeasedJob, Outcome, Settle, Settlement};
use fairlane_engine::Engine;

/// How often it is tried; after that the leases run out.
const TRIES: u32 = 3;
/// Between the tries.
const PAUSE: Duration = Duration::from_millis(200);

/// Leased jobs that go back to their lanes unless they are taken.
pub(super) struct Handed {
    /// None: they stay leased, for whoever asks for them again.
    engine: Option<Arc<dyn Engine>>,
    jobs: Vec<LeasedJob>,
}

impl Handed {
    pub fn new(engine: Option<Arc<dyn Engine>>, jobs: Vec<LeasedJob>) -> Self {
        Self { engine, jobs }
    }

    /// Somebody is there to take them.
    pub fn take(mut self) -> Vec<LeasedJob> {
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        let (Some(engine), false) = (self.engine.take(), self.jobs.is_empty()) else { return };
        let jobs = std::mem::take(&mut self.jobs);
        // Without a runtime the process ends, and the leases run out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(hand_back(engine, jobs));
        }
    }
}

async fn hand_back(engine: Arc<dyn Engine>, jobs: Vec<LeasedJob>) {
    let released = |job: LeasedJob| Settlement { job: job.job, fence: job.fence, outcome: Outcome::Released };
    let command = Settle { settlements: jobs.into_iter().map(released).collect() };
    for _ in 0..TRIES {
        match engine.settle(command.clone()).await {
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(target: "fairlane", %error, "jobs nobody took could not be handed back")
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
