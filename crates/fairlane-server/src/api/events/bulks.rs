//! Bulk actions that somebody follows: one watcher for each, however many listen.
//!
//! A watcher looks when something that may have changed its bulk action has passed through this server, at most ten times
//! a second, and each second for what other processes do. Where many are followed each is looked at less often, so that
//! what following costs is bounded, in a group and in all. A watcher ends with the bulk action or its last listener.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fairlane_core::queue::{BulkRef, BulkView, Inspect, Inspected};
use fairlane_core::{BulkId, GroupId};
use fairlane_engine::{Engine, EngineError};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Event;
use crate::api::shown::BulkShown;
use crate::app::Shared;

/// Least time between two looks.
const SPACING: Duration = Duration::from_millis(100);
/// Most time between two looks, unless many are followed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks a second at all bulk actions of one group.
const GROUP_LOOKS_EACH_SECOND: u32 = 100;
/// Looks a second at all bulk actions.
const LOOKS_EACH_SECOND: u32 = 1000;
/// The event of one that has ended.
const ENDED: &str = "ended";

impl Event {
    /// Whether nothing comes behind it.
    pub fn is_end(&self) -> bool {
        self.name == ENDED
    }
}

/// What a watcher has seen last.
#[derive(Clone)]
pub(super) enum Sight {
    /// It has not looked yet.
    Nothing,
    There(Arc<Event>),
    /// There is no such bulk action any more.
    Gone,
}

/// The watched bulk actions.
#[derive(Default)]
pub(super) struct Bulks {
    count: AtomicUsize,
    groups: Mutex<HashMap<GroupId, HashMap<BulkId, Watched>>>,
}

/// A bulk action that something has happened to; none: it may be any of the group.
pub(super) type Moved<'a> = (&'a GroupId, Option<&'a BulkId>);

#[derive(Clone)]
struct Watched {
    sights: watch::Sender<Sight>,
    stirred: Arc<Notify>,
}

impl Bulks {
    pub fn are_followed(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// What is seen of a bulk action from now on.
    pub fn listen(&self, app: &Shared, bulk: &BulkRef) -> watch::Receiver<Sight> {
        let mut groups = self.lock();
        let group = groups.entry(bulk.group.clone()).or_default();
        if let Some(watched) = group.get(&bulk.id) {
            return watched.sights.subscribe();
        }
        let (sights, listener) = watch::channel(Sight::Nothing);
        let watched = Watched { sights, stirred: Arc::default() };
        group.insert(bulk.id.clone(), watched.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(watch(app.clone(), bulk.clone(), watched));
        listener
    }

    /// Something has happened to these bulk actions, or in these groups.
    pub fn stir<'a>(&self, moved: impl Iterator<Item = Moved<'a>>) {
        let mut last = None;
        // Jobs of one bulk action come in runs.
        let mut moved = moved.filter(|one| last.replace(*one) != Some(*one)).peekable();
        if moved.peek().is_none() {
            return;
        }
        let groups = self.lock();
        for (group, bulk) in moved {
            let Some(group) = groups.get(group) else { continue };
            match bulk {
                Some(bulk) => group.get(bulk).into_iter().for_each(|watched| watched.stirred.notify_one()),
                None => group.values().for_each(|watched| watched.stirred.notify_one()),
            }
        }
    }

    /// The least time between two looks at a bulk action of this group.
    fn spacing(&self, group: &GroupId) -> Duration {
        let in_group = self.lock().get(group).map_or(0, HashMap::len);
        spacing(in_group, self.count.load(Ordering::Relaxed))
    }

    /// Forgets a bulk action; not one that somebody listens to, unless it is to be.
    fn forget(&self, bulk: &BulkRef, even_if_heard: bool) -> bool {
        let mut groups = self.lock();
        let Some(group) = groups.get_mut(&bulk.group) else { return true };
        if group.get(&bulk.id).is_some_and(|watched| watched.sights.receiver_count() > 0) && !even_if_heard {
            return false;
        }
        if group.remove(&bulk.id).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if group.is_empty() {
            groups.remove(&bulk.group);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GroupId, HashMap<BulkId, Watched>>> {
        self.groups.lock().expect("nothing panics while it is held")
    }
}

fn spacing(in_group: usize, in_all: usize) -> Duration {
    let shared = |looks_each_second: u32, watchers: usize| {
        Duration::from_secs(1) / looks_each_second * u32::try_from(watchers).unwrap_or(u32::MAX)
    };
    SPACING.max(shared(GROUP_LOOKS_EACH_SECOND, in_group)).max(shared(LOOKS_EACH_SECOND, in_all))
}

async fn watch(app: Shared, bulk: BulkRef, watched: Watched) {
    let bulks = &app.live.bulks;
    let mut looked = Instant::now();
    loop {
        let spacing = bulks.spacing(&bulk.group);
        tokio::select! {
            () = app.stopping.cancelled() => break,
            () = watched.sights.closed() => {
                if bulks.forget(&bulk, false) {
                    return;
                }
                continue;
            }
            () = watched.stirred.notified() => {}
            () = sleep(LOOK_EVERY.max(spacing)) => {}
        }
        tokio::select! {
            () = app.stopping.cancelled() => break,
            () = sleep_until(looked + spacing) => {}
        }
        looked = Instant::now();
        let sight = match look(app.engine(), &bulk).await {
            Ok(Some(event)) => Sight::There(Arc::new(event)),
            Ok(None) => Sight::Gone,
            Err(error) => {
                tracing::warn!(target: "fairlane", ?bulk, %error, "a followed bulk action could not be looked at");
                continue;
            }
        };
        let is_last = match &sight {
            Sight::There(event) => event.is_end(),
            _ => true,
        };
        watched.sights.send_if_modified(|known| {
            let is_news = known.id() != sight.id();
            *known = sight;
            is_news
        });
        if is_last {
            break;
        }
    }
    bulks.forget(&bulk, true);
}

impl Sight {
    fn id(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::There(event) => Some(&event.id),
            Self::Gone => Some("gone"),
        }
    }
}

/// Looks at a bulk action.
pub(super) async fn look(engine: &Arc<dyn Engine>, bulk: &BulkRef) -> Result<Option<Event>, EngineError> {
    match engine.inspect(Inspect::Bulk(bulk.clone())).await? {
        Inspected::Bulk(view) => Ok(view.map(event)),
        _ => Err(EngineError::Broken { reason: "inspect was answered with something else".to_owned() }),
    }
}

fn event(view: BulkView) -> Event {
    let ended = view.finished_at.filter(|_| view.state.is_final());
    let data = serde_json::to_string(&BulkShown::from(view)).expect("a bulk action can be written");
    match ended {
        // Its end stays the same, whatever is counted or summarised later.
        Some(at) => Event { name: ENDED, id: format!("ended-{}", at.0), data },
        None => {
            let mut hasher = DefaultHasher::new();
            data.hash(&mut hasher);
            Event { name: "progress", id: format!("{:016x}", hasher.finish()), data }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_are_followed_the_less_often_each_is_looked_at() {
        let of = |in_group, in_all| spacing(in_group, in_all).as_millis();
        assert_eq!([of(1, 1), of(10, 100), of(11, 11), of(1, 101)], [100, 100, 110, 101]);
        assert_eq!([of(1000, 1000), of(1, 12_288)], [10_000, 12_288]);
    }
}
