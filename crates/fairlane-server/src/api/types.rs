//! Types of jobs: what their downstreams allow, and how they stand.

use axum::extract::State;
use axum::http::StatusCode;
use fairlane::{Error, TypeSettings, TypeView, rate_text};
use fairlane_core::TypeId;
use fairlane_core::queue::{SetType, TypePatch, TypeSet};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::change;
use super::shown;
use super::status::LaneCounts;
use crate::app::Shared;
use crate::extract::{Json, Path};
use crate::problem::{Problem, ProblemDocument, ProblemKind};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, change, remove))
}

/// The type in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct TypePath {
    /// Which.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "mail")]
    r#type: TypeId,
}

/// What is set for a type.
#[derive(Serialize, ToSchema)]
#[schema(as = TypeSettings)]
struct SettingsShown {
    /// What its downstream allows; null: any rate.
    #[schema(example = "500/s burst 20")]
    rate: Option<String>,
    /// Its jobs in flight at once, over all workers; null: any number.
    concurrency: Option<u32>,
    /// None of it is leased while set.
    paused: bool,
    /// Retries before one of its jobs is dead; null: as many as the whole queue allows.
    max_retry_count: Option<u32>,
}

impl From<TypeSettings> for SettingsShown {
    fn from(settings: TypeSettings) -> Self {
        Self {
            rate: settings.rate.map(rate_text),
            concurrency: settings.concurrency,
            paused: settings.paused,
            max_retry_count: settings.max_retry_count,
        }
    }
}

/// A type as it stands. What does not apply is left out.
#[derive(Serialize, ToSchema)]
#[schema(as = Type)]
struct TypeShown {
    /// Which.
    #[schema(example = "mail")]
    r#type: String,
    /// What is set for it.
    settings: SettingsShown,
    /// Leased jobs.
    in_flight: u64,
    /// Lanes in order, by level.
    active_lanes: LaneCounts,
    /// The rate in effect, in jobs a second; below the set one after its downstream has refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_in_effect: Option<f64>,
    /// Its downstream asked for silence until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    closed_until: Option<String>,
    /// Jobs its downstream has answered in the last second, refusals not counted.
    answers: u64,
    /// When somebody last asked for its jobs, give or take a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    asked_at: Option<String>,
    /// Admitted jobs that wait for a worker (`classic`).
    ready: u64,
}

impl TypeShown {
    fn new(name: &TypeId, view: TypeView) -> Self {
        Self {
            r#type: name.to_string(),
            settings: view.settings.into(),
            in_flight: view.in_flight,
            active_lanes: view.active_lanes.into(),
            rate_in_effect: view.rate_milli.map(|milli| milli as f64 / 1000.0),
            closed_until: view.closed_until.map(shown::time),
            answers: view.answers,
            asked_at: view.asked_at.map(shown::time),
            ready: view.ready,
        }
    }
}

/// All types.
#[derive(Serialize, ToSchema)]
#[schema(as = Types)]
struct AllTypes {
    /// By name; at most 64.
    types: Vec<TypeShown>,
}

/// The known types
///
/// All of them, by name; there are at most 64.
#[utoipa::path(
    get,
    path = "/api/types",
    tag = "types",
    responses(
        (status = 200, description = "The types", body = AllTypes),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn list(State(app): State<Shared>) -> Result<Json<AllTypes>, Problem> {
    let mut types = Vec::new();
    for name in app.fairlane.whole().await?.types {
        if let Some(view) = app.fairlane.job_type(&name).view().await? {
            types.push(TypeShown::new(&name, view));
        }
    }
    Ok(Json(AllTypes { types }))
}

/// How a type stands
///
/// What is set for it, and what its downstream allows at the moment. A type is known once it had a job or something
/// was set for it.
#[utoipa::path(
    get,
    path = "/api/types/{type}",
    tag = "types",
    params(TypePath),
    responses(
        (status = 200, description = "The type", body = TypeShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(
    State(app): State<Shared>,
    Path(TypePath { r#type: name }): Path<TypePath>,
) -> Result<Json<TypeShown>, Problem> {
    let view = app.fairlane.job_type(&name).view().await?;
    view.map(|view| Json(TypeShown::new(&name, view))).ok_or_else(|| {
        ProblemKind::NotFound.because(format!(
            "nothing is known of the type {name}; enqueue a job of it, or set something for it, first"
        ))
    })
}

/// What is to be changed for a type; what is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TypeChange, example = json!({"rate": "500/s burst 20", "concurrency": 50, "max_retry_count": null}))]
struct Change {
    /// What its downstream allows; null removes it.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(schema_with = change::rates, required = false)]
    rate: Option<Option<String>>,
    /// Its jobs in flight at once, over all workers; null removes the limit.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    concurrency: Option<Option<u32>>,
    /// Whether none of it is leased.
    paused: Option<bool>,
    /// Retries before one of its jobs is dead; null: as many as the whole queue allows.
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
        if patch == Self::default() {
            return Err(change::nothing_to_change("rate, concurrency, paused and max_retry_count"));
        }
        Ok(patch)
    }
}

/// Changes what is set for a type
///
/// What is absent stays as it is; null removes a limit. A type that is new is made; there are at most 64 (409). Any
/// change opens a type that a Retry-After has closed; a changed rate also forgets what refusals have taught. The answer
/// is what holds now.
#[utoipa::path(
    patch,
    path = "/api/types/{type}",
    tag = "types",
    params(TypePath),
    request_body = Change,
    responses(
        (status = 200, description = "What holds now", body = SettingsShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn change(
    State(app): State<Shared>,
    Path(TypePath { r#type: type_id }): Path<TypePath>,
    Json(change): Json<Change>,
) -> Result<Json<SettingsShown>, Problem> {
    let command = SetType { type_id: type_id.clone(), patch: change.try_into()? };
    match app.engine().set_type(command).await? {
        TypeSet::Set(settings) => Ok(Json(settings.into())),
        TypeSet::TooManyTypes => Err(Error::TooManyTypes(type_id.to_string()).into()),
    }
}

/// Removes a type
///
/// Its settings go, and its name makes room for another. Refused (409) while the type has jobs that have not ended, or
/// dead ones; the detail says how many. Finished jobs keep the name of their type.
#[utoipa::path(
    delete,
    path = "/api/types/{type}",
    tag = "types",
    params(TypePath),
    responses(
        (status = 204, description = "The type is gone"),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
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
