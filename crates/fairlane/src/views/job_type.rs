//! Types of jobs: the limits of their downstreams, and their counts.

use fairlane_core::TypeId;
use fairlane_core::queue::{self, TypeSettings};
use serde::Serialize;

use super::{LaneCounts, Time};
use crate::rate::rate_text;

/// A type. Fields that do not apply are omitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Type))]
pub struct TypeView {
    /// The name of the type.
    #[cfg_attr(feature = "openapi", schema(example = "mail"))]
    pub r#type: String,
    /// The settings of the type.
    pub settings: TypeSettingsView,
    /// Leased jobs.
    pub in_flight: u64,
    /// Lanes in order, by level.
    pub active_lanes: LaneCounts,
    /// The rate in effect, in jobs a second; below the configured one after its downstream has
    /// refused jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_in_effect: Option<f64>,
    /// The end of a Retry-After of its downstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_until: Option<Time>,
    /// Responses of its downstream in the last second, without refusals.
    pub answers_last_second: u64,
    /// When a worker last asked for its jobs, to within a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Time>,
    /// Admitted jobs that wait for a worker (`classic`).
    pub ready: u64,
}

/// The settings of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TypeSettings))]
pub struct TypeSettingsView {
    /// The rate that its downstream allows; null without a limit.
    #[cfg_attr(feature = "openapi", schema(example = "500/s burst 20"))]
    pub rate: Option<String>,
    /// The maximum number of jobs in flight over all workers; null without a limit.
    pub concurrency: Option<u32>,
    /// Whether the type is paused: none of its jobs are leased.
    pub paused: bool,
    /// Retries before one of its jobs is dead; null for the queue's default.
    pub max_retry_count: Option<u32>,
}

impl TypeView {
    /// The view of a type.
    pub fn new(name: &TypeId, view: &queue::TypeView) -> Self {
        Self {
            r#type: name.to_string(),
            settings: (&view.settings).into(),
            in_flight: view.in_flight,
            active_lanes: view.active_lanes.into(),
            rate_in_effect: view.rate_milli.map(|milli| milli as f64 / 1000.0),
            closed_until: view.closed_until.map(Time),
            answers_last_second: view.answers,
            asked_at: view.asked_at.map(Time),
            ready: view.ready,
        }
    }
}

impl From<&TypeSettings> for TypeSettingsView {
    fn from(settings: &TypeSettings) -> Self {
        Self {
            rate: settings.rate.map(rate_text),
            concurrency: settings.concurrency,
            paused: settings.paused,
            max_retry_count: settings.max_retry_count,
        }
    }
}
