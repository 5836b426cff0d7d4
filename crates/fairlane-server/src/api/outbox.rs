//! The outbox of a database: jobs that transactions have committed.

use axum::extract::State;
use fairlane::views::OutboxView;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::access::{Caller, Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::Json;
use crate::outbox::{Reading, visible_to};
use crate::problem::Problem;

pub(super) fn routes() -> Routes {
    Routes::default().add(Pace::Brief, Permission::Read, Scope::AllGroups, routes!(show))
}

/// The outbox, or why there is none to show.
#[derive(Serialize, ToSchema)]
#[schema(as = OutboxReading)]
struct OutboxReading {
    /// Whether the server has a database.
    configured: bool,
    /// Why the database could not be read, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The outbox; absent if the server has no database, or the database could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    outbox: Option<OutboxView>,
}

/// Reads the outbox
///
/// Jobs that transactions of a PostgreSQL database have committed and that wait for a relay, the
/// transactions that they wait for, and the jobs that failed last. At most one reading every two
/// seconds, which all callers share. A database that does not reply is an `error` in the response.
#[utoipa::path(
    get,
    path = "/api/outbox",
    tag = "queue",
    responses((status = 200, description = "The outbox", body = OutboxReading)),
)]
async fn show(State(app): State<Shared>, caller: Caller) -> Result<Json<OutboxReading>, Problem> {
    let (configured, error, outbox) = match app.outbox.reading().await {
        Reading::NotConfigured => (false, None, None),
        Reading::Pending => {
            (true, Some("the database is being read; try again in a second".to_owned()), None)
        }
        Reading::Read(outbox) => (true, None, Some(visible_to(&caller, &outbox))),
        Reading::Failed { error, .. } => (true, Some(error.to_string()), None),
    };
    Ok(Json(OutboxReading { configured, error, outbox }))
}
