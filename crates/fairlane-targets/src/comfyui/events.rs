//! The events of an engine about one prompt, over a websocket.
//!
//! The engine addresses events to the client id of the prompt, which is the prompt's id: the socket
//! of a worker that takes over the job receives them too. Events never determine the outcome,
//! because a socket can go silent without closing.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use fairlane_engine::Backoff;
use fairlane_worker::Context;
use futures_util::StreamExt;
use reqwest::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{Method, StatusCode, Upgraded};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::Prompt;
use super::api::Api;

/// Largest event in bytes; preview images are the largest ones.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Shortest pause before the socket is opened again: an engine drops a new socket if the old one
/// with the same id is closed after it.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);
/// Units of progress of one node.
const NODE_UNITS: u64 = 100;

/// Reports progress until it is dropped, and signals when the state should be read.
pub(super) async fn follow(
    api: &Api,
    job: &Context,
    prompt: &Prompt,
    id: &str,
    has_news: &Notify,
) -> Infallible {
    let mut progress = Progress { total: prompt.prompt.len() as u64 * NODE_UNITS, ..Progress::default() };
    let mut backoff = Backoff::default();
    loop {
        if let Some(mut socket) = open(api, id).await {
            backoff.reset();
            // Events may have been missed.
            has_news.notify_one();
            while let Some(Ok(message)) = socket.next().await {
                let Message::Text(text) = message else { continue };
                let Ok(event) = serde_json::from_str::<Value>(&text) else { continue };
                if event["data"]["prompt_id"] != id {
                    continue;
                }
                if progress.apply(&event) {
                    job.progress(progress.done(), progress.total);
                }
                if is_end(&event) {
                    has_news.notify_one();
                }
            }
        }
        tokio::time::sleep(REOPEN_PAUSE).await;
        backoff.sleep().await;
    }
}

async fn open(api: &Api, id: &str) -> Option<WebSocketStream<Upgraded>> {
    let mut url = api.url(&["ws"]);
    url.query_pairs_mut().append_pair("clientId", id);
    let headers = HeaderMap::from_iter([
        (CONNECTION, HeaderValue::from_static("upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        (SEC_WEBSOCKET_KEY, HeaderValue::try_from(generate_key()).ok()?),
    ]);
    let response = api.send(Method::GET, url, headers, None).await.ok()?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return None;
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(EVENT_BYTES_MAX))
        .max_frame_size(Some(EVENT_BYTES_MAX));
    let connection = response.upgrade().await.ok()?;
    Some(WebSocketStream::from_raw_socket(connection, Role::Client, Some(config)).await)
}

/// Whether the prompt has ended. The history is written before `executing` without a node.
fn is_end(event: &Value) -> bool {
    match event["type"].as_str() {
        Some("executing") => event["data"]["node"].is_null(),
        Some("execution_error" | "execution_interrupted") => true,
        _ => false,
    }
}

/// The progress of a prompt: finished nodes, and the part of the current one.
#[derive(Default)]
struct Progress {
    total: u64,
    finished: HashSet<String>,
    current: Option<String>,
    /// Units of the current node.
    units: u64,
}

impl Progress {
    /// Applies an event; true if the progress has changed.
    fn apply(&mut self, event: &Value) -> bool {
        let (before, data) = (self.done(), &event["data"]);
        match event["type"].as_str() {
            Some("execution_start") => *self = Self { total: self.total, ..Self::default() },
            Some("execution_cached") => {
                let nodes = data["nodes"].as_array().into_iter().flatten();
                self.finished.extend(nodes.filter_map(Value::as_str).map(str::to_owned));
            }
            Some("executing") => {
                self.finished.extend(self.current.take());
                (self.current, self.units) = (data["node"].as_str().map(str::to_owned), 0);
            }
            Some("progress") => {
                let (value, max) = (data["value"].as_f64(), data["max"].as_f64());
                if let (Some(value), Some(max)) = (value, max)
                    && max > 0.0
                {
                    self.units = ((value / max).clamp(0.0, 1.0) * NODE_UNITS as f64) as u64;
                }
            }
            _ => {}
        }
        self.done() != before
    }

    fn done(&self) -> u64 {
        let is_new = self.current.as_ref().is_some_and(|node| !self.finished.contains(node));
        let current = if is_new { self.units } else { 0 };
        (self.finished.len() as u64 * NODE_UNITS + current).min(self.total)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_counts_cached_finished_and_partial_nodes() {
        let mut progress = Progress { total: 400, ..Progress::default() };
        let steps = [
            (json!({"type": "execution_start", "data": {}}), 0),
            (json!({"type": "execution_cached", "data": {"nodes": ["4"]}}), 100),
            (json!({"type": "executing", "data": {"node": "3"}}), 100),
            (json!({"type": "progress", "data": {"value": 5, "max": 20}}), 125),
            (json!({"type": "progress", "data": {"value": 1, "max": 0}}), 125),
            (json!({"type": "executing", "data": {"node": "8"}}), 200),
            (json!({"type": "executing", "data": {"node": "9"}}), 300),
            (json!({"type": "executing", "data": {"node": null}}), 400),
        ];
        for (event, done) in steps {
            let before = progress.done();
            assert_eq!(progress.apply(&event), before != done, "{event}");
            assert_eq!(progress.done(), done, "{event}");
        }
    }
}
