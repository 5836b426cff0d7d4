//! The test fixture of a case: an engine, a clock that the case sets, and short methods for the
//! operations.
//!
//! An operation that returns an error ends the case. A case that expects an error calls
//! [`Subject::engine`] itself. Unless a case says otherwise, jobs are of type `t` and level normal.
//!
//! - `subject/bulks.rs`: methods for bulk actions, and for jobs that are selected by name.
//! - `subject/congestion.rs`: methods for the `classic` discipline and for congestion.
//! - `subject/locks.rs`, `subject/rooms.rs`, `subject/rankings.rs`, `subject/activity.rs`: methods for
//!   locks, for waiting rooms, for boards and for the activity log.

mod activity;
mod bulks;
mod congestion;
mod locks;
mod rankings;
mod rooms;

pub use activity::*;
pub use bulks::*;
pub use congestion::*;
pub use locks::*;
pub use rankings::*;
pub use rooms::*;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane_core::kernel::Invalid;
use fairlane_core::limits::{RECLAIM_GRACE_MS, RECLAIM_STALE_MS, REFUSAL_RETRY_MS};
use fairlane_core::queue::*;
use fairlane_core::{
    Cost, GroupId, JobId, Level, Micros, Rate, RequestNumber, Trace, TypeId, Weight, WorkerId,
};
use fairlane_engine::{Engine, EngineError};

use crate::dice::Dice;

/// The time at which every case begins.
pub const START: Micros = Micros(1_700_000_000_000_000);
/// How long leases last unless a case says otherwise.
pub const LEASE_MS: u64 = 30_000;
/// How long a case waits for a wake-up that must come.
const WAKE_LIMIT: Duration = Duration::from_secs(20);
/// How long a case waits for a wake-up that must not come.
const SILENCE: Duration = Duration::from_millis(60);

/// One engine under test, with its own clock.
#[derive(Clone)]
pub struct Subject {
    /// The engine under test.
    pub engine: Arc<dyn Engine>,
    clock: Arc<AtomicU64>,
    requests: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Subject {
    /// Wraps an engine that reads `clock`.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<AtomicU64>) -> Self {
        Self { engine, clock, requests: Arc::default() }
    }

    /// The current time of the engine.
    pub fn now(&self) -> Micros {
        Micros(self.clock.load(Ordering::SeqCst))
    }

    /// Moves the clock forward.
    pub fn advance_ms(&self, ms: u64) {
        self.clock.fetch_add(ms * 1000, Ordering::SeqCst);
    }

    /// Moves the clock backward.
    pub fn step_back_ms(&self, ms: u64) {
        self.clock.fetch_sub(ms * 1000, Ordering::SeqCst);
    }

    /// Adds jobs and returns their receipts.
    pub async fn enqueue(&self, jobs: impl IntoIterator<Item = NewJob>) -> Vec<JobReceipt> {
        let jobs: Vec<NewJob> = jobs.into_iter().collect();
        self.engine.enqueue_all(jobs).await.expect("enqueue is answered").receipts
    }

    /// Adds jobs that are all new.
    pub async fn add(&self, jobs: impl IntoIterator<Item = NewJob>) {
        for receipt in self.enqueue(jobs).await {
            assert_eq!(receipt, JobReceipt::Created);
        }
    }

    /// Leases up to `jobs_max` jobs of type `t`.
    pub async fn lease(&self, jobs_max: usize) -> Vec<LeasedJob> {
        self.lease_of(&["t"], jobs_max).await
    }

    /// Leases up to `jobs_max` jobs of these types.
    pub async fn lease_of(&self, types: &[&str], jobs_max: usize) -> Vec<LeasedJob> {
        self.lease_and_wake(types, jobs_max).await.0
    }

    /// Leases jobs, and also returns the time at which to try again.
    pub async fn lease_and_wake(&self, types: &[&str], jobs_max: usize) -> (Vec<LeasedJob>, Option<Micros>) {
        let mut command = self.next_request("worker", jobs_max);
        command.types = types.iter().map(|name| type_id(name)).collect();
        self.leased(command).await
    }

    /// Leases one job, which must be available.
    pub async fn lease_one(&self) -> LeasedJob {
        self.lease(1).await.pop().expect("a job is servable")
    }

    /// A worker's next lease request, for jobs of type `t`.
    pub fn next_request(&self, worker: &str, jobs_max: usize) -> Lease {
        let mut requests = self.requests.lock().expect("no case panics here");
        let number = requests.entry(worker.to_owned()).or_default();
        *number += 1;
        request(worker, *number, jobs_max)
    }

