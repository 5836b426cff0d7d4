//! Enqueues the lines of a stream, a batch at a time.
//!
//! Invariant: `next_line` is the first line that was not processed. Every line before it was
//! enqueued, existed before, was empty, or is counted as invalid; at most one batch of lines behind
//! it is in memory.

use std::time::Duration;

use fairlane::{Error, Job};
use fairlane_core::limits::{ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX};
use fairlane_core::queue::{
    BulkRef, BulkSealed, Difference, Enqueue, JobReceipt, JobRef, NewJob, Refusal, SealBulk,
};
use fairlane_core::{BulkId, GroupId, Trace, TypeId};
use fairlane_engine::EngineError;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::app::{App, new_type};
use crate::idempotency::{IN_DOUBT, IdFrom, IdempotencyKey, line_stem, reused};
use crate::problem::Problem;
use crate::quota::charge_and_wait;

/// Invalid lines that a response lists.
const ERRORS_MAX: usize = 100;
/// The pause before a command is sent again to an engine that did not reply.
const PAUSE: Duration = Duration::from_millis(100);

/// The group and bulk action of a stream's jobs, and the ids of jobs without one.
pub struct Target {
    /// The group of the jobs.
    pub group: GroupId,
    /// The bulk action that the jobs belong to.
    pub bulk: Option<BulkId>,
    /// The trace of jobs that name none.
    pub trace: Option<Trace>,
    /// The prefix of generated ids; `None` if they are random.
    stem: Option<String>,
}

impl Target {
    /// A target; ids are derived from the bulk action, or else from the key.
    pub fn new(
        group: GroupId,
        bulk: Option<BulkId>,
        key: Option<&IdempotencyKey>,
        trace: Option<Trace>,
    ) -> Self {
        let of_bulk = bulk.as_ref().map(|bulk| line_stem(&group, bulk));
        let stem = of_bulk.or_else(|| key.map(|key| key.stem(&group)));
        Self { group, bulk, trace, stem }
    }

    /// The derived id of the job on this line, if the line names none; `None` if it is random.
    pub fn id(&self, line: u64) -> Option<String> {
        self.stem.as_ref().map(|stem| format!("{stem}-{line}"))
    }

    /// Whether an existing job of this bulk action can be one of this stream.
    pub fn includes(&self, bulk: Option<&BulkId>) -> bool {
        self.bulk.is_none() || self.bulk.as_ref() == bulk
    }

    /// The message for a line whose id another job has.
    fn differs(
        &self,
        job: &JobRef,
        id_from: IdFrom,
        difference: Difference,
        owner: &Option<BulkId>,
    ) -> String {
        let (job, owner) = (job.clone(), owner.clone());
        match &self.bulk {
            Some(wanted) if difference == Difference::Bulk => {
                Error::Conflict { job, wanted: wanted.clone(), owner }.to_string()
            }
            Some(_) if id_from == IdFrom::Derived => format!(
                "its job {} exists with another {}. Jobs without an id are known by their line: you may correct an invalid \
                 line, but never remove, insert or change one that was enqueued. If this is another source, give its jobs \
                 ids, or let it begin after the existing lines (first_line)",
                job.id,
                difference.as_str()
            ),
            None if id_from == IdFrom::Derived => reused(&job, difference).detail().to_owned(),
            _ => Error::Differs { job, difference, owner }.to_string(),
        }
    }
}

/// The number of lines by outcome.
#[derive(Debug, Default)]
pub struct Tally {
    /// New jobs.
    pub created: u64,
    /// Jobs that existed before.
    pub existing: u64,
    /// Lines whose id another job has.
    pub differing: u64,
    /// Lines that the queue refused.
    pub refused: u64,
    /// Empty lines.
    pub empty_lines: u64,
    /// The first invalid lines, including refused ones.
    pub errors: Vec<LineError>,
    /// The number of invalid lines.
    pub errors_total: u64,
    /// The first line that was not processed.
    pub next_line: u64,
}

/// An invalid line.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LineError {
    /// The number of the line.
    line: u64,
    /// Why the line is invalid.
    detail: String,
}

