//! One stream of events to one client.
//!
//! A task writes into a channel that holds one piece; while the client does not read, the task waits, and then goes on
//! with the newest state.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Event;
use super::bulks::Sight;
use crate::app::Shared;

/// A comment each so often keeps proxies from closing a silent stream, and shows who has gone.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// After how long a client should come back.
const RETRY: &str = "retry: 2000\n\n";

/// Sends a bulk action's states until it has ended.
pub(super) fn follow_bulk(
    app: &Shared,
    sights: watch::Receiver<Sight>,
    first: Arc<Event>,
    last: Option<String>,
) -> Response {
    let (listener, response) = open(app);
    tokio::spawn(async move {
        // Nothing else is to be done when the client has gone.
        let _ = send_sights(listener, sights, first, last).await;
    });
    response
}

async fn send_sights(
    listener: Listener,
    mut sights: watch::Receiver<Sight>,
    mut event: Arc<Event>,
    mut last: Option<String>,
) -> Result<(), Gone> {
    listener.send(RETRY.into()).await?;
    loop {
        if last.as_ref() != Some(&event.id) {
            listener.send(written(&event)).await?;
            last = Some(event.id.clone());
        }
        if event.is_end() {
            return Ok(());
        }
        if !listener.changed(&mut sights).await? {
            return Ok(());
        }
        match &*sights.borrow_and_update() {
            Sight::There(newest) => event = newest.clone(),
            Sight::Nothing => {}
            Sight::Gone => return Ok(()),
        }
    }
}

/// Sends what was missed, and then the newest figures until the server stops.
pub(super) fn follow_whole(
    app: &Shared,
    missed: Vec<Arc<Event>>,
    newest: watch::Receiver<Option<Arc<Event>>>,
) -> Response {
    let (listener, response) = open(app);
    tokio::spawn(async move {
        let _ = send_figures(listener, missed, newest).await;
    });
    response
}

async fn send_figures(
    listener: Listener,
    missed: Vec<Arc<Event>>,
    mut newest: watch::Receiver<Option<Arc<Event>>>,
) -> Result<(), Gone> {
    listener.send(RETRY.into()).await?;
    for event in missed {
        listener.send(written(&event)).await?;
    }
    while listener.changed(&mut newest).await? {
        let event = newest.borrow_and_update().clone();
        if let Some(event) = event {
            listener.send(written(&event)).await?;
        }
    }
    Ok(())
}

/// An event as it is sent.
fn written(event: &Event) -> Bytes {
    let mut text = format!("event: {}\nid: {}\n", event.name, event.id);
    // A line break in the data would end its line; between the tokens of JSON it means nothing.
    for line in event.data.split(['\n', '\r']) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.into()
}

/// The client has gone, or the server stops and the client does not read.
struct Gone;

/// The writing end of a stream.
struct Listener {
    pieces: mpsc::Sender<Bytes>,
    stopping: CancellationToken,
}

fn open(app: &Shared) -> (Listener, Response) {
    let (pieces, body) = mpsc::channel(1);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // nginx would gather the stream otherwise.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let listener = Listener { pieces, stopping: app.stopping.clone() };
    (listener, (headers, axum::body::Body::new(Pieces(body))).into_response())
}

impl Listener {
    async fn send(&self, piece: Bytes) -> Result<(), Gone> {
        tokio::select! {
            biased;
            sent = self.pieces.send(piece) => sent.map_err(|_| Gone),
            () = self.stopping.cancelled() => Err(Gone),
        }
    }

    /// Waits for a change, with a comment now and again; false if none comes any more or the server stops.
    async fn changed<T>(&self, states: &mut watch::Receiver<T>) -> Result<bool, Gone> {
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        loop {
            tokio::select! {
                () = self.pieces.closed() => return Err(Gone),
                () = self.stopping.cancelled() => return Ok(false),
                changed = states.changed() => return Ok(changed.is_ok()),
                _ = heartbeat.tick() => self.send(Bytes::from_static(b":\n\n")).await?,
            }
        }
    }
}

/// The reading end, as the body of an answer.
struct Pieces(mpsc::Receiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
mod tests {
    use fairlane::Fairlane;
    use http_body_util::BodyExt;

    use super::*;
    use crate::app::App;
    use crate::settings::ServerSettings;

    fn event(number: usize) -> Arc<Event> {
        let name = if number == 100 { "ended" } else { "progress" };
        Arc::new(Event { name, id: number.to_string(), data: "{\n}".into() })
    }

    async fn app() -> Shared {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        Arc::new(App::new(fairlane, None, ServerSettings::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_has_a_comment_every_fifteen_seconds_and_ends_when_the_server_stops() {
        let app = app().await;
        let (_sights, seen) = watch::channel(Sight::Nothing);
        let mut body = follow_bulk(&app, seen, event(0), Some("0".into())).into_body();
        let began = tokio::time::Instant::now();
        for expected in [RETRY, ":\n\n", ":\n\n"] {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), expected);
        }
        assert_eq!(began.elapsed().as_secs(), 30);
        app.stopping.cancel();
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_slow_listener_skips_states_and_ends_with_the_newest() {
        let app = app().await;
        let (sights, seen) = watch::channel(Sight::Nothing);
        let response = follow_bulk(&app, seen, event(0), None);
        for number in 1..=100 {
            sights.send_replace(Sight::There(event(number)));
            tokio::task::yield_now().await;
        }
        let read = response.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&read).unwrap();
        assert!(text.starts_with("retry: 2000\n\nevent: progress\nid: 0\ndata: {\ndata: }\n\n"), "{text}");
        assert!(text.ends_with("event: ended\nid: 100\ndata: {\ndata: }\n\n"), "{text}");
        assert!(text.matches("event:").count() <= 4, "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_does_not_read_is_given_up_when_the_server_stops() {
        let app = app().await;
        let (sights, seen) = watch::channel(Sight::Nothing);
        let _unread = follow_bulk(&app, seen, event(0), None);
        app.stopping.cancel();
        tokio::time::timeout(HEARTBEAT, sights.closed()).await.expect("nobody writes any more");
    }
}
