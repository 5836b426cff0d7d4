//! `open_bulk`: a bulk action, to which jobs can then be added until it is sealed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{BULK_PAYLOAD_BYTES_MAX, DELAY_MS_MAX, GROUP_BULKS_MAX, REFUSAL_RETRY_MS};
use crate::numbers::{Fence, Micros, within};
use crate::queue::bulk::Bulk;
use crate::queue::{BulkRef, BulkState, BulkView, Course, Machine};

use super::{Invalid, Refusal, bytes_at_most};

/// Opens a bulk action; one that exists stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBulk {
    /// Whose and which.
    pub bulk: BulkRef,
    /// It fails unless it has finished after this long.
    pub deadline_ms: Option<u64>,
    /// It fails when more jobs than this have.
    pub failures_max: Option<u64>,
    /// Opaque bytes for whoever aggregates it, as a job's payload is for its worker.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkOpened {
    /// It is new.
    Created(BulkView),
    /// It was there before; nothing was changed.
    Exists(BulkView),
    /// The group has as many bulk actions as are kept; sweep, or wait until old ones are outlived.
    TooMany,
    /// The group, or the queue, has as many bytes stored as it may; try again later.
    Full {
        /// Which of them.
        refusal: Refusal,
        /// When it makes sense to try again.
        retry_after_ms: u64,
    },
}

impl OpenBulk {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        within("a deadline in ms", self.deadline_ms.unwrap_or(1), 1, DELAY_MS_MAX)?;
        within("failures_max", self.failures_max.unwrap_or(0), 0, u64::from(u32::MAX))?;
        bytes_at_most("the payload of a bulk action", self.payload.len(), BULK_PAYLOAD_BYTES_MAX)
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
        let bulk = Bulk {
            name: command.bulk.id.clone(),
            group,
            state: BulkState::Created,
            course: Course::Run,
            sealed: false,
            total: 0,
            succeeded: 0,
            failed: 0,
            cancelled: 0,
            created_at: now,
            started_at: None,
            finished_at: None,
            deadline,
            failures_max: command.failures_max,
            cause: None,
            fence: Fence(0),
            aggregated: false,
            take_at: None,
            worker: None,
            payload: command.payload,
            summary: Arc::from(&[][..]),
            on_hold: VecDeque::new(),
            waiting: BTreeMap::new(),
            ended: VecDeque::new(),
        };
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
