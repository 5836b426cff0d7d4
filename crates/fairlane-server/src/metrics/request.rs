//! Counts, times and logs requests, and counts open connections and held requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::response::Response;
use fairlane_engine::observe::TARGET;
use metrics::gauge;

use super::{CONNECTIONS, HELD, Metrics};
use crate::access::{Caller, Permission, Route, Verb};
use crate::problem::ProblemKind;

/// Measures one request.
pub(crate) struct RequestTimer {
    route: &'static Route,
    start: Instant,
    /// The `traceparent` header, for the log.
    traceparent: Option<HeaderValue>,
    /// The path of a request to a route that requires [`Permission::Operate`], for the log.
    path: Option<String>,
    key: Option<Arc<str>>,
    is_admitted: bool,
}

impl RequestTimer {
    /// Starts the timer when the head of a request has arrived.
    pub fn begin(route: &'static Route, request: &Request) -> Self {
        let operates = route.permission == Permission::Operate;
        Self {
            route,
            start: Instant::now(),
            traceparent: request.headers().get("traceparent").cloned(),
            path: operates.then(|| request.uri().path().to_owned()),
            key: None,
            is_admitted: false,
        }
    }

    /// The route of the request.
    pub fn route(&self) -> &'static Route {
        self.route
    }

    /// Sets the caller, once it is authenticated.
    pub fn set_caller(&mut self, caller: &Caller) {
        self.key = Some(caller.name.clone());
    }

    /// Marks the request as admitted, so that its duration is observed. Refusals are delayed on
    /// purpose, so their duration says nothing about the route.
    pub fn set_admitted(&mut self) {
        self.is_admitted = true;
    }

    /// Stops the timer when the head of the response is ready.
    pub fn end(self, metrics: &Metrics, response: &Response) {
        let took = self.start.elapsed();
        let status = response.status();
        let problem = response.extensions().get::<ProblemKind>().copied();
        metrics.record_response(self.route, status, self.is_admitted.then_some(took));
        if let Some(kind) = problem {
            metrics.record_problem(kind);
        }
        let (method, route, took_us) = (self.route.method.as_str(), self.route.path, took.as_micros() as u64);
        let (key, trace) = (self.key.as_deref(), self.traceparent.as_ref().and_then(trace_id));
        let (status, problem_slug) = (status.as_u16(), problem.map(ProblemKind::slug));
        if response.status().is_server_error() {
            // Clients can cause it at will, so the log is rate-limited; the counters have every
            // request.
            if metrics.is_log_due(problem.unwrap_or(ProblemKind::Broken)) {
                tracing::warn!(
                    target: TARGET, key, method, route, status, problem = problem_slug, took_us, trace,
                    "request failed"
                );
            }
            return;
        }
        // A form of the dashboard is answered with a redirection.
        let is_done = response.status().is_success() || response.status().is_redirection();
        let is_read = self.route.method == Verb::Get;
        if let Some(path) = self.path.filter(|_| is_done && !is_read) {
            tracing::info!(target: TARGET, key, method, path, trace, "operated");
        }
        tracing::debug!(target: TARGET, key, method, route, status, problem = problem_slug, took_us, trace, "request");
    }
}

fn trace_id(traceparent: &HeaderValue) -> Option<&str> {
    traceparent.to_str().ok()?.split('-').nth(1).filter(|id| id.len() == 32)
}

/// Adds one to a gauge for as long as this value lives.
pub(crate) struct Gauged(&'static AtomicU64);

static CONNECTIONS_OPEN: AtomicU64 = AtomicU64::new(0);
static REQUESTS_HELD: AtomicU64 = AtomicU64::new(0);

impl Gauged {
    /// One more open connection.
    pub fn connection() -> Self {
        Self::count(&CONNECTIONS_OPEN)
    }

    /// One more long poll, event stream or upload.
    pub fn held() -> Self {
        Self::count(&REQUESTS_HELD)
    }

    fn count(counter: &'static AtomicU64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }

    /// Copies the counts to the gauges; an atomic is cheaper to change than a gauge.
    pub(super) fn set_gauges() {
        gauge!(CONNECTIONS).set(CONNECTIONS_OPEN.load(Ordering::Relaxed) as f64);
        gauge!(HELD).set(REQUESTS_HELD.load(Ordering::Relaxed) as f64);
    }
}

impl Drop for Gauged {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
