//! Requests as they are counted and logged, and what is there as long as they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::response::Response;
use fairlane_engine::observe::TARGET;
use metrics::gauge;

use super::{CONNECTIONS, Figures, HELD};
use crate::access::{Caller, Permission, Route};
use crate::problem::ProblemKind;

/// A request that is being answered.
pub(crate) struct Measured {
    route: &'static Route,
    begun: Instant,
    /// What the request says of its trace, for whoever reads the log.
    traceparent: Option<HeaderValue>,
    /// Of a request that changes how the queue runs.
    path: Option<String>,
    key: Option<Arc<str>>,
    is_admitted: bool,
}

impl Measured {
    /// It begins.
    pub fn begin(route: &'static Route, request: &Request) -> Self {
        let operates = route.permission == Permission::Operate;
        Self {
            route,
            begun: Instant::now(),
            traceparent: request.headers().get("traceparent").cloned(),
            path: operates.then(|| request.uri().path().to_owned()),
            key: None,
            is_admitted: false,
        }
    }

    /// Where it goes.
    pub fn route(&self) -> &'static Route {
        self.route
    }

    /// It is known who asks.
    pub fn comes_from(&mut self, caller: &Caller) {
        self.key = Some(caller.name.clone());
    }

    /// It may go on, so that how long it takes says something about its route. Refusals are kept back on purpose.
    pub fn is_admitted(&mut self) {
        self.is_admitted = true;
    }

    /// It is answered.
    pub fn end(self, figures: &Figures, response: &Response) {
        let took = self.begun.elapsed();
        let status = response.status();
        let problem = response.extensions().get::<ProblemKind>().copied();
        figures.answered(self.route, status, self.is_admitted.then_some(took));
        if let Some(kind) = problem {
            figures.told(kind);
        }
        let (method, route, took_us) = (self.route.method.as_str(), self.route.path, took.as_micros() as u64);
        let (key, trace) = (self.key.as_deref(), self.traceparent.as_ref().and_then(trace_id));
        let (status, problem_slug) = (status.as_u16(), problem.map(ProblemKind::slug));
        if response.status().is_server_error() {
            // Whoever asks can cause it at will; the counters have all.
            if figures.is_due(problem.unwrap_or(ProblemKind::Broken)) {
                tracing::warn!(
                    target: TARGET, key, method, route, status, problem = problem_slug, took_us, trace,
                    "request failed"
                );
            }
            return;
        }
        if let Some(path) = self.path.filter(|_| response.status().is_success()) {
            tracing::info!(target: TARGET, key, method, path, trace, "operated");
        }
        tracing::debug!(target: TARGET, key, method, route, status, problem = problem_slug, took_us, trace, "request");
    }
}

fn trace_id(traceparent: &HeaderValue) -> Option<&str> {
    traceparent.to_str().ok()?.split('-').nth(1).filter(|id| id.len() == 32)
}

/// Counts something that is there as long as this is.
pub(crate) struct Present(&'static AtomicU64);

static CONNECTIONS_OPEN: AtomicU64 = AtomicU64::new(0);
static REQUESTS_HELD: AtomicU64 = AtomicU64::new(0);

impl Present {
    /// One more connection.
    pub fn connection() -> Self {
        Self::count(&CONNECTIONS_OPEN)
    }

    /// One more request that is held.
    pub fn held() -> Self {
        Self::count(&REQUESTS_HELD)
    }

    fn count(present: &'static AtomicU64) -> Self {
        present.fetch_add(1, Ordering::Relaxed);
        Self(present)
    }

    /// Sets the gauges: a number here is cheaper to change than they are.
    pub(super) fn show_all() {
        gauge!(CONNECTIONS).set(CONNECTIONS_OPEN.load(Ordering::Relaxed) as f64);
        gauge!(HELD).set(REQUESTS_HELD.load(Ordering::Relaxed) as f64);
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
