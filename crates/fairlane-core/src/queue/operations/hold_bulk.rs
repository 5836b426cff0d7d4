//! `hold_bulk`: the bulk action's jobs are set aside when their turn comes; running ones go on.

use serde::{Deserialize, Serialize};

use crate::numbers::Micros;
use crate::queue::{BulkRef, BulkState, BulkView, Course, Machine};

use super::Invalid;

/// Holds a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldBulk {
    /// Whose and which.
    pub bulk: BulkRef,
}

/// The reply: the bulk action as it stands now, if there is one. One that has ended stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkHeld(pub Option<BulkView>);

impl HoldBulk {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn hold_bulk(&mut self, command: HoldBulk, _: Micros) -> BulkHeld {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkHeld(None) };
        let bulk = &self.bulks[&number];
        if !bulk.state.is_final() && bulk.state != BulkState::Aggregating {
            self.bulk_mut(number).expect("it was just found").course = Course::Hold;
        }
        BulkHeld(Some(self.bulk_view(number)))
    }
}
