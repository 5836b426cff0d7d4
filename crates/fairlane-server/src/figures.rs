//! Figures for Prometheus: what the engine, the workers and this server count, and how the queue stands.
//!
//! Counters count by themselves. How the queue stands is looked up when somebody asks, at most once a second, and
//! for a bounded list of groups: those with the most unfinished jobs among the groups looked at so far. Each look
//! goes through a few pages of groups and the next one goes on from there, so its cost does not grow with them.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fairlane_core::GroupId;
use fairlane_core::limits::LIST_GROUPS_MAX;
use fairlane_core::queue::{Inspect, Inspected};
use fairlane_engine::observe::{self, DURATION_SECONDS_BUCKETS, WAIT_SECONDS_BUCKETS};
use fairlane_engine::{Engine, EngineError};
use metrics::{Counter, Histogram, Unit, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use tokio::sync::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{Pace, ROUTES, Route};
use crate::app::{App, Shared};
use crate::problem::{Problem, ProblemDocument};

/// Requests that were answered.
pub const REQUESTS: &str = "fairlane_http_requests_total";
/// How long they took.
pub const REQUEST_SECONDS: &str = "fairlane_http_request_seconds";
/// Connections that are open.
pub const CONNECTIONS: &str = "fairlane_http_connections";
/// Long polls, event streams and uploads that are being held.
pub const HELD: &str = "fairlane_http_held_requests";

/// A gauge that is not set for this long is no longer shown: its group has left the list.
const GAUGE_KEPT: Duration = Duration::from_secs(90);
/// How often what was observed is counted into its buckets.
const UPKEEP: Duration = Duration::from_secs(5);
/// How the queue stands is not looked up more often than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pages of groups that one look goes through.
const PAGES: usize = 4;

/// Lets everything that is counted in this process be shown. An engine that was opened before counts nowhere, so
/// this comes first; a second call changes nothing. Without it `/metrics` shows nothing.
pub fn install() {
    let _ = recorder();
}

fn recorder() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER.get_or_init(|| build().ok()).as_ref()
}

fn build() -> Result<PrometheusHandle, String> {
    let waits = [observe::names::JOB_WAIT, observe::names::BACKOFF];
    let mut builder = PrometheusBuilder::new()
        .idle_timeout(MetricKindMask::GAUGE, Some(GAUGE_KEPT))
        .set_buckets(&DURATION_SECONDS_BUCKETS)
        .map_err(|error| error.to_string())?;
    for name in waits {
        let named = Matcher::Full(name.to_owned());
        builder = builder
            .set_buckets_for_metric(named, &WAIT_SECONDS_BUCKETS)
            .map_err(|error| error.to_string())?;
    }
    let handle = builder.install_recorder().map_err(|error| error.to_string())?;
    observe::describe();
    fairlane_worker::names::describe();
    metrics::describe_counter!(REQUESTS, Unit::Count, "Requests that were answered.");
    metrics::describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "From a request's head to its answer's; long polls and streams are not observed."
    );
    metrics::describe_gauge!(CONNECTIONS, Unit::Count, "Connections that are open.");
    metrics::describe_gauge!(HELD, Unit::Count, "Long polls, event streams and uploads that are being held.");
    Ok(handle)
}

/// Counts what was observed into its buckets, again and again; without it they would grow.
pub(crate) async fn upkeep() {
    let Some(handle) = recorder() else { return };
    loop {
        tokio::time::sleep(UPKEEP).await;
        handle.run_upkeep();
    }
}

/// What one server counts and has looked up.
pub struct Figures {
    routes: Vec<RouteMeters>,
    looked: Mutex<Looked>,
}

/// Handles of one route, taken when it is first asked for: a route that nobody uses is not shown.
#[derive(Default)]
struct RouteMeters {
    seconds: OnceLock<Histogram>,
    /// By the first digit of the status.
    answered: [OnceLock<Counter>; 5],
}

const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

#[derive(Default)]
struct Looked {
    at: Option<Instant>,
    /// Unfinished jobs of the groups that are shown.
    shown: BTreeMap<GroupId, u64>,
    /// Where the next look goes on.
    after: Option<GroupId>,
}

