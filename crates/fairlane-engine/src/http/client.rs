//! Requests, and the errors of those that get no response.
//!
//! Invariant: no more of a response is read than its limit, and the key is sent only to the server
//! of the address. Redirects are not followed and proxy settings of the environment are not used.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response, StatusCode, redirect};
use serde::de::DeserializeOwned;

use super::address::{KEY_VARIABLE, ServerAddress};
use super::error_response::{Asked, ErrorResponse, another_version, essence, for_now, no_server};
use super::wire::{self, ServerInfo, Undecodable};
use super::{ANSWER_BYTES_MAX, HttpOptions, unavailable};
use crate::causes::{causes, chain};
use crate::engine::EngineError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections to keep: a worker settles, extends, leases and waits at the same time.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long an idle connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// The longest total delay of one command because of retry times from the server (429, 503).
const HELD_BACK_MAX: Duration = Duration::from_secs(10);

/// How to reach a server beyond its address.
#[derive(Default)]
pub(crate) struct Reconnect {
    /// The advice if the server rejects the key; `None` for the usual one.
    pub key_advice: Option<String>,
    /// Returns the current address of the server, if it is known.
    pub moved: Option<Box<dyn Fn() -> Option<String> + Send + Sync>>,
}

/// A client of one server.
pub(super) struct Client {
    http: reqwest::Client,
    address: RwLock<ServerAddress>,
    authorization: Option<HeaderValue>,
    reconnect: Reconnect,
    /// Whether a Fairlane server of this version has responded and accepted the key.
    is_met: AtomicBool,
}

impl Client {
    pub fn new(
        address: ServerAddress,
        options: &HttpOptions,
        reconnect: Reconnect,
    ) -> Result<Self, EngineError> {
        let authorization = address.key().or(options.key.as_ref()).map(super::Key::header);
        let http = connections(&address, options.response_timeout)?;
        Ok(Self {
            http,
            address: RwLock::new(address),
            authorization,
            reconnect,
            is_met: AtomicBool::new(false),
        })
    }

    pub fn address(&self) -> ServerAddress {
        self.address.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A warning about the connection for operators.
    pub fn warning(&self) -> Option<String> {
        let address = self.address();
        let seen = self.authorization.is_some() && !address.is_encrypted() && !address.is_near();
        seen.then(|| format!("the key of {address} travels in the clear; use https://, or a private network"))
    }

    pub async fn server_info(&self) -> Result<ServerInfo, EngineError> {
        let answer = self.request(Method::GET, wire::INFO_PATH, Bytes::new(), None).await?;
        let info = read(answer, ANSWER_BYTES_MAX).await?;
        self.is_met.store(true, Ordering::Relaxed);
        Ok(info)
    }

    /// Sends a body and reads the response, of at most `bytes_max` bytes. A server may hold the
    /// request for the time in `held`.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Vec<u8>,
        bytes_max: usize,
        held: Option<Duration>,
    ) -> Result<T, EngineError> {
        let answer = self.request(Method::POST, path, body.into(), held).await?;
        read(answer, bytes_max).await
    }

    /// Sends a body; the caller reads the response.
    pub async fn send(&self, path: &str, body: Vec<u8>) -> Result<Response, EngineError> {
        self.request(Method::POST, path, body.into(), None).await
    }

