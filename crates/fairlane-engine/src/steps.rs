//! Divides large commands into steps, so that other commands wait a few milliseconds at most.

use fairlane_core::GroupId;
use fairlane_core::kernel::Operation;
use fairlane_core::limits::{SETTLE_STEP_JOBS, STEP_GROUPS};
use fairlane_core::queue::{
    GroupLine, LargestCursor, LargestGroups, ListGroups, ListLargestGroups, Settle, Settled, Settlement,
};

use crate::engine::{Engine, EngineError};

/// Most steps of one page of the largest groups.
const LARGEST_STEPS_MAX: usize = 16;

/// Jobs of one command: so many, and of so many groups, if jobs of a group follow each other.
pub(crate) struct Step {
    jobs_max: usize,
    jobs: usize,
    groups: usize,
    last: Option<GroupId>,
}

impl Step {
    pub fn new(jobs_max: usize) -> Self {
        Self { jobs_max, jobs: 0, groups: 0, last: None }
    }

    /// Counts the next job if it belongs to this step; a step has at least one.
    pub fn has_room_for(&mut self, group: &GroupId) -> bool {
        let is_other = self.last.as_ref() != Some(group);
        if self.jobs == self.jobs_max || is_other && self.groups == STEP_GROUPS {
            return false;
        }
        self.jobs += 1;
        if is_other {
            self.groups += 1;
            self.last = Some(group.clone());
        }
        true
    }
}

impl dyn Engine {
    /// Settles jobs, at most 500, and none if one of the settlements is invalid. After another error
    /// some steps have taken effect; it is safe to repeat all of them.
    pub async fn settle_all(&self, settlements: Vec<Settlement>) -> Result<Settled, EngineError> {
        let mut verdicts = Vec::with_capacity(settlements.len());
        let all = Settle { settlements };
        all.validate()?;
        let mut rest = all.settlements.into_iter().peekable();
        while rest.peek().is_some() {
            let mut step = Step::new(SETTLE_STEP_JOBS);
            let mut settlements = Vec::new();
            while let Some(next) = rest.next_if(|next| step.has_room_for(&next.job.group)) {
                settlements.push(next);
            }
            verdicts.extend(self.call(Settle { settlements }).await?.verdicts);
        }
        Ok(Settled { verdicts })
    }

    /// Lists groups by name, at most 500. The last page is shorter than `limit`.
    pub async fn list_groups(&self, page: ListGroups) -> Result<Vec<GroupLine>, EngineError> {
        let mut lines: Vec<GroupLine> = Vec::new();
        page.validate()?;
        let ListGroups { mut after, limit, all } = page;
        loop {
            let step = (limit - lines.len()).min(STEP_GROUPS);
            let listed = self.call(ListGroups { after, limit: step, all }).await?;
            let is_last = listed.len() < step;
            lines.extend(listed);
            if is_last || lines.len() == limit {
                return Ok(lines);
            }
            after = lines.last().map(|line| line.group.clone());
        }
    }

