//! The HTTP interface of a ComfyUI engine, in both generations.
//!
//! Engines since 2026 return the state of one prompt in one request (`/api/jobs/{id}`). Older ones
//! have a queue and a history of ended prompts. The queue is read first, so that a prompt that ends
//! in between is found in the history.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use fairlane_engine::causes;
use fairlane_worker::Outcome;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde_json::{Value, json};

use super::record::Record;
use super::{ComfyUiSettings, InputFile, Prompt};
use crate::client::{BadTarget, Certificates, client, http_url, no_response};
use crate::http_target::user_header;
use crate::response::{excerpt, read_prefix, retry_after};

/// Longest response that is read: the history of a prompt contains its workflow.
const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes of a response in a message.
const EXCERPT_BYTES: usize = 512;
/// Most errors of nodes named in a message.
const NODE_ERRORS_SHOWN: usize = 4;

/// A client of one engine.
pub(super) struct Api {
    pub client: Client,
    base: Url,
    headers: HeaderMap,
    /// Whether the engine has no `/api/jobs`.
    is_old: AtomicBool,
}

/// The state of a prompt on the engine.
pub(super) enum State {
    Unknown,
    /// It runs or waits to run.
    Waiting,
    Ended(Record),
}

/// The response to a submission.
pub(super) enum Submission {
    Accepted,
    /// Accepted without the outputs that are invalid, for these reasons.
    Partial(String),
    /// There was no response; the engine may have the prompt.
    Unanswered,
}

/// A complete response.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The outcome of an attempt whose request was refused.
    fn refusal(&self) -> Outcome {
        let delay = retry_after(&self.headers, SystemTime::now());
        let shown = &self.body[..self.body.len().min(EXCERPT_BYTES)];
        let (code, message) = (
            format!("http_{}", self.status.as_u16()),
            format!("the engine responded {}: {}", self.status, excerpt(shown)),
        );
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => Outcome::throttled(delay),
            StatusCode::SERVICE_UNAVAILABLE if delay.is_some() => Outcome::throttled(delay),
            StatusCode::REQUEST_TIMEOUT => Outcome::retry(code, message),
            status if status.is_server_error() => Outcome::retry(code, message),
            _ => Outcome::failed(code, message),
        }
    }
}

impl Api {
    pub fn new(settings: &ComfyUiSettings) -> Result<Self, BadTarget> {
        let mut base = http_url(&settings.url)?;
        base.set_query(None);
        base.set_fragment(None);
        let headers = settings.headers.iter().map(|(name, value)| user_header(name, value));
        let certificates =
            if base.scheme() == "https" { Certificates::Required } else { Certificates::Optional };
        Ok(Self {
            client: client(settings.connect_timeout, settings.timeout, certificates, |builder| builder)?,
            headers: headers.collect::<Result<_, _>>()?,
            base,
            is_old: AtomicBool::new(false),
        })
    }

