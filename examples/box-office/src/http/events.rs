//! Server-sent events.

use std::convert::Infallible;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::stream::{Stream, unfold};
use tokio::sync::broadcast::error::RecvError;

use super::App;

/// Events from now on. A page that was too slow gets `missed`, and should load everything again.
pub async fn events(State(app): State<App>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stream = unfold(app.live.listen(), |mut events| async move {
        let event = match events.recv().await {
            Ok(event) => Event::default().event(event.name).data(&event.data),
            Err(RecvError::Lagged(_)) => Event::default().event("missed").data("{}"),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(event), events))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
