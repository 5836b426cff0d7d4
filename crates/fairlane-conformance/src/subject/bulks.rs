//! Methods for bulk actions, for the sweeper, and for jobs that are selected by name.

use fairlane_core::BulkId;
use fairlane_core::queue::*;

use super::{LEASE_MS, Subject, bytes, group_id, job, job_ref, worker_id};

impl Subject {
    /// Opens a bulk action that is new.
    pub async fn open(&self, group: &str, id: &str) -> BulkView {
        self.open_within(group, id, None, None).await
    }

    /// Opens a bulk action that is new, with a deadline and a failure limit.
    pub async fn open_within(
        &self,
        group: &str,
        id: &str,
        deadline_ms: Option<u64>,
        failures_max: Option<u64>,
    ) -> BulkView {
        let command = OpenBulk { bulk: bulk_ref(group, id), deadline_ms, failures_max, payload: bytes("") };
        match self.engine.call(command).await.expect("open_bulk is answered") {
            BulkOpened::Created(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a bulk action and adds jobs to it.
    pub async fn open_with_jobs(&self, group: &str, id: &str, count: usize) {
        self.open(group, id).await;
        self.add(jobs_in(id, group, count)).await;
    }

    /// Seals a bulk action with any number of jobs.
    pub async fn seal(&self, group: &str, id: &str) -> BulkView {
        match self.seal_expecting(group, id, None).await {
            BulkSealed::Sealed(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// Seals a bulk action if it has this number of jobs.
    pub async fn seal_expecting(&self, group: &str, id: &str, expected: Option<u64>) -> BulkSealed {
        let command = SealBulk { bulk: bulk_ref(group, id), expected };
        self.engine.call(command).await.expect("seal_bulk is answered")
    }

    /// Holds a bulk action.
    pub async fn hold(&self, group: &str, id: &str) -> Option<BulkView> {
        let command = HoldBulk { bulk: bulk_ref(group, id) };
        self.engine.call(command).await.expect("hold_bulk is answered").0
    }

    /// Resumes a bulk action.
    pub async fn resume(&self, group: &str, id: &str) -> Option<BulkView> {
        let command = ResumeBulk { bulk: bulk_ref(group, id) };
        self.engine.call(command).await.expect("resume_bulk is answered").0
    }

    /// Cancels a bulk action.
    pub async fn cancel_bulk(&self, group: &str, id: &str) -> Option<BulkView> {
        let command = CancelBulk { bulk: bulk_ref(group, id) };
        self.engine.call(command).await.expect("cancel_bulk is answered").0
    }

    /// A bulk action, if it exists.
    pub async fn find_bulk(&self, group: &str, id: &str) -> Option<BulkView> {
        let command = InspectBulk { bulk: bulk_ref(group, id) };
        self.engine.call(command).await.expect("inspect_bulk is answered")
    }

    /// A bulk action that exists.
    pub async fn bulk(&self, group: &str, id: &str) -> BulkView {
        self.find_bulk(group, id).await.expect("the bulk action exists")
    }

    /// A page of a group's bulk actions.
    pub async fn bulks(&self, group: &str, after: u64, limit: usize, unfinished: bool) -> BulkPage {
        let command = ListBulks { group: group_id(group), after, limit, unfinished };
        self.engine.call(command).await.expect("list_bulks is answered")
    }

    /// The state of a bulk action that exists.
    pub async fn bulk_state(&self, group: &str, id: &str) -> BulkState {
        self.bulk(group, id).await.state
    }

    /// The jobs of a bulk action that succeeded, failed and were cancelled.
    pub async fn end_counts(&self, group: &str, id: &str) -> [u64; 3] {
        let view = self.bulk(group, id).await;
        [view.succeeded, view.failed, view.cancelled]
    }

    /// Leases complete bulk actions, each time as a new worker.
    pub async fn lease_bulks(&self, bulks_max: usize) -> Vec<LeasedBulk> {
        self.lease_bulks_for(bulks_max, LEASE_MS).await.bulks
    }

    /// Leases complete bulk actions for `lease_ms`, each time as a new worker; returns the complete
    /// reply.
    pub async fn lease_bulks_for(&self, bulks_max: usize, lease_ms: u64) -> LeasedBulks {
        let worker = format!("aggregator {}", self.next_request("aggregator", 1).request.0);
        self.lease_bulks_as(&worker, bulks_max, lease_ms).await
    }

    /// Leases complete bulk actions as this worker.
    pub async fn lease_bulks_as(&self, worker: &str, bulks_max: usize, lease_ms: u64) -> LeasedBulks {
        let command = LeaseBulks { worker: worker_id(worker), bulks_max, lease_ms };
        self.engine.call(command).await.expect("lease_bulks is answered")
    }

    /// Leases the only complete bulk action.
    pub async fn lease_bulk(&self) -> LeasedBulk {
        let mut leased = self.lease_bulks(10).await;
        assert_eq!(leased.len(), 1, "{leased:?}");
        leased.remove(0)
    }

    /// Ends an aggregation with success.
    pub async fn settle_bulk(&self, leased: &LeasedBulk) -> Verdict {
        self.settle_bulk_with(leased, "summary", false).await
    }

    /// Ends an aggregation with this summary.
    pub async fn settle_bulk_with(&self, leased: &LeasedBulk, summary: &str, failed: bool) -> Verdict {
        let outcome = if failed { Aggregation::Failed } else { Aggregation::Done };
        let command = SettleBulk { summary: bytes(summary), ..settle_bulk_command(leased, outcome) };
        self.engine.call(command).await.expect("settle_bulk is answered").0
    }

    /// Releases a leased bulk action.
    pub async fn release_bulk(&self, leased: &LeasedBulk) -> Verdict {
        self.release_bulk_for(leased, 0).await
    }

    /// Releases a leased bulk action, to be leased again after a delay.
    pub async fn release_bulk_for(&self, leased: &LeasedBulk, delay_ms: u64) -> Verdict {
        let command = settle_bulk_command(leased, Aggregation::Released { delay_ms });
        self.engine.call(command).await.expect("settle_bulk is answered").0
    }

    /// Runs one sweep.
    pub async fn sweep(&self, jobs_max: usize) -> Swept {
        self.engine.call(Sweep { jobs_max }).await.expect("sweep is answered")
    }

    /// Cancels jobs of one group.
    pub async fn cancel(&self, group: &str, ids: &[&str]) -> Vec<Cancellation> {
        let command = CancelJob { jobs: refs(group, ids) };
        self.engine.call(command).await.expect("cancel_job is answered").cancellations
    }

    /// Lets dead jobs of one group run again.
    pub async fn requeue(&self, group: &str, ids: &[&str]) -> Vec<Requeued> {
        let command = RequeueDead { jobs: refs(group, ids) };
        self.engine.call(command).await.expect("requeue_dead is answered").jobs
    }

    /// Removes dead jobs of one group.
    pub async fn discard(&self, group: &str, ids: &[&str]) -> Vec<Disposal> {
        let command = Discard { jobs: refs(group, ids) };
        self.engine.call(command).await.expect("discard is answered").jobs
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
        self.engine.call(command).await.expect("make_due is answered")
    }
}

/// The command that ends the aggregation of a leased bulk action, without a summary.
pub fn settle_bulk_command(leased: &LeasedBulk, outcome: Aggregation) -> SettleBulk {
    let LeasedBulk { view, fence } = leased;
    SettleBulk { bulk: view.bulk.clone(), fence: *fence, summary: bytes(""), outcome, callback: None }
}

/// The reply of a sweep that found nothing to do.
pub const NOTHING_SWEPT: Swept = Swept { dropped: 0, resumed: 0, removed: 0, overdue: 0, more: false };

/// A bulk action id.
pub fn bulk_id(id: &str) -> BulkId {
    BulkId::new(id).expect("a valid bulk action id")
}

/// A bulk action by its group and id.
pub fn bulk_ref(group: &str, id: &str) -> BulkRef {
    BulkRef { group: group_id(group), id: bulk_id(id) }
}

/// A job of a bulk action.
pub fn in_bulk(bulk: &str, new: NewJob) -> NewJob {
    NewJob { bulk: Some(bulk_id(bulk)), ..new }
}

/// New jobs of one bulk action, named after its id and numbered from 1.
pub fn jobs_in(bulk: &str, group: &str, count: usize) -> Vec<NewJob> {
    (1..=count).map(|number| in_bulk(bulk, job(group, &format!("{bulk}{number}")))).collect()
}

/// Jobs of one group by their ids.
pub fn refs(group: &str, ids: &[&str]) -> Vec<JobRef> {
    ids.iter().map(|id| job_ref(group, id)).collect()
}
