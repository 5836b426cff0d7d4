//! The whole's figures, once a second while somebody listens: one look for all of them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fairlane_core::Micros;
use fairlane_core::queue::WholeView;
use fairlane_engine::Clock;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{Event, Live};
use crate::api::shown::time;
use crate::app::Shared;

/// Figures that are kept for those who come back.
const KEPT: usize = 300;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks go on this long after the last listener has left: most come back.
const LINGER: Duration = Duration::from_secs(10);

/// The figures of the last minutes.
pub(super) struct Whole {
    newest: watch::Sender<Option<Arc<Event>>>,
    kept: Mutex<Kept>,
}

struct Kept {
    events: VecDeque<(u64, Arc<Event>)>,
    /// What ids begin with: those of another start mean nothing here.
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

impl Default for Whole {
    fn default() -> Self {
        let last = Totals { at: Instant::now(), enqueued: 0, settled: 0 };
        let start = Clock::System.now();
        let kept = Kept { events: VecDeque::new(), start, next: 1, is_watched: false, last };
        Self { newest: watch::Sender::new(None), kept: Mutex::new(kept) }
    }
}

impl Whole {
    /// What was missed since the event of this id, or the newest, and what comes from now on.
    pub fn listen(
        &self,
        app: &Shared,
        last: Option<&str>,
    ) -> (Vec<Arc<Event>>, watch::Receiver<Option<Arc<Event>>>) {
        let mut kept = self.lock();
        let missed = match last.and_then(|id| kept.number(id)) {
            Some(seen) => kept.events.iter().filter(|(number, _)| *number > seen).collect(),
            // Without a watcher the newest may be old.
            None if kept.is_watched => kept.events.back().into_iter().collect(),
            None => Vec::new(),
        };
        let missed = missed.into_iter().map(|(_, event)| event.clone()).collect();
        let newest = self.newest.subscribe();
        if !std::mem::replace(&mut kept.is_watched, true) {
            tokio::spawn(watch(app.clone()));
        }
        (missed, newest)
    }

    fn keep(&self, live: &Live, view: &WholeView) {
        let mut kept = self.lock();
        let now = Totals {
            at: Instant::now(),
            enqueued: live.counts.enqueued.load(Ordering::Relaxed),
            settled: live.counts.settled.load(Ordering::Relaxed),
        };
        let event = Arc::new(Event {
            name: "figures",
            id: format!("{}-{}", kept.start.0, kept.next),
            data: figures(view, kept.last, now),
        });
        let number = kept.next;
        (kept.next, kept.last) = (number + 1, now);
        kept.events.push_back((number, event.clone()));
        if kept.events.len() > KEPT {
            kept.events.pop_front();
        }
        // Under the lock, so that whoever begins to listen has each event once.
        self.newest.send_replace(Some(event));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("nothing panics while it is held")
    }
}

impl Kept {
    fn number(&self, id: &str) -> Option<u64> {
        let (start, number) = id.split_once('-')?;
        (start.parse() == Ok(self.start.0)).then(|| number.parse().ok())?
    }
}

async fn watch(app: Shared) {
    let whole = &app.live.whole;
    let mut heard = Instant::now();
    loop {
        match app.fairlane.whole().await {
            Ok(view) => whole.keep(&app.live, &view),
            Err(error) => tracing::warn!(target: "fairlane", %error, "the whole could not be looked at"),
        }
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = sleep(LOOK_EVERY) => {}
        }
        let mut kept = whole.lock();
        if whole.newest.receiver_count() > 0 {
            heard = Instant::now();
        } else if heard.elapsed() > LINGER {
            kept.is_watched = false;
            return;
        }
    }
}

#[derive(Serialize)]
struct Figures {
    at: String,
    backlog: u64,
    waiting: u64,
    in_flight: u64,
    dead: u64,
    active_groups: u64,
    enqueued_per_second: f64,
    settled_per_second: f64,
    over_ms: u64,
}

fn figures(view: &WholeView, last: Totals, now: Totals) -> String {
    let over = now.at.duration_since(last.at);
    let per_second = |count: u64| {
        let rate = count as f64 / over.as_secs_f64().max(0.001);
        (rate * 10.0).round() / 10.0
    };
    let figures = Figures {
        at: time(Clock::System.now()),
        backlog: view.backlog,
        waiting: view.waiting,
        in_flight: view.in_flight,
        dead: view.failed,
        active_groups: view.active_groups,
        enqueued_per_second: per_second(now.enqueued - last.enqueued),
        settled_per_second: per_second(now.settled - last.settled),
        over_ms: over.as_millis() as u64,
    };
    serde_json::to_string(&figures).expect("numbers and a text can be written")
}