impl Figures {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self { routes: ROUTES.iter().map(|_| RouteMeters::default()).collect(), looked: Mutex::default() }
    }

    fn answered(&self, route: &'static Route, status: StatusCode, took: Duration) {
        let at = ROUTES.iter().position(|one| std::ptr::eq(one, route));
        let Some(meters) = at.and_then(|at| self.routes.get(at)) else { return };
        let (method, path) = (route.method.as_str(), route.path);
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        let answered = meters.answered[class].get_or_init(
            || counter!(REQUESTS, "method" => method, "route" => path, "status" => STATUSES[class]),
        );
        answered.increment(1);
        if route.pace == Pace::Brief {
            let seconds = meters
                .seconds
                .get_or_init(|| histogram!(REQUEST_SECONDS, "method" => method, "route" => path));
            seconds.record(took.as_secs_f64());
        }
    }

    /// Looks up how the queue stands, unless that was done a moment ago.
    async fn look(&self, app: &App) -> Result<(), EngineError> {
        let mut looked = self.looked.lock().await;
        if looked.at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        let engine = &**app.engine();
        engine.observe_whole().await?;
        looked.find_groups(engine, app.settings.groups_shown_max).await?;
        looked.show_groups(engine).await?;
        looked.at = Some(Instant::now());
        Ok(())
    }
}

impl Default for Figures {
    fn default() -> Self {
        Self::new()
    }
}

impl Looked {
    /// Goes through the next pages and keeps the groups with the most unfinished jobs.
    async fn find_groups(&mut self, engine: &dyn Engine, most: usize) -> Result<(), EngineError> {
        for _ in 0..PAGES {
            let after = self.after.take();
            let page = engine.inspect(Inspect::Groups { after, limit: LIST_GROUPS_MAX }).await?;
            let Inspected::Groups(lines) = page else { return Ok(()) };
            self.after =
                lines.last().filter(|_| lines.len() == LIST_GROUPS_MAX).map(|line| line.group.clone());
            for line in lines {
                self.shown.insert(line.group, line.backlog + line.in_flight);
            }
            while self.shown.len() > most {
                let least = self.shown.iter().min_by_key(|(_, jobs)| **jobs).map(|(group, _)| group.clone());
                if let Some(least) = least {
                    self.shown.remove(&least);
                    observe::forget_group(&least);
                }
            }
            if self.after.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn show_groups(&mut self, engine: &dyn Engine) -> Result<(), EngineError> {
        let groups: Vec<GroupId> = self.shown.keys().cloned().collect();
        for group in groups {
            let view = engine.inspect(Inspect::Group(group.clone())).await?;
            let congestion = engine.inspect(Inspect::Congestion(group.clone())).await?;
            match (view, congestion) {
                (Inspected::Group(Some(view)), Inspected::Congestion(Some(congestion)))
                    if view.backlog + view.in_flight > 0 =>
                {
                    self.shown.insert(group.clone(), view.backlog + view.in_flight);
                    observe::group_gauges(&group, &view, &congestion);
                }
                _ => {
                    self.shown.remove(&group);
                    observe::forget_group(&group);
                }
            }
        }
        Ok(())
    }
}

/// A request that is being answered.
pub(crate) struct Measured {
    route: &'static Route,
    begun: Instant,
    trace: Option<String>,
}

impl Measured {
    /// It begins.
    pub fn begin(route: &'static Route, headers: &HeaderMap) -> Self {
        Self { route, begun: Instant::now(), trace: trace_id(headers) }
    }

    /// It is answered.
    pub fn end(self, figures: &Figures, status: StatusCode) {
        let Self { route, begun, trace } = self;
        let took = begun.elapsed();
        figures.answered(route, status, took);
        let (method, path, took_us) = (route.method.as_str(), route.path, took.as_micros() as u64);
        if status.is_server_error() {
            tracing::warn!(target: observe::TARGET, method, route = path, status = status.as_u16(), took_us, trace, "request failed");
        } else {
            tracing::debug!(target: observe::TARGET, method, route = path, status = status.as_u16(), took_us, trace, "request");
        }
    }
}

/// The trace a request belongs to, for whoever reads the log; empty if none is named.
fn trace_id(headers: &HeaderMap) -> Option<String> {
    if !tracing::enabled!(target: observe::TARGET, tracing::Level::DEBUG) {
        return None;
    }
    let parent = headers.get("traceparent")?.to_str().ok()?;
    parent.split('-').nth(1).filter(|id| id.len() == 32).map(str::to_owned)
}

/// Counts something that is there as long as this is.
///
/// The exporter forgets a gauge that is not set for a while, so these are counted here and set when somebody looks.
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

    fn show_all() {
        gauge!(CONNECTIONS).set(CONNECTIONS_OPEN.load(Ordering::Relaxed) as f64);
        gauge!(HELD).set(REQUESTS_HELD.load(Ordering::Relaxed) as f64);
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Figures for Prometheus
///
/// What the server, its engine and its workers count, and how the queue stands, in the text format of Prometheus.
/// At most 100 groups have figures of their own: those with the most unfinished jobs.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operation",
    responses(
        (status = 200, description = "Figures", body = String, content_type = "text/plain"),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(State(app): State<Shared>) -> Result<Response, Problem> {
    app.figures.look(&app).await?;
    Present::show_all();
    let text = recorder().map(PrometheusHandle::render).unwrap_or_default();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
