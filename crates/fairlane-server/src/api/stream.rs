//! Streams of jobs, and where to resume an interrupted one.
//!
//! - `stream/body.rs`: the body while it arrives. `stream/intake.rs`: enqueues lines, a batch at a
//!   time.
//!
//! Invariant: a line is read when the one before it is enqueued or in the batch that is being
//! filled. So a stream is as fast as the engine, in memory that does not depend on its length.

mod body;
mod intake;

use std::pin::pin;
use std::time::Duration;

use axum::extract::{Request, State};
use fairlane::{Error, NdjsonReader};
use fairlane_core::{BulkId, GroupId, TypeId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::jobs::LevelName;
use crate::access::{Caller, Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Named, Query, check_content_type};
use crate::idempotency::Idempotency;
use crate::problem::{Problem, ProblemKind};
use crate::trace::TraceOf;
pub(super) use body::BodyReader;
use intake::{Intake, LineError, StopReason, Stopped, Tally, Target, stopping};

/// The largest number of a first line, so that the lines after it can be counted.
const FIRST_LINE_MAX: u64 = 1 << 48;
/// How long a job waits at most for others to fill its batch.
const LINGER: Duration = Duration::from_millis(100);
/// Consecutive lines without a job after which the search assumes the end: some may be empty or
/// invalid.
const GAP_MAX: u64 = 4;

pub(super) fn routes() -> Routes {
    Routes::default().add(Pace::Stream, Permission::Produce, Scope::Named, routes!(enqueue)).add(
        Pace::Brief,
        Permission::Produce,
        Scope::Named,
        routes!(resume),
    )
}

/// The options of a stream.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StreamQuery {
    /// The group of the jobs.
    #[param(min_length = 1, max_length = 128)]
    group: String,
    /// The type of jobs whose line names none.
    #[param(min_length = 1, max_length = 128)]
    r#type: Option<String>,
    /// The level of jobs whose line names none.
    level: Option<LevelName>,
    /// The bulk action that the jobs belong to.
    #[param(min_length = 1, max_length = 128)]
    bulk: Option<String>,
    /// Whether to open the bulk action if it does not exist.
    #[serde(default)]
    open: bool,
    /// Whether to seal the bulk action at the end of the stream.
    #[serde(default)]
    seal: bool,
    /// Whether each line is a payload, whatever it contains; the jobs have the default type.
    #[serde(default)]
    payload_lines: bool,
    /// The number of the body's first line: a body that resumes an interrupted one continues its
    /// numbers.
    #[param(minimum = 1, maximum = 281_474_976_710_656u64)]
    first_line: Option<u64>,
    /// What to do at an invalid line: skip and report it, or stop before it.
    #[serde(default)]
    #[param(inline)]
    on_error: OnError,
}

/// What to do at an invalid line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OnError {
    /// Skip and report it.
    #[default]
    Skip,
    /// Stop before it.
    Stop,
}

/// The outcome of a stream.
#[derive(Serialize, ToSchema)]
struct Streamed {
    /// Lines that were processed: created, existing, empty and invalid ones.
    lines: u64,
    /// Jobs that are new.
    created: u64,
    /// Jobs that existed before.
    existing: u64,
    /// Of the invalid lines, those whose id another job has.
    differing: u64,
    /// Of the invalid lines, those that the queue refused.
    refused: u64,
    /// Empty lines.
    empty_lines: u64,
    /// The first 100 invalid lines.
    #[schema(max_items = 100)]
    errors: Vec<LineError>,
    /// The number of invalid lines.
    errors_total: u64,
    /// The first line that was not processed: continue with it (first_line) if the stream is not
    /// complete.
    next_line: u64,
    /// Whether all lines were processed.
    complete: bool,
    /// Whether the bulk action was sealed.
    sealed: bool,
    /// Why the stream stopped before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
}

