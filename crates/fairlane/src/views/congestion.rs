//! Congestion of groups.

use fairlane_core::GroupId;
use fairlane_core::queue::{self, Snapshot};
use serde::Serialize;

use super::Time;
#[cfg(feature = "openapi")]
use super::schema;

/// The congestion of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Congestion))]
pub struct CongestionView {
    /// The name of the group.
    #[cfg_attr(feature = "openapi", schema(example = "customer-7"))]
    pub group: String,
    /// The ratio of its backoff to the least backoff: NONE up to 1, LOW below 3, MODERATE below 10,
    /// HIGH below 30, CRITICAL above.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::congestion_levels))]
    pub level: &'static str,
    /// Jobs held back: those that wait for a time (`classic`), or all that are not in flight
    /// (`share`).
    pub held_back: u64,
    /// The speed of the group, in jobs a second; 0 if unknown.
    pub speed: u64,
    /// The latest backoff (`classic`) or predicted wait (`share`).
    pub backoff_ms: u64,
    /// How often a job is refused before it ends, on average since the group was last idle.
    pub throttles_per_job: f64,
    /// How long the jobs held back will take, an estimate; absent if the speed is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_completion_ms: Option<u64>,
}

/// The congestion of a group at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CongestionSnapshot))]
pub struct SnapshotView {
    /// When the snapshot was taken.
    pub at: Time,
    /// Jobs that were held back.
    pub held_back: u64,
    /// The speed of the group, in jobs a second.
    pub speed: u64,
    /// The backoff of refused jobs (`classic`), or the predicted wait (`share`).
    pub backoff_ms: u64,
}

impl CongestionView {
    /// The congestion of this group.
    pub fn new(group: &GroupId, view: &queue::CongestionView) -> Self {
        Self {
            group: group.to_string(),
            level: view.level.as_str(),
            held_back: view.waiting,
            speed: view.speed,
            backoff_ms: view.backoff_ms,
            throttles_per_job: view.throttles_per_job(),
            estimated_completion_ms: view.estimated_completion_ms(),
        }
    }
}

impl From<Snapshot> for SnapshotView {
    fn from(snapshot: Snapshot) -> Self {
        let Snapshot { at, waiting, speed, backoff_ms } = snapshot;
        Self { at: Time(at), held_back: waiting, speed, backoff_ms }
    }
}
