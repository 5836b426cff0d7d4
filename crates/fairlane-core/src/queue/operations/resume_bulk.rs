//! `resume_bulk`: a held bulk action's jobs run again; those set aside go before the rest of their lanes.

use serde::{Deserialize, Serialize};

use crate::numbers::Micros;
use crate::queue::{BulkRef, BulkView, Course, Machine};

use super::Invalid;

/// Resumes a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeBulk {
    /// Whose and which.
    pub bulk: BulkRef,
}

/// The reply: the bulk action as it stands now, if there is one. One that has ended stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkResumed(pub Option<BulkView>);

impl ResumeBulk {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn resume_bulk(&mut self, command: ResumeBulk, _: Micros) -> BulkResumed {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkResumed(None) };
        let bulk = &self.bulks[&number];
        if bulk.course == Course::Hold && !bulk.state.is_final() {
            let set_aside = !bulk.on_hold.is_empty();
            self.bulk_mut(number).expect("it was just found").course = Course::Run;
            if set_aside {
                self.sweep_later(number);
            }
        }
        BulkResumed(Some(self.bulk_view(number)))
    }
}