/// Why a stream stopped before its end.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Stopped {
    /// A stable code for programs.
    pub reason: StopReason,
    /// What happened and what to do.
    pub detail: String,
    /// After how many milliseconds to continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Why a stream stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The queue accepts no more jobs at the moment.
    QueueFull,
    /// The engine does not reply, or has failed.
    Unavailable,
    /// A line is invalid, and the stream stops on errors.
    WrongLine,
    /// The existing jobs came from other lines: this is not the same source.
    OtherSource,
    /// The bulk action is sealed, has ended or is unknown.
    BulkClosed,
    /// The body was cut off.
    BrokenOff,
    /// The body paused for too long.
    TooSlow,
    /// The server is stopping.
    Stopping,
}

impl Stopped {
    /// A stop for this reason.
    pub fn new(reason: StopReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), retry_after_ms: None }
    }
}

struct Line {
    number: u64,
    item: Item,
}

enum Item {
    Job {
        new: NewJob,
        id_from: IdFrom,
    },
    /// An invalid line, with the reason.
    Invalid(String),
}

/// Enqueues lines.
pub struct Intake<'a> {
    app: &'a App,
    caller: &'a Caller,
    target: &'a Target,
    /// Whether to stop after a batch in which a line was refused.
    stops_on_error: bool,
    batch: Vec<Line>,
    batch_bytes: usize,
    tally: Tally,
    /// The message for the first line whose content has changed since its job was added.
    other_source: Option<String>,
}