    /// Sends a lease request that is not superseded.
    pub async fn leased(&self, command: Lease) -> (Vec<LeasedJob>, Option<Micros>) {
        match self.engine.call(command).await.expect("lease is answered") {
            Leased::Jobs { jobs, wake_in_us } => (jobs, wake_in_us.map(|us| self.now().plus_us(us))),
            superseded => panic!("{superseded:?}"),
        }
    }

    /// Extends one lease.
    pub async fn extend(&self, leased: &LeasedJob, lease_ms: u64) -> Extension {
        let command = Extend { leases: vec![(leased.job.clone(), leased.fence)], lease_ms };
        self.engine.call(command).await.expect("extend is answered").extensions[0]
    }

    /// Ends one attempt.
    pub async fn settle(&self, leased: &LeasedJob, outcome: Outcome) -> Verdict {
        let settlement = Settlement { job: leased.job.clone(), fence: leased.fence, outcome };
        self.settle_all(vec![settlement]).await[0]
    }

    /// Ends attempts.
    pub async fn settle_all(&self, settlements: Vec<Settlement>) -> Vec<Verdict> {
        self.engine.call(Settle { settlements }).await.expect("settle is answered").verdicts
    }

    /// Ends attempts with success; each settlement must be applied.
    pub async fn succeed(&self, leased: &[LeasedJob]) {
        for job in leased {
            assert_eq!(self.settle(job, succeeded()).await, Verdict::Applied);
        }
    }

    /// Returns due jobs to their lanes.
    pub async fn promote(&self, jobs_max: usize) -> Promoted {
        self.engine.call(Promote { jobs_max }).await.expect("promote is answered")
    }

    /// Takes back leases that ran out.
    pub async fn reclaim(&self, jobs_max: usize) -> Reclaimed {
        self.engine.call(Reclaim { jobs_max }).await.expect("reclaim is answered")
    }

    /// Lets `ms` pass and reclaims often enough that the pause does not count as an outage.
    pub async fn advance_reclaiming_ms(&self, ms: u64) {
        let mut left_ms = ms;
        while left_ms > 0 {
            let step_ms = left_ms.min(RECLAIM_STALE_MS);
            self.advance_ms(step_ms);
            left_ms -= step_ms;
            if left_ms > 0 {
                self.reclaim(1).await;
            }
        }
    }

    /// Runs reclaim until its first grace is over.
    pub async fn end_reclaim_grace(&self) {
        assert!(self.reclaim(1).await.grace_us.is_some());
        self.advance_reclaiming_ms(RECLAIM_GRACE_MS).await;
        assert_eq!(self.reclaim(1).await.grace_us, None);
    }

    /// Changes a group.
    pub async fn set_group(&self, group: &str, patch: GroupPatch) -> GroupSettings {
        let command = SetGroup { group: group_id(group), patch, reset_congestion: false };
        self.engine.call(command).await.expect("set_group is answered").settings
    }

    /// Changes a type.
    pub async fn set_type(&self, name: &str, patch: TypePatch) -> TypeSettings {
        let command = SetType { type_id: type_id(name), patch };
        match self.engine.call(command).await.expect("set_type is answered") {
            TypeSet::Set(settings) => settings,
            TypeSet::TooManyTypes => panic!("there is room for type {name}"),
        }
    }

    /// Changes the settings of the queue, which must be accepted.
    pub async fn set_queue(&self, settings: Settings) {
        assert_eq!(self.try_set_queue(settings).await, QueueSet::Set);
    }

    /// Changes the settings of the queue, if they are accepted.
    pub async fn try_set_queue(&self, settings: Settings) -> QueueSet {
        self.engine.call(SetQueue { settings }).await.expect("set_queue is answered")
    }

    /// A job, if it exists.
    pub async fn find_job(&self, group: &str, id: &str) -> Option<JobView> {
        self.engine.call(InspectJob { job: job_ref(group, id) }).await.expect("inspect_job is answered")
    }

    /// A job that exists.
    pub async fn job(&self, group: &str, id: &str) -> JobView {
        self.find_job(group, id).await.expect("the job exists")
    }

    /// The state of a job that exists.
    pub async fn state(&self, group: &str, id: &str) -> JobState {
        self.job(group, id).await.state
    }

    /// A group, if it is known.
    pub async fn find_group(&self, group: &str) -> Option<GroupView> {
        let command = InspectGroup { group: group_id(group) };
        self.engine.call(command).await.expect("inspect_group is answered")
    }

    /// A group that is known.
    pub async fn group(&self, group: &str) -> GroupView {
        self.find_group(group).await.expect("the group is known")
    }

