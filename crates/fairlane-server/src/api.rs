//! The routes and their description (OpenAPI 3.1), from the same code.
//!
//! - `api/jobs.rs`, `api/stream.rs`: jobs in, one, many or as an endless stream; and looked at.
//! - `api/leases.rs`: what a worker needs. `api/bulks.rs`: bulk actions. `api/dead.rs`: dead jobs.
//! - `api/groups.rs`, `api/types.rs`, `api/settings.rs`: shares and limits. `api/congestion.rs`: who is kept waiting.
//! - `api/status.rs`: the whole as it stands. `api/events.rs`: what happens, as it happens. `api/audit.rs`: is all well.
//! - `api/shown.rs`: jobs and bulk actions as they are written. `api/change.rs`: what more than one of them reads.

mod audit;
mod bulks;
mod change;
mod congestion;
mod dead;
mod events;
mod groups;
mod jobs;
mod leases;
mod settings;
mod shown;
mod status;
mod stream;
mod types;

pub(crate) use events::Live;
pub(crate) use leases::Polls;

use std::sync::LazyLock;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;
use crate::description;
use crate::figures;
use crate::guard::{guard, mark};
use crate::health;
use crate::problem::ProblemKind;
use crate::seam;

/// What the description begins with.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Fairlane",
        description = "Bulk work for many customers at once: fairly, at the speed the outside world allows, losing nothing.\n\n\
            Problems are told as `application/problem+json`; a change that names ids, or comes with an Idempotency-Key, may be repeated when its answer was lost."
    ),
    // In the order in which somebody new wants to read them.
    tags(
        (name = "jobs", description = "Jobs in, one, many or as a stream; and looked at, cancelled, run again."),
        (name = "leases", description = "What a worker needs: take jobs, keep them, say what became of them."),
        (name = "bulk actions", description = "Many jobs of one group that finish together."),
        (name = "events", description = "What happens, as it happens."),
        (name = "groups", description = "Customers: their shares and limits."),
        (name = "types", description = "Kinds of work: what their downstreams allow."),
        (name = "dead", description = "Jobs that failed for good."),
        (name = "congestion", description = "Who is kept waiting, and how long."),
        (name = "whole", description = "The queue as a whole."),
        (name = "operation", description = "For those who keep it running."),
    )
)]
struct Description;

fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(jobs::routes())
        .merge(stream::routes())
        .merge(leases::routes())
        .merge(bulks::routes())
        .merge(dead::routes())
        .merge(groups::routes())
        .merge(types::routes())
        .merge(congestion::routes())
        .merge(status::routes())
        .merge(settings::routes())
        .merge(events::routes())
        .merge(audit::routes())
        .merge(figures::routes())
}

/// The routes that are guarded, those that anybody may see, and the description of both. All servers of a process share
/// them: the description takes longer to make than all the rest of a start.
static PARTS: LazyLock<(Router<Shared>, Router<Shared>, OpenApi)> = LazyLock::new(|| {
    let (guarded, mut api) = routes().split_for_parts();
    let (open, open_api) = health::routes().split_for_parts();
    api.merge(open_api);
    (guarded, open, description::with_access(api))
});

/// The description of all routes.
pub fn openapi() -> OpenApi {
    PARTS.2.clone()
}

/// All routes, guarded but for those that anybody may see.
pub(crate) fn router(app: Shared) -> Router {
    let (guarded, open, _) = &*PARTS;
    let (guarded, open) = (guarded.clone(), open.clone());
    guarded
        .merge(seam::routes())
        .layer(from_fn_with_state(app.clone(), guard))
        .merge(open.layer(map_response(marked)))
        .merge(description::routes())
        .fallback(|| async {
            ProblemKind::NotFound
                .because("nothing is served at this path; /docs shows what is, and /openapi.json lists it")
        })
        .method_not_allowed_fallback(|| async {
            ProblemKind::MethodNotAllowed.because(
                "the path does not take this method; /docs shows what it takes, and /openapi.json lists it",
            )
        })
        .with_state(app)
}

/// What [`guard`] does for the other routes.
async fn marked(mut response: Response) -> Response {
    mark(&mut response);
    response
}
