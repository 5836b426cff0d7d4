//! What a case has in hand: an engine, a clock it sets, and short words for the operations.
//!
//! An operation that fails as a whole ends the case; what a case wants to see refused it sends through
//! [`Subject::engine`] itself. Unless a case says otherwise, jobs are of type `t` and level normal.
//!
//! - `subject/bulks.rs`: words for bulk actions, and for jobs that are picked by name.
//! - `subject/congested.rs`: words for the `classic` discipline and for congestion.

mod bulks;
mod congested;

pub use bulks::*;
pub use congested::*;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane_core::limits::{RECLAIM_GRACE_MS, RECLAIM_STALE_MS, REFUSAL_RETRY_MS};
use fairlane_core::queue::*;
use fairlane_core::*;
use fairlane_engine::Engine;

use crate::dice::Dice;

/// When every case begins.
pub const START: Micros = Micros(1_700_000_000_000_000);
/// How long leases last unless a case says otherwise.
pub const LEASE_MS: u64 = 30_000;
/// How long a case waits for a wake-up that must come.
const WAKE_LIMIT: Duration = Duration::from_secs(20);
/// How long a case waits for a wake-up that must not come.
const SILENCE: Duration = Duration::from_millis(60);

/// One engine under test, on a clock of its own.
#[derive(Clone)]
pub struct Subject {
    /// The engine itself.
    pub engine: Arc<dyn Engine>,
    clock: Arc<AtomicU64>,
    requests: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Subject {
    /// An engine that reads `clock`.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<AtomicU64>) -> Self {
        Self { engine, clock, requests: Arc::default() }
    }

    /// The time of the engine.
    pub fn now(&self) -> Micros {
        Micros(self.clock.load(Ordering::SeqCst))
    }

    /// Lets time pass.
    pub fn advance_ms(&self, ms: u64) {
        self.clock.fetch_add(ms * 1000, Ordering::SeqCst);
    }

    /// Sets the clock back.
    pub fn step_back_ms(&self, ms: u64) {
        self.clock.fetch_sub(ms * 1000, Ordering::SeqCst);
    }

    /// Adds jobs and gives their receipts.
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

    /// Leases, and also gives the time at which to ask again.
    pub async fn lease_and_wake(&self, types: &[&str], jobs_max: usize) -> (Vec<LeasedJob>, Option<Micros>) {
        let mut command = self.next_request("worker", jobs_max);
        command.types = types.iter().map(|name| type_id(name)).collect();
        self.leased(command).await
    }

