//! The groups with the most unfinished jobs.
//!
//! The engine has an index of groups by the magnitude of their backlog, so the largest are read in a
//! few pages, however many groups there are. Pages that are shown at the same time share one
//! reading.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlane::GroupLine;
use fairlane_core::GroupId;
use fairlane_core::limits::LIST_GROUPS_MAX;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::app::Shared;
use crate::problem::Problem;

/// Number of largest groups that are read.
pub(super) const KEPT_MAX: usize = 1000;
/// Most pages that are read for them. The engine ends a page early instead of searching for long.
const PAGES_MAX: usize = 4;
/// Most paused groups that are kept.
const PAUSED_MAX: usize = 100;
/// How long a ranking is reused.
const USED_FOR: Duration = Duration::from_secs(2);
/// The greatest age of the previous ranking from which throughput is measured and the small charts
/// continue.
const COMPARED_WITHIN: Duration = Duration::from_secs(30);
/// Most values in a group's small chart.
const TREND_MAX: usize = 30;

/// The largest groups at one moment.
#[derive(Default)]
pub(super) struct Ranking {
    /// The largest groups, the largest first.
    pub groups: Vec<Ranked>,
    /// Paused groups among them, the largest first.
    pub paused: Vec<GroupId>,
    /// Whether there are more groups than these.
    pub has_more: bool,
    /// The sum of the weights of those groups that have a backlog.
    weights: u64,
    /// Jobs of these groups that ended per second since the previous ranking.
    ended_per_second: f64,
}

/// One group of the ranking.
#[derive(Clone)]
pub(super) struct Ranked {
    pub line: GroupLine,
    /// Jobs that ended per second since the previous ranking; `None` in the first one.
    pub ended_per_second: Option<f64>,
    /// The backlog in the last rankings, oldest first.
    pub trend: VecDeque<u64>,
}

impl Ranking {
    /// The share of the work that a group got, and the share that its weight entitles it to.
    pub fn share(&self, ranked: &Ranked) -> Option<(f64, f64)> {
        let got = ranked.ended_per_second? / self.ended_per_second.max(f64::MIN_POSITIVE);
        let weight = ranked.line.settings.weight.get();
        let is_busy = self.ended_per_second > 0.0 && self.weights > 0 && ranked.line.backlog > 0;
        is_busy.then(|| (got.min(1.0), weight as f64 / self.weights as f64))
    }

    /// The group of this name, if it is among the largest.
    pub fn find(&self, group: &GroupId) -> Option<&Ranked> {
        self.groups.iter().find(|ranked| ranked.line.group == *group)
    }
}

/// The latest ranking.
#[derive(Default)]
pub(super) struct Largest {
    /// The ranking and its time; locked while the next one is read.
    latest: Mutex<Option<(Instant, Arc<Ranking>)>>,
    /// Whether a change was made since the ranking was read.
    is_outdated: AtomicBool,
}

impl Largest {
    /// The latest ranking, which is at most two seconds old and not older than the last change
    /// through this server.
    pub async fn ranking(app: &Shared) -> Result<Arc<Ranking>, Problem> {
        let largest = &app.dashboard.largest;
        let mut latest = largest.latest.lock().await;
        let is_outdated = largest.is_outdated.swap(false, Ordering::AcqRel);
        if let Some((at, ranking)) = &*latest
            && at.elapsed() < USED_FOR
            && !is_outdated
        {
            return Ok(ranking.clone());
        }
        let start = Instant::now();
        let mut ranking = read(app).await?;
        let before = latest.take().filter(|(at, _)| at.elapsed() < COMPARED_WITHIN);
        ranking.continue_from(before, start);
        let ranking = Arc::new(ranking);
        *latest = Some((start, ranking.clone()));
        Ok(ranking)
    }

    /// Makes the next page read a new ranking.
    pub fn outdate(&self) {
        self.is_outdated.store(true, Ordering::Release);
    }
}