    /// The URL of a route below the base.
    pub fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        let mut segments = url.path_segments_mut().expect("an http URL has a path");
        segments.pop_if_empty().extend(path);
        drop(segments);
        url
    }

    /// The URL of a file that the engine wrote, without credentials.
    pub fn file_url(&self, filename: &str, subfolder: &str, kind: &str) -> Url {
        let mut url = self.url(&["api", "view"]);
        url.query_pairs_mut()
            .append_pair("filename", filename)
            .append_pair("subfolder", subfolder)
            .append_pair("type", kind);
        // Both fail only for URLs without a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url
    }

    /// Sends a request with the configured headers.
    pub async fn send(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Option<Value>,
    ) -> Result<Response, reqwest::Error> {
        let mut request = self.client.request(method, url).headers(self.headers.clone()).headers(headers);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        request.send().await
    }

    /// Sends a request and reads its response.
    async fn call(&self, method: Method, path: &[&str], body: Option<Value>) -> Result<Reply, CallError> {
        self.reply(self.send(method, self.url(path), HeaderMap::new(), body).await).await
    }

    /// Reads a response to its end.
    async fn reply(&self, response: Result<Response, reqwest::Error>) -> Result<Reply, CallError> {
        let mut response = response.map_err(CallError::NoResponse)?;
        let read = read_prefix(&mut response, RESPONSE_BYTES_MAX).await.map_err(CallError::NoResponse)?;
        if !read.is_complete {
            return Err(CallError::TooLarge);
        }
        let headers = std::mem::take(response.headers_mut());
        Ok(Reply { status: response.status(), headers, body: read.bytes })
    }

    async fn get(&self, path: &[&str]) -> Result<Reply, Outcome> {
        Ok(self.call(Method::GET, path, None).await?)
    }

    async fn get_json(&self, path: &[&str]) -> Result<Value, Outcome> {
        let reply = self.get(path).await?;
        match reply.json() {
            Some(value) if reply.status == StatusCode::OK => Ok(value),
            _ => Err(reply.refusal()),
        }
    }

    /// Reads the state of a prompt.
    pub async fn find(&self, id: &str) -> Result<State, Outcome> {
        if !self.is_old.load(Ordering::Relaxed) {
            let reply = self.get(&["api", "jobs", id]).await?;
            match (reply.status, reply.json()) {
                (StatusCode::OK, Some(job)) => return Ok(state_of(job)),
                // The route exists, but no prompt has this id.
                (StatusCode::NOT_FOUND, Some(body)) if body.get("error").is_some() => {
                    return Ok(State::Unknown);
                }
                (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, _) => {
                    self.is_old.store(true, Ordering::Relaxed);
                }
                _ => return Err(reply.refusal()),
            }
        }
        let queue = self.get_json(&["api", "queue"]).await?;
        let queued = ["queue_running", "queue_pending"].into_iter().filter_map(|name| queue[name].as_array());
        if queued.flatten().any(|entry| entry[1] == id) {
            return Ok(State::Waiting);
        }
        let mut history = self.get_json(&["api", "history", id]).await?;
        Ok(match history.get_mut(id).map(Value::take) {
            Some(entry) => State::Ended(Record::from_history(entry)),
            None => State::Unknown,
        })
    }

    /// Submits a prompt; an error is the outcome of the attempt.
    pub async fn submit(&self, prompt: &Prompt, id: &str) -> Result<Submission, Outcome> {
        let mut body = json!(prompt);
        body["prompt_id"] = id.into();
        body["client_id"] = id.into();
        let reply = match self.call(Method::POST, &["api", "prompt"], Some(body)).await {
            Ok(reply) => reply,
            // Nothing was sent.
            Err(CallError::NoResponse(error)) if error.is_connect() => return Err(no_response(error)),
            Err(_) => return Ok(Submission::Unanswered),
        };
        let Some(response) = reply.json() else { return Err(reply.refusal()) };
        match reply.status {
            StatusCode::OK => Ok(match node_errors(&response["node_errors"]) {
                None => Submission::Accepted,
                Some(problem) => Submission::Partial(problem),
            }),
            StatusCode::BAD_REQUEST if response["error"].is_object() => Err(invalid_prompt(&response)),
            _ => Err(reply.refusal()),
        }
    }

    /// Stores an input file, in place of one of the same name.
    pub async fn upload(&self, input: &InputFile) -> Result<(), Outcome> {
        let InputFile { name, content_type, bytes } = input;
        if [name, content_type].iter().any(|text| text.contains(['"', '\r', '\n'])) {
            let message =
                format!("{name:?} of type {content_type:?} has characters that headers cannot have");
            return Err(Outcome::failed("bad_input_name", message));
        }
        let boundary = format!("fairlane-{:032x}", fastrand::u128(..));
        let head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"overwrite\"\r\n\r\ntrue\r\n--{boundary}\r\n\
             content-disposition: form-data; name=\"image\"; filename=\"{name}\"\r\n\
             content-type: {content_type}\r\n\r\n"
        );
        let end = format!("\r\n--{boundary}--\r\n");
        let request = self.client.post(self.url(&["api", "upload", "image"])).headers(self.headers.clone());
        let request = request.header("content-type", format!("multipart/form-data; boundary={boundary}"));
        let sent = request.body([head.as_bytes(), bytes, end.as_bytes()].concat()).send().await;
        let reply = self.reply(sent).await?;
        match (reply.status, reply.json()) {
            (StatusCode::OK, Some(stored)) if stored["name"] == name.as_str() => Ok(()),
            (StatusCode::OK, _) => {
                Err(Outcome::failed("input_renamed", format!("the engine stores {name} under another name")))
            }
            _ => Err(reply.refusal()),
        }
    }

    /// Removes a prompt from the queue, or interrupts it if it runs. A failure is only logged: the
    /// engine then finishes work that is not needed.
    pub async fn cancel(&self, id: &str) {
        if !self.is_old.load(Ordering::Relaxed) {
            let reply = self.call(Method::POST, &["api", "jobs", id, "cancel"], None).await;
            if reply.is_ok_and(|reply| reply.status == StatusCode::OK) {
                return;
            }
        }
        let delete = self.call(Method::POST, &["api", "queue"], Some(json!({"delete": [id]}))).await;
        let interrupt = self.call(Method::POST, &["api", "interrupt"], Some(json!({"prompt_id": id}))).await;
        if let Err(error) = delete.and(interrupt) {
            let error = Outcome::from(error);
            tracing::warn!(
                prompt = id,
                ?error,
                "a prompt could not be cancelled; the engine may still run it"
            );
        }
    }

    /// Makes the engine unload its models. A failure is only logged: the next attempt may succeed
    /// without it.
    pub async fn free_memory(&self) {
        let body = json!({"unload_models": true, "free_memory": true});
        if let Err(error) = self.call(Method::POST, &["api", "free"], Some(body)).await {
            tracing::warn!(error = ?Outcome::from(error), "the engine could not be asked to free memory");
        }
    }
}

