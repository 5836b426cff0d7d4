//! An error response: its contents, and what it means for the command.
//!
//! Invariant: once a server has responded as one of this version, only its own response to a
//! command is a refusal. A response of a proxy, or of a server that is being replaced, is
//! transient: repeating the command is safe.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde::Deserialize;

use super::address::ServerAddress;
use super::client::body_of;
use super::{ANSWER_BYTES_MAX, unavailable, wire};
use crate::engine::EngineError;

/// Most characters of a server's message that are passed on.
const DETAIL_CHARS_MAX: usize = 500;
/// The pause if a server asks for one without a time.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest pause, even if a server asks for a shorter one.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// A response with a status other than 200.
pub(super) struct ErrorResponse {
    status: StatusCode,
    /// Whether it is a problem document, as a Fairlane server writes it.
    is_problem: bool,
    detail: Option<String>,
    location: Option<String>,
    retry_after: Option<Duration>,
}

/// The request that was sent.
pub(super) struct Asked<'a> {
    pub address: &'a ServerAddress,
    pub key_advice: &'a str,
    pub sent_bytes: usize,
}

#[derive(Default, Deserialize)]
struct Problem {
    detail: Option<String>,
    title: Option<String>,
    retry_after_ms: Option<u64>,
}

impl ErrorResponse {
    pub async fn read(mut answer: Response) -> Self {
        let status = answer.status();
        let location = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(cleaned);
        let header = retry_after(answer.headers());
        let is_problem = essence(answer.headers()) == "application/problem+json";
        let problem = match is_problem {
            true => problem_of(&mut answer).await.unwrap_or_default(),
            false => Problem::default(),
        };
        let detail = problem.detail.or(problem.title).map(|detail| cleaned(&detail));
        let retry_after = problem.retry_after_ms.map(Duration::from_millis).or(header);
        Self { status, is_problem, detail, location, retry_after }
    }

    /// The pause that the server asks for, if any.
    pub fn pause(&self) -> Option<Duration> {
        let pause = match self.status {
            StatusCode::TOO_MANY_REQUESTS => Some(self.retry_after.unwrap_or(PAUSE)),
            StatusCode::SERVICE_UNAVAILABLE => self.retry_after,
            _ => None,
        };
        pause.map(|pause| pause.max(PAUSE_MIN))
    }

    /// The error before the server has been identified.
    pub fn at_first(&self, asked: &Asked<'_>) -> EngineError {
        let Asked { address, key_advice, sent_bytes } = asked;
        match self.status {
            StatusCode::UNAUTHORIZED => EngineError::refused(format!(
                "the server at {address} refused: {}; {key_advice}",
                self.words()
            )),
            // The key is valid; the server says which one is needed.
            StatusCode::FORBIDDEN | StatusCode::CONFLICT => {
                EngineError::refused(format!("the server at {address} refused: {}", self.words()))
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => no_server(address),
            StatusCode::PAYLOAD_TOO_LARGE => EngineError::refused(format!(
                "the server at {address} takes no request of {sent_bytes} bytes: {}; raise its limit or that of the \
                 proxy before it to {}, or send less at once",
                self.words(),
                wire::COMMAND_BYTES_MAX
            )),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => another_version(),
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => unavailable(self.words()),
            status if status.is_redirection() => EngineError::refused(format!(
                "{address} sends its callers elsewhere, where the key should not follow by itself; write the address \
                 of the server itself ({})",
                self.location.as_deref().unwrap_or("it does not say where")
            )),
            _ => EngineError::broken(format!("the server at {address}: {}", self.words())),
        }
    }

    /// The error after the server has been identified.
    pub fn later(&self, asked: &Asked<'_>) -> EngineError {
        let error = self.at_first(asked);
        if self.is_last_word() { error } else { for_now(error) }
    }

    /// Whether the response is about the command alone. A command too large for a proxy
    /// stays too large.
    fn is_last_word(&self) -> bool {
        let of_command = [
            StatusCode::BAD_REQUEST,
            StatusCode::FORBIDDEN,
            StatusCode::CONFLICT,
            StatusCode::UNPROCESSABLE_ENTITY,
        ];
        self.status == StatusCode::PAYLOAD_TOO_LARGE || self.is_problem && of_command.contains(&self.status)
    }

    fn words(&self) -> String {
        self.detail.clone().unwrap_or_else(|| format!("it answered {}", self.status))
    }
}

/// The same error as a transient one.
pub(super) fn for_now(error: EngineError) -> EngineError {
    match error {
        EngineError::Refused { reason } | EngineError::Broken { reason } => unavailable(reason),
        other => other,
    }
}

pub(super) fn no_server(address: &ServerAddress) -> EngineError {
    EngineError::refused(format!(
        "the server at {address} is not a Fairlane server; check host, port and path"
    ))
}

pub(super) fn another_version() -> EngineError {
    EngineError::broken("the server speaks another version; update the older of the two")
}

/// The content type without its parameters.
pub(super) fn essence(headers: &HeaderMap) -> &str {
    let named = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    named.split(';').next().unwrap_or("").trim()
}

/// Reads a problem document.
async fn problem_of(answer: &mut Response) -> Option<Problem> {
    let body = body_of(answer, ANSWER_BYTES_MAX).await.ok()??;
    serde_json::from_slice(&body).ok()
}

/// A message from a server without characters that a terminal would interpret.
fn cleaned(words: &str) -> String {
    words.chars().filter(|sign| !sign.is_control()).take(DETAIL_CHARS_MAX).collect()
}

/// The seconds of a `Retry-After` header; dates are ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok().and_then(|text| text.trim().parse().ok());
    Some(seconds.map_or(PAUSE, Duration::from_secs))
}
