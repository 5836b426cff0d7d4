//! A worker's lease requests, numbered so that a lost reply can be requested again.
//!
//! Invariant: at most one request is outstanding. A request without a reply, because of an error or
//! a dropped future, is repeated under its number before a new one is sent. Its jobs are therefore
//! received again instead of waiting for their leases to expire.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::queue::{Lease, Leased, LeasedJob};
use fairlane_core::{RequestNumber, TypeId, WorkerId};

use crate::engine::{Engine, EngineError};

/// Shortest wait for a time that has passed by our clock; doubled while waits yield nothing.
const TIMED_WAIT_MIN: Duration = Duration::from_millis(1);

/// How long to wait for a wake-up after a lease found nothing: until the time that the reply named,
/// at most `backstop`. The caller that holds the timer of a type may end before that time, so
/// everyone leases again after the backstop.
pub fn lease_pause(wake_at: Option<Instant>, empty_waits: u32, backstop: Duration) -> Duration {
    let Some(wake_at) = wake_at else { return backstop };
    let least = TIMED_WAIT_MIN * (1 << empty_waits.min(7));
    wake_at.saturating_duration_since(Instant::now()).clamp(least, backstop)
}

/// The result of a lease request.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The leased jobs, to be worked on and settled.
    pub jobs: Vec<LeasedJob>,
    /// When to request again, if no wake-up arrives before.
    pub wake_at: Option<Instant>,
    /// The time before the request was first sent, and before the wait if there was one: its leases
    /// expire no earlier than their length after it.
    pub asked: Instant,
}

/// Leases jobs for one worker. Two leasers must not share a worker id at the same time.
pub struct Leaser {
    engine: Arc<dyn Engine>,
    worker: WorkerId,
    next: RequestNumber,
    outstanding: Option<(Lease, Instant)>,
}

impl Leaser {
    /// A leaser for a worker id, which should be new for each start of a process.
    pub fn new(engine: Arc<dyn Engine>, worker: WorkerId) -> Self {
        Self { engine, worker, next: RequestNumber(1), outstanding: None }
    }

    /// The worker that leases.
    pub fn worker(&self) -> &WorkerId {
        &self.worker
    }

    /// Leases up to `jobs_max` jobs of these types.
    ///
    /// After an error or a dropped future, the next call first requests the missed reply. If
    /// that has jobs, they are returned as they were requested then, even if they are more
    /// than `jobs_max`.
    pub async fn lease(
        &mut self,
        types: &[TypeId],
        jobs_max: usize,
        lease_ms: u64,
    ) -> Result<Batch, EngineError> {
        if let Some((missed, asked)) = self.outstanding.clone()
            && let Some(batch) = self.ask(missed, asked).await?
            && !batch.jobs.is_empty()
        {
            return Ok(batch);
        }
        loop {
            let command = self.request(types, jobs_max, lease_ms);
            if let Some(batch) = self.ask(command, Instant::now()).await? {
                return Ok(batch);
            }
        }
    }

    /// Leases as [`lease`](Self::lease) does, when a wake-up of these types arrives or `at_most` has
    /// passed, whichever is first. A missed reply is requested at once.
    pub async fn lease_when_woken(
        &mut self,
        types: &[TypeId],
        jobs_max: usize,
        lease_ms: u64,
        at_most: Duration,
    ) -> Result<Batch, EngineError> {
        if !self.has_missed() {
            let (command, asked) = (self.request(types, jobs_max, lease_ms), Instant::now());
            self.outstanding = Some((command.clone(), asked));
            let engine = self.engine.clone();
            let reply = engine.call_when_woken(types, at_most, command.clone()).await;
            if let Some(batch) = self.take_reply(command.request, asked, reply)? {
                return Ok(batch);
            }
        }
        self.lease(types, jobs_max, lease_ms).await
    }

    fn request(&self, types: &[TypeId], jobs_max: usize, lease_ms: u64) -> Lease {
        Lease { worker: self.worker.clone(), request: self.next, types: types.to_vec(), jobs_max, lease_ms }
    }

