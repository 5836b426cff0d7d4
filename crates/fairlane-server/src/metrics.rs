//! Metrics for Prometheus: counters of the engine, the workers and this server, and gauges of the
//! queue.
//!
//! - `metrics/scrape.rs`: gauges of the queue. `metrics/request.rs`: counts, times and logs
//!   requests.

mod request;
mod scrape;

use std::sync::OnceLock;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use fairlane_engine::observe::{self, DURATION_SECONDS_BUCKETS, Seldom, WAIT_SECONDS_BUCKETS};
use metrics::{Counter, Histogram, Unit, counter, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::Mutex;
use utoipa_axum::routes;

use crate::access::{Pace, Permission, ROUTES, Route, Routes, Scope};
use crate::app::Shared;
use crate::problem::ProblemKind;
pub(crate) use request::{Gauged, RequestTimer};
use scrape::Scrape;

/// The number of responses.
pub const REQUESTS: &str = "fairlane_http_requests_total";
/// The number of error responses.
pub const PROBLEMS: &str = "fairlane_http_problems_total";
/// The duration of requests.
pub const REQUEST_SECONDS: &str = "fairlane_http_request_seconds";
/// The number of open connections.
pub const CONNECTIONS: &str = "fairlane_http_connections";
/// The number of open long polls, event streams and uploads.
pub const HELD: &str = "fairlane_http_held_requests";
/// Whether the engine replies and accepts writes.
pub const ENGINE_UP: &str = "fairlane_engine_up";

/// All metrics of the server itself.
pub const NAMES: [&str; 6] = [REQUESTS, PROBLEMS, REQUEST_SECONDS, CONNECTIONS, HELD, ENGINE_UP];

/// The interval at which the recorder sorts observations into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder of this process. Call it before an engine is opened: an engine opened
/// earlier records nothing. A second call changes nothing. Without a recorder `/metrics` has gauges
/// of the queue and no counters.
pub fn install() {
    let _ = recorder();
}

/// All counters and gauges of this process in the text format of Prometheus; empty without a
/// recorder.
pub fn render() -> String {
    recorder().map_or_else(String::new, |recorder| {
        recorder.run_upkeep();
        recorder.render()
    })
}

fn recorder() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER.get_or_init(|| build().ok()).as_ref()
}

fn build() -> Result<PrometheusHandle, String> {
    use observe::names::{BACKOFF, JOB_WAIT, LOCK_HOLD, LOCK_WAIT};
    let waits = [JOB_WAIT, BACKOFF, LOCK_WAIT, LOCK_HOLD];
    let mut builder =
        PrometheusBuilder::new().set_buckets(&DURATION_SECONDS_BUCKETS).map_err(|error| error.to_string())?;
    for name in waits {
        let named = Matcher::Full(name.to_owned());
        builder = builder
            .set_buckets_for_metric(named, &WAIT_SECONDS_BUCKETS)
            .map_err(|error| error.to_string())?;
    }
    let handle = builder.install_recorder().map_err(|error| error.to_string())?;
    observe::describe();
    fairlane_worker::names::describe();
    metrics::describe_counter!(REQUESTS, Unit::Count, "Responses by method, route and class of status.");
    metrics::describe_counter!(PROBLEMS, Unit::Count, "Error responses by problem type.");
    metrics::describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "Time from the head of a request to the head of its response, without refused requests, long polls and streams."
    );
    metrics::describe_gauge!(CONNECTIONS, Unit::Count, "Open connections.");
    metrics::describe_gauge!(HELD, Unit::Count, "Open long polls, event streams and uploads.");
    Ok(handle)
}

/// Sorts observations into their buckets periodically; without it they would accumulate in memory.
pub(crate) async fn upkeep() {
    let Some(handle) = recorder() else { return };
    loop {
        tokio::time::sleep(UPKEEP).await;
        handle.run_upkeep();
    }
}

/// The metrics of one server.
pub struct Metrics {
    routes: Vec<RouteMetrics>,
    /// The metrics of each kind of problem, by its index in [`ProblemKind::ALL`].
    problems: Vec<ProblemMetrics>,
    scrape: Mutex<Scrape>,
}

/// The metrics of one route, registered with its first request: a route that is not used is not
/// shown.
#[derive(Default)]
struct RouteMetrics {
    seconds: OnceLock<Histogram>,
    /// The responses by the first digit of their status.
    responses: [OnceLock<Counter>; 5],
}

/// The metrics of one kind of problem, and when it was last logged.
#[derive(Default)]
struct ProblemMetrics {
    count: OnceLock<Counter>,
    logged: Seldom,
}

const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Metrics {
    /// Metrics without any request.
    pub fn new() -> Self {
        Self {
            routes: ROUTES.iter().map(|_| RouteMetrics::default()).collect(),
            problems: ProblemKind::ALL.iter().map(|_| ProblemMetrics::default()).collect(),
            scrape: Mutex::default(),
        }
    }

    /// Counts a response, and observes its duration if there is one.
    fn record_response(&self, route: &'static Route, status: StatusCode, took: Option<Duration>) {
        let at = ROUTES.iter().position(|one| std::ptr::eq(one, route));
        let Some(metrics) = at.and_then(|at| self.routes.get(at)) else { return };
        let (method, path) = (route.method.as_str(), route.path);
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        let responses = metrics.responses[class].get_or_init(
            || counter!(REQUESTS, "method" => method, "route" => path, "status" => STATUSES[class]),
        );
        responses.increment(1);
        if let Some(took) = took.filter(|_| route.pace == Pace::Brief) {
            let seconds = metrics
                .seconds
                .get_or_init(|| histogram!(REQUEST_SECONDS, "method" => method, "route" => path));
            seconds.record(took.as_secs_f64());
        }
    }

    /// Counts an error response.
    pub(crate) fn record_problem(&self, kind: ProblemKind) {
        let count = &self.problems[kind as usize].count;
        count.get_or_init(|| counter!(PROBLEMS, "problem" => kind.slug())).increment(1);
    }

    /// Whether to log a problem of this kind now: at most once a second.
    fn is_log_due(&self, kind: ProblemKind) -> bool {
        self.problems[kind as usize].logged.is_due()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(Pace::Brief, Permission::Read, Scope::AllGroups, routes!(show))
}

/// Metrics for Prometheus
///
/// Counters of the server, its engine and its workers, and gauges of the queue, in the text format
/// of Prometheus. At most 100 groups have gauges of their own: those with the most unfinished jobs;
/// so have the first 100 waiting rooms and the first 100 boards by name.
/// While the engine does not reply, gauges of the queue are omitted and `fairlane_engine_up` is 0,
/// as it is while the engine accepts no writes.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operation",
    responses(
        (status = 200, description = "The metrics", body = String, content_type = "text/plain"),
    )
)]
async fn show(State(app): State<Shared>) -> Response {
    let accepts_writes = app.readiness.check(&app.fairlane).await.is_ok();
    let mut scrape = app.metrics.scrape.lock().await;
    let gauges = scrape.text(&app.fairlane, accepts_writes, app.settings.groups_shown_max).await;
    drop(scrape);
    Gauged::set_gauges();
    let text = recorder().map(PrometheusHandle::render).unwrap_or_default() + &gauges;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
