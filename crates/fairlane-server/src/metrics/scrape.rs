//! Gauges of the queue, as text for Prometheus.
//!
//! They are read when `/metrics` is scraped, at most once a second, and for a bounded number of
//! groups: those with the largest backlogs. The engine has an index of them, so the cost of a
//! scrape does not grow with the number of groups.
//!
//! Invariant: each scrape records into a recorder of its own, so that it shows only what it has
//! read: no group that has left the list, and no gauge of an engine that does not reply.

use std::collections::BTreeSet;
use std::time::Duration;

use fairlane::{Error, Fairlane, GroupId, LargestGroups, TypeId};
use fairlane_core::limits::{LIST_BOARDS_MAX, LIST_GROUPS_MAX, LIST_ROOMS_MAX};
use fairlane_engine::observe;
use metrics::{Unit, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use tokio::time::{Instant, timeout_at};

use super::ENGINE_UP;

/// How long a scrape is reused.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// The longest time that a scrape takes; Prometheus waits ten seconds by default.
const SCRAPE_WITHIN: Duration = Duration::from_secs(5);
/// Most pages of groups that one scrape reads. The engine ends a page early instead of searching
/// for long.
const PAGES_MAX: usize = 4;

/// The last scrape.
#[derive(Default)]
pub(super) struct Scrape {
    at: Option<Instant>,
    text: String,
}

/// The recorder of one scrape.
struct Recorder(PrometheusRecorder);

impl Recorder {
    fn new() -> Self {
        let recorder = Self(PrometheusBuilder::new().build_recorder());
        recorder.record(|| {
            observe::describe();
            metrics::describe_gauge!(
                ENGINE_UP,
                Unit::Count,
                "1 while the engine replies and accepts writes, otherwise 0."
            );
        });
        recorder
    }

    fn record(&self, set: impl FnOnce()) {
        metrics::with_local_recorder(&self.0, set);
    }
}

impl Scrape {
    /// The gauges of the queue, at most a second old. If the engine does not reply, only
    /// [`ENGINE_UP`].
    pub async fn text(&mut self, fairlane: &Fairlane, accepts_writes: bool, groups_max: usize) -> String {
        if self.at.is_none_or(|at| at.elapsed() >= SCRAPE_EVERY) {
            self.text = scrape(fairlane, accepts_writes, groups_max).await;
            self.at = Some(Instant::now());
        }
        self.text.clone()
    }
}

async fn scrape(fairlane: &Fairlane, accepts_writes: bool, groups_max: usize) -> String {
    let (recorder, deadline) = (Recorder::new(), Instant::now() + SCRAPE_WITHIN);
    let is_up = match timeout_at(deadline, fairlane.queue_view()).await {
        Ok(Ok(queue)) => {
            recorder.record(|| observe::gauges(&queue));
            // Gauges that cannot be read in time are omitted. The engine counts and logs commands
            // that fail.
            let details = scrape_details(fairlane, &queue.types, groups_max, &recorder);
            let _ = timeout_at(deadline, details).await;
            true
        }
        _ => false,
    };
    recorder.record(|| gauge!(ENGINE_UP).set(f64::from(u8::from(is_up && accepts_writes))));
    recorder.0.handle().render()
}

async fn scrape_details(
    fairlane: &Fairlane,
    types: &[TypeId],
    groups_max: usize,
    recorder: &Recorder,
) -> Result<(), Error> {
    // The user of a Redis may lack the permission to read it.
    if let Ok(Some(space)) = fairlane.engine().admin().space().await {
        recorder.record(|| observe::space_gauges(space));
    }
    for type_id in types {
        if let Some(view) = fairlane.job_type(type_id).view().await? {
            recorder.record(|| observe::type_gauges(type_id, &view));
        }
    }
    // The user of a Redis may lack the permission for the keys of rooms or boards, which it does
    // not use.
    let rooms = fairlane.rooms(None, LIST_ROOMS_MAX).await;
    for view in rooms.map(|listed| listed.rooms).unwrap_or_default() {
        recorder.record(|| observe::room_gauges(&view));
    }
    let boards = fairlane.rankings(None, LIST_BOARDS_MAX).await;
    for view in boards.map(|listed| listed.boards).unwrap_or_default() {
        recorder.record(|| observe::board_gauges(&view));
    }
    for name in largest_groups(fairlane, groups_max).await? {
        let group = fairlane.group(&name);
        if let (Some(view), Some(congestion)) = tokio::try_join!(group.view(), group.congestion())? {
            recorder.record(|| observe::group_gauges(&name, &view, &congestion));
        }
    }
    Ok(())
}

/// The groups with the largest backlogs, each once.
async fn largest_groups(fairlane: &Fairlane, most: usize) -> Result<BTreeSet<GroupId>, Error> {
    let (mut largest, mut after) = (BTreeSet::new(), None);
    for _ in 0..PAGES_MAX {
        let limit = (most - largest.len()).min(LIST_GROUPS_MAX);
        if limit == 0 {
            break;
        }
        let LargestGroups { groups, next } = fairlane.largest_groups(after, limit).await?;
        largest.extend(groups.into_iter().map(|line| line.group));
        after = next;
        if after.is_none() {
            break;
        }
    }
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use fairlane_core::queue::Settings;
    use fairlane_engine::{Clock, EmbeddedEngine, Hooks, layer};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_hangs_does_not_block_a_scrape() {
        let engine = EmbeddedEngine::new(Settings::default(), Clock::default()).unwrap();
        let hooks = Hooks::default().submit(|_, _| Box::pin(pending())).wait(|_, _, _| Box::pin(pending()));
        let fairlane = Fairlane::from_engine(layer(Arc::new(engine), hooks));
        let (mut scrape, start) = (Scrape::default(), Instant::now());
        let text = scrape.text(&fairlane, true, 3).await;
        assert!(text.contains(&format!("\n{ENGINE_UP} 0\n")), "{text}");
        assert_eq!(scrape.text(&fairlane, true, 3).await, text);
        assert!(start.elapsed() < SCRAPE_WITHIN + SCRAPE_EVERY, "the second scrape reuses the first");
    }
}
