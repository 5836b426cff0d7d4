//! The summary of a bulk action: counts, error codes with samples, durations, and the fold's value.
//!
//! Invariant: memory does not grow with the number of jobs. Jobs are read page by page, durations
//! are counted in buckets, and error codes and samples have limits. Counts are the bulk action's
//! own, which change once per job; everything else is derived from its jobs.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::TypeId;
use fairlane_core::limits::{LIST_JOBS_MAX, NOTE_BYTES_MAX};
use fairlane_core::queue::{BulkView, JobLine, JobRef, JobState, ListJobs, Listed, Listing};
use fairlane_engine::EngineError;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::{Problem, cut};
use crate::plan::BulkPlan;

/// Most error codes counted by name; all further codes are counted together.
const CODES_MAX: usize = 32;
/// Most failed jobs shown as samples of one code.
const SAMPLES_MAX: usize = 3;
/// Longest message of a sample, in bytes.
const SAMPLE_BYTES_MAX: usize = 200;
/// Longest duration the histograms distinguish, in microseconds: thirty days.
const DURATION_US_MAX: u64 = 30 * 24 * 3600 * 1_000_000;
/// Significant digits of a recorded duration.
const DIGITS: u8 = 3;

/// The outcome of a bulk action's jobs, as counts, errors and durations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of jobs added.
    pub total: u64,
    /// Number of jobs that succeeded.
    pub succeeded: u64,
    /// Number of dead jobs.
    pub failed: u64,
    /// Number of cancelled jobs.
    pub cancelled: u64,
    /// Number of attempts, summed over all jobs.
    pub attempts: u64,
    /// Number of times a downstream throttled one of the jobs.
    pub throttles: u64,
    /// Number of leases that expired.
    pub losses: u64,
    /// Failed jobs grouped by error code, most frequent code first.
    pub errors: Vec<ErrorSummary>,
    /// Number of failed jobs whose code is not in `errors`.
    pub other_errors: u64,
    /// Number of jobs that were counted but no longer stored when the summary was made: dead jobs
    /// that were requeued or discarded in the meantime.
    pub unseen: u64,
    /// Time from a job's enqueue to the start of its last attempt, in milliseconds.
    pub wait_ms: Durations,
    /// Time from the start of a job's last attempt to its end, in milliseconds.
    pub service_ms: Durations,
    /// The value of the fold that the bulk action's plan names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Value>,
}

/// The failed jobs with one error code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// The code that the processor returned.
    pub code: String,
    /// Number of failed jobs with this code.
    pub count: u64,
    /// A few of these jobs.
    pub samples: Vec<ErrorSample>,
}

/// One failed job, as an example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorSample {
    /// The job's id.
    pub job: String,
    /// The message its processor returned; serialised as `reason`.
    #[serde(rename = "reason", alias = "message")]
    pub message: String,
}

/// Percentiles over the durations of many jobs, in milliseconds, exact to three digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Durations {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest duration.
    pub max: f64,
}

impl Summary {
    /// The summary as JSON, as it is stored with the bulk action.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}").into_bytes())
    }
}

/// A job of a bulk action that has ended, as it is passed to a fold.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedJob {
    /// The job's group and id.
    pub job: JobRef,
    /// The job's type.
    pub type_id: TypeId,
    /// The final state of the job: completed, dead or cancelled.
    pub state: JobState,
    /// Number of attempts made.
    pub attempts: u32,
    /// The job's result, or the reason it failed.
    pub note: Arc<[u8]>,
    /// Time from its enqueue to the start of its last attempt.
    pub waited: Duration,
    /// Time from the start of its last attempt to its end.
    pub served: Duration,
}

impl EndedJob {
    /// The job's result as JSON; `None` if it did not succeed or its result is not JSON.
    pub fn result(&self) -> Option<Value> {
        if self.state != JobState::Completed {
            return None;
        }
        serde_json::from_slice(&self.note).ok()
    }
}

/// Why a summary could not be made.
#[derive(Debug)]
pub(crate) enum AggregationError {
    /// The engine failed; the aggregation can be retried.
    Engine(EngineError),
    /// This worker has no fold of this name; another worker may have it.
    UnknownFold(String),
    /// The aggregation failed for good.
    Failed(String),
}

impl From<EngineError> for AggregationError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// An application's fold: adds a value of its own to summaries of bulk actions that name it.
pub(crate) struct Fold {
    begin: Box<dyn Fn() -> Box<dyn Folding> + Send + Sync>,
}

trait Folding: Send {
    fn add(&mut self, job: &EndedJob);
    fn end(self: Box<Self>) -> Result<Value, String>;
}

struct Accumulated<T, F> {
    so_far: T,
    add: Arc<F>,
}

impl<T, F> Folding for Accumulated<T, F>
where
    T: Serialize + Send,
    F: Fn(&mut T, &EndedJob) + Send + Sync,
{
    fn add(&mut self, job: &EndedJob) {
        (self.add)(&mut self.so_far, job);
    }

    fn end(self: Box<Self>) -> Result<Value, String> {
        serde_json::to_value(self.so_far)
            .map_err(|error| format!("its fold returned a value that is not JSON: {error}"))
    }
}

impl Fold {
    pub fn new<T, F>(add: F) -> Self
    where
        T: Default + Serialize + Send + 'static,
        F: Fn(&mut T, &EndedJob) + Send + Sync + 'static,
    {
        let add = Arc::new(add);
        Self { begin: Box::new(move || Box::new(Accumulated { so_far: T::default(), add: add.clone() })) }
    }
}

