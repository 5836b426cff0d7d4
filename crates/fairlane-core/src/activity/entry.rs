//! One change by an operator.

use serde::{Deserialize, Serialize};

use crate::names::ActivityId;
use crate::numbers::Micros;

/// The kind of thing that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SubjectKind {
    /// A group.
    Group,
    /// A type.
    Type,
    /// A lock.
    Lock,
    /// A waiting room.
    Room,
    /// A ranking board.
    Board,
}

impl SubjectKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Group, Self::Type, Self::Lock, Self::Room, Self::Board];

    /// The name of the kind in stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Group => "Group",
            Self::Type => "Type",
            Self::Lock => "Lock",
            Self::Room => "Room",
            Self::Board => "Board",
        }
    }

    /// The kind in a sentence.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Type => "type",
            Self::Lock => "lock",
            Self::Room => "room",
            Self::Board => "board",
        }
    }
}

/// The thing that was changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActivitySubject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its name, as people write it.
    pub name: String,
}

/// One entry of the activity log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityEntry {
    /// When the change was recorded first. Each entry has a later time than the one before.
    pub at: Micros,
    /// The id that the caller gave it.
    pub id: ActivityId,
    /// Who made the change: the name of a key, or `local`.
    pub actor: String,
    /// What was changed; `None` for the queue itself.
    pub subject: Option<ActivitySubject>,
    /// The change, in words.
    pub text: String,
    /// The number of changed jobs; 0 if the change is not about jobs or if its text names the job.
    pub jobs: u64,
}

impl ActivityEntry {
    /// All fields but the time and the id, as Redis stores them: one per line.
    pub(super) fn text(&self) -> String {
        let (kind, name) = match &self.subject {
            Some(subject) => (subject.kind.as_str(), subject.name.as_str()),
            None => ("", ""),
        };
        format!("{}\n{}\n{kind}\n{name}\n{}", self.jobs, self.actor, self.text)
    }
}
