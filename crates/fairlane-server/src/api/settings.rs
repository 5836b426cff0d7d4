//! Settings of the whole queue.

use axum::extract::State;
use fairlane::{Discipline, LevelOrder, Settings, rate_text};
use fairlane_core::queue::{SetWhole, WholeSet};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::change;
use super::shown;
use super::status::disciplines;
use crate::app::Shared;
use crate::extract::Json;
use crate::problem::{Problem, ProblemDocument, ProblemKind};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show, change))
}

fn level_orders() -> Object {
    shown::one_of([LevelOrder::Weighted, LevelOrder::Strict].map(LevelOrder::as_str))
}

/// What is set for the whole queue.
#[derive(Serialize, ToSchema)]
#[schema(as = Settings)]
struct SettingsShown {
    /// The rules for order, gate and denial.
    #[schema(schema_with = disciplines)]
    discipline: &'static str,
    /// What progress is worth in a score (`classic`).
    alpha: i64,
    /// Jobs a second over all groups (`classic`).
    global_rps: u64,
    /// Admitted jobs of one type that may wait for a worker (`classic`).
    ready_queue_max_size: u64,
    /// If not, every refused job waits the least time, and nothing is recorded.
    congestion_enabled: bool,
    /// The least a refused job waits.
    base_backoff_ms: u64,
    /// The most a refused job waits.
    max_backoff_ms: u64,
    /// How long a group's congestion history is kept.
    stats_retention_ms: u64,
    /// The rate of all types together; null: none.
    #[schema(example = "1000/s")]
    rate: Option<String>,
    /// How levels share a type: 16 : 4 : 1, or a lower one only when the higher ones have nothing to serve.
    #[schema(schema_with = level_orders)]
    levels: &'static str,
    /// Retries before a job is dead.
    max_retry_count: u32,
    /// Refusals by the downstream before they cost retries.
    max_throttle_count: u32,
    /// Lost leases before a job is dead.
    max_loss_count: u32,
    /// Unfinished jobs of one group beyond which its enqueues are refused.
    group_backlog_max: u64,
    /// The same for all groups together.
    whole_backlog_max: u64,
    /// Stored bytes of one group beyond which its enqueues are refused, finished jobs included.
    group_stored_bytes_max: u64,
    /// The same for all groups together.
    stored_bytes_max: u64,
    /// How long completed and cancelled jobs are kept.
    completed_retention_ms: u64,
    /// How long dead jobs are kept.
    failed_retention_ms: u64,
    /// How long a finished bulk action and its jobs are kept.
    bulk_retention_ms: u64,
    /// How many completed and cancelled jobs are kept.
    completed_kept_max: u64,
    /// How many dead jobs are kept.
    failed_kept_max: u64,
}

impl From<Settings> for SettingsShown {
    fn from(settings: Settings) -> Self {
        let congestion = settings.congestion;
        Self {
            discipline: settings.discipline.as_str(),
            alpha: settings.alpha,
            global_rps: settings.global_rps,
            ready_queue_max_size: settings.ready_queue_max_size,
            congestion_enabled: congestion.enabled,
            base_backoff_ms: congestion.base_backoff_ms,
            max_backoff_ms: congestion.max_backoff_ms,
            stats_retention_ms: congestion.stats_retention_ms,
            rate: settings.rate.map(rate_text),
            levels: settings.levels.as_str(),
            max_retry_count: settings.max_retry_count,
            max_throttle_count: settings.max_throttle_count,
            max_loss_count: settings.max_loss_count,
            group_backlog_max: settings.group_backlog_max,
            whole_backlog_max: settings.whole_backlog_max,
            group_stored_bytes_max: settings.group_stored_bytes_max,
            stored_bytes_max: settings.stored_bytes_max,
            completed_retention_ms: settings.completed_retention_ms,
            failed_retention_ms: settings.failed_retention_ms,
            bulk_retention_ms: settings.bulk_retention_ms,
            completed_kept_max: settings.completed_kept_max,
            failed_kept_max: settings.failed_kept_max,
        }
    }
}

