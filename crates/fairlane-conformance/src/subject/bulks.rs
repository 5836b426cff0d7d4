//! Words for bulk actions, for the sweeper, and for jobs that are picked by name.

use fairlane_core::BulkId;
use fairlane_core::queue::*;

use super::{LEASE_MS, Subject, bytes, group_id, job, job_ref, worker_id};

impl Subject {
    /// Opens a bulk action that is new.
    pub async fn open(&self, group: &str, id: &str) -> BulkView {
        self.open_within(group, id, None, None).await
    }

    /// Opens a bulk action that is new, with its bounds.
    pub async fn open_within(
        &self,
        group: &str,
        id: &str,
        deadline_ms: Option<u64>,
        failures_max: Option<u64>,
    ) -> BulkView {
        let command = OpenBulk { bulk: bulk_ref(group, id), deadline_ms, failures_max, payload: bytes("") };
        match self.engine.open_bulk(command).await.expect("open_bulk is answered") {
            BulkOpened::Created(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a bulk action and adds jobs to it.
    pub async fn open_with_jobs(&self, group: &str, id: &str, count: usize) {
        self.open(group, id).await;
        self.add(jobs_in(id, group, count)).await;
    }

    /// Seals a bulk action, whatever number of jobs it has.
    pub async fn seal(&self, group: &str, id: &str) -> BulkView {
        match self.seal_expecting(group, id, None).await {
            BulkSealed::Sealed(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// Seals a bulk action if it has this number of jobs.
    pub async fn seal_expecting(&self, group: &str, id: &str, expected: Option<u64>) -> BulkSealed {
        let command = SealBulk { bulk: bulk_ref(group, id), expected };
        self.engine.seal_bulk(command).await.expect("seal_bulk is answered")
    }

    /// Holds a bulk action.
    pub async fn hold(&self, group: &str, id: &str) -> Option<BulkView> {
        let command = HoldBulk { bulk: bulk_ref(group, id) };
        self.engine.hold_bulk(command).await.expect("hold_bulk is answered").0
    }

    /// Resumes a bulk action.
    pub async fn resume(&self, group: &str, id: &str) -> Option<BulkView> {
        let command = ResumeBulk { bulk: bulk_ref(group, id) };
        self.engine.resume_bulk(command).await.expect("resume_bulk is answered").0
    }

    /// Cancels a bulk action.
    pub async fn cancel_bulk(&self, group: &str, id: &str) -> Option<BulkView> {
        let command = CancelBulk { bulk: bulk_ref(group, id) };
        self.engine.cancel_bulk(command).await.expect("cancel_bulk is answered").0
    }

    /// A bulk action as it stands, if it is there.
    pub async fn find_bulk(&self, group: &str, id: &str) -> Option<BulkView> {
        match self.inspect(Inspect::Bulk(bulk_ref(group, id))).await {
            Inspected::Bulk(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// A bulk action that is there.
    pub async fn bulk(&self, group: &str, id: &str) -> BulkView {
        self.find_bulk(group, id).await.expect("the bulk action is there")
    }

    /// A bulk action's state.
    pub async fn bulk_state(&self, group: &str, id: &str) -> BulkState {
        self.bulk(group, id).await.state
    }

    /// Jobs of a bulk action that succeeded, failed and were cancelled.
    pub async fn ends(&self, group: &str, id: &str) -> [u64; 3] {
        let view = self.bulk(group, id).await;
        [view.succeeded, view.failed, view.cancelled]
    }

    /// Takes complete bulk actions, each time as somebody else.
    pub async fn take(&self, bulks_max: usize) -> Vec<TakenBulk> {
        self.take_for(bulks_max, LEASE_MS).await.bulks
    }

    /// Takes complete bulk actions for a time of their own, each time as somebody else, and gives the whole answer.
    pub async fn take_for(&self, bulks_max: usize, lease_ms: u64) -> CompletedTaken {
        let stranger = format!("stranger {}", self.next_request("stranger", 1).request.0);
        self.take_as(&stranger, bulks_max, lease_ms).await
    }

    /// Takes complete bulk actions as this worker.
    pub async fn take_as(&self, worker: &str, bulks_max: usize, lease_ms: u64) -> CompletedTaken {
        let command = TakeCompleted { worker: worker_id(worker), bulks_max, lease_ms };
        self.engine.take_completed(command).await.expect("take_completed is answered")
    }

    /// Takes the only complete bulk action.
    pub async fn take_one(&self) -> TakenBulk {
        let mut taken = self.take(10).await;
        assert_eq!(taken.len(), 1, "{taken:?}");
        taken.remove(0)
    }

    /// Ends an aggregation well.
    pub async fn finish(&self, taken: &TakenBulk) -> Verdict {
        self.finish_with(taken, "summary", false).await
    }

    /// Ends an aggregation.
    pub async fn finish_with(&self, taken: &TakenBulk, summary: &str, failed: bool) -> Verdict {
        let outcome = if failed { Aggregation::Failed } else { Aggregation::Done };
        let command = FinishBulk { summary: bytes(summary), ..finish_command(taken, outcome) };
        self.engine.finish_bulk(command).await.expect("finish_bulk is answered").0
    }

    /// Gives a bulk action back.
    pub async fn release(&self, taken: &TakenBulk) -> Verdict {
        self.release_for(taken, 0).await
    }

    /// Gives a bulk action back, to be taken after a delay.
    pub async fn release_for(&self, taken: &TakenBulk, delay_ms: u64) -> Verdict {
        let command = finish_command(taken, Aggregation::Released { delay_ms });
        self.engine.finish_bulk(command).await.expect("finish_bulk is answered").0
    }

    /// Sweeps once.
    pub async fn sweep(&self, jobs_max: usize) -> Swept {
        self.engine.sweep(Sweep { jobs_max }).await.expect("sweep is answered")
    }

    /// Cancels jobs of one group.
    pub async fn cancel(&self, group: &str, ids: &[&str]) -> Vec<Cancellation> {
        let command = CancelJob { jobs: refs(group, ids) };
        self.engine.cancel_job(command).await.expect("cancel_job is answered").cancellations
    }

    /// Lets dead jobs of one group run again.
    pub async fn requeue(&self, group: &str, ids: &[&str]) -> Vec<Requeued> {
        let command = RequeueDead { jobs: refs(group, ids) };
        self.engine.requeue_dead(command).await.expect("requeue_dead is answered").jobs
    }

    /// Removes dead jobs of one group.
    pub async fn discard(&self, group: &str, ids: &[&str]) -> Vec<Disposal> {
        let command = Discard { jobs: refs(group, ids) };
        self.engine.discard(command).await.expect("discard is answered").jobs
    }

    /// Adds a job and lets it fail for good.
    pub async fn add_dead(&self, new: NewJob) {
        self.add([new]).await;
        let leased = self.lease_one().await;
        assert_eq!(self.settle(&leased, super::failed()).await, Verdict::Applied);
    }

    /// Makes waiting jobs due.
    pub async fn make_due(&self, group: Option<&str>, cursor: u64, jobs_max: usize) -> MadeDue {
        let command = MakeDue { group: group.map(group_id), cursor, jobs_max };
        self.engine.make_due(command).await.expect("make_due is answered")
    }
}

/// Ends the aggregation of what was taken, without a summary.
pub fn finish_command(taken: &TakenBulk, outcome: Aggregation) -> FinishBulk {
    FinishBulk { bulk: taken.view.bulk.clone(), fence: taken.fence, summary: bytes(""), outcome }
}

/// Nothing was swept.
pub const NOTHING_SWEPT: Swept = Swept { dropped: 0, resumed: 0, removed: 0, overdue: 0, more: false };

/// A bulk action's name.
pub fn bulk_id(id: &str) -> BulkId {
    BulkId::new(id).expect("a valid bulk action id")
}

/// A bulk action's full name.
pub fn bulk_ref(group: &str, id: &str) -> BulkRef {
    BulkRef { group: group_id(group), id: bulk_id(id) }
}

/// A job of a bulk action.
pub fn in_bulk(bulk: &str, new: NewJob) -> NewJob {
    NewJob { bulk: Some(bulk_id(bulk)), ..new }
}

/// New jobs of one bulk action: its id with numbers from 1.
pub fn jobs_in(bulk: &str, group: &str, count: usize) -> Vec<NewJob> {
    (1..=count).map(|number| in_bulk(bulk, job(group, &format!("{bulk}{number}")))).collect()
}

/// Jobs of one group.
pub fn refs(group: &str, ids: &[&str]) -> Vec<JobRef> {
    ids.iter().map(|id| job_ref(group, id)).collect()
}