    /// Whether a reply was missed, so that there may be leased jobs that the worker
    /// does not know of.
    pub fn has_missed(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Requests the missed reply, and nothing new.
    pub async fn recover(&mut self) -> Result<Batch, EngineError> {
        let recovered = match self.outstanding.clone() {
            Some((missed, asked)) => self.ask(missed, asked).await?,
            None => None,
        };
        Ok(recovered.unwrap_or(Batch { jobs: Vec::new(), wake_at: None, asked: Instant::now() }))
    }

    /// Sends one request; the result is that of [`take_reply`](Self::take_reply).
    async fn ask(&mut self, command: Lease, asked: Instant) -> Result<Option<Batch>, EngineError> {
        let number = command.request;
        self.outstanding = Some((command.clone(), asked));
        let reply = self.engine.call(command).await;
        self.take_reply(number, asked, reply)
    }

    /// The batch of a reply; `None` if a higher number was used before, which this
    /// leaser then exceeds.
    fn take_reply(
        &mut self,
        number: RequestNumber,
        asked: Instant,
        reply: Result<Leased, EngineError>,
    ) -> Result<Option<Batch>, EngineError> {
        if matches!(reply, Ok(_) | Err(EngineError::Invalid(_))) {
            self.outstanding = None;
        }
        match reply? {
            Leased::Jobs { jobs, wake_in_us } => {
                let wake_at = wake_in_us.map(|us| Instant::now() + Duration::from_micros(us));
                self.next = RequestNumber(number.0.saturating_add(1));
                Ok(Some(Batch { jobs, wake_at, asked }))
            }
            Leased::Superseded { newest } => {
                self.next = self.above(newest)?;
                Ok(None)
            }
        }
    }

    /// The next request number; an error if the numbers of this worker id are used up.
    fn above(&self, number: RequestNumber) -> Result<RequestNumber, EngineError> {
        number.next().map_err(|_| {
            EngineError::refused(format!(
                "the worker {} has used its largest request number; start it under another name",
                self.worker
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedEngine;
    use crate::embedded::tests::{Held, engine_with_jobs, poll_once, type_a};
    use fairlane_core::queue::InspectQueue;

    async fn in_flight(engine: &dyn Engine) -> u64 {
        engine.call(InspectQueue).await.unwrap().in_flight
    }

    fn leaser(engine: &Arc<dyn Engine>) -> Leaser {
        Leaser::new(engine.clone(), WorkerId::new("worker").unwrap())
    }

    /// Asks for four jobs, and drops the request before its reply.
    async fn drop_request(embedded: &EmbeddedEngine, leaser: &mut Leaser) {
        let held = Held::hold(embedded);
        {
            let types = [type_a()];
            let mut lost = std::pin::pin!(leaser.lease(&types, 4, 10_000));
            assert!(poll_once(lost.as_mut()).await.is_none());
        }
        held.let_go();
    }

    #[tokio::test]
    async fn jobs_of_a_dropped_request_come_back_with_the_next_call() {
        let embedded = engine_with_jobs(10).await;
        let engine: Arc<dyn Engine> = embedded.clone();
        let mut leaser = leaser(&engine);
        drop_request(&embedded, &mut leaser).await;
        let batch = leaser.lease(&[type_a()], 1, 10_000).await.unwrap();
        assert_eq!(batch.jobs.len(), 4, "the jobs of the request that was dropped");
        assert_eq!(in_flight(&*engine).await, 4, "and no others");
        assert_eq!(leaser.lease(&[type_a()], 3, 10_000).await.unwrap().jobs.len(), 3);
    }

    #[tokio::test]
    async fn jobs_of_a_request_that_waited_and_was_dropped_come_back_with_the_next_call() {
        let embedded = engine_with_jobs(0).await;
        let engine: Arc<dyn Engine> = embedded.clone();
        let mut leaser = leaser(&engine);
        let (types, long) = ([type_a()], Duration::from_secs(60));
        {
            let mut dropped = std::pin::pin!(leaser.lease_when_woken(&types, 4, 10_000, long));
            assert!(poll_once(dropped.as_mut()).await.is_none());
            engine.enqueue_all(crate::embedded::tests::jobs(9)).await.unwrap();
            // One more turn, so that the jobs are leased before the request is dropped.
            embedded.check().await.unwrap().unwrap();
        }
        assert!(leaser.has_missed());
        let batch = leaser.lease_when_woken(&types, 1, 10_000, long).await.unwrap();
        assert_eq!(batch.jobs.len(), 4, "the jobs of the request that was dropped");
        assert_eq!(in_flight(&*engine).await, 4, "and no others");
        assert_eq!(leaser.lease_when_woken(&types, 3, 10_000, long).await.unwrap().jobs.len(), 3);
    }

    #[tokio::test]
    async fn a_dropped_request_that_found_nothing_does_not_hold_up_the_next() {
        let embedded = engine_with_jobs(0).await;
        let engine: Arc<dyn Engine> = embedded.clone();
        let mut leaser = leaser(&engine);
        drop_request(&embedded, &mut leaser).await;
        assert_eq!(engine.enqueue_all(crate::embedded::tests::jobs(2)).await.unwrap().receipts.len(), 2);
        assert_eq!(leaser.lease(&[type_a()], 4, 10_000).await.unwrap().jobs.len(), 2);
    }

    #[tokio::test]
    async fn a_worker_id_used_before_goes_on_above_its_last_number() {
        let engine: Arc<dyn Engine> = engine_with_jobs(10).await;
        let mut earlier = leaser(&engine);
        for _ in 0..3 {
            earlier.lease(&[type_a()], 1, 10_000).await.unwrap();
        }
        let mut later = leaser(&engine);
        assert_eq!(later.lease(&[type_a()], 2, 10_000).await.unwrap().jobs.len(), 2);
        assert_eq!(in_flight(&*engine).await, 5);
    }

    #[tokio::test]
    async fn an_invalid_request_is_not_repeated() {
        let engine: Arc<dyn Engine> = engine_with_jobs(1).await;
        let mut leaser = leaser(&engine);
        let refused = leaser.lease(&[type_a()], 0, 10_000).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
        assert_eq!(leaser.lease(&[type_a()], 1, 10_000).await.unwrap().jobs.len(), 1);
    }

    #[tokio::test]
    async fn a_worker_without_request_numbers_left_gets_an_error_and_stops() {
        let engine: Arc<dyn Engine> = engine_with_jobs(1).await;
        let worker = WorkerId::new("worker").unwrap();
        let request = RequestNumber(fairlane_core::limits::INTEGER_MAX - 1);
        let poison = Lease { worker, request, types: vec![], jobs_max: 1, lease_ms: 10_000 };
        engine.call(poison).await.unwrap();
        let refused = leaser(&engine).lease(&[type_a()], 1, 10_000).await.unwrap_err();
        assert!(refused.to_string().contains("another name"), "{refused}");
    }
}
