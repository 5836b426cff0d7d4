//! The routes and their description (OpenAPI 3.1), from the same code.
//!
//! - `api/jobs.rs`, `api/stream.rs`: enqueue one job, a batch or a stream; read, cancel and requeue
//!   jobs.
//! - `api/leases.rs`: lease, extend and settle. `api/bulks.rs`: bulk actions. `api/dead.rs`: dead
//!   jobs.
//! - `api/groups.rs`, `api/types.rs`, `api/settings.rs`: shares and limits. `api/congestion.rs`:
//!   congestion of groups.
//! - `api/status.rs`: the state of the queue. `api/events.rs`: server-sent events. `api/audit.rs`:
//!   consistency of the store. `api/activity.rs`: changes by operators.
//! - `api/locks.rs`: locks by name. `api/rooms.rs`: waiting rooms. `api/rankings.rs`: rankings.
//!   `api/outbox.rs`: the outbox of a database.
//! - `api/change.rs`: fields that several requests have in common.
//!
//! Responses have the shapes of `fairlane::views`.

mod activity;
mod audit;
mod bulks;
mod change;
mod congestion;
mod dead;
mod events;
mod groups;
mod jobs;
mod leases;
mod locks;
mod outbox;
mod rankings;
mod rooms;
mod settings;
mod status;
mod stream;
mod types;

pub(crate) use activity::micros;
pub(crate) use bulks::results;
pub(crate) use events::{CustomerJobs, Event, Jobs, Live, follow_place, ticks};
pub(crate) use leases::Polls;

use std::sync::LazyLock;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::access::{Route, Routes};
use crate::app::Shared;
use crate::engine_rpc;
use crate::guard::{guard, set_security_headers};
use crate::health;
use crate::metrics;
use crate::problem::{Fault, ProblemDocument, ProblemKind};
use crate::ui;

/// The head of the description.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Fairlane",
        description = "A job queue that shares workers fairly between customers, stays within every rate limit, and never loses an accepted job.\n\n\
            Errors are RFC 9457 problem documents (`application/problem+json`). A request that names ids, or has an Idempotency-Key, is idempotent: send it again if its response was lost."
    ),
    // In the order in which a new user reads them.
    tags(
        (name = "jobs", description = "Enqueue jobs, one, many or as a stream; read, cancel and requeue them."),
        (name = "leases", description = "For workers: lease jobs, extend leases, settle jobs."),
        (name = "bulk actions", description = "Many jobs of one group that finish together."),
        (name = "locks", description = "Mutual exclusion, read-write locks and semaphores by name, with fences."),
        (name = "rooms", description = "Waiting rooms: users wait in order for one of a limited number of active places."),
        (name = "rankings", description = "Boards of members in the order of their scores, each event counted once."),
        (name = "events", description = "Server-sent events."),
        (name = "groups", description = "Customers: their shares and limits."),
        (name = "types", description = "Types of jobs: the limits of their downstreams."),
        (name = "dead", description = "Jobs that failed for good."),
        (name = "congestion", description = "Which groups wait, and for how long."),
        (name = "queue", description = "State, settings and audit of the queue."),
        (name = "operation", description = "Health and metrics."),
    ),
    components(schemas(ProblemDocument, Fault))
)]
struct Description;

fn routes() -> Routes {
    let router = OpenApiRouter::with_openapi(Description::openapi());
    Routes { router, ..Routes::default() }
        .merge(jobs::routes())
        .merge(stream::routes())
        .merge(leases::routes())
        .merge(locks::routes())
        .merge(rooms::routes())
        .merge(rankings::routes())
        .merge(bulks::routes())
        .merge(dead::routes())
        .merge(groups::routes())
        .merge(types::routes())
        .merge(congestion::routes())
        .merge(status::routes())
        .merge(settings::routes())
        .merge(events::routes())
        .merge(audit::routes())
        .merge(activity::routes())
        .merge(outbox::routes())
        .merge(metrics::routes())
}

/// All routes that require a key.
pub(crate) fn guarded_routes() -> Vec<Route> {
    PARTS.table.iter().copied().chain(engine_rpc::table()).chain(ui::table()).collect()
}

/// The routes and their description.
struct Parts {
    guarded: Router<Shared>,
    open: Router<Shared>,
    api: OpenApi,
    /// The guarded routes.
    table: Vec<Route>,
}

/// All servers of a process share the parts: generating the description takes longer than the rest of
/// a start.
static PARTS: LazyLock<Parts> = LazyLock::new(|| {
    let Routes { router, table } = routes();
    let (guarded, mut api) = router.split_for_parts();
    let (open, open_api) = health::routes().split_for_parts();
    api.merge(open_api);
    Parts { guarded, open, api: crate::openapi::with_access(api, &table), table }
});

/// The description of all routes.
pub fn openapi() -> OpenApi {
    PARTS.api.clone()
}

/// All routes, with the guard around all but the public ones.
pub(crate) fn router(app: Shared) -> Router {
    let (guarded, open) = (PARTS.guarded.clone(), PARTS.open.clone());
    guarded
        .merge(engine_rpc::routes())
        .merge(ui::routes().layer(from_fn_with_state(app.clone(), ui::share)))
        .layer(from_fn_with_state(app.clone(), guard))
        .merge(open.layer(map_response(with_security_headers)))
        .merge(crate::openapi::routes())
        .merge(ui::open_routes())
        .merge(crate::passes::routes())
        .merge(crate::waiting_page::routes())
        .fallback(|| async {
            ProblemKind::NotFound
                .because("there is no such path; see /docs, or /openapi.json for a list of all paths")
        })
        .method_not_allowed_fallback(|| async {
            ProblemKind::MethodNotAllowed.because(
                "the path does not support this method; see /docs, or /openapi.json for a list of all methods",
            )
        })
        .with_state(app)
}

/// Sets the headers of public routes; [`guard`] sets those of the others.
async fn with_security_headers(mut response: Response) -> Response {
    set_security_headers(&mut response);
    response
}
