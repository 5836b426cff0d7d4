//! The state of jobs, their cancellation, and their events.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use fairlane::{Cancellation, JobState};
use fairlane_postgres::Error;
use futures_util::stream::{Stream, unfold};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::error::ApiError;
use super::{App, STREAMS};
use crate::store::{self, JobView};

/// How long the queue may take to answer before its part of an answer is left out.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a cancellation waits until the relay has passed the job on.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a stream looks for news.
const LOOK_EVERY: Duration = Duration::from_millis(250);

type Id = Result<Path<i64>, PathRejection>;

fn job_id(id: Id) -> Result<i64, ApiError> {
    let read = id.map(|Path(id)| id);
    read.map_err(|_| {
        ApiError::invalid("The id of a job is a number.", "Use the job_id that POST /jobs/file returned.")
    })
}

/// The state of a job.
pub async fn show(State(app): State<App>, id: Id) -> Result<Json<JobView>, ApiError> {
    let id = job_id(id)?;
    Ok(Json(look(&app, id).await?.ok_or_else(|| ApiError::no_job(id))?))
}

/// A job as the database has it. While it is open, the queue adds its progress, and an end that the
/// database does not have yet. `None` if there is no such job.
async fn look(app: &App, id: i64) -> Result<Option<JobView>, Error> {
    let Some(mut job) = store::read(&app.outbox, id).await? else { return Ok(None) };
    if job.has_ended() {
        return Ok(Some(job));
    }
    let asked = async { app.queue.open().await?.job(&job.group, &job.queue_id).view().await };
    let view = match timeout(QUEUE_TIMEOUT, asked).await {
        Ok(Ok(view)) => view,
        Ok(Err(error)) => {
            tracing::debug!("the queue does not answer: {error}");
            None
        }
        Err(_) => None,
    };
    if let Some(view) = view {
        job.progress =
            view.progress.map(|progress| json!({ "done": progress.done, "total": progress.total }));
        if view.state == JobState::Cancelled {
            job.status = "cancelled".to_owned();
        }
    }
    Ok(Some(job))
}

/// Cancels a job. One that runs is stopped on its engine.
pub async fn cancel(State(app): State<App>, id: Id) -> Result<Json<Value>, ApiError> {
    let id = job_id(id)?;
    let deadline = Instant::now() + CANCEL_TIMEOUT;
    loop {
        let job = look(&app, id).await?.ok_or_else(|| ApiError::no_job(id))?;
        if job.has_ended() {
            return Ok(Json(json!({ "job_id": id, "status": job.status })));
        }
        let asked = async { app.queue.open().await?.job(&job.group, &job.queue_id).cancel().await };
        let cancelled = timeout(QUEUE_TIMEOUT, asked).await.map_err(|_| ApiError::busy("requests"))?;
        let status = match cancelled.map_err(|error| ApiError::queue(&error))? {
            Cancellation::Cancelled => "cancelled",
            Cancellation::Requested => "cancelling",
            // The database gets its end a little later.
            Cancellation::Ended => "ending",
            // It is still in the outbox.
            Cancellation::Unknown if Instant::now() < deadline => {
                sleep(LOOK_EVERY).await;
                continue;
            }
            Cancellation::Unknown => return Err(ApiError::not_yet_queued()),
        };
        return Ok(Json(json!({ "job_id": id, "status": status })));
    }
}

/// Reports the state of a job whenever it changes, until it has ended.
pub async fn events(
    State(app): State<App>,
    id: Id,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let id = job_id(id)?;
    let permit = STREAMS.try_acquire().map_err(|_| ApiError::busy("streams of events"))?;
    let first = look(&app, id).await?.ok_or_else(|| ApiError::no_job(id))?;
    let stream =
        unfold((app, Some(first), None::<JobView>, permit), move |(app, next, last, permit)| async move {
            if last.as_ref().is_some_and(JobView::has_ended) {
                return None;
            }
            let job = match next {
                Some(job) => job,
                None => changed(&app, id, last.as_ref()).await?,
            };
            let name = if job.has_ended() { "ended" } else { "state" };
            let data = serde_json::to_string(&job).expect("a view is always JSON");
            Some((Ok(Event::default().event(name).data(data)), (app, None, Some(job), permit)))
        });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

/// Waits until a job has changed; `None` if it is gone. A database that does not answer is waited for.
async fn changed(app: &App, id: i64, last: Option<&JobView>) -> Option<JobView> {
    loop {
        sleep(LOOK_EVERY).await;
        match look(app, id).await {
            Ok(Some(job)) if Some(&job) == last => {}
            Ok(changed) => return changed,
            Err(error) => tracing::debug!("the database does not answer: {error}"),
        }
    }
}
