//! Jobs on their way to a client, released if it is gone.

use std::time::Duration;

use fairlane_core::queue::LeasedJob;

use super::Leases;

/// How many attempts to release the jobs; after that their leases run out.
const ATTEMPTS: u32 = 3;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Leased jobs that return to their lanes unless they are taken.
pub struct ReleaseOnDrop {
    /// `None` if the jobs stay leased, for a client that repeats its request.
    leases: Option<Leases>,
    jobs: Vec<LeasedJob>,
}

impl ReleaseOnDrop {
    pub(super) fn new(leases: Option<Leases>, jobs: Vec<LeasedJob>) -> Self {
        Self { leases, jobs }
    }

    /// The jobs, for a client that is connected.
    pub fn take(mut self) -> Vec<LeasedJob> {
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        let (Some(leases), false) = (self.leases.take(), self.jobs.is_empty()) else { return };
        let jobs = std::mem::take(&mut self.jobs);
        // Without a runtime the process is exiting, and the leases run out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(release(leases, jobs));
        }
    }
}

async fn release(leases: Leases, jobs: Vec<LeasedJob>) {
    for _ in 0..ATTEMPTS {
        match leases.release(&jobs).await {
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(target: "fairlane", %error, "jobs for a client that is gone could not be released")
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