impl<'a> Intake<'a> {
    /// An intake that begins with this line.
    pub fn new(
        app: &'a App,
        caller: &'a Caller,
        target: &'a Target,
        first_line: u64,
        stops_on_error: bool,
    ) -> Self {
        let tally = Tally { next_line: first_line, ..Tally::default() };
        Self {
            app,
            caller,
            target,
            stops_on_error,
            batch: Vec::new(),
            batch_bytes: 0,
            tally,
            other_source: None,
        }
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// The number of lines by outcome so far.
    pub fn into_tally(self) -> Tally {
        self.tally
    }

    /// Adds a line with a job to the batch.
    pub async fn add(&mut self, number: u64, job: Job) -> Result<(), Stopped> {
        let (job, id_from) = match (job.given_id().is_some(), self.target.id(number)) {
            (true, _) => (job, IdFrom::Request),
            (false, Some(id)) => (job.id(id), IdFrom::Derived),
            (false, None) => (job, IdFrom::Random),
        };
        let new = match job.into_command(self.target.bulk.clone()) {
            Ok(mut new) => {
                new.trace = new.trace.or_else(|| self.target.trace.clone());
                new
            }
            Err(error) => return self.add_invalid(number, error.to_string()).await,
        };
        if !self.may_use(&new.type_id).await? {
            return self.add_invalid(number, new_type(&new.type_id).detail().to_owned()).await;
        }
        let bytes = new.payload.len();
        if self.batch.len() >= ENQUEUE_JOBS_MAX || self.batch_bytes + bytes > ENQUEUE_BYTES_MAX {
            self.flush().await?;
        }
        self.batch_bytes += bytes;
        self.batch.push(Line { number, item: Item::Job { new, id_from } });
        Ok(())
    }

    async fn may_use(&self, name: &TypeId) -> Result<bool, Stopped> {
        let mut stall = Stall::new(self.app);
        loop {
            match self.app.may_use(self.caller, name).await {
                Ok(may) => return Ok(may),
                Err(error) => stall.wait_for_engine(error).await?,
            }
        }
    }

    /// Adds an invalid line to the batch, or stops before it.
    pub async fn add_invalid(&mut self, number: u64, detail: String) -> Result<(), Stopped> {
        if self.stops_on_error {
            self.flush().await?;
            self.tally.count_empty(number);
            return Err(Stopped::new(StopReason::WrongLine, format!("line {number}: {detail}")));
        }
        if self.batch.len() >= ENQUEUE_JOBS_MAX {
            self.flush().await?;
        }
        self.batch.push(Line { number, item: Item::Invalid(detail) });
        Ok(())
    }

    /// Ends the stream after its last line.
    pub async fn end(&mut self, last: u64) -> Result<(), Stopped> {
        self.flush().await?;
        self.tally.count_empty(last + 1);
        Ok(())
    }

    /// Enqueues the batch. Lines without a receipt stay in it.
    pub async fn flush(&mut self) -> Result<(), Stopped> {
        let mut stall = Stall::new(self.app);
        let mut is_in_doubt = false;
        // The engine layer charges for jobs; an invalid line takes as long to parse.
        let invalid = self.batch.iter().filter(|line| line.job().is_none()).count();
        charge_and_wait(invalid as u64, &self.app.stopping).await;
        while !self.batch.is_empty() {
            let jobs: Vec<NewJob> = self.batch.iter().filter_map(Line::job).cloned().collect();
            let receipts = if jobs.is_empty() {
                Vec::new()
            } else {
                match self.app.engine().call(Enqueue { jobs }).await {
                    Ok(enqueued) => enqueued.receipts,
                    Err(error) => {
                        is_in_doubt |= error.is_retryable();
                        let waited = stall.wait_for_engine(error).await;
                        waited
                            .map_err(|stopped| if is_in_doubt { self.in_doubt(stopped) } else { stopped })?;
                        continue;
                    }
                }
            };
            is_in_doubt = false;
            let (processed, refusal) = self.count(&receipts);
            if processed > 0 {
                stall.progress();
            }
            self.batch.drain(..processed);
            self.batch_bytes = self.batch.iter().filter_map(Line::job).map(|new| new.payload.len()).sum();
            if let Some((refusal, retry_after_ms)) = refusal {
                stall.wait_for_room(refusal, retry_after_ms).await?;
            }
            // Further lines would be mixed with those of the other source.
            if let Some(detail) = self.other_source.take() {
                return Err(Stopped::new(StopReason::OtherSource, detail));
            }
            if self.stops_on_error
                && let Some(LineError { line, detail }) = self.tally.errors.first()
            {
                return Err(Stopped::new(StopReason::WrongLine, format!("line {line}: {detail}")));
            }
        }
        Ok(())
    }

    /// Adds that lines without a receipt must not be sent again, if some of them have random ids.
    fn in_doubt(&self, stopped: Stopped) -> Stopped {
        let is_random = |line: &&Line| matches!(line.item, Item::Job { id_from: IdFrom::Random, .. });
        let Some(last) = self.batch.iter().rfind(is_random) else { return stopped };
        let (first, last) = (self.tally.next_line, last.number);
        let detail = format!("the queue did not reply for the lines {first} to {last}; {IN_DOUBT}");
        Stopped::new(stopped.reason, detail)
    }

    /// Counts lines by their receipts, up to the first line that was refused for now. Returns the
    /// number of lines, and that refusal.
    fn count(&mut self, receipts: &[JobReceipt]) -> (usize, Option<(Refusal, u64)>) {
        let mut receipts = receipts.iter();
        for (at, line) in self.batch.iter().enumerate() {
            let tally = &mut self.tally;
            match &line.item {
                Item::Invalid(detail) => tally.count_invalid(line.number, detail.clone()),
                Item::Job { new, id_from } => match receipts.next() {
                    None => return (at, None),
                    // A job that exists with a random id was added by this stream, in an attempt
                    // whose reply was lost.
                    Some(JobReceipt::Exists { .. }) if *id_from == IdFrom::Random => {
                        tally.count_line(line.number);
                        tally.created += 1;
                    }
                    Some(JobReceipt::Created) => {
                        tally.count_line(line.number);
                        tally.created += 1;
                    }
                    Some(JobReceipt::Exists { bulk }) if self.target.includes(bulk.as_ref()) => {
                        tally.count_line(line.number);
                        tally.existing += 1;
                    }
                    Some(JobReceipt::Exists { bulk }) => {
                        let detail = self.target.differs(&new.job, *id_from, Difference::Bulk, bulk);
                        tally.differing += 1;
                        tally.count_invalid(line.number, detail);
                    }
                    Some(JobReceipt::Differs { difference, bulk }) => {
                        let detail = self.target.differs(&new.job, *id_from, *difference, bulk);
                        if *id_from == IdFrom::Derived {
                            self.other_source
                                .get_or_insert_with(|| format!("line {}: {detail}", line.number));
                        }
                        tally.differing += 1;
                        tally.count_invalid(line.number, detail);
                    }
                    Some(JobReceipt::Refused { refusal: Refusal::TooManyTypes, .. }) => {
                        tally.refused += 1;
                        let detail = Error::TooManyTypes(new.type_id.to_string()).to_string();
                        tally.count_invalid(line.number, detail);
                    }
                    Some(JobReceipt::Refused { refusal, retry_after_ms }) => {
                        return (at, Some((*refusal, *retry_after_ms)));
                    }
                },
            }
        }
        (self.batch.len(), None)
    }

    /// Seals the bulk action.
    pub async fn seal(&self, bulk: &BulkRef) -> Result<(), Stopped> {
        let mut stall = Stall::new(self.app);
        loop {
            match self.app.engine().call(SealBulk { bulk: bulk.clone(), expected: None }).await {
                Ok(BulkSealed::Sealed(_)) => return Ok(()),
                Ok(_) => {
                    let detail = Error::NoSuchBulk(bulk.clone()).to_string();
                    return Err(Stopped::new(StopReason::BulkClosed, detail));
                }
                Err(error) => stall.wait_for_engine(error).await?,
            }
        }
    }
}

impl Line {
    fn job(&self) -> Option<&NewJob> {
        match &self.item {
            Item::Job { new, .. } => Some(new),
            Item::Invalid(_) => None,
        }
    }
}

impl Tally {
    /// Counts the lines before this one that are not counted yet as empty.
    fn count_empty(&mut self, number: u64) {
        self.empty_lines += number.saturating_sub(self.next_line);
        self.next_line = self.next_line.max(number);
    }

