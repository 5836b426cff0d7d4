//! Bulk actions: many jobs of one group that finish together.
//!
//! - `bulks/results.rs`: their results as a stream.

mod results;

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use fairlane::{Bulk, BulkPlan, views};
use fairlane_core::limits::{DELAY_MS_MAX, INTEGER_MAX};
use fairlane_core::numbers::within;
use fairlane_core::queue::BulkView;
use fairlane_core::{BulkId, GroupId, Trace};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;
use uuid::Uuid;

use super::change::{self, PAGE};
use super::groups::GroupPath;
use crate::access::{Caller, Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::idempotency::{IdFrom, Idempotency, retry_random_ids};
use crate::problem::{Problem, ProblemKind};
use crate::trace::TraceOf;

use results::Results;

/// The longest address of a callback, in bytes.
const CALLBACK_BYTES_MAX: usize = 2048;
/// The longest name of a fold, in bytes.
const FOLD_BYTES_MAX: usize = 128;

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Brief, Permission::Produce, Scope::Named, routes!(open))
        .add(Pace::Brief, Permission::Read, Scope::Path, routes!(list))
        .add(Pace::Brief, Permission::Read, Scope::Path, routes!(show))
        .add(Pace::Brief, Permission::Produce, Scope::Path, routes!(seal))
        .add(Pace::Brief, Permission::Produce, Scope::Path, routes!(hold))
        .add(Pace::Brief, Permission::Produce, Scope::Path, routes!(resume))
        .add(Pace::Brief, Permission::Produce, Scope::Path, routes!(cancel))
        .add(Pace::Stream, Permission::Read, Scope::Path, routes!(results_of))
}

/// A bulk action to be opened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"group": "customer-7", "id": "newsletter", "failures_max": 100}))]
struct NewBulk {
    /// The group of the bulk action.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    group: GroupId,
    /// The id of the bulk action, unique within its group; generated if absent.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    id: Option<BulkId>,
    /// The bulk action fails unless it has finished after this many milliseconds.
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    deadline_ms: Option<u64>,
    /// The bulk action fails when more jobs than this have failed; jobs that have not started are
    /// then dropped.
    #[schema(maximum = 4_294_967_295_i64)]
    failures_max: Option<u64>,
    /// An address (http or https) that receives a callback when the bulk action has ended, sent by
    /// a worker.
    #[schema(pattern = "^https?://", max_length = 2048, example = "https://example.com/callback")]
    callback: Option<String>,
    /// The fold that adds to its summary; every worker must have it.
    #[schema(max_length = 128)]
    fold: Option<String>,
}

impl NewBulk {
    /// Checks limits that the library does not check.
    fn check(&self) -> Result<(), Problem> {
        within("deadline_ms", self.deadline_ms.unwrap_or(1), 1, DELAY_MS_MAX)?;
        let most = |what, text: &Option<String>, most| {
            within(what, text.as_ref().map_or(0, String::len) as u64, 0, most as u64)
        };
        most("the length of callback in bytes", &self.callback, CALLBACK_BYTES_MAX)?;
        most("the length of fold in bytes", &self.fold, FOLD_BYTES_MAX)?;
        Ok(())
    }

    async fn open(
        &self,
        app: &Shared,
        id: &str,
        trace: Option<&Trace>,
    ) -> Result<(Bulk, BulkView), fairlane::Error> {
        let mut bulk = app.fairlane.bulk(&self.group, id);
        if let Some(deadline_ms) = self.deadline_ms {
            bulk = bulk.deadline(Duration::from_millis(deadline_ms));
        }
        if let Some(failures_max) = self.failures_max {
            bulk = bulk.failures_max(failures_max);
        }
        if let Some(url) = &self.callback {
            bulk = bulk.callback(url);
        }
        if let Some(fold) = &self.fold {
            bulk = bulk.fold(fold);
        }
        if let Some(trace) = trace {
            bulk = bulk.trace(trace.as_str());
        }
        let bulk = bulk.open().await?;
        let view = bulk.view().await?;
        Ok((bulk, view))
    }

    /// Whether an existing bulk action was opened with the same settings.
    fn is_like(&self, view: &BulkView) -> bool {
        let opened = OpenedWith::of(view);
        (self.deadline_ms, self.failures_max) == (opened.deadline_ms, view.failures_max)
            && (&self.callback, &self.fold) == (&opened.callback, &opened.fold)
    }

    /// The first of its settings in which an existing bulk action differs.
    fn differs_from(&self, view: &BulkView) -> Option<&'static str> {
        let opened = OpenedWith::of(view);
        let differs = [
            ("deadline_ms", self.deadline_ms.is_some() && self.deadline_ms != opened.deadline_ms),
            ("failures_max", self.failures_max.is_some() && self.failures_max != view.failures_max),
            ("callback", self.callback.is_some() && self.callback != opened.callback),
            ("fold", self.fold.is_some() && self.fold != opened.fold),
        ];
        differs.into_iter().find(|(_, differs)| *differs).map(|(key, _)| key)
    }
}

