//! The whole queue at a glance: what `status` and `top` show.
//!
//! Invariant: however many groups there are, a look costs a bounded number of questions.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fairlane::{BulkView, Error, Fairlane, TypeView, WholeView, warnings_of};
use fairlane_core::TypeId;
use fairlane_core::limits::LIST_GROUPS_MAX;
use fairlane_core::queue::GroupLine;

use crate::tables::counted;

/// Pages of groups that are looked through for the largest.
const GROUP_PAGES_MAX: usize = 20;
/// Paused groups that are named each with a warning.
const PAUSED_NAMED_MAX: usize = 5;

/// How a queue stands.
pub struct Overview {
    /// When it was looked at.
    pub taken: Instant,
    /// The whole.
    pub whole: WholeView,
    /// Types, by name.
    pub types: Vec<TypeSeen>,
    /// Those with the most unfinished jobs.
    pub groups: Vec<GroupSeen>,
    /// Whether there are more groups than were looked through.
    pub more_groups: bool,
    /// Bulk actions of these groups that have not ended.
    pub bulks: Vec<BulkView>,
    /// What somebody should know.
    pub warnings: Vec<String>,
}

/// A type.
pub struct TypeSeen {
    /// Which.
    pub type_id: TypeId,
    /// How it stands.
    pub view: TypeView,
    /// How long ago somebody asked for its jobs.
    pub asked_ms_ago: Option<u64>,
}

/// A group.
pub struct GroupSeen {
    /// Its counts.
    pub line: GroupLine,
    /// How crowded it is.
    pub level: &'static str,
}

impl GroupSeen {
    /// How crowded it is; a pause is why its jobs wait, however crowded it is.
    pub fn standing(&self) -> &'static str {
        if self.line.settings.paused { "paused" } else { self.level }
    }
}

impl Overview {
    /// Looks, at this many groups in detail, and at their bulk actions if those are wanted.
    pub async fn take(fairlane: &Fairlane, groups_max: usize, with_bulks: bool) -> Result<Self, Error> {
        let whole = fairlane.whole().await?;
        let mut types = Vec::new();
        for type_id in &whole.types {
            if let Some(view) = fairlane.job_type(type_id).view().await? {
                let asked_ms_ago = view.asked_at.map(|at| now_ms().saturating_sub(at.as_millis()));
                types.push(TypeSeen { type_id: type_id.clone(), view, asked_ms_ago });
            }
        }
        let Looked { groups: lines, paused, more: more_groups } = look_through(fairlane, groups_max).await?;
        let (mut groups, mut bulks) = (Vec::new(), Vec::new());
        for line in lines {
            let group = fairlane.group(&line.group);
            let level = group.congestion().await?.map_or("NONE", |view| view.level.as_str());
            if with_bulks {
                bulks.extend(group.unfinished_bulks(0, LIST_GROUPS_MAX).await?.0);
            }
            groups.push(GroupSeen { line, level });
        }
        let mut warnings = paused_warnings(&paused);
        warnings.extend(fairlane.engine().warnings());
        warnings.extend(warnings_of(&whole, types.iter().map(|one| (&one.type_id, &one.view))));
        Ok(Self { taken: Instant::now(), whole, types, groups, more_groups, bulks, warnings })
    }

    /// Jobs that downstreams have answered in the last second.
    pub fn answers(&self) -> u64 {
        self.types.iter().map(|one| one.view.answers).sum()
    }
}

/// Groups that were looked through, page by page.
#[derive(Default)]
struct Looked {
    /// Those with the most unfinished jobs.
    groups: Vec<GroupLine>,
    /// Those that are paused with waiting jobs, most first.
    paused: Vec<GroupLine>,
    /// Whether there are groups that were not looked at.
    more: bool,
}

async fn look_through(fairlane: &Fairlane, groups_max: usize) -> Result<Looked, Error> {
    let (mut looked, mut after) = (Looked::default(), None);
    for _ in 0..GROUP_PAGES_MAX {
        let page = fairlane.groups(after.take(), LIST_GROUPS_MAX).await?;
        let is_last = page.len() < LIST_GROUPS_MAX;
        after = page.last().map(|line| line.group.clone());
        looked.paused.extend(page.iter().filter(|line| waits_paused(line)).cloned());
        looked.groups.extend(page);
        looked.groups.sort_by_key(|line| std::cmp::Reverse(line.backlog + line.in_flight));
        looked.groups.truncate(groups_max);
        if is_last {
            looked.more = false;
            break;
        }
        looked.more = true;
    }
    looked.paused.sort_by_key(|line| std::cmp::Reverse(line.backlog));
    Ok(looked)
}

/// Whether jobs of the group wait because it is paused.
pub fn waits_paused(line: &GroupLine) -> bool {
    line.settings.paused && line.backlog > 0
}

/// A sentence for each of these groups, and one for those beyond a few.
pub fn paused_warnings(paused: &[GroupLine]) -> Vec<String> {
    let sentence = |line: &GroupLine| {
        let wait = if line.backlog == 1 { "waits" } else { "wait" };
        format!("{} is paused, {} {wait}", line.group, counted(line.backlog, "job"))
    };
    let mut warnings: Vec<String> = paused.iter().take(PAUSED_NAMED_MAX).map(sentence).collect();
    let others = paused.get(PAUSED_NAMED_MAX..).unwrap_or_default();
    if !others.is_empty() {
        let jobs: u64 = others.iter().map(|line| line.backlog).sum();
        let others = counted(others.len() as u64, "other group");
        warnings.push(format!("{others} paused as well, with {} waiting", counted(jobs, "job")));
    }
    warnings
}

/// The clock of this machine; engines have their own, which is near it.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
