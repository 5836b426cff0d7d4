//! What can be set for the whole, a type and a group.

use serde::{Deserialize, Serialize};

use crate::congestion::Congestion;
use crate::limits;
use crate::numbers::Weight;
use crate::rate::Rate;

/// How a type's capacity is split between its levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LevelOrder {
    /// 16 : 4 : 1, so that low never starves.
    #[default]
    Weighted,
    /// A lower level only when the higher ones have nothing servable.
    Strict,
}

impl LevelOrder {
    /// `weighted` or `strict`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Weighted => "weighted",
            Self::Strict => "strict",
        }
    }
}

/// The rules for order, gate and denial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discipline {
    /// Fair shares by weight, leaky buckets, parked lanes.
    #[default]
    Share,
    /// Scores by age, base priority and progress, windows of a second, backoff.
    Classic,
}

impl Discipline {
    /// `share` or `classic`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Classic => "classic",
        }
    }
}

/// Settings of the whole queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The rules; they can only be changed while the queue is empty.
    pub discipline: Discipline,
    /// What progress is worth in a score (`classic`).
    pub alpha: i64,
    /// Jobs a second over all groups (`classic`).
    pub global_rps: u64,
    /// Admitted jobs of one type that may wait for a worker (`classic`).
    pub ready_queue_max_size: u64,
    /// How refused work is kept away, and what is recorded of it.
    pub congestion: Congestion,
    /// Rate of all types together.
    pub rate: Option<Rate>,
    /// How levels share.
    pub levels: LevelOrder,
    /// Retries before a job is dead.
    pub max_retry_count: u32,
    /// Throttles before they cost attempts.
    pub max_throttle_count: u32,
    /// Lost leases before a job is dead.
    pub max_loss_count: u32,
    /// Backlog at which a group's enqueues are refused.
    pub group_backlog_max: u64,
    /// Backlog at which all enqueues are refused.
    pub whole_backlog_max: u64,
    /// Stored bytes at which a group's enqueues are refused, finished jobs included.
    pub group_stored_bytes_max: u64,
    /// Stored bytes at which all enqueues are refused, finished jobs included.
    pub stored_bytes_max: u64,
    /// How long completed jobs are kept.
    pub completed_retention_ms: u64,
    /// How long dead jobs are kept.
    pub failed_retention_ms: u64,
    /// How long finished bulk actions and their jobs are kept.
    pub bulk_retention_ms: u64,
    /// How many completed jobs are kept.
    pub completed_kept_max: u64,
    /// How many dead jobs are kept.
    pub failed_kept_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            discipline: Discipline::default(),
            alpha: limits::ALPHA,
            global_rps: limits::GLOBAL_RPS,
            ready_queue_max_size: limits::READY_QUEUE_MAX_SIZE,
            congestion: Congestion::default(),
            rate: None,
            levels: LevelOrder::default(),
            max_retry_count: limits::MAX_RETRY_COUNT,
            max_throttle_count: limits::MAX_THROTTLE_COUNT,
            max_loss_count: limits::MAX_LOSS_COUNT,
            group_backlog_max: limits::GROUP_BACKLOG_MAX,
            whole_backlog_max: limits::WHOLE_BACKLOG_MAX,
            group_stored_bytes_max: limits::GROUP_STORED_BYTES_MAX,
            stored_bytes_max: limits::STORED_BYTES_MAX,
            completed_retention_ms: limits::COMPLETED_RETENTION_MS,
            failed_retention_ms: limits::FAILED_RETENTION_MS,
            bulk_retention_ms: limits::BULK_RETENTION_MS,
            completed_kept_max: limits::COMPLETED_KEPT_MAX,
            failed_kept_max: limits::FAILED_KEPT_MAX,
        }
    }
}

/// Settings of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeSettings {
    /// What its downstream allows.
    pub rate: Option<Rate>,
    /// Jobs in flight at once.
    pub concurrency: Option<u32>,
    /// Nothing is leased while set.
    pub paused: bool,
    /// Retries before a job is dead; none: as many as [`Settings::max_retry_count`] says.
    pub max_retry_count: Option<u32>,
}

/// Settings of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSettings {
    /// Its share relative to other groups.
    pub weight: Weight,
    /// Added to its score (`classic`), in milliseconds of age.
    pub base_priority: i64,
    /// Its rate over all types.
    pub rate: Option<Rate>,
    /// Its jobs in flight at once.
    pub concurrency: Option<u32>,
    /// Nothing is leased while set.
    pub paused: bool,
}

/// A change to a type's settings; `None` leaves a setting as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypePatch {
    /// `Some(None)` removes the limit.
    pub rate: Option<Option<Rate>>,
    /// `Some(None)` removes the limit.
    pub concurrency: Option<Option<u32>>,
    /// Pauses or resumes.
    pub paused: Option<bool>,
    /// `Some(None)`: as the whole says.
    pub max_retry_count: Option<Option<u32>>,
}

impl TypePatch {
    /// The settings after the change.
    pub fn applied_to(&self, settings: &TypeSettings) -> TypeSettings {
        TypeSettings {
            rate: self.rate.unwrap_or(settings.rate),
            concurrency: self.concurrency.unwrap_or(settings.concurrency),
            paused: self.paused.unwrap_or(settings.paused),
            max_retry_count: self.max_retry_count.unwrap_or(settings.max_retry_count),
        }
    }
}

/// A change to a group's settings; `None` leaves a setting as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPatch {
    /// A new weight.
    pub weight: Option<Weight>,
    /// A new base priority.
    pub base_priority: Option<i64>,
    /// `Some(None)` removes the limit.
    pub rate: Option<Option<Rate>>,
    /// `Some(None)` removes the limit.
    pub concurrency: Option<Option<u32>>,
    /// Pauses or resumes.
    pub paused: Option<bool>,
}

impl GroupPatch {
    /// The settings after the change.
    pub fn applied_to(&self, settings: &GroupSettings) -> GroupSettings {
        GroupSettings {
            weight: self.weight.unwrap_or(settings.weight),
            base_priority: self.base_priority.unwrap_or(settings.base_priority),
            rate: self.rate.unwrap_or(settings.rate),
            concurrency: self.concurrency.unwrap_or(settings.concurrency),
            paused: self.paused.unwrap_or(settings.paused),
        }
    }
}
