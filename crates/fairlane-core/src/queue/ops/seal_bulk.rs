//! `seal_bulk`: closes a bulk action for new jobs, so that it can become complete.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::INTEGER_MAX;
use crate::numbers::{Micros, within};
use crate::queue::{BulkRef, BulkView, Machine};

/// Seals a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealBulk {
    /// The bulk action, by group and id.
    pub bulk: BulkRef,
    /// The number of jobs that the producer has added. If it differs, the bulk action stays open.
    pub expected: Option<u64>,
}

/// The reply to [`SealBulk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkSealed {
    /// The bulk action is sealed, by this command or an earlier one.
    Sealed(BulkView),
    /// The bulk action has another number of jobs than expected; it stays open.
    Mismatch {
        /// The actual number of jobs.
        total: u64,
    },
    /// The bulk action does not exist.
    Unknown,
}

impl Operation for SealBulk {
    type Machine = Machine;
    type Reply = BulkSealed;

    const STEM: &'static str = "seal_bulk";

    fn validate(&self) -> Result<(), Invalid> {
        within("the expected jobs of a bulk action", self.expected.unwrap_or(0), 0, INTEGER_MAX - 1)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Produce, &self.bulk.group)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BulkSealed {
        machine.seal_bulk(self, context.now)
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
