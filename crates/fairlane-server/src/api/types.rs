//! Types of jobs: the limits of their downstreams, and their state.

use axum::extract::State;
use axum::http::StatusCode;
use fairlane::views::{TypeSettingsView, TypeView};
use fairlane_core::TypeId;
use fairlane_core::queue::TypePatch;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::change;
use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Path};
use crate::problem::{Problem, ProblemKind};

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Brief, Permission::Read, Scope::NoGroup, routes!(list))
        .add(Pace::Brief, Permission::Read, Scope::NoGroup, routes!(show))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(change, remove))
}

/// The type in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct TypePath {
    /// The name of the type.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "mail")]
    r#type: TypeId,
}

/// All types.
#[derive(Serialize, ToSchema)]
#[schema(as = Types)]
struct AllTypes {
    /// The types by name; at most 64.
    types: Vec<TypeView>,
}

/// Lists all types
///
/// In the order of their names; there are at most 64.
#[utoipa::path(
    get,
    path = "/api/types",
    tag = "types",
    responses((status = 200, description = "The types", body = AllTypes)),
)]
async fn list(State(app): State<Shared>) -> Result<Json<AllTypes>, Problem> {
    let types = app.fairlane.state().await?.types;
    Ok(Json(AllTypes { types: types.iter().map(|(name, view)| TypeView::new(name, view)).collect() }))
}

/// Shows a type
///
/// Its settings, and what its downstream allows at the moment. A type exists once it had a job or
/// its settings were changed.
#[utoipa::path(
    get,
    path = "/api/types/{type}",
    tag = "types",
    params(TypePath),
    responses((status = 200, description = "The type", body = TypeView)),
)]
async fn show(
    State(app): State<Shared>,
    Path(TypePath { r#type: name }): Path<TypePath>,
) -> Result<Json<TypeView>, Problem> {
    let view = app.fairlane.job_type(&name).view().await?;
    view.map(|view| Json(TypeView::new(&name, &view))).ok_or_else(|| {
        ProblemKind::NotFound
            .because(format!("there is no type {name}; enqueue a job with it, or change its settings, first"))
    })
}

/// A change of a type's settings; absent settings stay unchanged.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TypeChange, example = json!({"rate": "500/s burst 20", "concurrency": 50, "max_retry_count": null}))]
struct Change {
    /// The rate that its downstream allows; null removes the limit.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(schema_with = change::rates, required = false)]
    rate: Option<Option<String>>,
    /// The maximum number of jobs in flight over all workers; null removes the limit.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    concurrency: Option<Option<u32>>,
    /// Whether the type is paused: none of its jobs are leased.
    paused: Option<bool>,
    /// Retries before one of its jobs is dead; null for the queue's default.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(value_type = Option<u32>, maximum = 10_000)]
    max_retry_count: Option<Option<u32>>,
}

impl TryFrom<Change> for TypePatch {
    type Error = Problem;

    fn try_from(change: Change) -> Result<Self, Problem> {
        let patch = Self {
            rate: change::rate(change.rate)?,
            concurrency: change.concurrency,
            paused: change.paused,
            max_retry_count: change.max_retry_count,
        };
        change::filled(patch, "rate, concurrency, paused and max_retry_count")
    }
}

/// Changes the settings of a type
///
/// Absent settings stay unchanged; null removes a limit. A new type is created; there are at most
/// 64 (409). Any change opens a type that a Retry-After has closed; a changed rate also resets the
/// rate learned from refusals. The response has the settings in effect.
#[utoipa::path(
    patch,
    path = "/api/types/{type}",
    tag = "types",
    params(TypePath),
    request_body = Change,
    responses((status = 200, description = "The settings in effect", body = TypeSettingsView)),
)]
async fn change(
    State(app): State<Shared>,
    Path(TypePath { r#type: type_id }): Path<TypePath>,
    Json(change): Json<Change>,
) -> Result<Json<TypeSettingsView>, Problem> {
    let settings = app.fairlane.job_type(type_id).patch(change.try_into()?).apply().await?;
    Ok(Json((&settings).into()))
}

/// Removes a type
///
/// Deletes the type and its settings. Refused (409) while the type has jobs that have not ended or
/// are dead; the detail says how many. Finished jobs keep the name of their type.
#[utoipa::path(
    delete,
    path = "/api/types/{type}",
    tag = "types",
    params(TypePath),
    responses((status = 204, description = "The type is removed")),
)]
async fn remove(
    State(app): State<Shared>,
    Path(TypePath { r#type: name }): Path<TypePath>,
) -> Result<StatusCode, Problem> {
    if app.fairlane.job_type(&name).remove().await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ProblemKind::NotFound.because(format!("there is no type {name}")))
}
