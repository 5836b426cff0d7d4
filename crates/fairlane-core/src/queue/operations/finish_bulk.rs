//! `finish_bulk`: ends an aggregation, and with it a bulk action that has not ended before; or gives it back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{LEASE_MS_MAX, NOTE_BYTES_MAX};
use crate::numbers::{Fence, Micros, within};
use crate::queue::{BulkCause, BulkRef, BulkState, Machine, Verdict};

use super::{Invalid, bytes_at_most};

/// Ends an aggregation that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishBulk {
    /// Whose and which.
    pub bulk: BulkRef,
    /// As it was taken.
    pub fence: Fence,
    /// What the aggregation gave; kept with the bulk action, unless it is given back.
    #[serde(with = "crate::encoding::bytes")]
    pub summary: Arc<[u8]>,
    /// What became of the aggregation.
    pub outcome: Aggregation,
}

/// What became of an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aggregation {
    /// It is done.
    Done,
    /// It failed, and so does the bulk action; one that had ended before stays as it ended.
    Failed,
    /// It is given back: any worker can take it after a delay, behind those that became takeable before it.
    Released {
        /// The delay in milliseconds; no longer than the longest lease.
        delay_ms: u64,
    },
}

/// The reply: applied (now, or when it was first said), stale, or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkFinished(pub Verdict);

impl FinishBulk {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        bytes_at_most("a summary", self.summary.len(), NOTE_BYTES_MAX)?;
        if let Aggregation::Released { delay_ms } = self.outcome {
            within("the delay of an aggregation in ms", delay_ms, 0, LEASE_MS_MAX)?;
        }
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn finish_bulk(&mut self, command: FinishBulk, now: Micros) -> BulkFinished {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkFinished(Verdict::Gone) };
        let bulk = &self.bulks[&number];
        if bulk.fence != command.fence || command.fence.0 == 0 {
            return BulkFinished(Verdict::Stale);
        }
        if bulk.aggregated {
            return BulkFinished(Verdict::Applied);
        }
        if let Aggregation::Released { delay_ms } = command.outcome {
            // One that is in nobody's hands was given back before, and keeps its place.
            if bulk.worker.is_some() {
                self.hand_out_at(number, now.plus_ms(delay_ms));
            }
            return BulkFinished(Verdict::Applied);
        }
        let bulk = self.bulk_mut(number).expect("it was just found");
        (bulk.summary, bulk.aggregated) = (command.summary, true);
        let (group, state, bytes) = (bulk.group, bulk.state, bulk.summary.len() as u64);
        self.add_bytes(group, bytes);
        if state.is_final() {
            self.take_no_more(number);
            return BulkFinished(Verdict::Applied);
        }
        let failed = command.outcome == Aggregation::Failed;
        if failed && let Some(bulk) = self.bulk_mut(number) {
            bulk.cause = Some(BulkCause::Aggregation);
        }
        self.finish(number, if failed { BulkState::Failed } else { BulkState::Completed });
        BulkFinished(Verdict::Applied)
    }
}