    /// Repeats the request until a Fairlane server of this version responds, or the
    /// result is final.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        held: Option<Duration>,
    ) -> Result<Response, EngineError> {
        let started = Instant::now();
        // A changed key ends the requests that are held, even if the key is still valid.
        let mut may_be_changed = held.is_some() && self.is_met();
        loop {
            let address = self.address();
            let answer = self.request_once(&address, method.clone(), path, body.clone(), held).await?;
            match answer.status() {
                StatusCode::OK => return self.same_version(&address, answer),
                StatusCode::UNAUTHORIZED if may_be_changed => may_be_changed = false,
                _ => {
                    let answer = ErrorResponse::read(answer).await;
                    match answer.pause() {
                        Some(pause) if started.elapsed().saturating_add(pause) <= HELD_BACK_MAX => {
                            // Clients that got the same retry time do not return all at once.
                            tokio::time::sleep(pause.mul_f64(1.0 + fastrand::f64() / 2.0)).await;
                        }
                        _ => return Err(self.explain(&address, &answer, body.len())),
                    }
                }
            }
        }
    }

    async fn request_once(
        &self,
        address: &ServerAddress,
        method: Method,
        path: &str,
        body: Bytes,
        held: Option<Duration>,
    ) -> Result<Response, EngineError> {
        let mut request = self.http.request(method, address.at(path));
        request = request.header(ACCEPT, wire::CONTENT_TYPE).header(CONTENT_TYPE, wire::CONTENT_TYPE);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(held) = held {
            request = request.timeout(held);
        }
        request.body(body).send().await.map_err(|error| self.unreached(address, error))
    }

    fn same_version(&self, address: &ServerAddress, answer: Response) -> Result<Response, EngineError> {
        let other = match essence(answer.headers()) {
            wire::CONTENT_TYPE => return Ok(answer),
            other if other.starts_with(wire::CONTENT_TYPE_FAMILY) => another_version(),
            _ => no_server(address),
        };
        Err(if self.is_met() { self.away(for_now(other)) } else { other })
    }

    fn explain(&self, address: &ServerAddress, answer: &ErrorResponse, sent_bytes: usize) -> EngineError {
        let usual = format!("set {KEY_VARIABLE} to a key of that server");
        let key_advice = self.reconnect.key_advice.as_deref().unwrap_or(&usual);
        let asked = Asked { address, key_advice, sent_bytes };
        match self.is_met() {
            true => self.away(answer.later(&asked)),
            false => answer.at_first(&asked),
        }
    }

    /// The error of a request without a response. If no response ever arrived, the address may be
    /// that of another program.
    fn unreached(&self, address: &ServerAddress, error: reqwest::Error) -> EngineError {
        match not_a_server(address, &error) {
            Some(refusal) if !self.is_met() => refusal,
            _ => self.away(unanswered(error)),
        }
    }

    /// Passes an error on. If it is transient, the next request goes to the server's
    /// current address.
    fn away(&self, error: EngineError) -> EngineError {
        let moved = self.reconnect.moved.as_ref().filter(|_| error.is_retryable()).and_then(|moved| moved());
        if let Some(Ok(moved)) = moved.map(|address| ServerAddress::read(&address)) {
            *self.address.write().unwrap_or_else(PoisonError::into_inner) = moved;
        }
        error
    }

    fn is_met(&self) -> bool {
        self.is_met.load(Ordering::Relaxed)
    }
}

pub(super) fn connections(
    address: &ServerAddress,
    response_timeout: Duration,
) -> Result<reqwest::Client, EngineError> {
    install_provider();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("fairlane/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        // Applies between two reads: a large response on a slow line is not silence.
        .read_timeout(response_timeout)
        .pool_idle_timeout(IDLE_TIME)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .http1_only();
    if !address.is_encrypted() {
        // The certificates of the system may be missing, and are not needed.
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

/// The client uses the cryptography provider of the process; one that is already installed is kept.
pub(super) fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Decodes a response.
async fn read<T: DeserializeOwned>(mut answer: Response, bytes_max: usize) -> Result<T, EngineError> {
    let body = body_of(&mut answer, bytes_max).await?.ok_or_else(|| {
        EngineError::broken(format!("the server's answer has more than the {bytes_max} bytes it may have"))
    })?;
    wire::decode(&body).map_err(unreadable)
}

/// The body of a response; `None` if it exceeds its limit.
pub(super) async fn body_of(answer: &mut Response, bytes_max: usize) -> Result<Option<Vec<u8>>, EngineError> {
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

/// The error for bytes that no server of this version writes.
pub(super) fn unreadable(error: Undecodable) -> EngineError {
    EngineError::broken(format!("the server's answer: {error}; update the older of the two"))
}

/// The error if the address is not that of a Fairlane server, or of one that can be trusted.
pub(super) fn not_a_server(address: &ServerAddress, error: &(dyn StdError + 'static)) -> Option<EngineError> {
    let reason = chain(error).find_map(|cause| {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return Some(match tls {
                rustls::Error::InvalidCertificate(_) => format!(
                    "the certificate of {address} is not trusted: {tls}; if it has a certificate authority of its own, \
                     name a file of its certificates in SSL_CERT_FILE"
                ),
                _ => format!("the server at {address} does not speak TLS ({tls}); write http://, or check the port"),
            });
        }
        // Data that arrives before a request was sent can be recognised only by this text.
        let is_other = |error: &hyper::Error| error.is_parse() || error.to_string().contains("unexpected message");
        cause.downcast_ref::<hyper::Error>().filter(|error| is_other(error)).map(|error| {
            format!("the server at {address} does not speak HTTP ({error}); check host, port and scheme")
        })
    });
    reason.map(EngineError::refused)
}

/// The error of a request without a complete response. It has the innermost cause; the log has all.
pub(super) fn unanswered(error: reqwest::Error) -> EngineError {
    let error = error.without_url();
    tracing::debug!(causes = causes(&error), "a request to the server has no response");
    let kinds = || chain(&error).filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    let innermost = chain(&error).last().map(ToString::to_string).unwrap_or_default();
    unavailable(if chain(&error).any(|cause| cause.to_string() == "dns error") {
        "the name of its host has no address; check the name".to_owned()
    } else if kinds().any(|cause| cause.kind() == std::io::ErrorKind::ConnectionRefused) {
        "connection refused".to_owned()
    } else if error.is_timeout() {
        "no response in time".to_owned()
    } else if error.is_connect() {
        format!("no connection: {innermost}")
    } else {
        format!("the response was incomplete: {innermost}")
    })
}
