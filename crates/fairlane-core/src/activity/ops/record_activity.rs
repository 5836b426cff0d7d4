//! `record_activity`: adds a change to the activity log, or raises the job count of an existing
//! entry.

use serde::{Deserialize, Serialize};

use crate::activity::{ActivityEntry, ActivitySubject, Machine};
use crate::kernel::operation::line_of;
use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{ACTIVITY_NAME_BYTES_MAX, ACTIVITY_TEXT_BYTES_MAX, INTEGER_MAX, NAME_BYTES_MAX};
use crate::names::ActivityId;
use crate::numbers::{Micros, within};

/// Records a change. Repeating the id changes only the number of jobs, which becomes the larger of
/// both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordActivity {
    /// The id of the entry, chosen by the caller and never used for another change.
    pub id: ActivityId,
    /// Who made the change.
    pub actor: String,
    /// What was changed; `None` for the queue itself.
    pub subject: Option<ActivitySubject>,
    /// The change, in words.
    pub text: String,
    /// The number of jobs changed so far; 0 if the change is not about jobs or if its text names
    /// the job.
    pub jobs: u64,
}

/// The reply to [`RecordActivity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityRecorded {
    /// The time of the entry.
    pub at: Micros,
}

impl Operation for RecordActivity {
    type Machine = Machine;
    type Reply = ActivityRecorded;

    const STEM: &'static str = "record_activity";

    fn validate(&self) -> Result<(), Invalid> {
        line_of("the actor of a change", &self.actor, NAME_BYTES_MAX)?;
        line_of("the text of a change", &self.text, ACTIVITY_TEXT_BYTES_MAX)?;
        if let Some(subject) = &self.subject {
            line_of("the name of a changed thing", &subject.name, ACTIVITY_NAME_BYTES_MAX)?;
        }
        within("the jobs of a change", self.jobs, 0, INTEGER_MAX)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> ActivityRecorded {
        let Self { id, actor, subject, text, jobs } = self;
        if let Some(at) = machine.times.get(&id).copied() {
            if let Some(entry) = machine.entries.get_mut(&at).filter(|entry| entry.jobs < jobs) {
                entry.jobs = jobs;
                machine.touch(at);
            }
            return ActivityRecorded { at };
        }
        let newest = machine.entries.last_key_value().map_or(0, |(at, _)| at.0);
        let at = Micros((newest + 1).max(context.now.0));
        machine.add(ActivityEntry { at, id, actor, subject, text, jobs });
        ActivityRecorded { at }
    }
}
