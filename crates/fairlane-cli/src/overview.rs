//! The whole queue at a glance: what `status` and `top` show.
//!
//! Invariant: however many groups there are, a look costs a bounded number of questions.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fairlane::{BulkView, Error, Fairlane, TypeView, WholeView, warnings_of};
use fairlane_core::TypeId;
use fairlane_core::limits::LIST_GROUPS_MAX;
use fairlane_core::queue::GroupLine;

/// Pages of groups that are looked through for the largest.
const GROUP_PAGES_MAX: usize = 20;

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
        let (lines, more_groups) = largest(fairlane, groups_max).await?;
        let (mut groups, mut bulks) = (Vec::new(), Vec::new());
        for line in lines {
            let group = fairlane.group(&line.group);
            let level = group.congestion().await?.map_or("NONE", |view| view.level.as_str());
            if with_bulks {
                bulks.extend(group.unfinished_bulks(0, LIST_GROUPS_MAX).await?.0);
            }
            groups.push(GroupSeen { line, level });
        }
        let mut warnings = fairlane.engine().warnings();
        warnings.extend(warnings_of(&whole, types.iter().map(|one| (&one.type_id, &one.view))));
        Ok(Self { taken: Instant::now(), whole, types, groups, more_groups, bulks, warnings })
    }

    /// Jobs that downstreams have answered in the last second.
    pub fn answers(&self) -> u64 {
        self.types.iter().map(|one| one.view.answers).sum()
    }
}

/// The groups with the most unfinished jobs, and whether there are some that were not looked at.
async fn largest(fairlane: &Fairlane, groups_max: usize) -> Result<(Vec<GroupLine>, bool), Error> {
    let (mut groups, mut after): (Vec<GroupLine>, _) = (Vec::new(), None);
    for _ in 0..GROUP_PAGES_MAX {
        let page = fairlane.groups(after.take(), LIST_GROUPS_MAX).await?;
        let is_last = page.len() < LIST_GROUPS_MAX;
        after = page.last().map(|line| line.group.clone());
        groups.extend(page);
        groups.sort_by_key(|line| std::cmp::Reverse(line.backlog + line.in_flight));
        groups.truncate(groups_max);
        if is_last {
            return Ok((groups, false));
        }
    }
    Ok((groups, true))
}

/// The clock of this machine; engines have their own, which is near it.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