/// Enqueues a stream of jobs
///
/// The body is NDJSON of any length: on each line an object with `payload` (or `payload_base64`, if
/// it is not JSON) and optionally `id`, `type`, `level`, `cost`, `delay_ms` or `run_at`, `trace`.
/// It is read as fast as the queue accepts jobs. If the queue stays full or unavailable, or the
/// body pauses for too long, the stream stops, and the response says where to continue: send the
/// rest with `first_line` set to `next_line`. The id of a line without one is derived from its
/// number and the bulk action or the Idempotency-Key, so such a stream may be repeated, completely
/// or from any line on, for as long as its jobs are kept. Without both it is a UUID, and a repeated
/// stream adds its jobs twice. A line whose id another job has, with another type, payload, level,
/// cost or bulk action, is invalid and changes nothing. A line with a new type is invalid if the
/// key is bound to groups. The complete lines of an interrupted stream are enqueued; GET
/// /api/jobs/stream says where to continue.
#[utoipa::path(
    post,
    path = "/api/jobs/stream",
    tag = "jobs",
    params(StreamQuery, ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to repeat the stream when its lines have no ids and it belongs to no bulk action", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body(content = String, content_type = "application/x-ndjson", example = "{\"id\": \"order-1\", \"type\": \"mail\", \"payload\": {\"to\": \"ada@example.com\"}}\n"),
    responses((status = 200, description = "The outcome", body = Streamed)),
)]
async fn enqueue(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    TraceOf(trace): TraceOf,
    Query(query): Query<StreamQuery>,
    request: Request,
) -> Result<Json<Streamed>, Problem> {
    let group = GroupId::named(&query.group)?;
    caller.check_group(&group)?;
    check_content_type(request.headers(), "application/x-ndjson")?;
    let first_line = query.checked()?;
    let bulk = query.bulk.as_deref().map(BulkId::named).transpose()?;
    let handle = match &bulk {
        Some(id) if query.open => Some(app.fairlane.bulk(&group, id).open().await?),
        Some(id) => {
            let handle = app.fairlane.bulk(&group, id).opened_before()?;
            handle.view().await?;
            Some(handle)
        }
        None => None,
    };
    let target = Target::new(group, bulk, key.as_ref(), trace);
    let stops_on_error = query.on_error == OnError::Stop;
    let mut intake = Intake::new(&app, &caller, &target, first_line, stops_on_error);
    let mut body = BodyReader::new(request.into_body(), app.settings.body_timeout);
    let mut ended = read(&app, &query, &mut body, first_line - 1, &mut intake).await;
    let mut sealed = false;
    if let (Ok(()), Some(bulk), true) = (&ended, &handle, query.seal) {
        ended = intake.seal(bulk).await;
        sealed = ended.is_ok();
    }
    let stopped = ended.err();
    let Tally { created, existing, differing, refused, empty_lines, errors, errors_total, next_line } =
        intake.into_tally();
    Ok(Json(Streamed {
        lines: next_line - first_line,
        created,
        existing,
        differing,
        refused,
        empty_lines,
        errors,
        errors_total,
        next_line,
        complete: stopped.is_none(),
        sealed,
        stopped,
    }))
}

impl StreamQuery {
    /// Checks the options, and returns the number of the first line.
    fn checked(&self) -> Result<u64, Problem> {
        let invalid = |detail: &str| Err(ProblemKind::Invalid.because(detail));
        if let Some(job_type) = &self.r#type {
            TypeId::named(job_type)?;
        } else if self.payload_lines {
            return invalid("payload_lines requires the type of the jobs (type=), as no line names one");
        }
        if self.bulk.is_none() && (self.open || self.seal) {
            return invalid("open and seal require a bulk action; name it with bulk=");
        }
        match self.first_line.unwrap_or(1) {
            first_line @ 1..=FIRST_LINE_MAX => Ok(first_line),
            _ => invalid("first_line is the number of the body's first line, counted from 1"),
        }
    }
}

