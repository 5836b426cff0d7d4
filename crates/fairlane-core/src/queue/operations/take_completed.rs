//! `take_completed`: bulk actions whose jobs have all ended, leased for aggregation like jobs: those that are
//! complete, and those that failed or were cancelled before, whose state tells.
//!
//! One whose aggregator does not finish in time is taken again, under a younger fence.

use serde::{Deserialize, Serialize};

use crate::limits::{CLAMPS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, TAKE_BULKS_MAX};
use crate::numbers::{Fence, Micros, within};
use crate::queue::{BulkView, Machine};

use super::Invalid;

/// Takes bulk actions to be aggregated, the longest waiting first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeCompleted {
    /// At most this many.
    pub bulks_max: usize,
    /// For how long.
    pub lease_ms: u64,
}

/// A bulk action in an aggregator's hands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBulk {
    /// As it stands.
    pub view: BulkView,
    /// To be shown when it is finished.
    pub fence: Fence,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedTaken {
    /// What may be aggregated now.
    pub bulks: Vec<TakenBulk>,
    /// When the next one can be taken.
    pub wake_at: Option<Micros>,
}

impl TakeCompleted {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        within("the bulk actions of one take_completed", self.bulks_max as u64, 1, TAKE_BULKS_MAX as u64)?;
        within("the length of a lease in ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn take_completed(&mut self, command: TakeCompleted, now: Micros) -> CompletedTaken {
        self.lower_far_takes(now);
        let due = self.aggregating.range(..=(now, u64::MAX)).take(command.bulks_max);
        let due: Vec<(Micros, u64)> = due.copied().collect();
        let mut bulks = Vec::with_capacity(due.len());
        for (at, number) in due {
            self.aggregating.remove(&(at, number));
            let (fence, until) = (self.next_fence(now), now.plus_ms(command.lease_ms));
            self.aggregating.insert((until, number));
            let bulk = self.bulk_mut(number).expect("what is aggregating is there");
            (bulk.fence, bulk.take_at) = (fence, Some(until));
            bulks.push(TakenBulk { view: self.bulk_view(number), fence });
        }
        CompletedTaken { bulks, wake_at: self.aggregating.first().map(|(at, _)| *at) }
    }

    /// After the clock stepped back: no aggregation's lease lies further ahead than it could have been given.
    fn lower_far_takes(&mut self, now: Micros) {
        let lease_end = now.plus_ms(LEASE_MS_MAX);
        for _ in 0..CLAMPS_MAX {
            let Some(&(at, number)) = self.aggregating.last() else { break };
            if at <= lease_end {
                break;
            }
            self.aggregating.pop_last();
            self.aggregating.insert((lease_end, number));
            if let Some(bulk) = self.bulk_mut(number) {
                bulk.take_at = Some(lease_end);
            }
        }
    }
}
