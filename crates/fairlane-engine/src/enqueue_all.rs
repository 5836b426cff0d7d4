//! Adds any number of jobs: group by group, in steps, several steps at a time.
//!
//! A store spends time on each group of a step and on each job, so jobs of one group are sent
//! together. Invariant: the jobs of one group are added in the given order. They are in one stream,
//! and a stream sends its next step when it has the reply to the one before.

use std::collections::HashMap;

use fairlane_core::GroupId;
use fairlane_core::limits::ENQUEUE_JOBS_MAX;
use fairlane_core::queue::{Enqueue, Enqueued, JobReceipt, NewJob};

use crate::engine::{Engine, EngineError};
use crate::steps::Step;

/// The number of steps that are sent at a time.
const STREAMS: usize = 4;

/// Payload bytes of one step, unless a single payload is larger. Other commands wait while a step is
/// written.
const STEP_BYTES: usize = 256 * 1024;

/// A job and its position among those of the caller.
type Placed = (usize, NewJob);

/// The receipt for the job at a position, and the backlog of its group after it.
type Answered = (usize, JobReceipt, u64);

impl dyn Engine {
    /// Adds any number of jobs, in steps of at most 200 jobs, 100 groups and 256 KiB, and returns all
    /// receipts in the order of the jobs. The jobs of one group are added in the given order; groups
    /// are not. After an error some steps have taken effect; it is safe to repeat all of them.
    pub async fn enqueue_all(&self, jobs: impl IntoIterator<Item = NewJob>) -> Result<Enqueued, EngineError> {
        let jobs: Vec<NewJob> = jobs.into_iter().collect();
        let mut answers = vec![None; jobs.len()];
        let [one, two, three, four] = streams(jobs).map(|stream| self.send(stream));
        let (one, two, three, four) = tokio::try_join!(one, two, three, four)?;
        for (at, receipt, backlog) in [one, two, three, four].into_iter().flatten() {
            answers[at] = Some((receipt, backlog));
        }
        let answers: Option<Vec<(JobReceipt, u64)>> = answers.into_iter().collect();
        let answers = answers.ok_or_else(|| EngineError::broken("the reply to enqueue lacks a receipt"))?;
        let (receipts, backlogs) = answers.into_iter().unzip();
        Ok(Enqueued { receipts, backlogs })
    }

    /// Sends jobs step by step.
    async fn send(&self, stream: Vec<Placed>) -> Result<Vec<Answered>, EngineError> {
        let mut answered = Vec::with_capacity(stream.len());
        let mut rest = stream.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut places, mut jobs, mut bytes) = (Vec::new(), Vec::new(), 0);
            let mut step = Step::new(ENQUEUE_JOBS_MAX);
            let mut fits = |jobs: &[NewJob], new: &NewJob| {
                bytes += new.payload.len();
                step.has_room_for(&new.job.group) && (jobs.is_empty() || bytes <= STEP_BYTES)
            };
            while let Some((at, new)) = rest.next_if(|(_, new)| fits(&jobs, new)) {
                places.push(at);
                jobs.push(new);
            }
            let Enqueued { receipts, backlogs } = self.call(Enqueue { jobs }).await?;
            let replies = places.into_iter().zip(receipts).zip(backlogs);
            answered.extend(replies.map(|((at, receipt), backlog)| (at, receipt, backlog)));
        }
        Ok(answered)
    }
}

/// The positions of jobs of these groups, ordered so that the jobs of a group follow each other: the
/// groups by their first job, and the jobs of a group as they are.
pub fn by_group<'a>(groups: impl Iterator<Item = &'a GroupId>) -> Vec<usize> {
    let mut firsts = HashMap::new();
    let firsts: Vec<usize> =
        groups.enumerate().map(|(at, group)| *firsts.entry(group).or_insert(at)).collect();
    let mut order: Vec<usize> = (0..firsts.len()).collect();
    order.sort_by_key(|at| firsts[*at]);
    order
}

/// Distributes jobs over streams of about the same length, each group to one of them.
fn streams(jobs: Vec<NewJob>) -> [Vec<Placed>; STREAMS] {
    let order = by_group(jobs.iter().map(|new| &new.job.group));
    let length = jobs.len().div_ceil(STREAMS).max(ENQUEUE_JOBS_MAX);
    let mut streams: [Vec<Placed>; STREAMS] = Default::default();
    let mut jobs: Vec<Option<NewJob>> = jobs.into_iter().map(Some).collect();
    let mut current = 0;
    for at in order {
        let new = jobs[at].take().expect("an order has each position once");
        let is_other_group = |(_, last): &Placed| last.job.group != new.job.group;
        if streams[current].len() >= length && streams[current].last().is_some_and(is_other_group) {
            current += 1;
        }
        streams[current].push((at, new));
    }
    streams
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairlane_core::queue::{JobRef, Settings};
    use fairlane_core::{JobId, TypeId};

    use super::*;
    use crate::{Clock, EmbeddedEngine};

    fn job(group: usize, id: usize) -> NewJob {
        let job = JobRef {
            group: GroupId::new(format!("g{group}")).unwrap(),
            id: JobId::new(format!("{id:05}")).unwrap(),
        };
        NewJob::new(job, TypeId::new("t").unwrap(), Arc::from(&b"x"[..]))
    }

    #[test]
    fn groups_are_in_the_order_of_their_first_jobs() {
        let groups = ["b", "a", "b", "c", "a"].map(|name| GroupId::new(name).unwrap());
        assert_eq!(by_group(groups.iter()), [0, 2, 1, 4, 3]);
    }

    #[test]
    fn a_group_is_in_one_stream_and_keeps_its_order() {
        for (count, groups) in [(0, 1), (1, 1), (1000, 1), (1000, 3), (1000, 100), (1000, 1000), (5000, 7)] {
            let streams = streams((0..count).map(|at| job(at % groups, at)).collect());
            assert_eq!(streams.iter().map(Vec::len).sum::<usize>(), count);
            let mut homes = HashMap::new();
            for (number, stream) in streams.iter().enumerate() {
                let mut last = HashMap::new();
                for (at, new) in stream {
                    assert_eq!(new.job.id.escaped(), format!("{at:05}"));
                    assert_eq!(*homes.entry(new.job.group.clone()).or_insert(number), number);
                    assert!(last.insert(new.job.group.clone(), *at).is_none_or(|before| before < *at));
                }
            }
            let most = count.div_ceil(STREAMS).max(ENQUEUE_JOBS_MAX) + count.div_ceil(groups);
            assert!(streams.iter().all(|stream| stream.len() <= most), "{count} of {groups}");
        }
    }

    #[tokio::test]
    async fn receipts_are_in_the_order_of_the_jobs() {
        let engine: Arc<dyn Engine> =
            Arc::new(EmbeddedEngine::new(Settings::default(), Clock::System).unwrap());
        let jobs: Vec<NewJob> = (0..1000).map(|at| job(at % 10, at)).collect();
        let known: Vec<NewJob> = jobs.iter().step_by(7).cloned().collect();
        engine.enqueue_all(known).await.unwrap();
        let enqueued = engine.enqueue_all(jobs).await.unwrap();
        for (at, receipt) in enqueued.receipts.iter().enumerate() {
            assert_eq!(*receipt == JobReceipt::Created, at % 7 != 0, "job {at}");
        }
        assert_eq!(enqueued.backlogs.len(), 1000);
        assert_eq!(enqueued.backlogs[990..], [100; 10]);
    }
}