/// A call without a usable response.
enum CallError {
    NoResponse(reqwest::Error),
    TooLarge,
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NoResponse(error) if error.is_builder() => {
                Self::failed("request", causes(&error.without_url()))
            }
            CallError::NoResponse(error) => no_response(error),
            CallError::TooLarge => Self::failed(
                "response_too_large",
                format!("the engine responded with more than {RESPONSE_BYTES_MAX} bytes"),
            ),
        }
    }
}

fn state_of(job: Value) -> State {
    match job["status"].as_str() {
        Some("completed" | "failed" | "cancelled") => State::Ended(Record::from_job(job)),
        _ => State::Waiting,
    }
}

/// A prompt that the engine does not accept would not be accepted later either.
fn invalid_prompt(response: &Value) -> Outcome {
    let text = |name: &str| response["error"][name].as_str().unwrap_or_default();
    let code = match text("type") {
        "" => "invalid_prompt",
        code => code,
    };
    let mut message = [text("message"), text("details")].into_iter().filter(|part| !part.is_empty()).fold(
        String::new(),
        |message, part| {
            if message.is_empty() { part.to_owned() } else { format!("{message}: {part}") }
        },
    );
    if let Some(nodes) = node_errors(&response["node_errors"]) {
        message = format!("{message}; {nodes}");
    }
    Outcome::failed(code, message)
}

/// The errors of nodes as one sentence; `None` if there are none.
fn node_errors(nodes: &Value) -> Option<String> {
    let nodes = nodes.as_object().filter(|nodes| !nodes.is_empty())?;
    let mut parts = Vec::new();
    for (id, node) in nodes {
        let class = node["class_type"].as_str().unwrap_or("unknown class");
        for error in node["errors"].as_array().into_iter().flatten() {
            let text = |name: &str| error[name].as_str().unwrap_or_default();
            let hint = match text("type") {
                "value_not_in_list" => " (the engine does not have this file or option: install it there)",
                _ => "",
            };
            parts.push(format!("node {id} ({class}): {} {}{hint}", text("message"), text("details")));
        }
    }
    let more = parts.len().saturating_sub(NODE_ERRORS_SHOWN);
    parts.truncate(NODE_ERRORS_SHOWN);
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    if parts.is_empty() {
        parts.push(format!("{} nodes are invalid", nodes.len()));
    }
    Some(parts.join("; "))
}