    /// Lists groups that have unfinished jobs, those with the largest backlogs first, at most 500. A
    /// page may be shorter than `limit` although more follow: it takes a bounded number of steps.
    pub async fn list_largest_groups(
        &self,
        mut after: Option<LargestCursor>,
        limit: usize,
    ) -> Result<LargestGroups, EngineError> {
        let mut groups: Vec<GroupLine> = Vec::new();
        ListLargestGroups { after: after.clone(), limit }.validate()?;
        for _ in 0..LARGEST_STEPS_MAX {
            let step = (limit - groups.len()).min(STEP_GROUPS);
            let listed = self.call(ListLargestGroups { after, limit: step }).await?;
            groups.extend(listed.groups);
            after = listed.next;
            if after.is_none() || groups.len() == limit {
                break;
            }
        }
        Ok(LargestGroups { groups, next: after })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairlane_core::queue::{JobRef, NewJob, Outcome, Settings, Verdict};
    use fairlane_core::{Fence, JobId, TypeId};

    use super::*;
    use crate::{Clock, EmbeddedEngine};

    fn job(number: usize) -> JobRef {
        let group = GroupId::new(format!("g{number:03}")).unwrap();
        JobRef { group, id: JobId::new("1").unwrap() }
    }

    async fn engine_with_groups(count: usize) -> Arc<dyn Engine> {
        let engine: Arc<dyn Engine> =
            Arc::new(EmbeddedEngine::new(Settings::default(), Clock::System).unwrap());
        let new = |number| NewJob::new(job(number), TypeId::new("t").unwrap(), Arc::from(&b"x"[..]));
        engine.enqueue_all((0..count).map(new)).await.unwrap();
        engine
    }

    #[tokio::test]
    async fn pages_of_groups_are_complete_and_end_where_they_should() {
        let count = 2 * STEP_GROUPS + 1;
        let engine = engine_with_groups(count).await;
        let page = |after, limit| ListGroups { after, limit, all: false };
        for limit in [1, STEP_GROUPS, STEP_GROUPS + 1, count, count + 1, 500] {
            let lines = engine.list_groups(page(None, limit)).await.unwrap();
            let groups: Vec<GroupId> = lines.into_iter().map(|line| line.group).collect();
            let expected: Vec<GroupId> = (0..limit.min(count)).map(|number| job(number).group).collect();
            assert_eq!(groups, expected, "{limit}");
        }
        let last = engine.list_groups(page(Some(job(count - 2).group), 500)).await.unwrap();
        assert_eq!(last.len(), 1);
        assert!(engine.list_groups(page(None, 0)).await.is_err(), "a page has at least one group");
        assert!(engine.list_groups(page(None, 501)).await.is_err(), "and at most 500");
    }

    #[tokio::test]
    async fn the_largest_groups_come_in_steps() {
        let count = 2 * STEP_GROUPS + 1;
        let engine = engine_with_groups(count).await;
        let new = |number| {
            let job = JobRef { id: JobId::new(format!("more {number}")).unwrap(), ..job(7) };
            NewJob::new(job, TypeId::new("t").unwrap(), Arc::from(&b"x"[..]))
        };
        engine.enqueue_all((0..20).map(new)).await.unwrap();
        let page = engine.list_largest_groups(None, 500).await.unwrap();
        assert_eq!((page.groups.len(), &page.groups[0].group, page.next), (count, &job(7).group, None));
        let first = engine.list_largest_groups(None, STEP_GROUPS + 1).await.unwrap();
        assert_eq!(first.groups[..], page.groups[..STEP_GROUPS + 1]);
        let rest = engine.list_largest_groups(first.next, 500).await.unwrap();
        assert_eq!(rest.groups[..], page.groups[STEP_GROUPS + 1..]);
        assert!(engine.list_largest_groups(None, 0).await.is_err(), "a page has at least one group");
    }

    #[test]
    fn a_step_ends_after_its_jobs_or_groups() {
        let length = |jobs_max, groups: usize, of_each: usize| {
            let mut step = Step::new(jobs_max);
            (0..groups * of_each).take_while(|at| step.has_room_for(&job(at / of_each).group)).count()
        };
        assert_eq!(length(200, 3, 50), 150);
        assert_eq!(length(200, 3, 100), 200);
        assert_eq!(length(200, 500, 1), STEP_GROUPS);
        assert_eq!(length(STEP_GROUPS, STEP_GROUPS + 1, 2), STEP_GROUPS);
        assert_eq!(length(500, STEP_GROUPS + 1, 2), 2 * STEP_GROUPS);
    }

    #[tokio::test]
    async fn each_settlement_has_its_verdict() {
        let engine = engine_with_groups(0).await;
        for count in [0, 1, SETTLE_STEP_JOBS, 2 * SETTLE_STEP_JOBS + 1] {
            let unknown =
                |number| Settlement { job: job(number), fence: Fence(1), outcome: Outcome::Released };
            let settled = engine.settle_all((0..count).map(unknown).collect()).await.unwrap();
            assert_eq!(settled.verdicts, vec![Verdict::Gone; count]);
        }
        let twice = |number: usize| Settlement {
            job: job(number % 300),
            fence: Fence(1),
            outcome: Outcome::Released,
        };
        let refused = engine.settle_all((0..301).map(twice).collect()).await;
        assert!(refused.is_err(), "the same job in two steps");
    }
}
