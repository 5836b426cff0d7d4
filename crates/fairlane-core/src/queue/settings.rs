//! Settings of the queue, a type and a group.

use serde::{Deserialize, Serialize};

use crate::congestion::Congestion;
use crate::limits;
use crate::numbers::Weight;
use crate::rate::Rate;

/// How the levels of a type share its capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LevelOrder {
    /// By weight 16:4:1, so that low never starves.
    #[default]
    Weighted,
    /// A lower level is served only if the higher ones have no servable job.
    Strict,
}

impl LevelOrder {
    /// The name of the level order: `weighted` or `strict`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Weighted => "weighted",
            Self::Strict => "strict",
        }
    }
}

/// The rules for order, gates and refusals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discipline {
    /// Fair shares by weight, token buckets, parked lanes.
    #[default]
    Share,
    /// Scores by age, base priority and progress, windows of one second, backoff.
    Classic,
}

impl Discipline {
    /// The name of the discipline: `share` or `classic`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Classic => "classic",
        }
    }
}

/// Settings of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The discipline, which can change only while the queue is empty.
    pub discipline: Discipline,
    /// The weight of progress in a score (`classic`).
    pub alpha: i64,
    /// Jobs per second over all groups (`classic`).
    pub global_rps: u64,
    /// The most admitted jobs of one type that wait for a worker (`classic`).
    pub ready_queue_max_size: u64,
    /// Congestion control: the backoff of refused work, and its history.
    pub congestion: Congestion,
    /// The rate of all types together.
    pub rate: Option<Rate>,
    /// How the levels of a type share its capacity.
    pub levels: LevelOrder,
    /// Retries of a job before it is dead.
    pub max_retry_count: u32,
    /// Throttles of a job before they cost attempts.
    pub max_throttle_count: u32,
    /// Lost leases of a job before it is dead.
    pub max_loss_count: u32,
    /// The backlog at which the enqueues of a group are refused.
    pub group_backlog_max: u64,
    /// The backlog at which all enqueues are refused.
    #[serde(rename = "whole_backlog_max")]
    pub queue_backlog_max: u64,
    /// The stored bytes at which the enqueues of a group are refused, finished jobs included.
    pub group_stored_bytes_max: u64,
    /// The stored bytes at which all enqueues are refused, finished jobs included.
    pub stored_bytes_max: u64,
    /// The retention of completed jobs, in milliseconds.
    pub completed_retention_ms: u64,
    /// The retention of dead jobs, in milliseconds.
    pub failed_retention_ms: u64,
    /// The retention of finished bulk actions and their jobs, in milliseconds.
    pub bulk_retention_ms: u64,
    /// The most completed jobs that are kept.
    pub completed_kept_max: u64,
    /// The most dead jobs that are kept.
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
            queue_backlog_max: limits::QUEUE_BACKLOG_MAX,
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
    /// The rate that the downstream allows.
    pub rate: Option<Rate>,
    /// The most jobs in flight.
    pub concurrency: Option<u32>,
    /// Whether no jobs of the type are leased.
    pub paused: bool,
    /// Retries of a job before it is dead; `None` to use [`Settings::max_retry_count`].
    pub max_retry_count: Option<u32>,
}

/// Settings of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSettings {
    /// The group's share relative to other groups.
    pub weight: Weight,
    /// Added to the group's score (`classic`), in milliseconds of age.
    pub base_priority: i64,
    /// The group's rate over all types.
    pub rate: Option<Rate>,
    /// The most jobs of the group in flight.
    pub concurrency: Option<u32>,
    /// Whether no jobs of the group are leased.
    pub paused: bool,
}

/// A change to a type's settings; `None` leaves a setting as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TypePatch {
    /// The rate; `Some(None)` removes the limit.
    #[serde(with = "crate::encoding::change")]
    pub rate: Option<Option<Rate>>,
    /// The concurrency; `Some(None)` removes the limit.
    #[serde(with = "crate::encoding::change")]
    pub concurrency: Option<Option<u32>>,
    /// Whether the type is paused.
    pub paused: Option<bool>,
    /// The retries; `Some(None)` uses the setting of the queue.
    #[serde(with = "crate::encoding::change")]
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
#[serde(default)]
pub struct GroupPatch {
    /// The weight of the group.
    pub weight: Option<Weight>,
    /// The base priority of the group.
    pub base_priority: Option<i64>,
    /// The rate; `Some(None)` removes the limit.
    #[serde(with = "crate::encoding::change")]
    pub rate: Option<Option<Rate>>,
    /// The concurrency; `Some(None)` removes the limit.
    #[serde(with = "crate::encoding::change")]
    pub concurrency: Option<Option<u32>>,
    /// Whether the group is paused.
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
