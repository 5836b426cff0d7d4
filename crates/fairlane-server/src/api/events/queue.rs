//! Counts of the queue, read once a second for all clients that listen.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fairlane::views::Time;
use fairlane_core::Micros;
use fairlane_core::queue::QueueView;
use fairlane_engine::Clock;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{Event, Live};
use crate::app::Shared;

/// Events that are kept for clients that reconnect.
const HISTORY_MAX: usize = 300;
/// The interval between two reads.
const READ_EVERY: Duration = Duration::from_secs(1);
/// How long reads continue after the last listener has left: most reconnect.
const LINGER: Duration = Duration::from_secs(10);

/// The events of the last minutes.
pub(super) struct QueueEvents {
    latest: watch::Sender<Option<Arc<Event>>>,
    history: Mutex<History>,
}

struct History {
    events: VecDeque<(u64, Arc<Event>)>,
    /// The prefix of the ids, so that ids of another process are not mistaken for those of this
    /// one.
    start: Micros,
    next: u64,
    is_watched: bool,
    last: Totals,
}

#[derive(Clone, Copy)]
struct Totals {
    at: Instant,
    enqueued: u64,
    settled: u64,
}

impl Default for QueueEvents {
    fn default() -> Self {
        let last = Totals { at: Instant::now(), enqueued: 0, settled: 0 };
        let start = Clock::System.now();
        let history = History { events: VecDeque::new(), start, next: 1, is_watched: false, last };
        Self { latest: watch::Sender::new(None), history: Mutex::new(history) }
    }
}

impl QueueEvents {
    /// The events since that of this id, or the latest one, and a subscription to those that
    /// follow.
    pub fn subscribe(
        &self,
        app: &Shared,
        last: Option<&str>,
    ) -> (Vec<Arc<Event>>, watch::Receiver<Option<Arc<Event>>>) {
        let mut history = self.lock();
        let missed = match last.and_then(|id| history.number(id)) {
            Some(last) => history.events.iter().filter(|(number, _)| *number > last).collect(),
            // Without a watcher the latest event may be old.
            None if history.is_watched => history.events.back().into_iter().collect(),
            None => Vec::new(),
        };
        let missed = missed.into_iter().map(|(_, event)| event.clone()).collect();
        let latest = self.latest.subscribe();
        if !std::mem::replace(&mut history.is_watched, true) {
            tokio::spawn(watch(app.clone()));
        }
        (missed, latest)
    }

    fn publish(&self, live: &Live, view: &QueueView) {
        let mut history = self.lock();
        let now = Totals {
            at: Instant::now(),
            enqueued: live.counts.enqueued.load(Ordering::Relaxed),
            settled: live.counts.settled.load(Ordering::Relaxed),
        };
        let event = Arc::new(Event {
            name: "figures",
            id: format!("{}-{}", history.start.0, history.next),
            data: data(view, history.last, now),
        });
        let number = history.next;
        (history.next, history.last) = (number + 1, now);
        history.events.push_back((number, event.clone()));
        if history.events.len() > HISTORY_MAX {
            history.events.pop_front();
        }
        // Under the lock, so that a new subscription gets each event once.
        self.latest.send_replace(Some(event));
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("nothing panics while it is held")
    }
}

impl History {
    fn number(&self, id: &str) -> Option<u64> {
        let (start, number) = id.split_once('-')?;
        (start.parse() == Ok(self.start.0)).then(|| number.parse().ok())?
    }
}

async fn watch(app: Shared) {
    let queue = &app.live.queue;
    let mut last_listener = Instant::now();
    loop {
        match app.fairlane.queue_view().await {
            Ok(view) => queue.publish(&app.live, &view),
            Err(error) => tracing::warn!(target: "fairlane", %error, "the queue could not be read"),
        }
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = sleep(READ_EVERY) => {}
        }
        let mut history = queue.lock();
        if queue.latest.receiver_count() > 0 {
            last_listener = Instant::now();
        } else if last_listener.elapsed() > LINGER {
            history.is_watched = false;
            return;
        }
    }
}

/// The data of an event.
#[derive(Serialize)]
struct QueueCounts {
    at: Time,
    backlog: u64,
    waiting: u64,
    in_flight: u64,
    dead: u64,
    active_groups: u64,
    enqueued_per_second: f64,
    settled_per_second: f64,
    over_ms: u64,
}

fn data(view: &QueueView, last: Totals, now: Totals) -> String {
    let over = now.at.duration_since(last.at);
    let per_second = |count: u64| {
        let rate = count as f64 / over.as_secs_f64().max(0.001);
        (rate * 10.0).round() / 10.0
    };
    let counts = QueueCounts {
        at: Time(Clock::System.now()),
        backlog: view.backlog,
        waiting: view.waiting,
        in_flight: view.in_flight,
        dead: view.failed,
        active_groups: view.active_groups,
        enqueued_per_second: per_second(now.enqueued - last.enqueued),
        settled_per_second: per_second(now.settled - last.settled),
        over_ms: over.as_millis() as u64,
    };
    serde_json::to_string(&counts).expect("numbers and a text can be serialized")
}