/// Reads the body to its end. `before` is the number of the line before the first.
async fn read(
    app: &Shared,
    query: &StreamQuery,
    body: &mut BodyReader,
    before: u64,
    intake: &mut Intake<'_>,
) -> Result<(), Stopped> {
    let mut reader = NdjsonReader::new(&query.group, body).level(query.level.unwrap_or_default().into());
    if let Some(job_type) = &query.r#type {
        reader = reader.job_type(job_type);
    }
    if query.payload_lines {
        reader = reader.payload_lines();
    }
    loop {
        let next = {
            let mut next = pin!(reader.next());
            loop {
                tokio::select! {
                    biased;
                    next = &mut next => break next,
                    () = app.stopping.cancelled() => {
                        intake.flush().await?;
                        return Err(stopping());
                    }
                    // The next line may arrive late, so the buffered lines are sent without it.
                    () = tokio::time::sleep(LINGER), if !intake.is_empty() => intake.flush().await?,
                }
            }
        };
        match next {
            Ok(Some(job)) => intake.add(before + reader.line(), job).await?,
            Ok(None) => return intake.end(before + reader.line()).await,
            Err(Error::Line { line, reason }) => intake.add_invalid(before + line, reason).await?,
            Err(error) => {
                intake.flush().await?;
                return Err(interrupted(&error));
            }
        }
    }
}

fn interrupted(error: &Error) -> Stopped {
    match error {
        Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            Stopped::new(StopReason::TooSlow, "the body paused for too long; continue with next_line")
        }
        _ => Stopped::new(StopReason::BrokenOff, "the body was cut off; continue with next_line"),
    }
}

/// Identifies a stream.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ResumeQuery {
    /// The group of the jobs.
    #[param(min_length = 1, max_length = 128)]
    group: String,
    /// The bulk action of the stream.
    #[param(min_length = 1, max_length = 128)]
    bulk: Option<String>,
}

/// Where to resume a stream.
#[derive(Serialize, ToSchema)]
struct Resume {
    /// The first line to send.
    #[schema(minimum = 1)]
    next_line: u64,
}

/// Finds where to resume an interrupted stream
///
/// For a stream into a bulk action, or one with an Idempotency-Key (send the same one). The server
/// stores nothing about streams: it searches for the jobs of the lines, and every line before an
/// existing job was processed, if the lines were sent in order. So the line is never too high; it
/// may be too low if lines were empty or invalid, have ids of their own, or their jobs have ended
/// and are past their retention. Sending a line again is safe while its job is kept.
#[utoipa::path(
    get,
    path = "/api/jobs/stream",
    tag = "jobs",
    params(ResumeQuery, ("Idempotency-Key" = Option<String>, Header, description = "The key of the stream, if it has no bulk action", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    responses((status = 200, description = "Where to continue", body = Resume)),
)]
async fn resume(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    Query(query): Query<ResumeQuery>,
) -> Result<Json<Resume>, Problem> {
    let group = GroupId::named(&query.group)?;
    caller.check_group(&group)?;
    let bulk = query.bulk.as_deref().map(BulkId::named).transpose()?;
    let target = Target::new(group, bulk, key.as_ref(), None);
    if target.id(1).is_none() {
        return Err(ProblemKind::Invalid.because(
            "name the bulk action of the stream (bulk=), or send its Idempotency-Key; other streams cannot be found",
        ));
    }
    Ok(Json(Resume { next_line: last_line(&app, &target).await? + 1 }))
}

/// The last line whose job is found, by exponential and then binary search.
async fn last_line(app: &Shared, target: &Target) -> Result<u64, Problem> {
    let (mut found, mut beyond) = (0, None);
    loop {
        let probe = match beyond {
            None => (found * 2).max(1),
            Some(beyond) if beyond - found <= 1 => return Ok(found),
            Some(beyond) => found + (beyond - found) / 2,
        };
        match found_near(app, target, probe, beyond.unwrap_or(u64::MAX)).await? {
            Some(line) => found = line,
            None => beyond = Some(probe),
        }
        if found > FIRST_LINE_MAX {
            return Ok(found);
        }
    }
}

/// The first of a few lines, from this one on, whose job exists.
async fn found_near(app: &Shared, target: &Target, line: u64, beyond: u64) -> Result<Option<u64>, Problem> {
    for line in line..line.saturating_add(GAP_MAX).min(beyond) {
        let Some(id) = target.id(line) else { return Ok(None) };
        if let Some(view) = app.fairlane.job(&target.group, id).view().await?
            && target.includes(view.bulk.as_ref())
        {
            return Ok(Some(line));
        }
    }
    Ok(None)
}