/// What is set for the whole queue
///
/// Every setting with the value that holds.
#[utoipa::path(
    get,
    path = "/api/settings",
    tag = "whole",
    responses(
        (status = 200, description = "The settings", body = SettingsShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(State(app): State<Shared>) -> Result<Json<SettingsShown>, Problem> {
    Ok(Json(app.fairlane.whole().await?.settings.into()))
}

/// The words for the disciplines.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DisciplineWord {
    Share,
    Classic,
}

/// The words for the order of levels.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LevelOrderWord {
    Weighted,
    Strict,
}

/// What is to be changed for the whole queue; what is absent stays as it is.
#[derive(Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettingsChange, example = json!({"rate": "1000/s", "max_retry_count": 5}))]
struct Change {
    /// The rules for order, gate and denial; only while no job is unfinished.
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = disciplines, required = false)]
    discipline: Option<DisciplineWord>,
    /// What progress is worth in a score (`classic`).
    #[schema(minimum = -10_000_000, maximum = 10_000_000)]
    alpha: Option<i64>,
    /// Jobs a second over all groups (`classic`).
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    global_rps: Option<u64>,
    /// Admitted jobs of one type that may wait for a worker (`classic`).
    #[schema(minimum = 1, maximum = 10_000_000)]
    ready_queue_max_size: Option<u64>,
    /// If not, every refused job waits the least time, and nothing is recorded.
    congestion_enabled: Option<bool>,
    /// The least a refused job waits; at most `max_backoff_ms`.
    #[schema(minimum = 1, maximum = 86_400_000)]
    base_backoff_ms: Option<u64>,
    /// The most a refused job waits; at least `base_backoff_ms`.
    #[schema(minimum = 1, maximum = 86_400_000)]
    max_backoff_ms: Option<u64>,
    /// How long a group's congestion history is kept.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    stats_retention_ms: Option<u64>,
    /// The rate of all types together; null removes it.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(schema_with = change::rates, required = false)]
    rate: Option<Option<String>>,
    /// How levels share a type: 16 : 4 : 1, or a lower one only when the higher ones have nothing to serve.
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = level_orders, required = false)]
    levels: Option<LevelOrderWord>,
    /// Retries before a job is dead.
    #[schema(maximum = 10_000)]
    max_retry_count: Option<u32>,
    /// Refusals by the downstream before they cost retries.
    #[schema(maximum = 10_000)]
    max_throttle_count: Option<u32>,
    /// Lost leases before a job is dead.
    #[schema(maximum = 10_000)]
    max_loss_count: Option<u32>,
    /// Unfinished jobs of one group beyond which its enqueues are refused.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_992_i64)]
    group_backlog_max: Option<u64>,
    /// The same for all groups together.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_992_i64)]
    whole_backlog_max: Option<u64>,
    /// Stored bytes of one group beyond which its enqueues are refused, finished jobs included.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_992_i64)]
    group_stored_bytes_max: Option<u64>,
    /// The same for all groups together.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_992_i64)]
    stored_bytes_max: Option<u64>,
    /// How long completed and cancelled jobs are kept.
    #[schema(maximum = 315_360_000_000_i64)]
    completed_retention_ms: Option<u64>,
    /// How long dead jobs are kept.
    #[schema(maximum = 315_360_000_000_i64)]
    failed_retention_ms: Option<u64>,
    /// How long a finished bulk action and its jobs are kept.
    #[schema(maximum = 315_360_000_000_i64)]
    bulk_retention_ms: Option<u64>,
    /// How many completed and cancelled jobs are kept.
    #[schema(maximum = 9_007_199_254_740_992_i64)]
    completed_kept_max: Option<u64>,
    /// How many dead jobs are kept.
    #[schema(maximum = 9_007_199_254_740_992_i64)]
    failed_kept_max: Option<u64>,
}

