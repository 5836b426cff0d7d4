//! `make_due`: waiting jobs of a group become due now; the way out in a hurry.
//!
//! Waiting jobs of all groups stand in one order, so it is read page by page from its far end: jobs made due
//! move to its front, where they are not met again.

use serde::{Deserialize, Serialize};

use crate::limits::MAKE_DUE_JOBS_MAX;
use crate::names::GroupId;
use crate::numbers::{Micros, within};
use crate::queue::Machine;
use crate::queue::job::{JobKey, Place};

use super::Invalid;

/// Makes jobs due that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeDue {
    /// Whose, or everybody's.
    pub group: Option<GroupId>,
    /// 0 for the first page, then as the reply says.
    pub cursor: u64,
    /// Looks at this many waiting jobs.
    pub jobs_max: usize,
}

/// The reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeDue {
    /// Jobs that are due now.
    pub moved: usize,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

impl MakeDue {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        within("the jobs of one make_due", self.jobs_max as u64, 1, MAKE_DUE_JOBS_MAX as u64)?;
        within("the cursor of make_due", self.cursor, 0, u64::from(u32::MAX))?;
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn make_due(&mut self, command: MakeDue, now: Micros) -> MadeDue {
        let page = self.waiting.iter().rev().skip(command.cursor as usize).take(command.jobs_max);
        let page: Vec<(Micros, JobKey)> = page.map(|((due, _), key)| (*due, *key)).collect();
        let mut moved = 0;
        for &(due, key) in page.iter().filter(|(due, _)| *due > now) {
            let group = &self.groups[self.jobs[key].group].name;
            if command.group.as_ref().is_some_and(|wanted| wanted != group) {
                continue;
            }
            let name = self.place_name(key);
            self.waiting.remove(&(due, name.clone()));
            self.waiting.insert((now, name), key);
            self.jobs[key].place = Place::Waiting(now);
            self.push_token(self.jobs[key].type_key);
            moved += 1;
        }
        let ends = page.len() < command.jobs_max || page.last().is_some_and(|(due, _)| *due <= now);
        let next = command.cursor + (page.len() - moved) as u64;
        MadeDue { moved, next: (!ends).then_some(next) }
    }
}
