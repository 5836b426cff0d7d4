//! Figures for Prometheus: what the engine, the workers and this server count, and how the queue stands.
//!
//! - `figures/looked.rs`: how the queue stands. `figures/measured.rs`: requests as they are counted and logged.

mod looked;
mod measured;

use std::sync::OnceLock;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use fairlane_engine::observe::{self, DURATION_SECONDS_BUCKETS, Seldom, WAIT_SECONDS_BUCKETS};
use metrics::{Counter, Histogram, Unit, counter, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{Pace, ROUTES, Route};
use crate::app::Shared;
use crate::problem::{ProblemDocument, ProblemKind};
use looked::Looked;
pub(crate) use measured::{Measured, Present};

/// Requests that were answered.
pub const REQUESTS: &str = "fairlane_http_requests_total";
/// Those that were answered with a problem.
pub const PROBLEMS: &str = "fairlane_http_problems_total";
/// How long requests took.
pub const REQUEST_SECONDS: &str = "fairlane_http_request_seconds";
/// Connections that are open.
pub const CONNECTIONS: &str = "fairlane_http_connections";
/// Long polls, event streams and uploads that are being held.
pub const HELD: &str = "fairlane_http_held_requests";
/// Whether the engine answers and takes changes.
pub const ENGINE_UP: &str = "fairlane_engine_up";

/// All of a server's own.
pub const NAMES: [&str; 6] = [REQUESTS, PROBLEMS, REQUEST_SECONDS, CONNECTIONS, HELD, ENGINE_UP];

/// How often what was observed is counted into its buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Lets everything that is counted in this process be shown. An engine that was opened before counts nowhere, so
/// this comes first; a second call changes nothing. Without it `/metrics` shows how the queue stands, and no counts.
pub fn install() {
    let _ = recorder();
}

fn recorder() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER.get_or_init(|| build().ok()).as_ref()
}

fn build() -> Result<PrometheusHandle, String> {
    let waits = [observe::names::JOB_WAIT, observe::names::BACKOFF];
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
    metrics::describe_counter!(REQUESTS, Unit::Count, "Requests that were answered.");
    metrics::describe_counter!(
        PROBLEMS,
        Unit::Count,
        "Requests that were answered with a problem, by its type."
    );
    metrics::describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "From a request's head to its answer's; refused requests, long polls and streams are not observed."
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
    /// By the place of their kind among [`ProblemKind::ALL`].
    problems: Vec<ProblemMeters>,
    looked: Mutex<Looked>,
}

/// Handles of one route, taken when it is first asked for: a route that nobody uses is not shown.
#[derive(Default)]
struct RouteMeters {
    seconds: OnceLock<Histogram>,
    /// By the first digit of the status.
    answered: [OnceLock<Counter>; 5],
}

/// The same of one kind of problem, and when it was last logged.
#[derive(Default)]
struct ProblemMeters {
    count: OnceLock<Counter>,
    logged: Seldom,
}

const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Figures {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self {
            routes: ROUTES.iter().map(|_| RouteMeters::default()).collect(),
            problems: ProblemKind::ALL.iter().map(|_| ProblemMeters::default()).collect(),
            looked: Mutex::default(),
        }
    }

    /// Counts an answer, and how long it took if that says something.
    fn answered(&self, route: &'static Route, status: StatusCode, took: Option<Duration>) {
        let at = ROUTES.iter().position(|one| std::ptr::eq(one, route));
        let Some(meters) = at.and_then(|at| self.routes.get(at)) else { return };
        let (method, path) = (route.method.as_str(), route.path);
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        let answered = meters.answered[class].get_or_init(
            || counter!(REQUESTS, "method" => method, "route" => path, "status" => STATUSES[class]),
        );
        answered.increment(1);
        if let Some(took) = took.filter(|_| route.pace == Pace::Brief) {
            let seconds = meters
                .seconds
                .get_or_init(|| histogram!(REQUEST_SECONDS, "method" => method, "route" => path));
            seconds.record(took.as_secs_f64());
        }
    }

    /// Counts a problem that is told.
    pub(crate) fn told(&self, kind: ProblemKind) {
        let count = &self.problems[kind as usize].count;
        count.get_or_init(|| counter!(PROBLEMS, "problem" => kind.slug())).increment(1);
    }

    /// Whether a problem of this kind is to be logged now: at most once a second.
    fn is_due(&self, kind: ProblemKind) -> bool {
        self.problems[kind as usize].logged.is_due()
    }
}

impl Default for Figures {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Figures for Prometheus
///
/// What the server, its engine and its workers count, and how the queue stands, in the text format of Prometheus.
/// At most 100 groups have figures of their own: those with the most unfinished jobs. While the engine does not answer,
/// how the queue stands is left out, and `fairlane_engine_up` is 0, as it is while the engine takes no changes.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operation",
    responses(
        (status = 200, description = "Figures", body = String, content_type = "text/plain"),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(State(app): State<Shared>) -> Response {
    let takes_changes = app.readiness.check(&**app.engine()).await.is_ok();
    let mut looked = app.figures.looked.lock().await;
    let stands = looked.text(&**app.engine(), takes_changes, app.settings.groups_shown_max).await;
    drop(looked);
    Present::show_all();
    let text = recorder().map(PrometheusHandle::render).unwrap_or_default() + &stands;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
