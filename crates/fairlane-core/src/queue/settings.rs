//! What can be set for the whole, a type and a group.

use crate::limits;
use crate::numbers::Weight;
use crate::rate::Rate;

/// How a type's capacity is split between its levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

/// Settings of the whole queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
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
    /// How long completed jobs are kept.
    pub completed_retention_ms: u64,
    /// How long dead jobs are kept.
    pub failed_retention_ms: u64,
    /// How many completed jobs are kept.
    pub completed_kept_max: u64,
    /// How many dead jobs are kept.
    pub failed_kept_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate: None,
            levels: LevelOrder::default(),
            max_retry_count: limits::MAX_RETRY_COUNT,
            max_throttle_count: limits::MAX_THROTTLE_COUNT,
            max_loss_count: limits::MAX_LOSS_COUNT,
            group_backlog_max: limits::GROUP_BACKLOG_MAX,
            whole_backlog_max: limits::WHOLE_BACKLOG_MAX,
            completed_retention_ms: limits::COMPLETED_RETENTION_MS,
            failed_retention_ms: limits::FAILED_RETENTION_MS,
            completed_kept_max: limits::COMPLETED_KEPT_MAX,
            failed_kept_max: limits::FAILED_KEPT_MAX,
        }
    }
}

/// Settings of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeSettings {
    /// What its downstream allows.
    pub rate: Option<Rate>,
    /// Jobs in flight at once.
    pub concurrency: Option<u32>,
    /// Nothing is leased while set.
    pub paused: bool,
}

/// Settings of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// Its share relative to other groups.
    pub weight: Weight,
    /// Its rate over all types.
    pub rate: Option<Rate>,
    /// Its jobs in flight at once.
    pub concurrency: Option<u32>,
    /// Nothing is leased while set.
    pub paused: bool,
}

/// A change to a type's settings; `None` leaves a setting as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypePatch {
    /// `Some(None)` removes the limit.
    pub rate: Option<Option<Rate>>,
    /// `Some(None)` removes the limit.
    pub concurrency: Option<Option<u32>>,
    /// Pauses or resumes.
    pub paused: Option<bool>,
}

impl TypePatch {
    /// The settings after the change.
    pub fn applied_to(&self, settings: &TypeSettings) -> TypeSettings {
        TypeSettings {
            rate: self.rate.unwrap_or(settings.rate),
            concurrency: self.concurrency.unwrap_or(settings.concurrency),
            paused: self.paused.unwrap_or(settings.paused),
        }
    }
}

/// A change to a group's settings; `None` leaves a setting as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPatch {
    /// A new weight.
    pub weight: Option<Weight>,
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
            rate: self.rate.unwrap_or(settings.rate),
            concurrency: self.concurrency.unwrap_or(settings.concurrency),
            paused: self.paused.unwrap_or(settings.paused),
        }
    }
}