/// The settings that an existing bulk action was opened with, in the form of a request.
struct OpenedWith {
    deadline_ms: Option<u64>,
    callback: Option<String>,
    fold: Option<String>,
}

impl OpenedWith {
    fn of(view: &BulkView) -> Self {
        let plan = BulkPlan::from_bytes(&view.payload).unwrap_or_default();
        Self {
            deadline_ms: view.deadline.map(|deadline| deadline.since(view.created_at) / 1000),
            callback: plan.callback.map(|callback| callback.url),
            fold: plan.fold,
        }
    }
}

/// Opens a bulk action
///
/// Jobs that name it as their `bulk` then belong to it; seal it when no more jobs come. If it was
/// opened before, it stays unchanged (200); a request with a setting in which it differs is refused
/// (409). Without an id, requests of one key with the same `Idempotency-Key` open the same bulk
/// action, and are refused (409) if their settings differ. Without both, each request opens another
/// bulk action.
#[utoipa::path(
    post,
    path = "/api/bulks",
    tag = "bulk actions",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "The id is derived from it if the request names none",
            min_length = 1, max_length = 255, pattern = "^[!-~]+$"),
    ),
    request_body = NewBulk,
    responses(
        (status = 201, description = "The bulk action is open", body = views::BulkView),
        (status = 200, description = "The bulk action was opened before", body = views::BulkView),
    )
)]
async fn open(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    TraceOf(trace): TraceOf,
    Json(new): Json<NewBulk>,
) -> Result<(StatusCode, Json<views::BulkView>), Problem> {
    caller.check_group(&new.group)?;
    new.check()?;
    let (id, id_from) = match (&new.id, key) {
        (Some(id), _) => (id.to_string(), IdFrom::Request),
        (None, Some(key)) => (key.bulk_id(&new.group), IdFrom::Derived),
        (None, None) => (Uuid::now_v7().to_string(), IdFrom::Random),
    };
    let (bulk, view) = match id_from {
        IdFrom::Random => retry_random_ids(&app, || new.open(&app, &id, trace.as_ref())).await?,
        IdFrom::Request | IdFrom::Derived => new.open(&app, &id, trace.as_ref()).await?,
    };
    let is_new = bulk.is_new() || id_from == IdFrom::Random;
    if id_from == IdFrom::Request
        && !is_new
        && let Some(key) = new.differs_from(&view)
    {
        return Err(ProblemKind::Conflict
            .because(format!(
                "bulk action {id} was opened before with another {key}, and stays unchanged; omit {key} to use it \
                 unchanged, or open one with another id"
            ))
            .at(format!("/{key}")));
    }
    if id_from == IdFrom::Derived && !is_new && !new.is_like(&view) {
        return Err(ProblemKind::KeyReused.because(format!(
            "bulk action {id} was opened with other settings: this idempotency key was used for another request; repeat a \
             request unchanged, and use a new key for a new request"
        )));
    }
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json((&view).into())))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Where the page begins: the `next` of the last page.
    #[param(pattern = "^[0-9]{1,15}$")]
    cursor: Option<String>,
    /// The maximum number of bulk actions on the page; 100 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A page of bulk actions.
#[derive(Serialize, ToSchema)]
#[schema(as = Bulks)]
struct BulksPage {
    /// The bulk actions in the order they were opened.
    bulks: Vec<views::BulkView>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists the bulk actions of a group
///
/// In the order they were opened, page by page; those past their retention are not listed.
#[utoipa::path(
    get,
    path = "/api/bulks/{group}",
    tag = "bulk actions",
    params(GroupPath, Page),
    responses((status = 200, description = "A page", body = BulksPage)),
)]
async fn list(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Query(Page { cursor, limit }): Query<Page>,
) -> Result<Json<BulksPage>, Problem> {
    let after = change::position(cursor.as_deref())?;
    let (bulks, next) = app.fairlane.group(&group).bulks(after, limit.unwrap_or(PAGE)).await?;
    let bulks = bulks.iter().map(views::BulkView::from).collect();
    Ok(Json(BulksPage { bulks, next: next.map(|next| next.to_string()) }))
}

/// The bulk action in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct BulkPath {
    /// The group of the bulk action.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    pub group: GroupId,
    /// The id of the bulk action.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "newsletter")]
    pub bulk: BulkId,
}

/// A handle to the bulk action in the path.
struct InPath(Bulk);

impl FromRequestParts<Shared> for InPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Problem> {
        let Path(BulkPath { group, bulk }) = Path::from_request_parts(parts, app).await?;
        Ok(Self(app.fairlane.bulk(group, bulk).opened_before()?))
    }
}

fn response(view: Result<BulkView, fairlane::Error>) -> Result<Json<views::BulkView>, Problem> {
    Ok(Json((&view?).into()))
}

/// The response to an action that applies to an unfinished bulk action only.
fn unfinished(view: BulkView, action: &str) -> Result<Json<views::BulkView>, Problem> {
    if !view.state.is_final() {
        return Ok(Json((&view).into()));
    }
    let (bulk, state) = (&view.bulk.id, view.state.name());
    Err(ProblemKind::Conflict
        .because(format!("bulk action {bulk} is {state}: it has ended, and there is nothing to {action}")))
}

