//! Jobs as an endless stream, and where to go on with one that broke off.
//!
//! - `stream/body.rs`: the body as it comes. `stream/intake.rs`: lines into the queue, a step at a time.
//!
//! Invariant: a line is read when the one before it is taken or in the step that is being filled. So a stream goes as
//! fast as the engine takes it, in memory that does not depend on its length.

mod body;
mod intake;

use std::pin::pin;
use std::time::Duration;

use axum::extract::{Request, State};
use fairlane::{Error, NdjsonReader};
use fairlane_core::queue::{BulkRef, Inspect, Inspected, JobRef};
use fairlane_core::{BulkId, GroupId, JobId, TypeId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::jobs::LevelWord;
use crate::access::Caller;
use crate::app::Shared;
use crate::extract::{Json, Named, Query, check_content_type};
use crate::idempotency::Idempotency;
use crate::problem::{Problem, ProblemDocument, ProblemKind};
use crate::trace::TraceOf;
use body::BodyReader;
use intake::{Intake, LineError, StopReason, Stopped, Tally, Target, stopping};

/// The largest number of a first line: what follows can still be counted.
const FIRST_LINE_MAX: u64 = 1 << 48;
/// Jobs wait at most this long for others to be sent with.
const LINGER: Duration = Duration::from_millis(100);
/// Lines that are asked for in a row before a place counts as behind the end: some may be empty or wrong.
const GAP_MAX: u64 = 4;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(take, resume))
}

/// How a stream is to be taken.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct How {
    /// Whose jobs.
    #[param(min_length = 1, max_length = 128)]
    group: String,
    /// The type of jobs whose line names none.
    #[param(min_length = 1, max_length = 128)]
    r#type: Option<String>,
    /// The level of jobs whose line names none.
    level: Option<LevelWord>,
    /// The bulk action they belong to.
    #[param(min_length = 1, max_length = 128)]
    bulk: Option<String>,
    /// Opens the bulk action if it is not there.
    #[serde(default)]
    open: bool,
    /// Seals the bulk action at the end of the stream.
    #[serde(default)]
    seal: bool,
    /// Each line is a payload, whatever it holds; the type is the default one.
    #[serde(default)]
    payload_lines: bool,
    /// The number of the body's first line: a body that goes on where another broke off keeps its numbers.
    #[param(minimum = 1, maximum = 281_474_976_710_656u64)]
    first_line: Option<u64>,
    /// What to do at a wrong line: go on and report it, or stop before it.
    #[serde(default)]
    #[param(inline)]
    on_error: OnError,
}

/// What to do at a wrong line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OnError {
    /// Go on and report it.
    #[default]
    Skip,
    /// Stop before it.
    Stop,
}

/// What became of a stream.
#[derive(Serialize, ToSchema)]
struct Streamed {
    /// Lines that were dealt with: created, existing, empty and wrong ones.
    lines: u64,
    /// Jobs that are new.
    created: u64,
    /// Jobs that were there.
    existing: u64,
    /// Of the wrong lines, those under whose id another job was there.
    differing: u64,
    /// Of the wrong lines, those that the queue refused.
    refused: u64,
    /// Lines without anything.
    empty_lines: u64,
    /// The first 100 wrong lines.
    #[schema(max_items = 100)]
    errors: Vec<LineError>,
    /// All wrong lines.
    errors_total: u64,
    /// The first line that was not dealt with: go on with it (first_line) if the stream is not complete.
    next_line: u64,
    /// Whether everything was dealt with, up to the end.
    complete: bool,
    /// Whether the bulk action was sealed.
    sealed: bool,
    /// Why it stopped before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
}

