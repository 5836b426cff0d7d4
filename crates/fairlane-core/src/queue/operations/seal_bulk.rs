//! `seal_bulk`: no more jobs come, so the bulk action can become complete.

use serde::{Deserialize, Serialize};

use crate::limits::INTEGER_MAX;
use crate::numbers::{Micros, within};
use crate::queue::{BulkRef, BulkView, Machine};

use super::Invalid;

/// Seals a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealBulk {
    /// Whose and which.
    pub bulk: BulkRef,
    /// How many jobs the producer has added; with any other number it stays open.
    pub expected: Option<u64>,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkSealed {
    /// It is sealed, now or since before.
    Sealed(BulkView),
    /// It has another number of jobs than the producer thinks; it stays open.
    Mismatch {
        /// How many it has.
        total: u64,
    },
    /// There is no such bulk action.
    Unknown,
}

impl SealBulk {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        within("the expected jobs of a bulk action", self.expected.unwrap_or(0), 0, INTEGER_MAX - 1)?;
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn seal_bulk(&mut self, command: SealBulk, _: Micros) -> BulkSealed {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkSealed::Unknown };
        let bulk = &self.bulks[&number];
        if bulk.sealed {
            return BulkSealed::Sealed(self.bulk_view(number));
        }
        if command.expected.is_some_and(|expected| expected != bulk.total) {
            return BulkSealed::Mismatch { total: bulk.total };
        }
        self.bulk_mut(number).expect("it was just found").sealed = true;
        self.review_bulk(number);
        BulkSealed::Sealed(self.bulk_view(number))
    }
}
