//! Changes in the activity log.

use fairlane_core::activity::ActivityEntry;
use serde::Serialize;

use super::Time;

/// A change that an operator made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Activity))]
pub struct ActivityView {
    /// When the change was made.
    pub at: Time,
    /// Who made it: the name of a key, or `local` for a user of the machine who needs none.
    #[cfg_attr(feature = "openapi", schema(example = "ada"))]
    pub actor: String,
    /// The kind of thing that was changed: `group`, `type`, `lock`, `room` or `board`; absent for
    /// the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "group"))]
    pub kind: Option<&'static str>,
    /// The name of the thing that was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "customer-7"))]
    pub name: Option<String>,
    /// The change, in words.
    #[cfg_attr(feature = "openapi", schema(example = "weight 3, paused"))]
    pub text: String,
    /// The number of jobs that were changed, if there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
}

impl From<ActivityEntry> for ActivityView {
    fn from(entry: ActivityEntry) -> Self {
        let (kind, name) = match entry.subject {
            Some(subject) => (Some(subject.kind.word()), Some(subject.name)),
            None => (None, None),
        };
        let jobs = Some(entry.jobs).filter(|jobs| *jobs > 0);
        Self { at: Time(entry.at), actor: entry.actor, kind, name, text: entry.text, jobs }
    }
}