/// Adds jobs from a stream of any length
///
/// The body is NDJSON: on each line an object with `payload` (or `payload_base64`, if that is not JSON) and, if wanted,
/// `id`, `type`, `level`, `cost`, `delay_ms` or `run_at`, `trace`. It is read as fast as the queue takes it. When the
/// queue stays full or away, or the body pauses for too long, it stops and says where to go on: send the rest with
/// `first_line` set to `next_line`. A line without an id gets one that follows from its number and the bulk action, or
/// the Idempotency-Key; so such a stream may be repeated, as a whole or from any line on, for as long as its jobs are
/// kept. Without both it gets a UUID, and a repeated stream adds its jobs twice. A line under whose id another job is
/// there, with another type, payload, level, cost or bulk action, is a wrong line and changes nothing. A type that is
/// new is a wrong line if the key is bound to groups. A stream that breaks off has taken what came whole; GET
/// /api/jobs/stream says where to go on.
#[utoipa::path(
    post,
    path = "/api/jobs/stream",
    tag = "jobs",
    params(How, ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to repeat the stream when its lines have no ids and it belongs to no bulk action", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body(content = String, content_type = "application/x-ndjson", example = "{\"id\": \"order-1\", \"type\": \"mail\", \"payload\": {\"to\": \"ada@example.com\"}}\n"),
    responses(
        (status = 200, description = "What became of it", body = Streamed),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn take(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    TraceOf(trace): TraceOf,
    Query(how): Query<How>,
    request: Request,
) -> Result<Json<Streamed>, Problem> {
    let group = GroupId::named(&how.group)?;
    caller.check_group(&group)?;
    check_content_type(request.headers(), "application/x-ndjson")?;
    let first_line = how.checked()?;
    let bulk = how.bulk.as_deref().map(BulkId::named).transpose()?;
    let bulk_name = bulk.clone().map(|id| BulkRef { group: group.clone(), id });
    if let Some(BulkRef { group, id }) = &bulk_name {
        let bulk = app.fairlane.bulk(group, id);
        if how.open {
            bulk.open().await?;
        } else {
            bulk.opened_before()?.view().await?;
        }
    }
    let target = Target::new(group, bulk, key.as_ref(), trace);
    let stops_on_error = how.on_error == OnError::Stop;
    let mut intake = Intake::new(&app, &caller, &target, first_line, stops_on_error);
    let mut body = BodyReader::new(request.into_body(), app.settings.body_timeout);
    let mut ended = read(&app, &how, &mut body, first_line - 1, &mut intake).await;
    let mut sealed = false;
    if let (Ok(()), Some(bulk), true) = (&ended, &bulk_name, how.seal) {
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

impl How {
    /// Checks what stands beside the names, and gives the number of the first line.
    fn checked(&self) -> Result<u64, Problem> {
        let invalid = |detail: &str| Err(ProblemKind::Invalid.because(detail));
        if let Some(job_type) = &self.r#type {
            TypeId::named(job_type)?;
        } else if self.payload_lines {
            return invalid("payload_lines needs the type of the jobs (type=), for no line names one");
        }
        if self.bulk.is_none() && (self.open || self.seal) {
            return invalid("open and seal are about a bulk action; name it with bulk=");
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
    how: &How,
    body: &mut BodyReader,
    before: u64,
    intake: &mut Intake<'_>,
) -> Result<(), Stopped> {
    let mut reader = NdjsonReader::new(&how.group, body).level(how.level.unwrap_or_default().into());
    if let Some(job_type) = &how.r#type {
        reader = reader.job_type(job_type);
    }
    if how.payload_lines {
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
                        intake.send().await?;
                        return Err(stopping());
                    }
                    // Nobody knows when the next line comes; what is there need not wait for it.
                    () = tokio::time::sleep(LINGER), if !intake.is_empty() => intake.send().await?,
                }
            }
        };
        match next {
            Ok(Some(job)) => intake.take(before + reader.line(), job).await?,
            Ok(None) => return intake.end(before + reader.line()).await,
            Err(Error::Line { line, reason }) => intake.take_wrong(before + line, reason).await?,
            Err(error) => {
                intake.send().await?;
                return Err(broken_off(&error));
            }
        }
    }
}

fn broken_off(error: &Error) -> Stopped {
    match error {
        Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            Stopped::new(StopReason::TooSlow, "the body did not go on for too long; go on with next_line")
        }
        _ => Stopped::new(StopReason::BrokenOff, "the body broke off; go on with next_line"),
    }
}

/// Which stream.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhichStream {
    /// Whose.
    #[param(min_length = 1, max_length = 128)]
    group: String,
    /// The bulk action it went into.
    #[param(min_length = 1, max_length = 128)]
    bulk: Option<String>,
}

/// Where to go on.
#[derive(Serialize, ToSchema)]
struct Resume {
    /// The first line to send.
    #[schema(minimum = 1)]
    next_line: u64,
}

/// Where to go on with a stream that broke off
///
/// For a stream into a bulk action, or one with an Idempotency-Key (send the same one). Nothing is remembered of
/// streams: the jobs of its lines are looked for, and every line before one that is there was dealt with, if lines were
/// sent in their order. So the line is never too high; it may be too low where lines were empty or wrong, have ids of
/// their own, or their jobs have ended and are past their retention. Sending a line again is safe while its job is kept.
#[utoipa::path(
    get,
    path = "/api/jobs/stream",
    tag = "jobs",
    params(WhichStream, ("Idempotency-Key" = Option<String>, Header, description = "That of the stream, if it went into no bulk action", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    responses(
        (status = 200, description = "Where to go on", body = Resume),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn resume(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    Query(which): Query<WhichStream>,
) -> Result<Json<Resume>, Problem> {
    let group = GroupId::named(&which.group)?;
    caller.check_group(&group)?;
    let bulk = which.bulk.as_deref().map(BulkId::named).transpose()?;
    let target = Target::new(group, bulk, key.as_ref(), None);
    if target.id(1).is_none() {
        return Err(ProblemKind::Invalid.because(
            "name the bulk action of the stream (bulk=), or send its Idempotency-Key; other streams cannot be found",
        ));
    }
    Ok(Json(Resume { next_line: last_line(&app, &target).await? + 1 }))
}

/// The last line whose job is found: by doubling, then by halving.
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

/// The first of a few lines, from this one on, whose job is there.
async fn found_near(app: &Shared, target: &Target, line: u64, beyond: u64) -> Result<Option<u64>, Problem> {
    for line in line..line.saturating_add(GAP_MAX).min(beyond) {
        let Some(Ok(id)) = target.id(line).map(JobId::new) else { return Ok(None) };
        let job = JobRef { group: target.group.clone(), id };
        if let Inspected::Job(Some(view)) = app.engine().inspect(Inspect::Job(job)).await?
            && target.is_home(view.bulk.as_ref())
        {
            return Ok(Some(line));
        }
    }
    Ok(None)
}