async fn read(app: &Shared) -> Result<Ranking, fairlane::Error> {
    let (mut lines, mut after, mut has_more) = (Vec::new(), None, false);
    for _ in 0..PAGES_MAX {
        let limit = (KEPT_MAX - lines.len()).min(LIST_GROUPS_MAX);
        // Charged to no key: many readers share the ranking.
        let page = app.uncharged.largest_groups(after, limit).await?;
        lines.extend(page.groups);
        after = page.next;
        has_more = after.is_some();
        if !has_more || lines.len() == KEPT_MAX {
            break;
        }
    }
    Ok(Ranking::new(lines, has_more))
}

impl Ranking {
    fn new(mut lines: Vec<GroupLine>, has_more: bool) -> Self {
        lines.sort_by_cached_key(|line| (line.group.clone(), Reverse(line.backlog)));
        // A group that moved between two pages may be listed twice.
        lines.dedup_by(|one, other| one.group == other.group);
        lines.sort_by_key(|line| Reverse(line.backlog + line.in_flight));
        let weights = lines.iter().filter(|line| line.backlog > 0).map(|line| line.settings.weight.get());
        let paused = lines.iter().filter(|line| line.settings.paused).take(PAUSED_MAX);
        Self {
            has_more,
            weights: weights.sum(),
            paused: paused.map(|line| line.group.clone()).collect(),
            ended_per_second: 0.0,
            groups: lines
                .into_iter()
                .map(|line| Ranked { trend: VecDeque::from([line.backlog]), line, ended_per_second: None })
                .collect(),
        }
    }

    /// Measures the throughput since the previous ranking, and continues its charts.
    fn continue_from(&mut self, before: Option<(Instant, Arc<Self>)>, start: Instant) {
        let Some((at, before)) = before else { return };
        let over = start.duration_since(at).as_secs_f64().max(0.001);
        let known: HashMap<&GroupId, &Ranked> =
            before.groups.iter().map(|ranked| (&ranked.line.group, ranked)).collect();
        for ranked in &mut self.groups {
            let earlier = known.get(&ranked.line.group);
            let done = earlier.map_or(ranked.line.done, |earlier| earlier.line.done);
            // The count restarts when a group was idle in between.
            ranked.ended_per_second = Some(ranked.line.done.saturating_sub(done) as f64 / over);
            let trend = earlier.into_iter().flat_map(|earlier| earlier.trend.iter().copied());
            ranked.trend = trend.chain(ranked.trend.iter().copied()).collect();
            while ranked.trend.len() > TREND_MAX {
                ranked.trend.pop_front();
            }
        }
        self.ended_per_second = self.groups.iter().filter_map(|ranked| ranked.ended_per_second).sum();
    }
}

#[cfg(test)]
mod tests {
    use fairlane_core::queue::GroupSettings;

    use super::*;

    fn line(group: &str, backlog: u64, done: u64) -> GroupLine {
        let group = GroupId::new(group).unwrap();
        let settings = GroupSettings::default();
        GroupLine { group, backlog, in_flight: 0, waiting: 0, total: 0, done, backoff_ms: 0, settings }
    }

    #[tokio::test(start_paused = true)]
    async fn a_ranking_is_sorted_exactly_and_continues_the_one_before() {
        let start = Instant::now();
        let first = Ranking::new(vec![line("a", 8, 0), line("b", 15, 0), line("a", 8, 0)], false);
        let names = |ranking: &Ranking| {
            ranking.groups.iter().map(|ranked| ranked.line.group.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&first), ["b", "a"]);
        assert_eq!(first.share(&first.groups[0]), None, "one ranking measures nothing");
        let mut second = Ranking::new(vec![line("a", 20, 30), line("b", 5, 10)], false);
        second.continue_from(Some((start, Arc::new(first))), start + Duration::from_secs(2));
        assert_eq!(names(&second), ["a", "b"]);
        assert_eq!(
            (&second.groups[0].trend, second.groups[0].ended_per_second),
            (&[8, 20].into(), Some(15.0))
        );
        assert_eq!(second.share(&second.groups[0]), Some((0.75, 0.5)));
    }
}
