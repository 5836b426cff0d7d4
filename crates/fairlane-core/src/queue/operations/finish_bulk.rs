//! `finish_bulk`: ends an aggregation, and with it a bulk action that has not ended before.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::NOTE_BYTES_MAX;
use crate::numbers::{Fence, Micros};
use crate::queue::{BulkCause, BulkRef, BulkState, Machine, Verdict};

use super::{Invalid, bytes_at_most};

/// Ends an aggregation that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishBulk {
    /// Whose and which.
    pub bulk: BulkRef,
    /// As it was taken.
    pub fence: Fence,
    /// What the aggregation gave; kept with the bulk action.
    #[serde(with = "crate::encoding::bytes")]
    pub summary: Arc<[u8]>,
    /// Whether the aggregation failed, and so the bulk action; one that had ended before stays as it ended.
    pub failed: bool,
}

/// The reply: applied (now, or when it was first said), stale, or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkFinished(pub Verdict);

impl FinishBulk {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        bytes_at_most("a summary", self.summary.len(), NOTE_BYTES_MAX)
    }
}

impl Machine {
    pub(in crate::queue) fn finish_bulk(&mut self, command: FinishBulk, _: Micros) -> BulkFinished {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkFinished(Verdict::Gone) };
        let bulk = &self.bulks[&number];
        if bulk.fence != command.fence || command.fence.0 == 0 {
            return BulkFinished(Verdict::Stale);
        }
        if bulk.aggregated {
            return BulkFinished(Verdict::Applied);
        }
        let bulk = self.bulk_mut(number).expect("it was just found");
        (bulk.summary, bulk.aggregated) = (command.summary, true);
        if bulk.state.is_final() {
            self.take_no_more(number);
            return BulkFinished(Verdict::Applied);
        }
        if command.failed {
            bulk.cause = Some(BulkCause::Aggregation);
        }
        self.finish(number, if command.failed { BulkState::Failed } else { BulkState::Completed });
        BulkFinished(Verdict::Applied)
    }
}
