//! A snapshot of the queue: what `status` and `top` show.
//!
//! Invariant: a snapshot takes a bounded number of requests, however many groups there are.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fairlane::{BulkView, CongestionView, Error, Fairlane, GroupLine, Micros, QueueState};
use fairlane_core::limits::LIST_GROUPS_MAX;

use crate::tables::counted;

/// Pages of groups that are scanned for the largest groups.
const GROUP_PAGES_MAX: usize = 20;
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
    /// Whether there are more groups than were scanned.
    pub more_groups: bool,
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
        let GroupScan { largest, paused, more: more_groups } = scan_groups(fairlane, groups_max).await?;
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
        Ok(Self { taken_at: Instant::now(), state, groups, more_groups, bulks })
    }
}

/// The result of a page-by-page scan of the groups.
#[derive(Default)]
struct GroupScan {
    /// The groups with the most unfinished jobs.
    largest: Vec<GroupLine>,
    /// Paused groups with waiting jobs, most jobs first.
    paused: Vec<GroupLine>,
    /// Whether there are groups that were not scanned.
    more: bool,
}

async fn scan_groups(fairlane: &Fairlane, groups_max: usize) -> Result<GroupScan, Error> {
    let (mut scan, mut after) = (GroupScan::default(), None);
    for _ in 0..GROUP_PAGES_MAX {
        let page = fairlane.groups(after.take(), LIST_GROUPS_MAX).await?;
        let is_last = page.len() < LIST_GROUPS_MAX;
        after = page.last().map(|line| line.group.clone());
        scan.paused.extend(page.iter().filter(|line| is_held_up_by_pause(line)).cloned());
        scan.largest.extend(page);
        scan.largest.sort_by_key(|line| std::cmp::Reverse(line.backlog + line.in_flight));
        scan.largest.truncate(groups_max);
        if is_last {
            scan.more = false;
            break;
        }
        scan.more = true;
    }
    scan.paused.sort_by_key(|line| std::cmp::Reverse(line.backlog));
    Ok(scan)
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
