//! A snapshot of the queue: what `status` and `top` show.
//!
//! Invariant: a snapshot takes a bounded number of requests, however many groups there are.

use std::collections::BTreeSet;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fairlane::{BulkView, CongestionView, Error, Fairlane, GroupLine, Micros, QueueState};
use fairlane_core::limits::LIST_GROUPS_MAX;

use crate::pages::read_pages;
use crate::tables::counted;

/// Groups that are read: the largest. Among them, the order is exact and paused ones are found.
const GROUPS_READ_MIN: usize = 1000;
/// Paused groups that get a warning of their own.
const PAUSED_NAMED_MAX: usize = 5;

/// A snapshot of a queue.
pub struct Overview {
    /// When the snapshot was taken.
    pub taken_at: Instant,
    /// Counts, settings and types of the queue, and warnings about it and its paused groups.
    pub state: QueueState,
    /// The groups with the most unfinished jobs.
    pub groups: Vec<GroupOverview>,
    /// Bulk actions of these groups that have not ended.
    pub bulks: Vec<BulkView>,
}

/// A group in the snapshot.
pub struct GroupOverview {
    /// The group's counts and settings.
    pub line: GroupLine,
    /// The group's congestion; `None` if the group is gone.
    pub congestion: Option<CongestionView>,
}

impl GroupOverview {
    /// `paused`, which is why jobs wait whatever the congestion is; else the congestion level.
    pub fn status(&self) -> &'static str {
        match &self.congestion {
            _ if self.line.settings.paused => "paused",
            Some(congestion) => congestion.level.as_str(),
            None => "NONE",
        }
    }
}

impl Overview {
    /// Takes a snapshot with at most `groups_max` groups, and optionally their bulk actions.
    pub async fn take(fairlane: &Fairlane, groups_max: usize, with_bulks: bool) -> Result<Self, Error> {
        let mut state = fairlane.state().await?;
        let mut largest = largest_groups(fairlane, groups_max.max(GROUPS_READ_MIN)).await?;
        let paused: Vec<GroupLine> =
            largest.iter().filter(|line| is_held_up_by_pause(line)).cloned().collect();
        largest.truncate(groups_max);
        let (mut groups, mut bulks) = (Vec::new(), Vec::new());
        for line in largest {
            let group = fairlane.group(&line.group);
            let congestion = group.congestion().await?;
            if with_bulks {
                bulks.extend(group.unfinished_bulks(0, LIST_GROUPS_MAX).await?.0);
            }
            groups.push(GroupOverview { line, congestion });
        }
        state.warnings.splice(0..0, paused_warnings(&paused));
        Ok(Self { taken_at: Instant::now(), state, groups, bulks })
    }
}

/// About this many of the groups with the largest backlogs, those with the most unfinished jobs first.
async fn largest_groups(fairlane: &Fairlane, count: usize) -> Result<Vec<GroupLine>, Error> {
    let read = async |after, most| {
        let page = fairlane.largest_groups(after, most).await?;
        Ok::<_, Error>((page.groups, page.next))
    };
    let mut lines = read_pages(count, LIST_GROUPS_MAX, read).await?;
    // A group that moved while the list was read may be there twice.
    let mut seen = BTreeSet::new();
    lines.retain(|line: &GroupLine| seen.insert(line.group.clone()));
    lines.sort_by_key(|line| std::cmp::Reverse(line.backlog + line.in_flight));
    Ok(lines)
}

/// Whether jobs of the group wait because it is paused.
pub fn is_held_up_by_pause(line: &GroupLine) -> bool {
    line.settings.paused && line.backlog > 0
}

/// A warning for each of the first few groups, and one for the others.
pub fn paused_warnings(paused: &[GroupLine]) -> Vec<String> {
    let sentence = |line: &GroupLine| {
        let wait = if line.backlog == 1 { "waits" } else { "wait" };
        format!("{} is paused, {} {wait}", line.group, counted(line.backlog, "job"))
    };
    let mut warnings: Vec<String> = paused.iter().take(PAUSED_NAMED_MAX).map(sentence).collect();
    let others = paused.get(PAUSED_NAMED_MAX..).unwrap_or_default();
    if !others.is_empty() {
        let jobs: u64 = others.iter().map(|line| line.backlog).sum();
        let are = if others.len() == 1 { "is" } else { "are" };
        let others = counted(others.len() as u64, "other group");
        warnings.push(format!("{others} {are} paused as well, with {} waiting", counted(jobs, "job")));
    }
    warnings
}

/// How long ago this was by the clock of this machine, in milliseconds. An engine has its own clock,
/// which is close.
pub fn ms_since(at: Micros) -> u64 {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    now_ms.saturating_sub(at.as_millis())
}
