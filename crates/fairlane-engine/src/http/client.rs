//! Requests, and what an answer that is none means.
//!
//! Invariant: an answer is read to its limit and no further, and a key goes where it was addressed, or nowhere: no
//! redirect is followed and no proxy of the environment used.

use std::error::Error as StdError;
use std::sync::Once;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::address::{KEY_VARIABLE, ServerAddress};
use super::wire::{self, Facts, Undecodable};
use super::{ANSWER_BYTES_MAX, HttpOptions, unavailable};
use crate::engine::EngineError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections that are kept: a worker settles, extends, leases and waits at once.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long they are kept.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How long one command is held back in all because the server says so (429).
const HELD_BACK_MAX: Duration = Duration::from_secs(10);
/// Characters of a server's words that are passed on.
const DETAIL_CHARS_MAX: usize = 500;

/// The way to one server.
pub(super) struct Client {
    http: reqwest::Client,
    address: ServerAddress,
    authorization: Option<HeaderValue>,
    key_advice: String,
}

impl Client {
    pub fn new(
        address: ServerAddress,
        options: &HttpOptions,
        key_advice: Option<String>,
    ) -> Result<Self, EngineError> {
        let authorization = address.key().or(options.key.as_ref()).map(super::Key::header);
        let http = connections(&address, options.response_timeout)?;
        let key_advice = key_advice.unwrap_or_else(|| {
            format!(
                "set {KEY_VARIABLE} to a key of that server, or write it before the host: https://KEY@host"
            )
        });
        Ok(Self { http, address, authorization, key_advice })
    }

    pub fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// What an operator should know about the way.
    pub fn warning(&self) -> Option<String> {
        let seen = self.authorization.is_some() && !self.address.is_encrypted() && !self.address.is_near();
        seen.then(|| {
            format!("the key of {} travels in the clear; use https://, or a private network", self.address)
        })
    }

    pub async fn facts(&self) -> Result<Facts, EngineError> {
        let answer = self.request(Method::GET, wire::FACTS_PATH, Bytes::new(), None).await?;
        read(answer, ANSWER_BYTES_MAX).await
    }

    /// Sends a body and reads the answer, of which there may be so much.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Vec<u8>,
        bytes_max: usize,
        timeout: Option<Duration>,
    ) -> Result<T, EngineError> {
        read(self.send(path, body, timeout).await?, bytes_max).await
    }

    /// Sends a body; the answer is still to be read.
    pub async fn send(
        &self,
        path: &str,
        body: Vec<u8>,
        timeout: Option<Duration>,
    ) -> Result<Response, EngineError> {
        self.request(Method::POST, path, body.into(), timeout).await
    }

    /// Until there is an answer of a Fairlane server of this version, or something else that is final.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        timeout: Option<Duration>,
    ) -> Result<Response, EngineError> {
        let started = Instant::now();
        loop {
            let answer = self.request_once(method.clone(), path, body.clone(), timeout).await?;
            let pause = retry_after(answer.headers());
            match answer.status() {
                StatusCode::OK => return self.same_version(answer),
                StatusCode::TOO_MANY_REQUESTS if started.elapsed().saturating_add(pause) <= HELD_BACK_MAX => {
                    tokio::time::sleep(pause).await;
                }
                _ => return Err(self.explain(answer, body.len()).await),
            }
        }
    }

    async fn request_once(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        timeout: Option<Duration>,
    ) -> Result<Response, EngineError> {
        let mut request = self.http.request(method, self.address.at(path));
        request = request.header(ACCEPT, wire::CONTENT_TYPE).header(CONTENT_TYPE, wire::CONTENT_TYPE);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(timeout) = timeout {
            request = request.timeout(timeout);
        }
        request.body(body).send().await.map_err(unanswered)
    }

    fn same_version(&self, answer: Response) -> Result<Response, EngineError> {
        match essence(answer.headers()) {
            wire::CONTENT_TYPE => Ok(answer),
            other if other.starts_with(wire::CONTENT_TYPE_FAMILY) => Err(another_version()),
            _ => Err(self.no_server()),
        }
    }

    /// What an answer means that is not the one asked for.
    async fn explain(&self, answer: Response, sent_bytes: usize) -> EngineError {
        let status = answer.status();
        let location = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(cleaned);
        let is_problem = essence(answer.headers()) == "application/problem+json";
        let detail = if is_problem { detail_of(answer).await } else { None };
        let said = || detail.clone().unwrap_or_else(|| format!("it answered {status}"));
        match status {
            StatusCode::UNAUTHORIZED => EngineError::refused(format!(
                "the server at {} refused: {}; {}",
                self.address,
                said(),
                self.key_advice
            )),
            // The key is known; the server says which one would do.
            StatusCode::FORBIDDEN | StatusCode::CONFLICT => {
                EngineError::refused(format!("the server at {} refused: {}", self.address, said()))
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => self.no_server(),
            StatusCode::PAYLOAD_TOO_LARGE => EngineError::refused(format!(
                "the server at {} takes no request of {sent_bytes} bytes: {}; raise its limit or that of the proxy \
                 before it to {}, or send less at once",
                self.address,
                said(),
                wire::COMMAND_BYTES_MAX
            )),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => another_version(),
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => unavailable(said()),
            status if status.is_redirection() => EngineError::refused(format!(
                "{} sends its callers elsewhere, where the key should not follow by itself; write the address of the \
                 server itself ({})",
                self.address,
                location.as_deref().unwrap_or("it does not say where")
            )),
            _ => EngineError::broken(format!("the server at {}: {}", self.address, said())),
        }
    }

    fn no_server(&self) -> EngineError {
        EngineError::refused(format!(
            "what answers at {} is no Fairlane server; check host, port and path",
            self.address
        ))
    }
}

