//! Bulk actions: many jobs of one group that finish together.
//!
//! - `bulks/results.rs`: their results as a stream.

mod results;

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use fairlane::{Bulk, BulkPlan, BulkView};
use fairlane_core::limits::{DELAY_MS_MAX, INTEGER_MAX};
use fairlane_core::numbers::within;
use fairlane_core::{BulkId, GroupId, Trace};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::change::{self, PAGE};
use super::groups::GroupPath;
use super::shown::BulkShown;
use crate::access::Caller;
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::idempotency::{IdFrom, Idempotency, insist};
use crate::problem::{Problem, ProblemDocument, ProblemKind};
use crate::trace::TraceOf;

use results::Results;

/// Longest address of a callback, in bytes.
const CALLBACK_BYTES_MAX: usize = 2048;
/// Longest name of a fold, in bytes.
const FOLD_BYTES_MAX: usize = 128;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(open))
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(seal))
        .routes(routes!(hold))
        .routes(routes!(resume))
        .routes(routes!(cancel))
        .routes(routes!(results_of))
}

/// A bulk action to be opened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBulk, example = json!({"group": "customer-7", "id": "newsletter", "failures_max": 100}))]
struct New {
    /// Whose.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    group: GroupId,
    /// Its id, unique within its group; one is made if it is absent.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128)]
    id: Option<BulkId>,
    /// It fails unless it has finished after this long.
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    deadline_ms: Option<u64>,
    /// It fails when more jobs than this have; what has not started is then dropped.
    #[schema(maximum = 4_294_967_295_i64)]
    failures_max: Option<u64>,
    /// An address (http or https) that is told when it has ended, by a worker that delivers callbacks.
    #[schema(pattern = "^https?://", max_length = 2048, example = "https://example.com/told")]
    callback: Option<String>,
    /// The fold that adds to its summary; every worker must know it.
    #[schema(max_length = 128)]
    fold: Option<String>,
}

impl New {
    /// Checks what the library leaves to the engine, or does not bound.
    fn check(&self) -> Result<(), Problem> {
        within("deadline_ms", self.deadline_ms.unwrap_or(1), 1, DELAY_MS_MAX)?;
        let most = |what, text: &Option<String>, most| {
            within(what, text.as_ref().map_or(0, String::len) as u64, 0, most as u64)
        };
        most("the length of callback in bytes", &self.callback, CALLBACK_BYTES_MAX)?;
        most("the length of fold in bytes", &self.fold, FOLD_BYTES_MAX)?;
        Ok(())
    }

    async fn opened(
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

    /// Whether one that is there was opened with the same settings.
    fn is_like(&self, view: &BulkView) -> bool {
        let opened = Opened::of(view);
        (self.deadline_ms, self.failures_max) == (opened.deadline_ms, view.failures_max)
            && (&self.callback, &self.fold) == (&opened.callback, &opened.fold)
    }

    /// The first setting it names that one that is there has otherwise.
    fn differs_from(&self, view: &BulkView) -> Option<&'static str> {
        let opened = Opened::of(view);
        let differs = [
            ("deadline_ms", self.deadline_ms.is_some() && self.deadline_ms != opened.deadline_ms),
            ("failures_max", self.failures_max.is_some() && self.failures_max != view.failures_max),
            ("callback", self.callback.is_some() && self.callback != opened.callback),
            ("fold", self.fold.is_some() && self.fold != opened.fold),
        ];
        differs.into_iter().find(|(_, differs)| *differs).map(|(key, _)| key)
    }
}

/// What one that is there was opened with, in the form of a request.
struct Opened {
    deadline_ms: Option<u64>,
    callback: Option<String>,
    fold: Option<String>,
}

