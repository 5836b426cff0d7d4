//! `open_bulk`: creates a bulk action, to which jobs can be added until it is sealed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::operation::bytes_at_most;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{BULK_PAYLOAD_BYTES_MAX, DELAY_MS_MAX, GROUP_BULKS_MAX, REFUSAL_RETRY_MS};
use crate::numbers::{Micros, within};
use crate::queue::bulk::Bulk;
use crate::queue::{BulkRef, BulkView, Machine};

use super::Refusal;

/// Opens a bulk action; an existing one is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBulk {
    /// The bulk action, by group and id.
    pub bulk: BulkRef,
    /// The time in milliseconds after which it fails unless it has finished.
    pub deadline_ms: Option<u64>,
    /// The number of failed jobs above which it fails.
    pub failures_max: Option<u64>,
    /// Opaque bytes for the aggregator, as a job's payload is for its worker.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
}

/// The reply to [`OpenBulk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkOpened {
    /// The bulk action was created.
    Created(BulkView),
    /// The bulk action existed before; nothing was changed.
    Exists(BulkView),
    /// The group has reached the limit on bulk actions; sweep, or wait until the retention
    /// of old ones ends.
    TooMany,
    /// The group or the queue has reached the limit on stored bytes; try again later.
    Full {
        /// The limit that was reached.
        refusal: Refusal,
        /// The suggested retry delay, in milliseconds.
        retry_after_ms: u64,
    },
}

impl Operation for OpenBulk {
    type Machine = Machine;
    type Reply = BulkOpened;

    const STEM: &'static str = "open_bulk";

    fn validate(&self) -> Result<(), Invalid> {
        within("a deadline in ms", self.deadline_ms.unwrap_or(1), 1, DELAY_MS_MAX)?;
        within("failures_max", self.failures_max.unwrap_or(0), 0, u64::from(u32::MAX))?;
        bytes_at_most("the payload of a bulk action", self.payload.len(), BULK_PAYLOAD_BYTES_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Produce, &self.bulk.group)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight { jobs: 1, bytes: self.payload.len() }
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BulkOpened {
        machine.open_bulk(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn open_bulk(&mut self, command: OpenBulk, now: Micros) -> BulkOpened {
        if let Some(number) = self.find_bulk(&command.bulk) {
            return BulkOpened::Exists(self.bulk_view(number));
        }
        let known = self.groups_by_name.get(&command.bulk.group);
        if known.is_some_and(|&key| self.groups[key].bulks.len() >= GROUP_BULKS_MAX) {
            return BulkOpened::TooMany;
        }
        if let Some(refusal) = self.bytes_refusal(&command.bulk.group, &command.payload) {
            return BulkOpened::Full { refusal, retry_after_ms: REFUSAL_RETRY_MS };
        }
        let group = self.group_key(&command.bulk.group);
        self.opened += 1;
        let number = self.opened;
        let deadline = command.deadline_ms.map(|ms| now.plus_ms(ms));
        let OpenBulk { failures_max, payload, .. } = command;
        let opened = Bulk::new(command.bulk.id.clone(), group, now);
        let bulk = Bulk { deadline, failures_max, payload, ..opened };
        self.add_bytes(group, bulk.stored_bytes());
        self.bulks.insert(number, bulk);
        self.bulk_mut(number);
        self.groups[group].bulks.insert(command.bulk.id, number);
        self.groups[group].unfinished.insert(number);
        if let Some(deadline) = deadline {
            self.bulk_deadlines.insert((deadline, number));
        }
        BulkOpened::Created(self.bulk_view(number))
    }
}
