//! Lines into the queue, a step at a time.
//!
//! Invariant: `next_line` is the first line of which nothing is known yet. Every line before it was taken, was there,
//! was empty, or is counted as wrong; at most one step of lines behind it is in memory.

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
use crate::guard::spend;
use crate::idempotency::{IN_DOUBT, IdFrom, IdempotencyKey, line_stem, reused};
use crate::problem::Problem;

/// Wrong lines that are named.
const ERRORS_MAX: usize = 100;
/// Pause before an engine that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Where lines go, and what jobs without an id are called.
pub struct Target {
    /// Whose.
    pub group: GroupId,
    /// The bulk action they belong to.
    pub bulk: Option<BulkId>,
    /// The trace of those that name none.
    pub trace: Option<Trace>,
    /// What their ids begin with; none: they are drawn.
    stem: Option<String>,
}

impl Target {
    /// A target; ids come from the bulk action, else from the key.
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

    /// The id of the job on this line, if it was given none; none: it is drawn.
    pub fn id(&self, line: u64) -> Option<String> {
        self.stem.as_ref().map(|stem| format!("{stem}-{line}"))
    }

    /// Whether a job that is there is where those of this stream are.
    pub fn is_home(&self, bulk: Option<&BulkId>) -> bool {
        self.bulk.is_none() || self.bulk.as_ref() == bulk
    }

    /// What is wrong with a line under whose id another job is there.
    fn other_job(
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
                "its job {} is there with another {}. Jobs without an id are known by their line: mend a line, but never \
                 remove, insert or change one that was taken. If this is another source, give its jobs ids, or let it \
                 begin behind the lines that are there (first_line)",
                job.id,
                difference.as_str()
            ),
            None if id_from == IdFrom::Derived => reused(&job, difference).detail().to_owned(),
            _ => Error::Differs { job, difference, owner }.to_string(),
        }
    }
}

/// What became of the lines.
#[derive(Debug, Default)]
pub struct Tally {
    /// New jobs.
    pub created: u64,
    /// Jobs that were there.
    pub existing: u64,
    /// Lines under whose id another job was there.
    pub differing: u64,
    /// Lines the queue refused.
    pub refused: u64,
    /// Lines without anything.
    pub empty_lines: u64,
    /// The first lines that were not taken, refused ones too.
    pub errors: Vec<LineError>,
    /// All of these.
    pub errors_total: u64,
    /// The first line of which nothing is known yet.
    pub next_line: u64,
}

/// A line that was not taken.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LineError {
    /// Which.
    line: u64,
    /// What is wrong with it.
    detail: String,
}

/// Why a stream ended before its end.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Stopped {
    /// As a word for programs.
    pub reason: StopReason,
    /// What happened and what to do.
    pub detail: String,
    /// When it makes sense to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Why a stream ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The queue takes no more jobs at the moment.
    QueueFull,
    /// The engine does not answer, or broke.
    Unavailable,
    /// A line is wrong, and it was to stop there.
    WrongLine,
    /// The jobs that are there were made from other lines: this is not the same source.
    OtherSource,
    /// The bulk action is sealed, has ended or is unknown.
    BulkClosed,
    /// The body broke off.
    BrokenOff,
    /// The body did not go on for too long.
    TooSlow,
    /// The server stops.
    Stopping,
}

impl Stopped {
    /// It stops for this reason.
    pub fn new(reason: StopReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), retry_after_ms: None }
    }
}

struct Line {
    number: u64,
    item: Item,
}

enum Item {
    Job { new: NewJob, id_from: IdFrom },
    Wrong(String),
}