impl Opened {
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
/// Jobs that name it as their `bulk` then belong to it; seal it when no more come. If it was opened before it stays as
/// it is (200); a request that names a setting which it has otherwise is refused (409). Without an id, requests of one key with the same `Idempotency-Key` open the same one; if they ask for
/// something else, they are refused (409). Without both, each request opens another one.
#[utoipa::path(
    post,
    path = "/api/bulks",
    tag = "bulk actions",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the id, if there is none",
            min_length = 1, max_length = 255, pattern = "^[!-~]+$"),
    ),
    request_body = New,
    responses(
        (status = 201, description = "It is open", body = BulkShown),
        (status = 200, description = "It was opened before", body = BulkShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn open(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    TraceOf(trace): TraceOf,
    Json(new): Json<New>,
) -> Result<(StatusCode, Json<BulkShown>), Problem> {
    caller.check_group(&new.group)?;
    new.check()?;
    let (id, id_from) = match (&new.id, key) {
        (Some(id), _) => (id.to_string(), IdFrom::Request),
        (None, Some(key)) => (key.bulk_id(&new.group), IdFrom::Derived),
        (None, None) => (Uuid::now_v7().to_string(), IdFrom::Drawn),
    };
    let (bulk, view) = match id_from {
        IdFrom::Drawn => insist(&app, || new.opened(&app, &id, trace.as_ref())).await?,
        IdFrom::Request | IdFrom::Derived => new.opened(&app, &id, trace.as_ref()).await?,
    };
    let is_new = bulk.is_new() || id_from == IdFrom::Drawn;
    if id_from == IdFrom::Request
        && !is_new
        && let Some(key) = new.differs_from(&view)
    {
        return Err(ProblemKind::Conflict
            .because(format!(
                "bulk action {id} was opened before with another {key}, and stays as it is; leave {key} out to take it as \
                 it is, or open one with another id"
            ))
            .at(format!("/{key}")));
    }
    if id_from == IdFrom::Derived && !is_new && !new.is_like(&view) {
        return Err(ProblemKind::KeyReused.because(format!(
            "bulk action {id} was opened with other settings: this idempotency key was used for another request; repeat a \
             request as it was, and use a new key for a new one"
        )));
    }
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(view.into())))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Where the page begins: the `next` of the last one.
    #[param(pattern = "^[0-9]{1,15}$")]
    cursor: Option<String>,
    /// How many bulk actions at most; 100 unless given.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A page of bulk actions.
#[derive(Serialize, ToSchema)]
#[schema(as = Bulks)]
struct BulksPage {
    /// In the order they were opened.
    bulks: Vec<BulkShown>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A group's bulk actions
///
/// In the order they were opened, page by page; those past their retention are gone.
#[utoipa::path(
    get,
    path = "/api/bulks/{group}",
    tag = "bulk actions",
    params(GroupPath, Page),
    responses(
        (status = 200, description = "A page", body = BulksPage),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn list(
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Query(Page { cursor, limit }): Query<Page>,
) -> Result<Json<BulksPage>, Problem> {
    let after = change::position(cursor.as_deref())?;
    let (bulks, next) = app.fairlane.group(&group).bulks(after, limit.unwrap_or(PAGE)).await?;
    let bulks = bulks.into_iter().map(BulkShown::from).collect();
    Ok(Json(BulksPage { bulks, next: next.map(|next| next.to_string()) }))
}

/// The bulk action in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct BulkPath {
    /// Whose.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    group: GroupId,
    /// Which of theirs.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "newsletter")]
    bulk: BulkId,
}

impl BulkPath {
    fn find(self, app: &Shared) -> Result<Bulk, Problem> {
        Ok(app.fairlane.bulk(self.group, self.bulk).opened_before()?)
    }
}

fn shown(view: Result<BulkView, fairlane::Error>) -> Result<Json<BulkShown>, Problem> {
    Ok(Json(view?.into()))
}

/// One that has not ended; others are left as they are.
fn unended(view: BulkView, deed: &str) -> Result<Json<BulkShown>, Problem> {
    if !view.state.is_final() {
        return Ok(Json(view.into()));
    }
    let (bulk, state) = (&view.bulk.id, view.state.as_str());
    Err(ProblemKind::Conflict
        .because(format!("bulk action {bulk} is {state}: it has ended, and there is nothing to {deed}")))
}

/// How a bulk action stands
///
/// Its state, its counts, how far it has come and, once it is aggregated, its summary.
#[utoipa::path(
    get,
    path = "/api/bulks/{group}/{bulk}",
    tag = "bulk actions",
    params(BulkPath),
    responses(
        (status = 200, description = "The bulk action", body = BulkShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(State(app): State<Shared>, Path(path): Path<BulkPath>) -> Result<Json<BulkShown>, Problem> {
    shown(path.find(&app)?.view().await)
}

/// What its producer knows of a bulk action.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkSeal, example = json!({"expected": 1000}))]
struct Seal {
    /// How many jobs it must have; with any other number it stays as it is (409).
    #[schema(maximum = 9_007_199_254_740_992_i64)]
    expected: Option<u64>,
}

/// Says that no more jobs come
///
/// It completes when the last of its jobs has ended. To seal it again changes nothing; with another number of jobs than it
/// was sealed with, that is refused (409).
#[utoipa::path(
    post,
    path = "/api/bulks/{group}/{bulk}/seal",
    tag = "bulk actions",
    params(BulkPath),
    request_body = Seal,
    responses(
        (status = 200, description = "The bulk action as it stands", body = BulkShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn seal(
    State(app): State<Shared>,
    Path(path): Path<BulkPath>,
    Json(Seal { expected }): Json<Seal>,
) -> Result<Json<BulkShown>, Problem> {
    within("expected", expected.unwrap_or(0), 0, INTEGER_MAX)?;
    shown(path.find(&app)?.seal(expected).await)
}

/// Sets the jobs of a bulk action aside
///
/// One small write, however many there are; those that run go on. One that is held stays as it is; one that has ended is
/// refused (409).
#[utoipa::path(
    post,
    path = "/api/bulks/{group}/{bulk}/hold",
    tag = "bulk actions",
    params(BulkPath),
    responses(
        (status = 200, description = "The bulk action as it stands", body = BulkShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn hold(State(app): State<Shared>, Path(path): Path<BulkPath>) -> Result<Json<BulkShown>, Problem> {
    unended(path.find(&app)?.hold().await?, "hold")
}

/// Lets the jobs of a bulk action run again
///
/// Those set aside go back to their lanes, in small steps. One that is not held stays as it is; one that has ended is
/// refused (409).
#[utoipa::path(
    post,
    path = "/api/bulks/{group}/{bulk}/resume",
    tag = "bulk actions",
    params(BulkPath),
    responses(
        (status = 200, description = "The bulk action as it stands", body = BulkShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn resume(State(app): State<Shared>, Path(path): Path<BulkPath>) -> Result<Json<BulkShown>, Problem> {
    unended(path.find(&app)?.resume().await?, "resume")
}

/// Cancels a bulk action
///
/// What has not started is dropped, what runs is told. One that has ended stays as it is.
#[utoipa::path(
    post,
    path = "/api/bulks/{group}/{bulk}/cancel",
    tag = "bulk actions",
    params(BulkPath),
    responses(
        (status = 200, description = "The bulk action as it stands", body = BulkShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn cancel(State(app): State<Shared>, Path(path): Path<BulkPath>) -> Result<Json<BulkShown>, Problem> {
    shown(path.find(&app)?.cancel().await)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ResultsOf {
    /// Which jobs; all that have ended unless given.
    #[param(inline)]
    filter: Option<FilterWord>,
}

/// Which jobs of a bulk action.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum FilterWord {
    All,
    Succeeded,
    Failed,
}

impl From<FilterWord> for fairlane::Filter {
    fn from(word: FilterWord) -> Self {
        match word {
            FilterWord::All => Self::All,
            FilterWord::Succeeded => Self::Succeeded,
            FilterWord::Failed => Self::Failed,
        }
    }
}

/// The results of a bulk action
///
/// A line of JSON for each job that has ended, in the order they ended: `id`, `type`, `state`, `attempts`, `created_at`,
/// `settled_at`, and `result` (`result_base64` if it is no text) or, of a job that failed, `error` with `code` and
/// `reason`. Any number of jobs in constant memory. An answer that breaks off is not whole: ask again.
#[utoipa::path(
    get,
    path = "/api/bulks/{group}/{bulk}/results",
    tag = "bulk actions",
    params(BulkPath, ResultsOf),
    responses(
        (status = 200, description = "Lines of JSON", body = String, content_type = "application/x-ndjson"),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn results_of(
    State(app): State<Shared>,
    Path(path): Path<BulkPath>,
    Query(ResultsOf { filter }): Query<ResultsOf>,
) -> Result<Response, Problem> {
    let bulk = path.find(&app)?;
    bulk.view().await?;
    let filter = filter.map(fairlane::Filter::from).unwrap_or_default();
    let body = Body::new(Results::new(bulk, filter, app.stopping.clone()));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}