fn connections(address: &ServerAddress, response_timeout: Duration) -> Result<reqwest::Client, EngineError> {
    install_provider();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("fairlane/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        // From byte to byte: a large answer on a slow line is no silence.
        .read_timeout(response_timeout)
        .pool_idle_timeout(IDLE_TIME)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .http1_only();
    if !address.is_encrypted() {
        // The system's may be missing, and nobody needs them.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| {
        EngineError::refused(format!(
            "no HTTP client can be made: {}; https needs the system's root certificates: install them \
             (ca-certificates), or name a file of them in SSL_CERT_FILE",
            causes(&error)
        ))
    })
}

/// The client asks for the process's provider of cryptography; another one that is there already will do.
fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// The value of an answer.
async fn read<T: DeserializeOwned>(mut answer: Response, bytes_max: usize) -> Result<T, EngineError> {
    let body = body_of(&mut answer, bytes_max).await?.ok_or_else(|| {
        EngineError::broken(format!("the server's answer has more than the {bytes_max} bytes it may have"))
    })?;
    wire::decode(&body).map_err(unreadable)
}

/// The body of an answer; none if it is larger than it may be.
async fn body_of(answer: &mut Response, bytes_max: usize) -> Result<Option<Vec<u8>>, EngineError> {
    let length = answer.content_length().unwrap_or(0);
    if length > bytes_max as u64 {
        return Ok(None);
    }
    let mut body = Vec::with_capacity(length as usize);
    while let Some(bytes) = answer.chunk().await.map_err(unanswered)? {
        if body.len() + bytes.len() > bytes_max {
            return Ok(None);
        }
        body.extend_from_slice(&bytes);
    }
    Ok(Some(body))
}

/// What a problem document says to people.
async fn detail_of(mut answer: Response) -> Option<String> {
    #[derive(Deserialize)]
    struct Problem {
        detail: Option<String>,
        title: Option<String>,
    }
    let body = body_of(&mut answer, ANSWER_BYTES_MAX).await.ok()??;
    let problem: Problem = serde_json::from_slice(&body).ok()?;
    problem.detail.or(problem.title).map(|detail| cleaned(&detail))
}

/// A server's words as they may be shown in a terminal.
fn cleaned(words: &str) -> String {
    words.chars().filter(|sign| !sign.is_control()).take(DETAIL_CHARS_MAX).collect()
}

/// A content type without its parameters.
fn essence(headers: &HeaderMap) -> &str {
    let named = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    named.split(';').next().unwrap_or("").trim()
}

/// How long a server asks to be left alone; a second if it does not say.
fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

fn another_version() -> EngineError {
    EngineError::broken("the server speaks another version; update the older of the two")
}

/// Bytes that no server of this version writes.
pub(super) fn unreadable(error: Undecodable) -> EngineError {
    EngineError::broken(format!("the server's answer: {error}; update the older of the two"))
}

/// A request that got no whole answer.
pub(super) fn unanswered(error: reqwest::Error) -> EngineError {
    let error = error.without_url();
    let what = if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else {
        "no whole answer"
    };
    unavailable(format!("{what}: {}", causes(&error)))
}

/// An error and what caused it, in one line; what repeats its cause is said once.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if words.last() != Some(&text) {
            words.push(text);
        }
        next = error.source();
    }
    words.join(": ")
}
