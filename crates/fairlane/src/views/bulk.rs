//! Bulk actions.

use fairlane_core::queue::{self, BulkCause};
use fairlane_worker::{BulkPlan, callback_id};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Time;
#[cfg(feature = "openapi")]
use super::schema;

/// A bulk action. Fields that do not apply are omitted.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Bulk))]
pub struct BulkView {
    /// The group of the bulk action.
    #[cfg_attr(feature = "openapi", schema(example = "customer-7"))]
    pub group: String,
    /// The id of the bulk action, unique within its group.
    #[cfg_attr(feature = "openapi", schema(example = "newsletter"))]
    pub id: String,
    /// The state of the bulk action.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::bulk_states))]
    pub state: &'static str,
    /// What happens to its jobs when their turn comes: they run, are set aside, or are dropped.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::bulk_modes))]
    pub mode: &'static str,
    /// Whether it is sealed: no more jobs can be added.
    pub sealed: bool,
    /// The number of jobs.
    pub total: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that failed for good.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs set aside while the bulk action is held.
    pub on_hold: u64,
    /// Jobs that have not ended.
    pub unfinished: u64,
    /// The fraction of its jobs that have ended, from 0 to 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
    pub progress: f64,
    /// The bulk action fails when more jobs than this have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_max: Option<u64>,
    /// When it was opened.
    pub created_at: Time,
    /// When its first job was leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it reached its final state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// When it fails, unless it has finished before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::bulk_causes, required = false))]
    pub cause: Option<&'static str>,
    /// The callback that is sent when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<BulkCallbackView>,
    /// The fold that adds to its summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<String>,
    /// The result of its aggregation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub summary: Option<Box<RawValue>>,
}

/// The callback of a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BulkCallback))]
pub struct BulkCallbackView {
    /// The address that the callback is sent to.
    pub url: String,
    /// The id of the job that delivers it, of the type `fairlane-callback`.
    pub job: String,
}

impl From<&queue::BulkView> for BulkView {
    fn from(view: &queue::BulkView) -> Self {
        // The aggregation reports a plan that cannot be read.
        let plan = BulkPlan::from_bytes(&view.payload).unwrap_or_default();
        let job = callback_id(view);
        let ended = view.succeeded + view.failed + view.cancelled;
        Self {
            group: view.bulk.group.to_string(),
            id: view.bulk.id.to_string(),
            state: view.state.name(),
            mode: view.mode.as_str(),
            sealed: view.sealed,
            total: view.total,
            succeeded: view.succeeded,
            failed: view.failed,
            cancelled: view.cancelled,
            on_hold: view.on_hold,
            unfinished: view.total.saturating_sub(ended),
            progress: if view.total == 0 { 0.0 } else { ended as f64 / view.total as f64 },
            failures_max: view.failures_max,
            created_at: Time(view.created_at),
            started_at: view.started_at.map(Time),
            finished_at: view.finished_at.map(Time),
            deadline: view.deadline.map(Time),
            cause: view.cause.map(BulkCause::as_str),
            callback: plan.callback.map(|callback| BulkCallbackView { url: callback.url, job }),
            fold: plan.fold,
            summary: serde_json::from_slice(&view.summary).ok(),
        }
    }
}
