//! `set_queue`: replaces the queue's settings: the rate of all types together, level order,
//! limits, retention.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{
    ALPHA_MAX, ATTEMPTS_MAX, DELAY_MS_MAX, GLOBAL_RPS_MAX, INTEGER_MAX, READY_QUEUE_SIZE_LIMIT,
};
use crate::numbers::{Micros, within};
use crate::queue::{Machine, Settings};

/// Replaces the settings of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetQueue {
    /// The new settings.
    pub settings: Settings,
}

/// The reply to [`SetQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueSet {
    /// The settings were replaced.
    Set,
    /// Nothing was changed: the discipline can change only while no job waits, runs
    /// or is in a list.
    DisciplineInUse,
}

impl Operation for SetQueue {
    type Machine = Machine;
    type Reply = QueueSet;

    const STEM: &'static str = "set_queue";

    fn validate(&self) -> Result<(), Invalid> {
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
        within("queue_backlog_max", settings.queue_backlog_max, 1, INTEGER_MAX)?;
        within("group_stored_bytes_max", settings.group_stored_bytes_max, 1, INTEGER_MAX)?;
        within("stored_bytes_max", settings.stored_bytes_max, 1, INTEGER_MAX)?;
        within("completed_retention_ms", settings.completed_retention_ms, 0, DELAY_MS_MAX)?;
        within("failed_retention_ms", settings.failed_retention_ms, 0, DELAY_MS_MAX)?;
        within("completed_kept_max", settings.completed_kept_max, 0, INTEGER_MAX)?;
        within("failed_kept_max", settings.failed_kept_max, 0, INTEGER_MAX)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> QueueSet {
        machine.set_queue(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn set_queue(&mut self, command: SetQueue, now: Micros) -> QueueSet {
        let settings = command.settings;
        // A cancelled job that is still in a list keeps its lane active.
        let has_work = self.types.values().any(|state| state.is_active() || !state.ready.is_empty());
        let busy = self.backlog > 0 || !self.active_groups.is_empty() || has_work;
        if settings.discipline != self.settings.discipline && busy {
            return QueueSet::DisciplineInUse;
        }
        self.bucket.change_rate(self.settings.rate, settings.rate, now);
        if settings != self.settings {
            self.settings = settings;
            for key in self.types_by_name.values().copied().collect::<Vec<_>>() {
                let state = &self.types[key];
                if state.is_active() || !state.ready.is_empty() {
                    self.push_token(key);
                }
            }
        }
        QueueSet::Set
    }
}