    fn count_line(&mut self, number: u64) {
        self.count_empty(number);
        self.next_line = number + 1;
    }

    fn count_invalid(&mut self, line: u64, detail: String) {
        self.count_line(line);
        self.errors_total += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(LineError { line, detail });
        }
    }
}

/// How long a stream has made no progress, and for how long it may.
struct Stall<'a> {
    longest: Duration,
    stopping: &'a CancellationToken,
    since: Option<Instant>,
}

impl<'a> Stall<'a> {
    fn new(app: &'a App) -> Self {
        Self { longest: app.settings.stream_patience, stopping: &app.stopping, since: None }
    }

    fn progress(&mut self) {
        self.since = None;
    }

    async fn wait_for_engine(&mut self, error: EngineError) -> Result<(), Stopped> {
        let is_retryable = error.is_retryable();
        let stopped = Stopped {
            reason: StopReason::Unavailable,
            // The detail of an error response, without internal details.
            detail: Problem::from(error).detail().to_owned(),
            retry_after_ms: is_retryable.then_some(1000),
        };
        if is_retryable { self.pause(PAUSE, stopped).await } else { Err(stopped) }
    }

    async fn wait_for_room(&mut self, refusal: Refusal, retry_after_ms: u64) -> Result<(), Stopped> {
        let (reason, detail) = match refusal {
            Refusal::GroupFull => {
                (StopReason::QueueFull, "the group has reached its maximum of unfinished jobs")
            }
            Refusal::QueueFull => {
                (StopReason::QueueFull, "the queue has reached its maximum of unfinished jobs")
            }
            Refusal::GroupBytesFull => (
                StopReason::QueueFull,
                "the group has reached its maximum of stored bytes, including finished jobs",
            ),
            Refusal::QueueBytesFull => (
                StopReason::QueueFull,
                "the queue has reached its maximum of stored bytes, including finished jobs",
            ),
            Refusal::BulkSealed => (
                StopReason::BulkClosed,
                "the bulk action is sealed or has ended; open another one for more jobs",
            ),
            Refusal::BulkUnknown | Refusal::TooManyTypes => {
                (StopReason::BulkClosed, "the bulk action does not exist any more; open it first")
            }
        };
        if reason != StopReason::QueueFull {
            return Err(Stopped::new(reason, detail));
        }
        let detail = format!("{detail}; continue with next_line when some jobs have ended");
        let stopped = Stopped { reason, detail, retry_after_ms: Some(retry_after_ms) };
        self.pause(Duration::from_millis(retry_after_ms), stopped).await
    }

    /// Waits before the next attempt; stops if the time is over.
    async fn pause(&mut self, pause: Duration, stopped: Stopped) -> Result<(), Stopped> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        let left = self.longest.saturating_sub(waited);
        if left.is_zero() {
            return Err(stopped);
        }
        tokio::select! {
            () = self.stopping.cancelled() => Err(stopping()),
            () = tokio::time::sleep(pause.min(left)) => Ok(()),
        }
    }
}

/// A stop because the server is stopping.
pub fn stopping() -> Stopped {
    Stopped::new(StopReason::Stopping, "the server is stopping; continue with next_line when it is back")
}