    /// A type, if it is known.
    pub async fn find_type(&self, name: &str) -> Option<TypeView> {
        let command = InspectType { type_id: type_id(name) };
        self.engine.call(command).await.expect("inspect_type is answered")
    }

    /// A type that is known.
    pub async fn type_view(&self, name: &str) -> TypeView {
        self.find_type(name).await.expect("the type is known")
    }

    /// The queue's totals.
    pub async fn queue_view(&self) -> QueueView {
        self.engine.call(InspectQueue).await.expect("inspect_queue is answered")
    }

    /// How often a job has succeeded, and how often one has become dead, since the queue was made.
    pub async fn ended_totals(&self) -> (u64, u64) {
        let view = self.queue_view().await;
        (view.succeeded_total, view.dead_total)
    }

    /// Takes wake-ups of type `t` until none is left.
    pub async fn drain_wakes(&self) {
        while self.engine.wait(&[type_id("t")], SILENCE).await.expect("wait is answered") {}
    }

    /// Whether a wake-up for type `t` exists or arrives soon; used where one must.
    pub async fn is_woken(&self) -> bool {
        self.engine.wait(&[type_id("t")], WAKE_LIMIT).await.expect("wait is answered")
    }

    /// Whether no wake-up for type `t` arrives.
    pub async fn is_silent(&self) -> bool {
        !self.engine.wait(&[type_id("t")], SILENCE).await.expect("wait is answered")
    }

    /// Leases and completes every job of type `t`; returns the jobs in the order they were leased.
    pub async fn serve_all(&self, jobs_max: usize) -> Vec<LeasedJob> {
        let mut served = Vec::new();
        loop {
            let batch = self.lease(jobs_max).await;
            if batch.is_empty() {
                return served;
            }
            self.succeed(&batch).await;
            served.extend(batch);
        }
    }

    /// Leases and settles one at a time, `step_ms` apart; returns the times at which jobs started.
    pub async fn starts(&self, steps: usize, step_ms: u64) -> Vec<Micros> {
        let mut starts = Vec::new();
        for _ in 0..steps {
            let batch = self.lease(100).await;
            starts.extend(batch.iter().map(|_| self.now()));
            self.succeed(&batch).await;
            self.advance_ms(step_ms);
        }
        starts
    }
}

/// The most starts that fall into any one second.
pub fn most_in_a_second(starts: &[Micros]) -> usize {
    let until_a_second_later = |first: Micros| starts.iter().filter(move |at| at.since(first) < 1_000_000);
    let counts = starts.iter().map(|first| until_a_second_later(*first).filter(|at| *at >= first).count());
    counts.max().unwrap_or(0)
}

/// A group id.
pub fn group_id(name: &str) -> GroupId {
    GroupId::new(name).expect("a valid group id")
}

/// A worker id.
pub fn worker_id(name: &str) -> WorkerId {
    WorkerId::new(name).expect("a valid worker id")
}

/// A type id.
pub fn type_id(name: &str) -> TypeId {
    TypeId::new(name).expect("a valid type")
}

/// A job by its group and id.
pub fn job_ref(group: &str, id: &str) -> JobRef {
    JobRef { group: group_id(group), id: JobId::new(id).expect("a valid job id") }
}

/// A new job of type `t`, level normal and cost 1.
pub fn job(group: &str, id: &str) -> NewJob {
    NewJob::new(job_ref(group, id), type_id("t"), bytes("{}"))
}

/// A trace by its ids and flags.
pub fn trace(ids: &str) -> Trace {
    Trace::new(&format!("00-{ids}")).expect("a valid trace")
}

