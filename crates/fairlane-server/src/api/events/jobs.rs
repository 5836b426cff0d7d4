//! One poller for each followed job, which reads it while a client listens.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fairlane::JobRef;
use fairlane::views::JobView;
use tokio::sync::watch;

use super::bulks::Latest;
use super::{Event, listener};
use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};

/// The time between two reads. Workers store progress at the same interval.
const INTERVAL: Duration = Duration::from_millis(500);

/// Sends the states of a job until it has ended.
pub(super) async fn follow(app: &Shared, job: JobRef, last: Option<String>) -> Result<Response, Problem> {
    let first = read(app, &job).await?;
    if first.is_end() && last.as_ref() == Some(&first.id) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let (states, receiver) = watch::channel(Latest::Unread);
    if !first.is_end() {
        tokio::spawn(keep_reading(app.clone(), job, states));
    }
    Ok(listener::follow_bulk(app, receiver, Arc::new(first), last))
}

async fn keep_reading(app: Shared, job: JobRef, states: watch::Sender<Latest>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = states.closed() => return,
            () = app.stopping.cancelled() => return,
        }
        // A read that failed is repeated. A job that no longer exists has ended and is past its
        // retention.
        match read(&app, &job).await {
            Ok(event) => {
                let is_end = event.is_end();
                states.send_replace(Latest::State(Arc::new(event)));
                if is_end {
                    return states.closed().await;
                }
            }
            Err(problem) if problem.kind() == ProblemKind::NotFound => {
                let _ = states.send_replace(Latest::Gone);
                return states.closed().await;
            }
            Err(_) => {}
        }
    }
}

async fn read(app: &Shared, job: &JobRef) -> Result<Event, Problem> {
    let view = app.fairlane.job(&job.group, &job.id).view().await?.ok_or_else(|| {
        ProblemKind::NotFound.because(format!("there is no job {} of group {}", job.id, job.group))
    })?;
    let mut view = JobView::from(view);
    (view.payload, view.payload_base64) = (None, None);
    let name = if matches!(view.state, "completed" | "dead" | "cancelled") { "ended" } else { "progress" };
    let progress = view.progress.map_or(String::new(), |at| format!("{}/{}", at.done, at.total));
    let id = format!("{}:{}:{}:{}:{progress}", view.state, view.attempts, view.throttles, view.losses);
    let data = serde_json::to_string(&view).expect("a view is valid JSON");
    Ok(Event { name, id, data })
}
