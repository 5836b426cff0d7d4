//! `make_due`: makes waiting jobs of a group due now, for operators that cannot wait for a backoff.
//!
//! The waiting jobs of all groups share one order, which is read page by page from its far end.
//! Jobs made due move to the front and are not read again.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::MAKE_DUE_JOBS_MAX;
use crate::names::GroupId;
use crate::numbers::{Micros, within};
use crate::queue::Machine;
use crate::queue::job::{JobKey, Place};

/// Makes waiting jobs due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeDue {
    /// The group; `None` for all groups.
    pub group: Option<GroupId>,
    /// The cursor: 0 for the first page, then [`MadeDue::next`].
    pub cursor: u64,
    /// The most waiting jobs to read.
    pub jobs_max: usize,
}

/// The reply to [`MakeDue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeDue {
    /// Number of jobs that were made due.
    pub moved: usize,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<u64>,
}

impl Operation for MakeDue {
    type Machine = Machine;
    type Reply = MadeDue;

    const STEM: &'static str = "make_due";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the jobs of one make_due", self.jobs_max, MAKE_DUE_JOBS_MAX)?;
        within("the cursor of make_due", self.cursor, 0, u64::from(u32::MAX))?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::group_or_all(Permission::Operate, self.group.as_ref())
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.jobs_max)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> MadeDue {
        machine.make_due(self, context.now)
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