impl Change {
    fn applied_to(self, settings: Settings) -> Result<Settings, Problem> {
        let mut congestion = settings.congestion;
        congestion.enabled = self.congestion_enabled.unwrap_or(congestion.enabled);
        congestion.base_backoff_ms = self.base_backoff_ms.unwrap_or(congestion.base_backoff_ms);
        congestion.max_backoff_ms = self.max_backoff_ms.unwrap_or(congestion.max_backoff_ms);
        congestion.stats_retention_ms = self.stats_retention_ms.unwrap_or(congestion.stats_retention_ms);
        let discipline = self.discipline.map(|word| match word {
            DisciplineWord::Share => Discipline::Share,
            DisciplineWord::Classic => Discipline::Classic,
        });
        let levels = self.levels.map(|word| match word {
            LevelOrderWord::Weighted => LevelOrder::Weighted,
            LevelOrderWord::Strict => LevelOrder::Strict,
        });
        Ok(Settings {
            discipline: discipline.unwrap_or(settings.discipline),
            alpha: self.alpha.unwrap_or(settings.alpha),
            global_rps: self.global_rps.unwrap_or(settings.global_rps),
            ready_queue_max_size: self.ready_queue_max_size.unwrap_or(settings.ready_queue_max_size),
            congestion,
            rate: change::rate(self.rate)?.unwrap_or(settings.rate),
            levels: levels.unwrap_or(settings.levels),
            max_retry_count: self.max_retry_count.unwrap_or(settings.max_retry_count),
            max_throttle_count: self.max_throttle_count.unwrap_or(settings.max_throttle_count),
            max_loss_count: self.max_loss_count.unwrap_or(settings.max_loss_count),
            group_backlog_max: self.group_backlog_max.unwrap_or(settings.group_backlog_max),
            whole_backlog_max: self.whole_backlog_max.unwrap_or(settings.whole_backlog_max),
            group_stored_bytes_max: self.group_stored_bytes_max.unwrap_or(settings.group_stored_bytes_max),
            stored_bytes_max: self.stored_bytes_max.unwrap_or(settings.stored_bytes_max),
            completed_retention_ms: self.completed_retention_ms.unwrap_or(settings.completed_retention_ms),
            failed_retention_ms: self.failed_retention_ms.unwrap_or(settings.failed_retention_ms),
            bulk_retention_ms: self.bulk_retention_ms.unwrap_or(settings.bulk_retention_ms),
            completed_kept_max: self.completed_kept_max.unwrap_or(settings.completed_kept_max),
            failed_kept_max: self.failed_kept_max.unwrap_or(settings.failed_kept_max),
        })
    }
}

/// Changes what is set for the whole queue
///
/// What is absent stays as it is. The discipline can only be changed while no job is unfinished (409). Two servers that
/// change settings at the same moment may undo each other's change; the answer is what was set.
#[utoipa::path(
    patch,
    path = "/api/settings",
    tag = "whole",
    request_body = Change,
    responses(
        (status = 200, description = "What holds now", body = SettingsShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn change(
    State(app): State<Shared>,
    Json(change): Json<Change>,
) -> Result<Json<SettingsShown>, Problem> {
    if change == Change::default() {
        return Err(change::nothing_to_change("the settings that GET /api/settings lists"));
    }
    // What is read is written back: two changes must not overlap.
    let _alone = app.changing_settings.lock().await;
    let settings = change.applied_to(app.fairlane.whole().await?.settings)?;
    match app.engine().set_whole(SetWhole { settings: settings.clone() }).await? {
        WholeSet::Set => Ok(Json(settings.into())),
        WholeSet::DisciplineInUse => Err(ProblemKind::Conflict.because(
            "the discipline can only be changed while no job waits, runs or stands in a list; nothing was changed: let \
             the queue run empty first",
        )),
    }
}