/// A trace that depends only on the name of the job: some jobs have one, always the same.
pub fn trace_of(job: &JobRef) -> Option<Trace> {
    let name = [job.group.escaped(), job.id.escaped()].join(":");
    let seed = name.bytes().fold(0_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let mut dice = Dice::new(seed);
    (!dice.one_in(3)).then(|| dice.trace())
}

/// New jobs of one group, numbered from 1.
pub fn jobs(group: &str, count: usize) -> Vec<NewJob> {
    (1..=count).map(|number| job(group, &number.to_string())).collect()
}

/// A job of another type.
pub fn job_of(name: &str, group: &str, id: &str) -> NewJob {
    NewJob { type_id: type_id(name), ..job(group, id) }
}

/// A job of another level.
pub fn job_at(level: Level, group: &str, id: &str) -> NewJob {
    NewJob { level, ..job(group, id) }
}

/// A job that must not run yet.
pub fn delayed(delay_ms: u64, group: &str, id: &str) -> NewJob {
    NewJob { delay_ms, ..job(group, id) }
}

/// A cost in range.
pub fn cost(value: u32) -> Cost {
    Cost::new(value).expect("a cost in range")
}

/// A rate per second that lets `burst` jobs through at once.
pub fn per_second(count: u64, burst: u64) -> Rate {
    Rate::new(count, 1000, Some(burst)).expect("a rate in range")
}

/// The bytes of a text.
pub fn bytes(text: &str) -> Arc<[u8]> {
    Arc::from(text.as_bytes())
}

/// A lease request for jobs of type `t`.
pub fn request(worker: &str, number: u64, jobs_max: usize) -> Lease {
    Lease {
        worker: WorkerId::new(worker).expect("a valid worker id"),
        request: RequestNumber(number),
        types: vec![type_id("t")],
        jobs_max,
        lease_ms: LEASE_MS,
    }
}

/// The receipt of a job that exists already, in no bulk action.
pub const EXISTS: JobReceipt = JobReceipt::Exists { bulk: None };

/// The receipt of a job whose id a different job has, in no bulk action.
pub const fn differs(difference: Difference) -> JobReceipt {
    JobReceipt::Differs { difference, bulk: None }
}

/// A refusal with the default retry time.
pub const fn refused(refusal: Refusal) -> JobReceipt {
    JobReceipt::Refused { refusal, retry_after_ms: REFUSAL_RETRY_MS }
}

/// The error of a command that names a job twice.
pub fn job_named_twice(group: &str, id: &str) -> EngineError {
    EngineError::Invalid(Invalid::Twice(format!("job {id} of {group}")))
}

/// The outcome of a job that succeeded.
pub fn succeeded() -> Outcome {
    Outcome::Succeeded { result: bytes("done") }
}

/// The outcome of a job that failed for good.
pub fn failed() -> Outcome {
    Outcome::Failed { reason: bytes("broken") }
}

/// The outcome of a job whose worker stopped because the job was cancelled.
pub fn cancelled() -> Outcome {
    Outcome::Cancelled { reason: bytes("unwanted") }
}

/// The outcome of a job that is to be tried again.
pub fn retry(delay_ms: u64) -> Outcome {
    Outcome::Retry { delay_ms, reason: bytes("again") }
}

/// The outcome of a job that the downstream refused.
pub fn throttled(delay_ms: u64, retry_after_ms: u64) -> Outcome {
    Outcome::Throttled { delay_ms, retry_after_ms }
}

/// `group/id` of each job.
pub fn names(leased: &[LeasedJob]) -> Vec<String> {
    leased.iter().map(|job| format!("{}/{}", job.job.group, job.job.id)).collect()
}

/// The id of each job.
pub fn ids(leased: &[LeasedJob]) -> Vec<String> {
    leased.iter().map(|job| job.job.id.to_string()).collect()
}

/// The number of these jobs that belong to the group.
pub fn count_of(group: &str, leased: &[LeasedJob]) -> usize {
    leased.iter().filter(|job| job.job.group == group_id(group)).count()
}

/// The number of these jobs that have the level.
pub fn count_at(level: Level, leased: &[LeasedJob]) -> usize {
    leased.iter().filter(|job| job.level == level).count()
}

/// A patch that sets a weight.
pub fn weight(value: u32) -> GroupPatch {
    GroupPatch { weight: Some(Weight::new(value).expect("a weight in range")), ..GroupPatch::default() }
}

/// A patch that sets a group's rate.
pub fn group_rate(rate: Rate) -> GroupPatch {
    GroupPatch { rate: Some(Some(rate)), ..GroupPatch::default() }
}

/// A patch that sets a group's concurrency.
pub fn group_seats(seats: u32) -> GroupPatch {
    GroupPatch { concurrency: Some(Some(seats)), ..GroupPatch::default() }
}

/// A patch that pauses or resumes a group.
pub fn group_paused(paused: bool) -> GroupPatch {
    GroupPatch { paused: Some(paused), ..GroupPatch::default() }
}

/// A patch that sets a type's rate.
pub fn type_rate(rate: Rate) -> TypePatch {
    TypePatch { rate: Some(Some(rate)), ..TypePatch::default() }
}

/// A patch that sets a type's concurrency.
pub fn type_seats(seats: u32) -> TypePatch {
    TypePatch { concurrency: Some(Some(seats)), ..TypePatch::default() }
}

/// A patch that pauses or resumes a type.
pub fn type_paused(paused: bool) -> TypePatch {
    TypePatch { paused: Some(paused), ..TypePatch::default() }
}

/// A patch that gives a type its own retry limit, or that of the queue.
pub fn type_retries(retries: Option<u32>) -> TypePatch {
    TypePatch { max_retry_count: Some(retries), ..TypePatch::default() }
}
