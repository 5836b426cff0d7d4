//! One stream of events to one client.
//!
//! A task writes into a channel that holds one chunk. While the client does not read, the task
//! waits, and then continues with the latest state.

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
use super::bulks::Latest;
use crate::app::Shared;

/// The interval between two comments, which keep proxies from closing a silent stream and detect
/// clients that are gone.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The delay before a client reconnects.
const RETRY: &str = "retry: 2000\n\n";

/// An event with dummy data, because browsers ignore an event without data.
const TICK: &[u8] = b"event: tick\ndata: 1\n\n";

/// Sends the states of a bulk action until it has ended.
pub(super) fn follow_bulk(
    app: &Shared,
    states: watch::Receiver<Latest>,
    first: Arc<Event>,
    last: Option<String>,
) -> Response {
    let (listener, response) = open(app);
    tokio::spawn(async move {
        // A client that is gone needs no cleanup.
        let _ = send_states(listener, states, first, last).await;
    });
    response
}

async fn send_states(
    listener: Listener,
    mut states: watch::Receiver<Latest>,
    mut event: Arc<Event>,
    mut last: Option<String>,
) -> Result<(), Gone> {
    listener.send(RETRY.into()).await?;
    loop {
        if last.as_ref() != Some(&event.id) {
            listener.send(serialize(&event)).await?;
            last = Some(event.id.clone());
        }
        if event.is_end() {
            return Ok(());
        }
        if !listener.changed(&mut states).await? {
            return Ok(());
        }
        match &*states.borrow_and_update() {
            Latest::State(latest) => event = latest.clone(),
            Latest::Unread => {}
            Latest::Gone => return Ok(()),
        }
    }
}

/// Sends the events that the client has missed, and then the latest one until the server stops.
pub(super) fn follow_queue(
    app: &Shared,
    missed: Vec<Arc<Event>>,
    latest: watch::Receiver<Option<Arc<Event>>>,
) -> Response {
    let (listener, response) = open(app);
    tokio::spawn(async move {
        let _ = send_queue_events(listener, missed, latest).await;
    });
    response
}

/// Sends an event without data whenever there is a new one, until the server stops.
pub(super) fn follow_ticks(app: &Shared, mut latest: watch::Receiver<Option<Arc<Event>>>) -> Response {
    let (listener, response) = open(app);
    tokio::spawn(async move {
        let _ = async {
            listener.send(RETRY.into()).await?;
            while listener.changed(&mut latest).await? {
                latest.mark_unchanged();
                listener.send(Bytes::from_static(TICK)).await?;
            }
            Ok::<(), Gone>(())
        }
        .await;
    });
    response
}

async fn send_queue_events(
    listener: Listener,
    missed: Vec<Arc<Event>>,
    mut latest: watch::Receiver<Option<Arc<Event>>>,
) -> Result<(), Gone> {
    listener.send(RETRY.into()).await?;
    for event in missed {
        listener.send(serialize(&event)).await?;
    }
    while listener.changed(&mut latest).await? {
        let event = latest.borrow_and_update().clone();
        if let Some(event) = event {
            listener.send(serialize(&event)).await?;
        }
    }
    Ok(())
}

/// An event in the format of server-sent events.
fn serialize(event: &Event) -> Bytes {
    let mut text = format!("event: {}\nid: {}\n", event.name, event.id);
    // A line break in the data would end its line; between the tokens of JSON it has no meaning.
    for line in event.data.split(['\n', '\r']) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.into()
}

/// The client is gone, or the server is stopping and the client does not read.
struct Gone;

/// The writing end of a stream.
struct Listener {
    chunks: mpsc::Sender<Bytes>,
    stopping: CancellationToken,
}

fn open(app: &Shared) -> (Listener, Response) {
    let (chunks, body) = mpsc::channel(1);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // nginx would buffer the stream otherwise.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let listener = Listener { chunks, stopping: app.stopping.clone() };
    (listener, (headers, axum::body::Body::new(Chunks(body))).into_response())
}

impl Listener {
    async fn send(&self, chunk: Bytes) -> Result<(), Gone> {
        tokio::select! {
            biased;
            sent = self.chunks.send(chunk) => sent.map_err(|_| Gone),
            () = self.stopping.cancelled() => Err(Gone),
        }
    }

    /// Waits for a change and sends heartbeats meanwhile; false if no change can come or the server
    /// stops.
    async fn changed<T>(&self, states: &mut watch::Receiver<T>) -> Result<bool, Gone> {
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        loop {
            tokio::select! {
                () = self.chunks.closed() => return Err(Gone),
                () = self.stopping.cancelled() => return Ok(false),
                changed = states.changed() => return Ok(changed.is_ok()),
                _ = heartbeat.tick() => self.send(Bytes::from_static(b":\n\n")).await?,
            }
        }
    }
}

/// The reading end, as a response body.
struct Chunks(mpsc::Receiver<Bytes>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
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
        let (_sender, states) = watch::channel(Latest::Unread);
        let mut body = follow_bulk(&app, states, event(0), Some("0".into())).into_body();
        let start = tokio::time::Instant::now();
        for expected in [RETRY, ":\n\n", ":\n\n"] {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), expected);
        }
        assert_eq!(start.elapsed().as_secs(), 30);
        app.stopping.cancel();
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_slow_listener_skips_states_and_ends_with_the_latest() {
        let app = app().await;
        let (sender, states) = watch::channel(Latest::Unread);
        let response = follow_bulk(&app, states, event(0), None);
        for number in 1..=100 {
            sender.send_replace(Latest::State(event(number)));
            tokio::task::yield_now().await;
        }
        let read = response.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&read).unwrap();
        assert!(text.starts_with("retry: 2000\n\nevent: progress\nid: 0\ndata: {\ndata: }\n\n"), "{text}");
        assert!(text.ends_with("event: ended\nid: 100\ndata: {\ndata: }\n\n"), "{text}");
        assert!(text.matches("event:").count() <= 4, "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_does_not_read_is_dropped_when_the_server_stops() {
        let app = app().await;
        let (sender, states) = watch::channel(Latest::Unread);
        let _unread = follow_bulk(&app, states, event(0), None);
        app.stopping.cancel();
        tokio::time::timeout(HEARTBEAT, sender.closed()).await.expect("the task ends");
    }
}
