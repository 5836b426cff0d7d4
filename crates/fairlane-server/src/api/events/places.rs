//! One poller for each followed place in a waiting room.
//!
//! A poll is the sign of life of a waiter, so a user whose stream is open keeps the place. The room
//! says when to poll again, which bounds the polls of all its waiters.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use fairlane::views::PlaceView;
use fairlane::{PlaceToken, RoomName};
use tokio::sync::watch;

use super::bulks::Latest;
use super::{Event, listener};
use crate::app::Shared;
use crate::problem::Problem;

/// The time until the next poll after one that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Sends the states of a place until it is active or has ended.
pub(super) async fn follow(
    app: &Shared,
    room: RoomName,
    token: PlaceToken,
    last: Option<String>,
) -> Result<Response, Problem> {
    let (first, next_poll) = poll(app, &room, &token).await?;
    let (states, receiver) = watch::channel(Latest::Unread);
    if let Some(next_poll) = next_poll {
        tokio::spawn(keep_polling(app.clone(), room, token, next_poll, states));
    }
    Ok(listener::follow_bulk(app, receiver, Arc::new(first), last))
}

async fn keep_polling(
    app: Shared,
    room: RoomName,
    token: PlaceToken,
    mut next_poll: Duration,
    states: watch::Sender<Latest>,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(next_poll) => {}
            () = states.closed() => return,
            () = app.stopping.cancelled() => return,
        }
        next_poll = match poll(&app, &room, &token).await {
            Ok((event, next_poll)) => {
                states.send_replace(Latest::State(Arc::new(event)));
                match next_poll {
                    Some(next_poll) => next_poll,
                    None => return states.closed().await,
                }
            }
            Err(_) => RETRY,
        };
    }
}

/// The state of a place, and when to poll again unless this is the last one.
async fn poll(
    app: &Shared,
    room: &RoomName,
    token: &PlaceToken,
) -> Result<(Event, Option<Duration>), Problem> {
    let view = PlaceView::from(app.fairlane.room(room).keep(token).await?);
    let next_poll = view.next_poll_ms.map(Duration::from_millis);
    let name = if next_poll.is_some() { "progress" } else { "ended" };
    let position = view.position.map_or(String::new(), |position| position.to_string());
    let id = format!("{}:{position}", view.state);
    let data = serde_json::to_string(&view).expect("a view is valid JSON");
    Ok((Event { name, id, data }, next_poll))
}
