//! Followed bulk actions: one watcher for each, however many clients listen.
//!
//! A watcher reads its bulk action when a command through this server may have changed it, at most
//! ten times a second, and once a second for changes by other processes. The more bulk actions are
//! followed, the less often each is read, so that the cost is bounded, per group and in total. A
//! watcher ends with its bulk action or its last listener.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fairlane::{Error, Fairlane, views};
use fairlane_core::queue::{BulkRef, BulkView};
use fairlane_core::{BulkId, GroupId};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Event;
use crate::app::Shared;

/// The shortest time between two reads of a bulk action.
const SPACING: Duration = Duration::from_millis(100);
/// The longest time between two reads of a bulk action, unless many are followed.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Limit on the reads per second of all bulk actions of one group.
const GROUP_READS_PER_SECOND: u32 = 100;
/// Limit on the reads per second of all bulk actions.
const READS_PER_SECOND: u32 = 1000;
/// The name of the last event.
const ENDED: &str = "ended";

impl Event {
    /// Whether it is the last event of its stream.
    pub fn is_end(&self) -> bool {
        self.name == ENDED
    }
}

/// The latest state that a watcher has read.
#[derive(Clone)]
pub(super) enum Latest {
    /// It has read nothing yet.
    Unread,
    State(Arc<Event>),
    /// The bulk action does not exist any more.
    Gone,
}

/// The followed bulk actions.
#[derive(Default)]
pub(super) struct BulkWatchers {
    count: AtomicUsize,
    groups: Mutex<HashMap<GroupId, HashMap<BulkId, Watcher>>>,
}

/// A bulk action that may have changed; without an id, it may be any of the group.
pub(super) type Changed<'a> = (&'a GroupId, Option<&'a BulkId>);

#[derive(Clone)]
struct Watcher {
    states: watch::Sender<Latest>,
    changed: Arc<Notify>,
}

impl BulkWatchers {
    pub fn are_followed(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Subscribes to the states of a bulk action; the first subscription starts its watcher.
    pub fn subscribe(&self, app: &Shared, bulk: &BulkRef) -> watch::Receiver<Latest> {
        let mut groups = self.lock();
        let group = groups.entry(bulk.group.clone()).or_default();
        if let Some(watcher) = group.get(&bulk.id) {
            return watcher.states.subscribe();
        }
        let (states, receiver) = watch::channel(Latest::Unread);
        let watcher = Watcher { states, changed: Arc::default() };
        group.insert(bulk.id.clone(), watcher.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(watch(app.clone(), bulk.clone(), watcher));
        receiver
    }

    /// Notifies the watchers of these bulk actions, or of all in these groups.
    pub fn notify<'a>(&self, changed: impl Iterator<Item = Changed<'a>>) {
        let mut last = None;
        // Consecutive jobs often belong to the same bulk action.
        let mut changed = changed.filter(|one| last.replace(*one) != Some(*one)).peekable();
        if changed.peek().is_none() {
            return;
        }
        let groups = self.lock();
        for (group, bulk) in changed {
            let Some(group) = groups.get(group) else { continue };
            match bulk {
                Some(bulk) => group.get(bulk).into_iter().for_each(|watcher| watcher.changed.notify_one()),
                None => group.values().for_each(|watcher| watcher.changed.notify_one()),
            }
        }
    }

    /// The least time between two reads of a bulk action of this group.
    fn spacing(&self, group: &GroupId) -> Duration {
        let in_group = self.lock().get(group).map_or(0, HashMap::len);
        spacing(in_group, self.count.load(Ordering::Relaxed))
    }

    /// Removes the watcher of a bulk action and returns true; returns false if it has listeners and
    /// is not forced.
    fn remove(&self, bulk: &BulkRef, is_forced: bool) -> bool {
        let mut groups = self.lock();
        let Some(group) = groups.get_mut(&bulk.group) else { return true };
        if group.get(&bulk.id).is_some_and(|watcher| watcher.states.receiver_count() > 0) && !is_forced {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<GroupId, HashMap<BulkId, Watcher>>> {
        self.groups.lock().expect("nothing panics while it is held")
    }
}

fn spacing(in_group: usize, in_all: usize) -> Duration {
    let shared = |reads_per_second: u32, watchers: usize| {
        Duration::from_secs(1) / reads_per_second * u32::try_from(watchers).unwrap_or(u32::MAX)
    };
    SPACING.max(shared(GROUP_READS_PER_SECOND, in_group)).max(shared(READS_PER_SECOND, in_all))
}

async fn watch(app: Shared, bulk: BulkRef, watcher: Watcher) {
    let watchers = &app.live.bulks;
    let mut last_read = Instant::now();
    loop {
        let spacing = watchers.spacing(&bulk.group);
        tokio::select! {
            () = app.stopping.cancelled() => break,
            () = watcher.states.closed() => {
                if watchers.remove(&bulk, false) {
                    return;
                }
                continue;
            }
            () = watcher.changed.notified() => {}
            () = sleep(READ_EVERY.max(spacing)) => {}
        }
        tokio::select! {
            () = app.stopping.cancelled() => break,
            () = sleep_until(last_read + spacing) => {}
        }
        last_read = Instant::now();
        let latest = match read(&app.fairlane, &bulk).await {
            Ok(Some(event)) => Latest::State(Arc::new(event)),
            Ok(None) => Latest::Gone,
            Err(error) => {
                let BulkRef { group, id } = &bulk;
                tracing::warn!(
                    target: "fairlane", %group, bulk = %id, %error, "a followed bulk action could not be read"
                );
                continue;
            }
        };
        let is_last = match &latest {
            Latest::State(event) => event.is_end(),
            _ => true,
        };
        watcher.states.send_if_modified(|known| {
            let is_modified = known.id() != latest.id();
            *known = latest;
            is_modified
        });
        if is_last {
            break;
        }
    }
    watchers.remove(&bulk, true);
}

impl Latest {
    fn id(&self) -> Option<&str> {
        match self {
            Self::Unread => None,
            Self::State(event) => Some(&event.id),
            Self::Gone => Some("gone"),
        }
    }
}

/// Reads a bulk action as an event; `None` if it does not exist.
pub(super) async fn read(fairlane: &Fairlane, bulk: &BulkRef) -> Result<Option<Event>, Error> {
    match fairlane.bulk(&bulk.group, &bulk.id).opened_before()?.view().await {
        Ok(view) => Ok(Some(event(&view))),
        Err(Error::NoSuchBulk(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn event(view: &BulkView) -> Event {
    let ended = view.finished_at.filter(|_| view.state.is_final());
    let data = serde_json::to_string(&views::BulkView::from(view)).expect("a bulk action can be serialized");
    match ended {
        // The id of the last event does not depend on counts or on the summary, which may change
        // later.
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
    fn the_more_bulk_actions_are_followed_the_less_often_each_is_read() {
        let of = |in_group, in_all| spacing(in_group, in_all).as_millis();
        assert_eq!([of(1, 1), of(10, 100), of(11, 11), of(1, 101)], [100, 100, 110, 101]);
        assert_eq!([of(1000, 1000), of(1, 12_288)], [10_000, 12_288]);
    }
}
