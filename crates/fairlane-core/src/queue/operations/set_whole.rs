//! `set_whole`: the rate of all types together, level order, caps and retention.

use serde::{Deserialize, Serialize};

use crate::limits::{
    ALPHA_MAX, ATTEMPTS_MAX, DELAY_MS_MAX, GLOBAL_RPS_MAX, INTEGER_MAX, READY_QUEUE_SIZE_LIMIT,
};
use crate::numbers::{Micros, within};
use crate::queue::{Machine, Settings};

use super::Invalid;
use super::set_group::changed_bucket;

/// Replaces the settings of the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetWhole {
    /// The new ones.
    pub settings: Settings,
}

/// The reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WholeSet {
    /// They hold now.
    Set,
    /// Nothing was changed: the discipline can only be changed while no job waits, runs or stands in a list.
    DisciplineInUse,
}

impl SetWhole {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let settings = &self.settings;
        let attempts = u64::from(ATTEMPTS_MAX);
        within("alpha without its sign", settings.alpha.unsigned_abs(), 0, ALPHA_MAX)?;
        within("global_rps", settings.global_rps, 1, GLOBAL_RPS_MAX)?;
        within("ready_queue_max_size", settings.ready_queue_max_size, 1, READY_QUEUE_SIZE_LIMIT)?;
        settings.congestion.validate()?;
        within("bulk_retention_ms", settings.bulk_retention_ms, 0, DELAY_MS_MAX)?;
        within("max_retry_count", settings.max_retry_count.into(), 0, attempts)?;
        within("max_throttle_count", settings.max_throttle_count.into(), 0, attempts)?;
        within("max_loss_count", settings.max_loss_count.into(), 0, attempts)?;
        within("group_backlog_max", settings.group_backlog_max, 1, INTEGER_MAX)?;
        within("whole_backlog_max", settings.whole_backlog_max, 1, INTEGER_MAX)?;
        within("group_stored_bytes_max", settings.group_stored_bytes_max, 1, INTEGER_MAX)?;
        within("stored_bytes_max", settings.stored_bytes_max, 1, INTEGER_MAX)?;
        within("completed_retention_ms", settings.completed_retention_ms, 0, DELAY_MS_MAX)?;
        within("failed_retention_ms", settings.failed_retention_ms, 0, DELAY_MS_MAX)?;
        within("completed_kept_max", settings.completed_kept_max, 0, INTEGER_MAX)?;
        within("failed_kept_max", settings.failed_kept_max, 0, INTEGER_MAX)?;
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn set_whole(&mut self, command: SetWhole, now: Micros) -> WholeSet {
        let settings = command.settings;
        // A cancelled job that still stands in a list keeps its lane where it is.
        let has_work = self.types.values().any(|state| state.is_active() || !state.ready.is_empty());
        let busy = self.backlog > 0 || !self.active_groups.is_empty() || has_work;
        if settings.discipline != self.settings.discipline && busy {
            return WholeSet::DisciplineInUse;
        }
        changed_bucket(&mut self.whole, self.settings.rate, settings.rate, now);
        if settings != self.settings {
            self.settings = settings;
            for key in self.types_by_name.values().copied().collect::<Vec<_>>() {
                let state = &self.types[key];
                if state.is_active() || !state.ready.is_empty() {
                    self.push_token(key);
                }
            }
        }
        WholeSet::Set
    }
}