/// Takes lines.
pub struct Intake<'a> {
    app: &'a App,
    caller: &'a Caller,
    target: &'a Target,
    /// Whether to stop behind a step in which a line was refused.
    stops_on_error: bool,
    step: Vec<Line>,
    step_bytes: usize,
    tally: Tally,
    /// The first line that is another one than when its job was added.
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
            step: Vec::new(),
            step_bytes: 0,
            tally,
            other_source: None,
        }
    }

    /// Whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.step.is_empty()
    }

    /// What became of the lines so far.
    pub fn into_tally(self) -> Tally {
        self.tally
    }

    /// Takes a line with a job.
    pub async fn take(&mut self, number: u64, job: Job) -> Result<(), Stopped> {
        let (job, id_from) = match (job.given_id().is_some(), self.target.id(number)) {
            (true, _) => (job, IdFrom::Request),
            (false, Some(id)) => (job.id(id), IdFrom::Derived),
            (false, None) => (job, IdFrom::Drawn),
        };
        let new = match job.into_command(self.target.bulk.clone()) {
            Ok(mut new) => {
                new.trace = new.trace.or_else(|| self.target.trace.clone());
                new
            }
            Err(error) => return self.take_wrong(number, error.to_string()).await,
        };
        if !self.may_use(&new.type_id).await? {
            return self.take_wrong(number, new_type(&new.type_id).detail().to_owned()).await;
        }
        let bytes = new.payload.len();
        if self.step.len() >= ENQUEUE_JOBS_MAX || self.step_bytes + bytes > ENQUEUE_BYTES_MAX {
            self.send().await?;
        }
        self.step_bytes += bytes;
        self.step.push(Line { number, item: Item::Job { new, id_from } });
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

    /// Takes a line that is wrong, or stops before it.
    pub async fn take_wrong(&mut self, number: u64, detail: String) -> Result<(), Stopped> {
        if self.stops_on_error {
            self.send().await?;
            self.tally.pass_empty(number);
            return Err(Stopped::new(StopReason::WrongLine, format!("line {number}: {detail}")));
        }
        if self.step.len() >= ENQUEUE_JOBS_MAX {
            self.send().await?;
        }
        self.step.push(Line { number, item: Item::Wrong(detail) });
        Ok(())
    }

    /// The source has ended behind this line.
    pub async fn end(&mut self, last: u64) -> Result<(), Stopped> {
        self.send().await?;
        self.tally.pass_empty(last + 1);
        Ok(())
    }

    /// Sends what is in memory. What was not answered stays there.
    pub async fn send(&mut self) -> Result<(), Stopped> {
        let mut stall = Stall::new(self.app);
        let mut is_unanswered = false;
        // Jobs are paid for when they are added; a line that is wrong takes as long to read.
        if let Some(owed) = spend(self.step.iter().filter(|line| line.job().is_none()).count() as u64) {
            owed.paid(&self.app.stopping).await;
        }
        while !self.step.is_empty() {
            let jobs: Vec<NewJob> = self.step.iter().filter_map(Line::job).cloned().collect();
            let receipts = if jobs.is_empty() {
                Vec::new()
            } else {
                match self.app.engine().enqueue(Enqueue { jobs }).await {
                    Ok(enqueued) => enqueued.receipts,
                    Err(error) => {
                        is_unanswered |= error.is_retryable();
                        let waited = stall.wait_for_engine(error).await;
                        waited.map_err(
                            |stopped| if is_unanswered { self.in_doubt(stopped) } else { stopped },
                        )?;
                        continue;
                    }
                }
            };
            is_unanswered = false;
            let (answered, refusal) = self.count(&receipts);
            if answered > 0 {
                stall.progress();
            }
            self.step.drain(..answered);
            self.step_bytes = self.step.iter().filter_map(Line::job).map(|new| new.payload.len()).sum();
            if let Some((refusal, retry_after_ms)) = refusal {
                stall.wait_for_room(refusal, retry_after_ms).await?;
            }
            // What follows would be added to what is there of the other.
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

    /// Says that what was sent and not answered cannot be sent again, if ids of it were drawn.
    fn in_doubt(&self, stopped: Stopped) -> Stopped {
        let is_drawn = |line: &&Line| matches!(line.item, Item::Job { id_from: IdFrom::Drawn, .. });
        let Some(last) = self.step.iter().rfind(is_drawn) else { return stopped };
        let (first, last) = (self.tally.next_line, last.number);
        let detail = format!("the queue did not answer; of the lines {first} to {last}, {IN_DOUBT}");
        Stopped::new(stopped.reason, detail)
    }

    /// Counts what was answered, up to the first line that was refused for now: how many lines, and that refusal.
    fn count(&mut self, receipts: &[JobReceipt]) -> (usize, Option<(Refusal, u64)>) {
        let mut receipts = receipts.iter();
        for (at, line) in self.step.iter().enumerate() {
            let tally = &mut self.tally;
            match &line.item {
                Item::Wrong(detail) => tally.wrong(line.number, detail.clone()),
                Item::Job { new, id_from } => match receipts.next() {
                    None => return (at, None),
                    // What is there under an id that was drawn here was added here; that answer was lost.
                    Some(JobReceipt::Exists { .. }) if *id_from == IdFrom::Drawn => {
                        tally.pass(line.number);
                        tally.created += 1;
                    }
                    Some(JobReceipt::Created) => {
                        tally.pass(line.number);
                        tally.created += 1;
                    }
                    Some(JobReceipt::Exists { bulk }) if self.target.is_home(bulk.as_ref()) => {
                        tally.pass(line.number);
                        tally.existing += 1;
                    }
                    Some(JobReceipt::Exists { bulk }) => {
                        let told = self.target.other_job(&new.job, *id_from, Difference::Bulk, bulk);
                        tally.differing += 1;
                        tally.wrong(line.number, told);
                    }
                    Some(JobReceipt::Differs { difference, bulk }) => {
                        let told = self.target.other_job(&new.job, *id_from, *difference, bulk);
                        if *id_from == IdFrom::Derived {
                            self.other_source.get_or_insert_with(|| format!("line {}: {told}", line.number));
                        }
                        tally.differing += 1;
                        tally.wrong(line.number, told);
                    }
                    Some(JobReceipt::Refused { refusal: Refusal::TooManyTypes, .. }) => {
                        tally.refused += 1;
                        tally.wrong(line.number, Error::TooManyTypes(new.type_id.to_string()).to_string());
                    }
                    Some(JobReceipt::Refused { refusal, retry_after_ms }) => {
                        return (at, Some((*refusal, *retry_after_ms)));
                    }
                },
            }
        }
        (self.step.len(), None)
    }

    /// Says that no more jobs come.
    pub async fn seal(&self, bulk: &BulkRef) -> Result<(), Stopped> {
        let mut stall = Stall::new(self.app);
        loop {
            match self.app.engine().seal_bulk(SealBulk { bulk: bulk.clone(), expected: None }).await {
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
            Item::Wrong(_) => None,
        }
    }
}

impl Tally {
    /// The lines up to this one, without it, that are not counted have nothing in them.
    fn pass_empty(&mut self, number: u64) {
        self.empty_lines += number.saturating_sub(self.next_line);
        self.next_line = self.next_line.max(number);
    }

    fn pass(&mut self, number: u64) {
        self.pass_empty(number);
        self.next_line = number + 1;
    }

    fn wrong(&mut self, line: u64, detail: String) {
        self.pass(line);
        self.errors_total += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(LineError { line, detail });
        }
    }
}

/// How long nothing has moved, and when that was long enough.
struct Stall<'a> {
    patience: Duration,
    stopping: &'a CancellationToken,
    since: Option<Instant>,
}

impl<'a> Stall<'a> {
    fn new(app: &'a App) -> Self {
        Self { patience: app.settings.stream_patience, stopping: &app.stopping, since: None }
    }

    fn progress(&mut self) {
        self.since = None;
    }

    async fn wait_for_engine(&mut self, error: EngineError) -> Result<(), Stopped> {
        let is_retryable = error.is_retryable();
        let stopped = Stopped {
            reason: StopReason::Unavailable,
            // As any other request would be told; what broke is for the operator.
            detail: Problem::from(error).detail().to_owned(),
            retry_after_ms: is_retryable.then_some(1000),
        };
        if is_retryable { self.pause(PAUSE, stopped).await } else { Err(stopped) }
    }

    async fn wait_for_room(&mut self, refusal: Refusal, retry_after_ms: u64) -> Result<(), Stopped> {
        let (reason, detail) = match refusal {
            Refusal::GroupFull => (StopReason::QueueFull, "the group has as many unfinished jobs as it may"),
            Refusal::WholeFull => (StopReason::QueueFull, "the queue has as many unfinished jobs as it may"),
            Refusal::GroupBytesFull => (
                StopReason::QueueFull,
                "the group has as many bytes stored as it may, finished jobs included",
            ),
            Refusal::QueueBytesFull => (
                StopReason::QueueFull,
                "the queue has as many bytes stored as it may, finished jobs included",
            ),
            Refusal::BulkSealed => (
                StopReason::BulkClosed,
                "the bulk action is sealed or has ended; open another one for more jobs",
            ),
            Refusal::BulkUnknown | Refusal::TooManyTypes => {
                (StopReason::BulkClosed, "there is no such bulk action any more; open it first")
            }
        };
        if reason != StopReason::QueueFull {
            return Err(Stopped::new(reason, detail));
        }
        let detail = format!("{detail}; go on with next_line when some are done");
        let stopped = Stopped { reason, detail, retry_after_ms: Some(retry_after_ms) };
        self.pause(Duration::from_millis(retry_after_ms), stopped).await
    }

    /// Waits before the next attempt, if there is to be one.
    async fn pause(&mut self, pause: Duration, stopped: Stopped) -> Result<(), Stopped> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        let left = self.patience.saturating_sub(waited);
        if left.is_zero() {
            return Err(stopped);
        }
        tokio::select! {
            () = self.stopping.cancelled() => Err(stopping()),
            () = tokio::time::sleep(pause.min(left)) => Ok(()),
        }
    }
}

/// The server stops.
pub fn stopping() -> Stopped {
    Stopped::new(StopReason::Stopping, "the server stops; go on with next_line when it is back")
}
