//! Enqueues the lines of a stream, a batch at a time.
//!
//! Invariant: `next_line` is the first line that was not processed. Every line before it was
//! enqueued, existed before, was empty, or is counted as invalid; at most one batch of lines behind
//! it is in memory.

use std::collections::VecDeque;
use std::time::Duration;

use fairlane::{Backpressure, Bulk, Error, Job, JobSender, RetryBudget, Sent};
use fairlane_core::limits::ENQUEUE_JOBS_MAX;
use fairlane_core::queue::{Difference, JobReceipt, JobRef, NewJob, Refusal};
use fairlane_core::{BulkId, GroupId, Trace};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::app::{App, new_type};
use crate::idempotency::{IN_DOUBT, IdFrom, IdempotencyKey, line_stem, reused};
use crate::problem::Problem;
use crate::quota::charge_and_wait;

/// Most invalid lines that a response lists.
const ERRORS_MAX: usize = 100;

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

/// A line in the buffer of the sender.
struct Line {
    number: u64,
    id_from: IdFrom,
}

/// Enqueues lines.
pub struct Intake<'a> {
    app: &'a App,
    caller: &'a Caller,
    target: &'a Target,
    /// Whether to stop after a batch in which a line was refused.
    stops_on_error: bool,
    sender: JobSender<Line>,
    /// Invalid lines that are not counted yet, with their reasons.
    invalid: VecDeque<(u64, String)>,
    /// Number of invalid lines that were not charged to the quota yet.
    uncharged: u64,
    tally: Tally,
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
        let (patience, stopping) = (app.settings.stream_patience, app.stopping.clone());
        let sender = app
            .fairlane
            .sender()
            .retry_budget(RetryBudget { while_down: patience, while_full: Some(patience) })
            .interrupted_by(move || Box::pin(stopping.clone().cancelled_owned()));
        let tally = Tally { next_line: first_line, ..Tally::default() };
        Self { app, caller, target, stops_on_error, sender, invalid: VecDeque::new(), uncharged: 0, tally }
    }

    /// Whether no line is buffered.
    pub fn is_empty(&self) -> bool {
        self.sender.unsent().next().is_none() && self.invalid.is_empty()
    }

    /// The number of lines by outcome so far.
    pub fn into_tally(self) -> Tally {
        self.tally
    }

    /// Adds a line with a job.
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
        let may_use = || self.app.may_use(self.caller, &new.type_id);
        if !self.sender.retrying(may_use).await.map_err(|error| self.stopped(error))? {
            return self.add_invalid(number, new_type(&new.type_id).detail().to_owned()).await;
        }
        let sent = self.sender.push(Line { number, id_from }, new).await;
        self.count(sent)
    }

    /// Adds an invalid line, or stops before it.
    pub async fn add_invalid(&mut self, number: u64, detail: String) -> Result<(), Stopped> {
        if self.stops_on_error {
            self.flush().await?;
            self.tally.count_empty(number);
            return Err(Stopped::new(StopReason::WrongLine, format!("line {number}: {detail}")));
        }
        self.invalid.push_back((number, detail));
        self.uncharged += 1;
        if self.uncharged >= ENQUEUE_JOBS_MAX as u64 {
            self.flush().await?;
        }
        Ok(())
    }

    /// Ends the stream after its last line.
    pub async fn end(&mut self, last: u64) -> Result<(), Stopped> {
        self.flush().await?;
        self.tally.count_empty(last + 1);
        Ok(())
    }

    /// Enqueues the buffered lines. Lines without a receipt stay in the buffer.
    pub async fn flush(&mut self) -> Result<(), Stopped> {
        // The engine layer charges for jobs; an invalid line takes as long to parse.
        charge_and_wait(std::mem::take(&mut self.uncharged), &self.app.stopping).await;
        let sent = self.sender.flush().await;
        self.count(sent)
    }

    /// Counts the lines that have receipts, and stops if the rest cannot be enqueued or a line
    /// shows that it should not.
    fn count(&mut self, sent: Result<(), Error>) -> Result<(), Stopped> {
        let mut other_source = None;
        for Sent { tag: Line { number, id_from }, new, receipt, .. } in self.sender.take_sent() {
            self.count_invalid_before(number);
            match self.outcome(&new, id_from, receipt)? {
                LineOutcome::Created => self.tally.created += 1,
                LineOutcome::Existing => self.tally.existing += 1,
                LineOutcome::Refused(detail) => {
                    self.tally.refused += 1;
                    self.tally.count_invalid(number, detail);
                }
                LineOutcome::Differs(detail) => {
                    if id_from == IdFrom::Derived {
                        other_source.get_or_insert_with(|| format!("line {number}: {detail}"));
                    }
                    self.tally.differing += 1;
                    self.tally.count_invalid(number, detail);
                }
            }
            self.tally.count_line(number);
        }
        let first_unsent = self.sender.unsent().next().map_or(u64::MAX, |line| line.number);
        self.count_invalid_before(first_unsent);
        // Further lines would be mixed with those of the other source.
        if let Some(detail) = other_source {
            return Err(Stopped::new(StopReason::OtherSource, detail));
        }
        if self.stops_on_error
            && let Some(LineError { line, detail }) = self.tally.errors.first()
        {
            return Err(Stopped::new(StopReason::WrongLine, format!("line {line}: {detail}")));
        }
        sent.map_err(|error| self.stopped(error))
    }

    /// The outcome of a line by its receipt; an error if no line after it can be enqueued.
    fn outcome(&self, new: &NewJob, id_from: IdFrom, receipt: JobReceipt) -> Result<LineOutcome, Stopped> {
        Ok(match receipt {
            JobReceipt::Created => LineOutcome::Created,
            // A job that exists with a random id was added by this stream, in an attempt whose
            // reply was lost.
            JobReceipt::Exists { .. } if id_from == IdFrom::Random => LineOutcome::Created,
            JobReceipt::Exists { bulk } if self.target.includes(bulk.as_ref()) => LineOutcome::Existing,
            JobReceipt::Exists { bulk } => {
                LineOutcome::Differs(self.target.differs(&new.job, id_from, Difference::Bulk, &bulk))
            }
            JobReceipt::Differs { difference, bulk } => {
                LineOutcome::Differs(self.target.differs(&new.job, id_from, difference, &bulk))
            }
            JobReceipt::Refused { refusal: Refusal::TooManyTypes, .. } => {
                LineOutcome::Refused(Error::TooManyTypes(new.type_id.to_string()).to_string())
            }
            JobReceipt::Refused { refusal, retry_after_ms } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                let refused = Error::Refused { job: new.job.clone(), refusal, retry_after };
                return Err(Stopped::new(StopReason::BulkClosed, refused.to_string()));
            }
        })
    }

    fn count_invalid_before(&mut self, number: u64) {
        while let Some((number, detail)) = self.invalid.pop_front_if(|(line, _)| *line < number) {
            self.tally.count_invalid(number, detail);
        }
    }

    /// Why the stream stops at an error.
    fn stopped(&self, error: Error) -> Stopped {
        let stopped = match error {
            Error::Interrupted => stopping(),
            Error::GaveUp { backpressure: Backpressure::Full(_), reason, retry_after, .. } => Stopped {
                reason: StopReason::QueueFull,
                detail: format!("{reason}; continue with next_line when some jobs have ended"),
                retry_after_ms: Some(retry_after.as_millis() as u64),
            },
            Error::GaveUp { backpressure: Backpressure::Down(error), .. } => Stopped {
                reason: StopReason::Unavailable,
                detail: Problem::from(error).detail().to_owned(),
                retry_after_ms: Some(1000),
            },
            // The detail of an error response, without internal details.
            error => Stopped::new(StopReason::Unavailable, Problem::from(error).detail()),
        };
        // Lines without a receipt must not be sent again if some of them have random ids.
        let is_random = |line: &&Line| line.id_from == IdFrom::Random;
        match self.sender.unsent().rfind(is_random).filter(|_| self.sender.is_in_doubt()) {
            Some(Line { number: last, .. }) => {
                let first = self.tally.next_line;
                let detail = format!("the queue did not reply for the lines {first} to {last}; {IN_DOUBT}");
                Stopped::new(stopped.reason, detail)
            }
            None => stopped,
        }
    }

    /// Seals the bulk action.
    pub async fn seal(&self, bulk: &Bulk) -> Result<(), Stopped> {
        match self.sender.retrying(|| bulk.seal(None)).await {
            Ok(_) => Ok(()),
            Err(error @ Error::NoSuchBulk(_)) => Err(Stopped::new(StopReason::BulkClosed, error.to_string())),
            Err(error) => Err(self.stopped(error)),
        }
    }
}

/// The outcome of a line that was sent.
enum LineOutcome {
    Created,
    Existing,
    /// The queue refused it, with the reason.
    Refused(String),
    /// Another job has its id, with the message.
    Differs(String),
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

/// A stop because the server is stopping.
pub fn stopping() -> Stopped {
    Stopped::new(StopReason::Stopping, "the server is stopping; continue with next_line when it is back")
}
