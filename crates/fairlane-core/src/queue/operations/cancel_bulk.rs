//! `cancel_bulk`: answers at once, however many jobs there are; they are dropped when their turn comes or by `sweep`.
//!
//! When the last has ended it is handed out for aggregation. Where it was in an aggregator's hands already, it is
//! handed out anew.

use serde::{Deserialize, Serialize};

use crate::numbers::Micros;
use crate::queue::{BulkRef, BulkState, BulkView, Machine};

use super::Invalid;

/// Cancels a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelBulk {
    /// Whose and which.
    pub bulk: BulkRef,
}

/// The reply: the bulk action as it stands now, if there is one. One that has ended stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkCancelled(pub Option<BulkView>);

impl CancelBulk {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn cancel_bulk(&mut self, command: CancelBulk, _: Micros) -> BulkCancelled {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkCancelled(None) };
        let bulk = &self.bulks[&number];
        if !bulk.state.is_final() {
            self.drop_bulk(number, BulkState::Cancelled);
        }
        BulkCancelled(Some(self.bulk_view(number)))
    }
}
