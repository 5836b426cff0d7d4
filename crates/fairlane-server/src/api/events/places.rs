//! One poller for each followed place in a waiting room.
//!
//! A poll keeps the place of a waiter, so a user whose stream is open keeps the place. The room
//! determines when to poll again, which bounds the polls of all its waiters.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use fairlane::{PlaceStatus, PlaceToken, PlaceView, RoomName, views};
use tokio::sync::watch;

use super::bulks::Latest;
use super::{Event, listener};
use crate::app::Shared;
use crate::problem::Problem;

/// The time until the next poll after one that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Sends the states of a place, converted to events by `show`, until it is active or has ended.
pub(crate) async fn follow(
    app: &Shared,
    room: RoomName,
    token: PlaceToken,
    last: Option<String>,
    show: impl Fn(&PlaceStatus) -> Event + Send + 'static,
) -> Result<Response, Problem> {
    let first = app.fairlane.room(&room).keep(&token).await?;
    let (states, receiver) = watch::channel(Latest::Unread);
    let event = Arc::new(show(&first));
    if let Some(next_poll) = next_poll(&first) {
        let poll = Poll { app: app.clone(), room, token };
        tokio::spawn(poll.repeat(next_poll, states, show));
    }
    Ok(listener::follow_bulk(app, receiver, event, last))
}

/// The polls of one place.
struct Poll {
    app: Shared,
    room: RoomName,
    token: PlaceToken,
}

impl Poll {
    async fn repeat(
        self,
        mut pause: Duration,
        states: watch::Sender<Latest>,
        show: impl Fn(&PlaceStatus) -> Event,
    ) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = states.closed() => return,
                () = self.app.stopping.cancelled() => return,
            }
            pause = match self.app.fairlane.room(&self.room).keep(&self.token).await {
                Ok(status) => {
                    states.send_replace(Latest::State(Arc::new(show(&status))));
                    match next_poll(&status) {
                        Some(next_poll) => next_poll,
                        None => return states.closed().await,
                    }
                }
                Err(_) => RETRY,
            };
        }
    }
}

/// When to poll again, unless this is the last state.
fn next_poll(status: &PlaceStatus) -> Option<Duration> {
    match status.place {
        PlaceView::Waiting { next_poll_ms, .. } => Some(Duration::from_millis(next_poll_ms)),
        PlaceView::Active { .. } | PlaceView::Unknown => None,
    }
}

/// A place as an event.
pub(super) fn event(view: views::PlaceView) -> Event {
    let name = if view.next_poll_ms.is_some() { "progress" } else { "ended" };
    let position = view.position.map_or(String::new(), |position| position.to_string());
    let id = format!("{}:{position}", view.state);
    let data = serde_json::to_string(&view).expect("a view is valid JSON");
    Event { name, id, data }
}
