//! Methods for the activity log.

use fairlane_core::activity::*;
use fairlane_core::{ActivityId, Micros};

use super::Subject;

/// A change without jobs.
pub fn change(id: &str, actor: &str, subject: Option<(SubjectKind, &str)>, text: &str) -> RecordActivity {
    let subject = subject.map(|(kind, name)| ActivitySubject { kind, name: name.to_owned() });
    let id = ActivityId::new(id).expect("a valid id");
    RecordActivity { id, actor: actor.to_owned(), subject, text: text.to_owned(), jobs: 0 }
}

impl Subject {
    /// Records a change and returns its time.
    pub async fn record_change(&self, change: RecordActivity) -> Micros {
        self.engine.call(change).await.expect("record_activity is answered").at
    }

    /// A page of changes.
    pub async fn activity(
        &self,
        before: Option<Micros>,
        subject: Option<ActivitySubject>,
        limit: usize,
    ) -> ActivityListed {
        let command = ListActivity { before, subject, limit };
        self.engine.call(command).await.expect("list_activity is answered")
    }
}
