//! The groups with the most unfinished jobs.
//!
//! The engine lists groups by name. A scan goes through them page by page, at a pace that does not
//! depend on their number, and keeps the largest. So what is shown may be as old as one scan, and the
//! pages say how long it takes. Nothing is scanned while no page asks for it.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairlane::GroupLine;
use fairlane_core::GroupId;
use fairlane_core::limits::LIST_GROUPS_MAX;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::app::Shared;

/// Groups that are kept: the largest.
pub(super) const KEPT_MAX: usize = 1000;
/// Paused groups that are kept.
const PAUSED_MAX: usize = 100;
/// The pace: one page of groups in this time.
const PAGE_EVERY: Duration = Duration::from_millis(100);
/// The shortest time between the beginnings of two scans.
const SCAN_EVERY: Duration = Duration::from_secs(2);
/// How long scans continue after the last request.
const LINGER: Duration = Duration::from_secs(30);
/// How long a request waits for the first scan.
const FIRST_WITHIN: Duration = Duration::from_millis(150);
/// Values of a group's small chart.
const TREND_MAX: usize = 30;

/// The result of a scan.
#[derive(Default)]
pub(super) struct Ranking {
    /// The largest groups, the largest first.
    pub groups: Vec<Ranked>,
    /// Paused groups with unfinished jobs, by name.
    pub paused: Vec<GroupId>,
    /// All groups that were scanned.
    pub scanned: u64,
    /// The weights of all groups with jobs in their backlog.
    weights: u64,
    /// Jobs of all groups that have ended per second since the scan before.
    ended_per_second: f64,
    /// How long the scan took.
    pub took: Duration,
}

/// One group of the ranking.
#[derive(Clone)]
pub(super) struct Ranked {
    pub line: GroupLine,
    /// Jobs that have ended per second since the scan before; `None` in the first scan.
    pub ended_per_second: Option<f64>,
    /// The backlog in the last scans, oldest first.
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

/// The latest ranking, and whether a scan is running.
#[derive(Default)]
pub(super) struct Largest {
    latest: watch::Sender<Option<Arc<Ranking>>>,
    scanning: Mutex<Scanning>,
}

#[derive(Default)]
struct Scanning {
    is_running: bool,
    asked_at: Option<Instant>,
}

impl Largest {
    /// The latest ranking; `None` while the first scan is running.
    pub async fn ranking(app: &Shared) -> Option<Arc<Ranking>> {
        let largest = &app.dashboard.largest;
        let is_new = {
            let mut scanning = largest.scanning.lock().unwrap_or_else(PoisonError::into_inner);
            scanning.asked_at = Some(Instant::now());
            !std::mem::replace(&mut scanning.is_running, true)
        };
        let mut latest = largest.latest.subscribe();
        if is_new {
            latest.mark_unchanged();
            tokio::spawn(scan(app.clone()));
            // With few groups, the page has them at once.
            let _ = tokio::time::timeout(FIRST_WITHIN, latest.changed()).await;
        }
        latest.borrow().clone()
    }

    fn is_asked(&self) -> bool {
        let mut scanning = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        scanning.is_running = scanning.asked_at.is_some_and(|at| at.elapsed() < LINGER);
        scanning.is_running
    }
}

async fn scan(app: Shared) {
    let largest = &app.dashboard.largest;
    let mut before = Before::default();
    loop {
        let start = Instant::now();
        match scan_once(&app, &mut before, start).await {
            Ok(ranking) => {
                largest.latest.send_replace(Some(Arc::new(ranking)));
            }
            Err(error) => tracing::warn!(target: "fairlane", %error, "the groups could not be listed"),
        }
        let rest = SCAN_EVERY.saturating_sub(start.elapsed());
        let has_stopped = app.stopping.run_until_cancelled(sleep(rest)).await.is_none();
        if has_stopped || !largest.is_asked() {
            // An old ranking would look like a new one to the next visitor.
            largest.latest.send_replace(None);
            return;
        }
    }
}

/// The scan before, to measure throughput.
#[derive(Default)]
struct Before {
    at: Option<Instant>,
    /// Of the kept groups: their ended jobs, and the trend of their backlog.
    kept: HashMap<GroupId, (u64, VecDeque<u64>)>,
}

async fn scan_once(app: &Shared, before: &mut Before, start: Instant) -> Result<Ranking, fairlane::Error> {
    let mut ranking = Ranking::default();
    let mut after = None;
    loop {
        // The worker's engine charges no key: many readers share the scan.
        let page = app.worker_engine.list_groups(after.take(), LIST_GROUPS_MAX).await?;
        let is_last = page.len() < LIST_GROUPS_MAX;
        after = page.last().map(|line| line.group.clone());
        ranking.add(page, before, start);
        if is_last {
            break;
        }
        tokio::select! {
            () = app.stopping.cancelled() => break,
            () = sleep(PAGE_EVERY) => {}
        }
    }
    ranking.took = start.elapsed();
    ranking.ended_per_second = ranking.groups.iter().filter_map(|ranked| ranked.ended_per_second).sum();
    before.at = Some(start);
    let kept = |ranked: &Ranked| (ranked.line.group.clone(), (ranked.line.done, ranked.trend.clone()));
    before.kept = ranking.groups.iter().map(kept).collect();
    Ok(ranking)
}

impl Ranking {
    fn add(&mut self, page: Vec<GroupLine>, before: &mut Before, start: Instant) {
        self.scanned += page.len() as u64;
        let over = before.at.map(|at| start.duration_since(at).as_secs_f64().max(0.001));
        for line in page {
            if line.backlog > 0 {
                self.weights += line.settings.weight.get();
            }
            if line.settings.paused && self.paused.len() < PAUSED_MAX {
                self.paused.push(line.group.clone());
            }
            let (done, mut trend) = before.kept.remove(&line.group).unwrap_or((line.done, VecDeque::new()));
            trend.push_back(line.backlog);
            if trend.len() > TREND_MAX {
                trend.pop_front();
            }
            // A group that was idle in between begins to count again.
            let ended_per_second = over.map(|over| line.done.saturating_sub(done) as f64 / over);
            self.groups.push(Ranked { line, ended_per_second, trend });
        }
        self.groups.sort_by_cached_key(|ranked| {
            let line = &ranked.line;
            (Reverse(line.backlog + line.in_flight), line.group.clone())
        });
        self.groups.truncate(KEPT_MAX);
    }
}
