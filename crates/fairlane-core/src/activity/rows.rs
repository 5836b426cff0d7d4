//! The rows that a store keeps of the activity log.

use std::collections::BTreeSet;

use crate::hashing::HashSeed;
use crate::kernel::row::{Damage, Restoring, RowSource, rows};
use crate::kernel::{RestoreMode, Restored, Stored};
use crate::names::ActivityId;
use crate::numbers::Micros;

use super::{ActivityEntry, ActivitySubject, Machine, SubjectKind};

rows! {
    /// Rows of the activity log to be removed and to be written.
    pub struct Changes;

    /// A change.
    struct ActivityRow in activity, key 1 {
        at: Micros,
        id: ActivityId,
        actor: String,
        subject_kind: Option<String>,
        subject_name: Option<String>,
        text: String,
        jobs: u64,
    }
}

impl Stored for Machine {
    type Changes = Changes;

    fn record(&mut self) {
        self.touched.get_or_insert_default();
    }

    fn take_changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        let Some(touched) = self.touched.as_mut().map(std::mem::take) else { return changes };
        for at in touched {
            changes.activity.put(self.entries.get(&at).map(ActivityRow::of), || at);
        }
        changes
    }

    fn restore<S: RowSource>(
        source: &mut S,
        _: HashSeed,
        mode: RestoreMode,
    ) -> Result<Option<Restored<Self>>, S::Error> {
        let mut machine = Machine::default();
        let mut rows = Restoring::new(source, mode, "an entry of the activity log");
        rows.read(|row: ActivityRow| machine.add_restored(row.read()?))?;
        machine.now = machine.entries.last_key_value().map_or(Micros::default(), |(at, _)| *at);
        machine.touched = Some(match mode {
            RestoreMode::Strict => BTreeSet::new(),
            RestoreMode::Mend => machine.entries.keys().copied().collect(),
        });
        Ok(rows.finish(machine))
    }
}

impl ActivityRow {
    fn of(entry: &ActivityEntry) -> Self {
        let subject = entry.subject.as_ref();
        Self {
            at: entry.at,
            id: entry.id.clone(),
            actor: entry.actor.clone(),
            subject_kind: subject.map(|subject| subject.kind.as_str().to_owned()),
            subject_name: subject.map(|subject| subject.name.clone()),
            text: entry.text.clone(),
            jobs: entry.jobs,
        }
    }

    fn read(self) -> Result<ActivityEntry, Damage> {
        let Self { at, id, actor, subject_kind, subject_name, text, jobs } = self;
        let subject = match (subject_kind, subject_name) {
            (Some(word), Some(name)) => {
                let kind = SubjectKind::ALL.into_iter().find(|kind| kind.as_str() == word);
                let unknown = || Damage::new(format!("activity.subject_kind: {word:?} is not a kind"));
                Some(ActivitySubject { kind: kind.ok_or_else(unknown)?, name })
            }
            _ => None,
        };
        Ok(ActivityEntry { at, id, actor, subject, text, jobs })
    }
}

impl Machine {
    fn add_restored(&mut self, entry: ActivityEntry) -> Result<(), Damage> {
        if self.times.contains_key(&entry.id) || self.entries.contains_key(&entry.at) {
            return Err(Damage::new(format!("activity: {} is there twice", entry.id)));
        }
        self.add(entry);
        Ok(())
    }
}