/// Shows a bulk action
///
/// Its state, its counts, its progress and, once it is aggregated, its summary.
#[utoipa::path(
    get,
    path = "/api/bulks/{group}/{bulk}",
    tag = "bulk actions",
    params(BulkPath),
    responses((status = 200, description = "The bulk action", body = views::BulkView)),
)]
async fn show(InPath(bulk): InPath) -> Result<Json<views::BulkView>, Problem> {
    response(bulk.view().await)
}

/// What the producer of a bulk action expects when it seals it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkSeal, example = json!({"expected": 1000}))]
struct Seal {
    /// The number of jobs that the bulk action must have; otherwise it is not sealed (409).
    #[schema(maximum = 9_007_199_254_740_992_i64)]
    expected: Option<u64>,
}

/// Seals a bulk action
///
/// No more jobs can be added. It completes when the last of its jobs has ended. Sealing it again
/// changes nothing, and is refused (409) with another number of jobs than it was sealed with.
#[utoipa::path(
    post,
    path = "/api/bulks/{group}/{bulk}/seal",
    tag = "bulk actions",
    params(BulkPath),
    request_body = Seal,
    responses((status = 200, description = "The bulk action", body = views::BulkView)),
)]
async fn seal(
    InPath(bulk): InPath,
    Json(Seal { expected }): Json<Seal>,
) -> Result<Json<views::BulkView>, Problem> {
    within("expected", expected.unwrap_or(0), 0, INTEGER_MAX)?;
    response(bulk.seal(expected).await)
}

/// Holds a bulk action
///
/// Its jobs are set aside when their turn comes; running jobs continue. The cost does not depend on
/// the number of jobs. A held bulk action stays unchanged; one that has ended is refused (409).
#[utoipa::path(
    post,
    path = "/api/bulks/{group}/{bulk}/hold",
    tag = "bulk actions",
    params(BulkPath),
    responses((status = 200, description = "The bulk action", body = views::BulkView)),
)]
async fn hold(InPath(bulk): InPath) -> Result<Json<views::BulkView>, Problem> {
    unfinished(bulk.hold().await?, "hold")
}

/// Resumes a bulk action
///
/// Jobs that were set aside return to their lanes, in small steps. A bulk action that is not held
/// stays unchanged; one that has ended is refused (409).
#[utoipa::path(
    post,
    path = "/api/bulks/{group}/{bulk}/resume",
    tag = "bulk actions",
    params(BulkPath),
    responses((status = 200, description = "The bulk action", body = views::BulkView)),
)]
async fn resume(InPath(bulk): InPath) -> Result<Json<views::BulkView>, Problem> {
    unfinished(bulk.resume().await?, "resume")
}

/// Cancels a bulk action
///
/// Jobs that have not started are dropped, and running jobs are asked to stop. A bulk action that
/// has ended stays unchanged.
#[utoipa::path(
    post,
    path = "/api/bulks/{group}/{bulk}/cancel",
    tag = "bulk actions",
    params(BulkPath),
    responses((status = 200, description = "The bulk action", body = views::BulkView)),
)]
async fn cancel(InPath(bulk): InPath) -> Result<Json<views::BulkView>, Problem> {
    response(bulk.cancel().await)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ResultsQuery {
    /// The jobs whose results are returned; all that have ended by default.
    #[param(inline)]
    filter: Option<ResultFilter>,
}

/// The jobs of a bulk action whose results are returned.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ResultFilter {
    All,
    Succeeded,
    Failed,
}

impl From<ResultFilter> for fairlane::Filter {
    fn from(filter: ResultFilter) -> Self {
        match filter {
            ResultFilter::All => Self::All,
            ResultFilter::Succeeded => Self::Succeeded,
            ResultFilter::Failed => Self::Failed,
        }
    }
}

/// The results of a bulk action, for a link of the dashboard.
pub(crate) fn results() -> MethodRouter<Shared> {
    get(results_of)
}

/// Streams the results of a bulk action
///
/// A line of JSON for each job that has ended, in the order they ended: `id`, `type`, `state`,
/// `attempts`, `created_at`, `settled_at`, and `result` (`result_base64` if it is not text) or, for
/// a failed job, `error` with `code` and `reason`. Any number of jobs in constant memory. A
/// response that is aborted is incomplete: send the request again.
#[utoipa::path(
    get,
    path = "/api/bulks/{group}/{bulk}/results",
    tag = "bulk actions",
    params(BulkPath, ResultsQuery),
    responses(
        (status = 200, description = "Lines of JSON", body = String, content_type = "application/x-ndjson"),
    )
)]
async fn results_of(
    State(app): State<Shared>,
    InPath(bulk): InPath,
    Query(ResultsQuery { filter }): Query<ResultsQuery>,
) -> Result<Response, Problem> {
    bulk.view().await?;
    let filter = filter.map(fairlane::Filter::from).unwrap_or_default();
    let body = Body::new(Results::new(bulk, filter, app.stopping.clone()));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}