/// Reads all jobs of an ended bulk action, page by page through `list`, and summarises them.
pub(crate) async fn summarise<L, P>(
    list: L,
    view: &BulkView,
    plan: &BulkPlan,
    folds: &HashMap<String, Fold>,
) -> Result<Summary, AggregationError>
where
    L: Fn(ListJobs) -> P,
    P: Future<Output = Result<Listed, EngineError>>,
{
    let mut folding = match &plan.fold {
        None => None,
        Some(name) => {
            let fold = folds.get(name).ok_or_else(|| AggregationError::UnknownFold(name.clone()))?;
            Some(guarded(|| (fold.begin)())?)
        }
    };
    let mut tally = Tally::new();
    let mut cursor = 0;
    loop {
        let command = ListJobs {
            listing: Listing::OfBulk(view.bulk.clone()),
            group: None,
            type_id: None,
            cursor,
            limit: LIST_JOBS_MAX,
        };
        let page = list(command).await?;
        for line in page.jobs {
            let job = tally.add(line);
            if let Some(folding) = &mut folding {
                guarded(|| folding.add(&job))?;
            }
        }
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    let mut summary = tally.summary(view);
    if let Some(folding) = folding {
        summary.fold = Some(guarded(|| folding.end())?.map_err(AggregationError::Failed)?);
    }
    if summary.to_bytes().len() > NOTE_BYTES_MAX {
        summary.errors.iter_mut().for_each(|error| error.samples.clear());
    }
    let bytes = summary.to_bytes().len();
    if bytes > NOTE_BYTES_MAX {
        let problem =
            format!("its summary has {bytes} bytes and at most {NOTE_BYTES_MAX} are kept; fold less");
        return Err(AggregationError::Failed(problem));
    }
    Ok(summary)
}

/// Runs application code of a fold: a panic fails the aggregation and nothing else.
fn guarded<R>(run: impl FnOnce() -> R) -> Result<R, AggregationError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic_text(&*panic).unwrap_or("no message");
        AggregationError::Failed(format!("its fold panicked: {text}"))
    })
}

/// The message of a panic, if it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

struct Tally {
    seen: u64,
    summary: Summary,
    errors: BTreeMap<String, ErrorSummary>,
    waits: Histogram<u64>,
    services: Histogram<u64>,
}

impl Tally {
    fn new() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, DURATION_US_MAX, DIGITS).expect("the bounds are constants that fit")
        };
        Self {
            seen: 0,
            summary: Summary::default(),
            errors: BTreeMap::new(),
            waits: histogram(),
            services: histogram(),
        }
    }

    fn add(&mut self, line: JobLine) -> EndedJob {
        self.seen += 1;
        self.summary.attempts += u64::from(line.attempts);
        self.summary.throttles += u64::from(line.throttles);
        self.summary.losses += u64::from(line.losses);
        let (mut waited, mut served) = (Duration::ZERO, Duration::ZERO);
        if let (Some(fence), Some(settled_at)) = (line.fence, line.settled_at) {
            // A fence is the time of its lease in microseconds, or slightly more.
            let leased_at = fence.0.min(settled_at.0);
            waited = Duration::from_micros(leased_at.saturating_sub(line.created_at.0));
            served = Duration::from_micros(settled_at.0 - leased_at);
            self.waits.saturating_record(waited.as_micros() as u64);
            self.services.saturating_record(served.as_micros() as u64);
        }
        if line.state == JobState::Failed {
            self.add_error(&line);
        }
        EndedJob {
            job: line.job,
            type_id: line.type_id,
            state: line.state,
            attempts: line.attempts,
            note: line.note,
            waited,
            served,
        }
    }

    fn add_error(&mut self, line: &JobLine) {
        let problem = Problem::from_bytes(&line.note);
        if self.errors.len() >= CODES_MAX && !self.errors.contains_key(&problem.code) {
            self.summary.other_errors += 1;
            return;
        }
        let code = problem.code;
        let entry = self.errors.entry(code.clone()).or_insert_with(|| ErrorSummary {
            code,
            count: 0,
            samples: Vec::new(),
        });
        entry.count += 1;
        if entry.samples.len() < SAMPLES_MAX {
            let message = cut(problem.message, SAMPLE_BYTES_MAX);
            entry.samples.push(ErrorSample { job: line.job.id.to_string(), message });
        }
    }

    fn summary(self, view: &BulkView) -> Summary {
        let mut errors: Vec<ErrorSummary> = self.errors.into_values().collect();
        errors.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.code.cmp(&other.code)));
        Summary {
            total: view.total,
            succeeded: view.succeeded,
            failed: view.failed,
            cancelled: view.cancelled,
            unseen: view.total.saturating_sub(self.seen),
            errors,
            wait_ms: durations(&self.waits),
            service_ms: durations(&self.services),
            ..self.summary
        }
    }
}

fn durations(of: &Histogram<u64>) -> Durations {
    let ms = |us: u64| us as f64 / 1000.0;
    Durations {
        p50: ms(of.value_at_quantile(0.50)),
        p95: ms(of.value_at_quantile(0.95)),
        p99: ms(of.value_at_quantile(0.99)),
        max: ms(of.max()),
    }
}
