//! The jobs of the benchmarks: payloads of 200 bytes, ids of 16 bytes, one type and level.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlane_core::queue::{JobRef, NewJob};
use fairlane_core::{GroupId, JobId, TypeId};

/// Bytes of each payload.
pub const PAYLOAD_BYTES: usize = 200;

/// Creates jobs with unique ids for a number of groups.
pub struct Workload {
    /// The groups of the jobs.
    pub groups: Vec<GroupId>,
    /// The type of the jobs.
    pub type_id: TypeId,
    payload: Arc<[u8]>,
    next: AtomicU64,
}

impl Workload {
    /// A workload for this number of groups.
    pub fn new(groups: usize) -> Self {
        let name = |number| GroupId::new(format!("group-{number:06}")).expect("a number makes a name");
        Self {
            groups: (0..groups).map(name).collect(),
            type_id: TypeId::new("bench").expect("a plain word is a name"),
            payload: vec![b'x'; PAYLOAD_BYTES].into(),
            next: AtomicU64::new(0),
        }
    }

    /// Creates jobs of one group.
    pub fn batch(&self, group: usize, jobs: usize) -> Vec<NewJob> {
        let group = &self.groups[group % self.groups.len()];
        (0..jobs).map(|_| self.job(group)).collect()
    }

    /// Creates jobs in batches of at most `batch_jobs`, one group per batch, the groups in turn.
    pub fn batches(&self, jobs: usize, batch_jobs: usize) -> impl Iterator<Item = Vec<NewJob>> + '_ {
        let starts = (0..jobs).step_by(batch_jobs).enumerate();
        starts.map(move |(batch, start)| self.batch(batch, batch_jobs.min(jobs - start)))
    }

    fn job(&self, group: &GroupId) -> NewJob {
        let id = format!("{:016x}", self.next.fetch_add(1, Ordering::Relaxed));
        NewJob::new(
            JobRef { group: group.clone(), id: JobId::new(id).expect("a number makes a name") },
            self.type_id.clone(),
            self.payload.clone(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_one_group_and_ids_are_unique() {
        let workload = Workload::new(3);
        let batches: Vec<Vec<NewJob>> = workload.batches(25, 10).collect();
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
        for batch in &batches {
            assert!(batch.iter().all(|job| job.job.group == batch[0].job.group));
            assert!(batch.iter().all(|job| job.job.id.escaped().len() == 16 && job.payload.len() == 200));
        }
        let ids: std::collections::HashSet<_> = batches.iter().flatten().map(|job| &job.job.id).collect();
        assert_eq!(ids.len(), 25);
    }
}