    /// Leases one job, which must be there.
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
        match self.engine.lease(command).await.expect("lease is answered") {
            Leased::Jobs { jobs, wake_in_us } => (jobs, wake_in_us.map(|us| self.now().plus_us(us))),
            superseded => panic!("{superseded:?}"),
        }
    }

    /// Extends one lease.
    pub async fn extend(&self, leased: &LeasedJob, lease_ms: u64) -> Extension {
        let command = Extend { leases: vec![(leased.job.clone(), leased.fence)], lease_ms };
        self.engine.extend(command).await.expect("extend is answered").extensions[0]
    }

    /// Ends one attempt.
    pub async fn settle(&self, leased: &LeasedJob, outcome: Outcome) -> Verdict {
        let settlement = Settlement { job: leased.job.clone(), fence: leased.fence, outcome };
        self.settle_all(vec![settlement]).await[0]
    }

    /// Ends attempts.
    pub async fn settle_all(&self, settlements: Vec<Settlement>) -> Vec<Verdict> {
        self.engine.settle(Settle { settlements }).await.expect("settle is answered").verdicts
    }

    /// Ends attempts with success, all of which must count.
    pub async fn succeed(&self, leased: &[LeasedJob]) {
        for job in leased {
            assert_eq!(self.settle(job, succeeded()).await, Verdict::Applied);
        }
    }

    /// Promotes.
    pub async fn promote(&self, jobs_max: usize) -> Promoted {
        self.engine.promote(Promote { jobs_max }).await.expect("promote is answered")
    }

    /// Reclaims.
    pub async fn reclaim(&self, jobs_max: usize) -> Reclaimed {
        self.engine.reclaim(Reclaim { jobs_max }).await.expect("reclaim is answered")
    }

    /// Lets `ms` pass while something reclaims often enough for it not to look like an outage.
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
        assert!(self.reclaim(1).await.grace_until.is_some());
        self.advance_reclaiming_ms(RECLAIM_GRACE_MS).await;
        assert_eq!(self.reclaim(1).await.grace_until, None);
    }

    /// Changes a group.
    pub async fn set_group(&self, group: &str, patch: GroupPatch) -> GroupSettings {
        let command = SetGroup { group: group_id(group), patch, reset_congestion: false };
        self.engine.set_group(command).await.expect("set_group is answered").settings
    }

    /// Changes a type.
    pub async fn set_type(&self, name: &str, patch: TypePatch) -> TypeSettings {
        let command = SetType { type_id: type_id(name), patch };
        match self.engine.set_type(command).await.expect("set_type is answered") {
            TypeSet::Set(settings) => settings,
            TypeSet::TooManyTypes => panic!("there is room for type {name}"),
        }
    }

    /// Changes the whole.
    pub async fn set_whole(&self, settings: Settings) {
        assert_eq!(self.try_whole(settings).await, WholeSet::Set);
    }

    /// Changes the whole, if that can be.
    pub async fn try_whole(&self, settings: Settings) -> WholeSet {
        self.engine.set_whole(SetWhole { settings }).await.expect("set_whole is answered")
    }

    /// A job as it stands, if it is there.
    pub async fn find_job(&self, group: &str, id: &str) -> Option<JobView> {
        match self.inspect(Inspect::Job(job_ref(group, id))).await {
            Inspected::Job(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// A job that is there.
    pub async fn job(&self, group: &str, id: &str) -> JobView {
        self.find_job(group, id).await.expect("the job is there")
    }

    /// A job's state.
    pub async fn state(&self, group: &str, id: &str) -> JobState {
        self.job(group, id).await.state
    }

    /// A group that is there.
    pub async fn group(&self, group: &str) -> GroupView {
        match self.inspect(Inspect::Group(group_id(group))).await {
            Inspected::Group(Some(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    /// A type that is there.
    pub async fn type_view(&self, name: &str) -> TypeView {
        match self.inspect(Inspect::Type(type_id(name))).await {
            Inspected::Type(Some(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    /// The whole.
    pub async fn whole(&self) -> WholeView {
        match self.inspect(Inspect::Whole).await {
            Inspected::Whole(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// Looks.
    pub async fn inspect(&self, command: Inspect) -> Inspected {
        self.engine.inspect(command).await.expect("inspect is answered")
    }

    /// Takes wake-ups of type `t` until none is left.
    pub async fn drain_wakes(&self) {
        while self.engine.wait(&[type_id("t")], SILENCE).await.expect("wait is answered") {}
    }

    /// Whether a wake-up for type `t` is there or comes soon; asked where it must.
    pub async fn is_woken(&self) -> bool {
        self.engine.wait(&[type_id("t")], WAKE_LIMIT).await.expect("wait is answered")
    }

    /// Whether no wake-up for type `t` is there.
    pub async fn is_silent(&self) -> bool {
        !self.engine.wait(&[type_id("t")], SILENCE).await.expect("wait is answered")
    }

    /// Serves everything of type `t` and gives the jobs in the order they were leased.
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

    /// Leases and settles one at a time, `step_ms` apart, and gives the times at which jobs started.
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

/// A group's name.
pub fn group_id(name: &str) -> GroupId {
    GroupId::new(name).expect("a valid group id")
}

/// A worker's name.
pub fn worker_id(name: &str) -> WorkerId {
    WorkerId::new(name).expect("a valid worker id")
}

/// A type's name.
pub fn type_id(name: &str) -> TypeId {
    TypeId::new(name).expect("a valid type")
}

/// A job's full name.
pub fn job_ref(group: &str, id: &str) -> JobRef {
    JobRef { group: group_id(group), id: JobId::new(id).expect("a valid job id") }
}

/// A new job of type `t`, level normal and cost 1.
pub fn job(group: &str, id: &str) -> NewJob {
    NewJob {
        job: job_ref(group, id),
        type_id: type_id("t"),
        level: Level::Normal,
        cost: Cost::default(),
        payload: bytes("{}"),
        delay_ms: 0,
        bulk: None,
        trace: None,
    }
}

/// A trace by its ids and flags.
pub fn trace(ids: &str) -> Trace {
    Trace::new(&format!("00-{ids}")).expect("a valid trace")
}

/// The trace of a job where that is to be known by its name: some have one, always the same.
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

/// A cost.
pub fn cost(value: u32) -> Cost {
    Cost::new(value).expect("a cost in range")
}

/// A rate per second that lets `burst` jobs through at once.
pub fn per_second(count: u64, burst: u64) -> Rate {
    Rate::new(count, 1000, Some(burst)).expect("a rate in range")
}

/// Bytes of a text.
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

/// The receipt of a job that is there already, in no bulk action.
pub const EXISTS: JobReceipt = JobReceipt::Exists { bulk: None };

/// The receipt of a job whose id another one has, in no bulk action.
pub const fn differs(difference: Difference) -> JobReceipt {
    JobReceipt::Differs { difference, bulk: None }
}

/// A refusal with its usual time.
pub const fn refused(refusal: Refusal) -> JobReceipt {
    JobReceipt::Refused { refusal, retry_after_ms: REFUSAL_RETRY_MS }
}

/// Done.
pub fn succeeded() -> Outcome {
    Outcome::Succeeded { result: bytes("done") }
}

/// Failed for good.
pub fn failed() -> Outcome {
    Outcome::Failed { reason: bytes("broken") }
}

/// Given up, since nobody wants it any more.
pub fn cancelled() -> Outcome {
    Outcome::Cancelled { reason: bytes("unwanted") }
}

/// To be tried again.
pub fn retry(delay_ms: u64) -> Outcome {
    Outcome::Retry { delay_ms, reason: bytes("again") }
}

/// Refused by the downstream.
pub fn throttled(delay_ms: u64, retry_after_ms: u64) -> Outcome {
    Outcome::Throttled { delay_ms, retry_after_ms }
}

/// `group/id` of each.
pub fn names(leased: &[LeasedJob]) -> Vec<String> {
    leased.iter().map(|job| format!("{}/{}", job.job.group, job.job.id)).collect()
}

/// The ids of each.
pub fn ids(leased: &[LeasedJob]) -> Vec<String> {
    leased.iter().map(|job| job.job.id.to_string()).collect()
}

/// How many of these are of the group.
pub fn count_of(group: &str, leased: &[LeasedJob]) -> usize {
    leased.iter().filter(|job| job.job.group == group_id(group)).count()
}

/// How many of these are of the level.
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

/// Gives a type retries of its own, or those of the whole.
pub fn type_retries(retries: Option<u32>) -> TypePatch {
    TypePatch { max_retry_count: Some(retries), ..TypePatch::default() }
}
