//! Settings of the queue.

use axum::extract::State;
use fairlane::views::schema::{disciplines, one_of};
use fairlane::{Discipline, LevelOrder, Settings, rate_text};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;
use utoipa_axum::routes;

use super::change;
use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::Json;
use crate::problem::Problem;

pub(super) fn routes() -> Routes {
    Routes::default().add(Pace::Brief, Permission::Read, Scope::NoGroup, routes!(show)).add(
        Pace::Brief,
        Permission::Operate,
        Scope::AllGroups,
        routes!(change),
    )
}

fn level_orders() -> Object {
    one_of([LevelOrder::Weighted, LevelOrder::Strict].map(LevelOrder::as_str))
}

/// The settings of the queue.
#[derive(Serialize, ToSchema)]
#[schema(as = Settings)]
struct SettingsResponse {
    /// The discipline: the rules for order, gate and denial.
    #[schema(schema_with = disciplines)]
    discipline: &'static str,
    /// The weight of progress in a score (`classic`).
    alpha: i64,
    /// Jobs a second over all groups (`classic`).
    global_rps: u64,
    /// Admitted jobs of one type that may wait for a worker (`classic`).
    ready_queue_max_size: u64,
    /// Whether congestion is recorded; otherwise every refused job waits the least time.
    congestion_enabled: bool,
    /// The shortest wait of a refused job, in milliseconds.
    base_backoff_ms: u64,
    /// The longest wait of a refused job, in milliseconds.
    max_backoff_ms: u64,
    /// How long the congestion history of a group is kept, in milliseconds.
    stats_retention_ms: u64,
    /// The rate of all types together; null without a limit.
    #[schema(example = "1000/s")]
    rate: Option<String>,
    /// How levels share a type: 16 : 4 : 1, or a lower one only when the higher ones have nothing
    /// to serve.
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
    /// Unfinished jobs of all groups beyond which every enqueue is refused.
    queue_backlog_max: u64,
    /// Stored bytes of one group, including finished jobs, beyond which its enqueues are refused.
    group_stored_bytes_max: u64,
    /// Stored bytes of all groups, including finished jobs, beyond which every enqueue is refused.
    stored_bytes_max: u64,
    /// How long completed and cancelled jobs are kept, in milliseconds.
    completed_retention_ms: u64,
    /// How long dead jobs are kept, in milliseconds.
    failed_retention_ms: u64,
    /// How long a finished bulk action and its jobs are kept, in milliseconds.
    bulk_retention_ms: u64,
    /// How many completed and cancelled jobs are kept.
    completed_kept_max: u64,
    /// How many dead jobs are kept.
    failed_kept_max: u64,
}

impl From<Settings> for SettingsResponse {
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
            queue_backlog_max: settings.queue_backlog_max,
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

/// Shows the settings of the queue
///
/// Every setting with the value in effect.
#[utoipa::path(
    get,
    path = "/api/settings",
    tag = "queue",
    responses((status = 200, description = "The settings", body = SettingsResponse)),
)]
async fn show(State(app): State<Shared>) -> Result<Json<SettingsResponse>, Problem> {
    Ok(Json(app.fairlane.queue_view().await?.settings.into()))
}

/// The names of the disciplines.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DisciplineName {
    Share,
    Classic,
}

/// The names of the orders of levels.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LevelOrderName {
    Weighted,
    Strict,
}

/// A change of the queue's settings; absent settings stay unchanged.
#[derive(Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettingsChange, example = json!({"rate": "1000/s", "max_retry_count": 5}))]
struct Change {
    /// The discipline: the rules for order, gate and denial; only while no job is unfinished.
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = disciplines, required = false)]
    discipline: Option<DisciplineName>,
    /// The weight of progress in a score (`classic`).
    #[schema(minimum = -10_000_000, maximum = 10_000_000)]
    alpha: Option<i64>,
    /// Jobs a second over all groups (`classic`).
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    global_rps: Option<u64>,
    /// Admitted jobs of one type that may wait for a worker (`classic`).
    #[schema(minimum = 1, maximum = 10_000_000)]
    ready_queue_max_size: Option<u64>,
    /// Whether congestion is recorded; otherwise every refused job waits the least time.
    congestion_enabled: Option<bool>,
    /// The shortest wait of a refused job, in milliseconds; at most `max_backoff_ms`.
    #[schema(minimum = 1, maximum = 86_400_000)]
    base_backoff_ms: Option<u64>,
    /// The longest wait of a refused job, in milliseconds; at least `base_backoff_ms`.
    #[schema(minimum = 1, maximum = 86_400_000)]
    max_backoff_ms: Option<u64>,
    /// How long the congestion history of a group is kept, in milliseconds.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    stats_retention_ms: Option<u64>,
    /// The rate of all types together; null removes it.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(schema_with = change::rates, required = false)]
    rate: Option<Option<String>>,
    /// How levels share a type: 16 : 4 : 1, or a lower one only when the higher ones have nothing
    /// to serve.
    #[serde(default, deserialize_with = "change::present")]
    #[schema(schema_with = level_orders, required = false)]
    levels: Option<LevelOrderName>,
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
    /// Unfinished jobs of all groups beyond which every enqueue is refused.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_992_i64)]
    queue_backlog_max: Option<u64>,
    /// Stored bytes of one group, including finished jobs, beyond which its enqueues are refused.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_992_i64)]
    group_stored_bytes_max: Option<u64>,
    /// Stored bytes of all groups, including finished jobs, beyond which every enqueue is refused.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_992_i64)]
    stored_bytes_max: Option<u64>,
    /// How long completed and cancelled jobs are kept, in milliseconds.
    #[schema(maximum = 315_360_000_000_i64)]
    completed_retention_ms: Option<u64>,
    /// How long dead jobs are kept, in milliseconds.
    #[schema(maximum = 315_360_000_000_i64)]
    failed_retention_ms: Option<u64>,
    /// How long a finished bulk action and its jobs are kept, in milliseconds.
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
        let discipline = self.discipline.map(|name| match name {
            DisciplineName::Share => Discipline::Share,
            DisciplineName::Classic => Discipline::Classic,
        });
        let levels = self.levels.map(|name| match name {
            LevelOrderName::Weighted => LevelOrder::Weighted,
            LevelOrderName::Strict => LevelOrder::Strict,
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
            queue_backlog_max: self.queue_backlog_max.unwrap_or(settings.queue_backlog_max),
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

/// Changes the settings of the queue
///
/// Absent settings stay unchanged. The discipline can only be changed while no job is unfinished
/// (409). Two servers that change settings at the same moment may undo each other's change; the
/// response has the settings that were written.
#[utoipa::path(
    patch,
    path = "/api/settings",
    tag = "queue",
    request_body = Change,
    responses((status = 200, description = "The settings in effect", body = SettingsResponse)),
)]
async fn change(
    State(app): State<Shared>,
    Json(change): Json<Change>,
) -> Result<Json<SettingsResponse>, Problem> {
    let change = change::filled(change, "the settings that GET /api/settings lists")?;
    // A change reads all settings and writes them back, so two changes must not overlap.
    let _changing = app.changing_settings.lock().await;
    let settings = change.applied_to(app.fairlane.queue_view().await?.settings)?;
    app.fairlane.set_queue(settings.clone()).await?;
    Ok(Json(settings.into()))
}
