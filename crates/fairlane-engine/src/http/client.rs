//! Requests, and what becomes of those that get no answer.
//!
//! Invariant: an answer is read to its limit and no further, and a key goes where it was addressed, or nowhere: no
//! redirect is followed and no proxy of the environment used.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response, StatusCode, redirect};
use serde::de::DeserializeOwned;

use super::address::{KEY_VARIABLE, ServerAddress};
use super::answer::{Answer, Asked, another_version, essence, for_now, no_server};
use super::wire::{self, Facts, Undecodable};
use super::{ANSWER_BYTES_MAX, HttpOptions, unavailable};
use crate::causes::{causes, chain};
use crate::engine::EngineError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections that are kept: a worker settles, extends, leases and waits at once.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long they are kept.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How long one command is held back in all because the server says so (429, 503).
const HELD_BACK_MAX: Duration = Duration::from_secs(10);

/// What is known of the way to a server beside its address.
#[derive(Default)]
pub(crate) struct Way {
    /// What to do if the server does not take the key; there is a usual one.
    pub key_advice: Option<String>,
    /// Says where the server is by now, if anybody knows.
    pub moved: Option<Box<dyn Fn() -> Option<String> + Send + Sync>>,
}

/// The way to one server.
pub(super) struct Client {
    http: reqwest::Client,
    address: RwLock<ServerAddress>,
    authorization: Option<HeaderValue>,
    way: Way,
    /// A Fairlane server of this version has answered, and taken the key.
    is_met: AtomicBool,
}

impl Client {
    pub fn new(address: ServerAddress, options: &HttpOptions, way: Way) -> Result<Self, EngineError> {
        let authorization = address.key().or(options.key.as_ref()).map(super::Key::header);
        let http = connections(&address, options.response_timeout)?;
        Ok(Self { http, address: RwLock::new(address), authorization, way, is_met: AtomicBool::new(false) })
    }

    pub fn address(&self) -> ServerAddress {
        self.address.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What an operator should know about the way.
    pub fn warning(&self) -> Option<String> {
        let address = self.address();
        let seen = self.authorization.is_some() && !address.is_encrypted() && !address.is_near();
        seen.then(|| format!("the key of {address} travels in the clear; use https://, or a private network"))
    }

    pub async fn facts(&self) -> Result<Facts, EngineError> {
        let answer = self.request(Method::GET, wire::FACTS_PATH, Bytes::new(), None).await?;
        let facts = read(answer, ANSWER_BYTES_MAX).await?;
        self.is_met.store(true, Ordering::Relaxed);
        Ok(facts)
    }

    /// Sends a body and reads the answer, of which there may be so much. A server may hold the request for so long.
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

    /// Sends a body; the answer is still to be read.
    pub async fn send(&self, path: &str, body: Vec<u8>) -> Result<Response, EngineError> {
        self.request(Method::POST, path, body.into(), None).await
    }

    /// Until there is an answer of a Fairlane server of this version, or something else that is final.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        held: Option<Duration>,
    ) -> Result<Response, EngineError> {
        let started = Instant::now();
        // A key that is changed while a request is held ends that, however good the key still is.
        let mut may_be_changed = held.is_some() && self.is_met();
        loop {
            let address = self.address();
            let answer = self.request_once(&address, method.clone(), path, body.clone(), held).await?;
            match answer.status() {
                StatusCode::OK => return self.same_version(&address, answer),
                StatusCode::UNAUTHORIZED if may_be_changed => may_be_changed = false,
                _ => {
                    let answer = Answer::read(answer).await;
                    match answer.pause() {
                        Some(pause) if started.elapsed().saturating_add(pause) <= HELD_BACK_MAX => {
                            // Whoever was told the same time does not come all at once.
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

    fn explain(&self, address: &ServerAddress, answer: &Answer, sent_bytes: usize) -> EngineError {
        let usual = format!("set {KEY_VARIABLE} to a key of that server");
        let key_advice = self.way.key_advice.as_deref().unwrap_or(&usual);
        let asked = Asked { address, key_advice, sent_bytes };
        match self.is_met() {
            true => self.away(answer.later(&asked)),
            false => answer.at_first(&asked),
        }
    }

    /// A request that got no answer. Where none was ever got, something else may be there, and will be.
    fn unreached(&self, address: &ServerAddress, error: reqwest::Error) -> EngineError {
        match stranger(address, &error) {
            Some(refusal) if !self.is_met() => refusal,
            _ => self.away(unanswered(error)),
        }
    }

    /// Passes an error on; if it may pass, the next request goes where the server is by then.
    fn away(&self, error: EngineError) -> EngineError {
        let moved = self.way.moved.as_ref().filter(|_| error.is_retryable()).and_then(|moved| moved());
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
pub(super) fn install_provider() {
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

/// Bytes that no server of this version writes.
pub(super) fn unreadable(error: Undecodable) -> EngineError {
    EngineError::broken(format!("the server's answer: {error}; update the older of the two"))
}

/// What shows that no Fairlane server is there, or none that can be trusted.
pub(super) fn stranger(address: &ServerAddress, error: &(dyn StdError + 'static)) -> Option<EngineError> {
    let reason = chain(error).find_map(|cause| {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return Some(match tls {
                rustls::Error::InvalidCertificate(_) => format!(
                    "the certificate of {address} is not trusted: {tls}; if it has a certificate authority of its own, \
                     name a file of its certificates in SSL_CERT_FILE"
                ),
                _ => format!("no TLS can be spoken with {address}: {tls}; write http:// if it has none, or check the port"),
            });
        }
        // Bytes before anything was asked are told in no other way.
        let is_other = |error: &hyper::Error| error.is_parse() || error.to_string().contains("unexpected message");
        cause.downcast_ref::<hyper::Error>().filter(|error| is_other(error)).map(|error| {
            format!("what answers at {address} does not speak HTTP ({error}); check host, port and scheme")
        })
    });
    reason.map(EngineError::refused)
}

/// A request that got no whole answer.
pub(super) fn unanswered(error: reqwest::Error) -> EngineError {
    let error = error.without_url();
    let what = if chain(&error).any(|cause| cause.to_string() == "dns error") {
        "its host has no address that could be found; check the name"
    } else if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else {
        "no whole answer"
    };
    unavailable(format!("{what}: {}", causes(&error)))
}
