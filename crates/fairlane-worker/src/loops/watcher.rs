//! Reports what makes no progress by itself: bulk actions that are stuck, and types with jobs that
//! no worker requests. It changes nothing; the janitor enforces deadlines.
//!
//! It watches only bulk actions whose jobs this worker has leased, so that a round costs the same
//! however many there are. One that is stuck because none of its jobs was ever leased shows as an
//! unattended type or a paused group.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane_core::limits::WORKER_SILENCE_MS;
use fairlane_core::queue::{BulkMode, BulkRef, BulkState, BulkView, InspectBulk, InspectQueue, InspectType};
use fairlane_core::{BulkId, GroupId, TypeId};
use fairlane_engine::{Clock, EngineError};

use super::{Pace, rounds};
use crate::events::Event;
use crate::pool::{Shared, TARGET};

/// Most bulk actions remembered at once.
const SEEN_BULKS_MAX: usize = 1000;

/// Bulk actions whose jobs this worker has leased, each with its progress at the last check.
#[derive(Default)]
pub(crate) struct SeenBulks(Mutex<HashMap<BulkRef, Progress>>);

#[derive(Debug, Clone, Copy)]
struct Progress {
    /// Number of jobs added and number of jobs ended; `None` before the first check.
    counts: Option<(u64, u64)>,
    since: Instant,
    reported: bool,
}

impl SeenBulks {
    pub fn add(&self, group: &GroupId, bulk: &BulkId) {
        let bulk = BulkRef { group: group.clone(), id: bulk.clone() };
        let mut seen = self.0.lock().expect("nothing panics while it holds the bulk actions");
        if seen.contains_key(&bulk) {
            return;
        }
        if seen.len() >= SEEN_BULKS_MAX {
            seen.retain(|_, known| !known.reported);
        }
        if seen.len() < SEEN_BULKS_MAX {
            seen.insert(bulk, Progress { counts: None, since: Instant::now(), reported: false });
        }
    }

    fn all(&self) -> Vec<BulkRef> {
        self.0.lock().expect("nothing panics while it holds the bulk actions").keys().cloned().collect()
    }

    fn forget(&self, bulk: &BulkRef) {
        self.0.lock().expect("nothing panics while it holds the bulk actions").remove(bulk);
    }

    /// Records the progress of a bulk action; true if it has made none for `stuck_after` and that
    /// was not reported yet.
    fn is_stuck(&self, view: &BulkView, stuck_after: Duration) -> bool {
        let mut seen = self.0.lock().expect("nothing panics while it holds the bulk actions");
        let Some(known) = seen.get_mut(&view.bulk) else { return false };
        let counts = Some((view.total, view.succeeded + view.failed + view.cancelled));
        if known.counts != counts {
            *known = Progress { counts, since: Instant::now(), reported: false };
            return false;
        }
        let stuck = !known.reported && known.since.elapsed() >= stuck_after;
        known.reported |= stuck;
        stuck
    }
}

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.watch_interval;
    let reported_types = Mutex::new(Vec::new());
    let (shared, reported_types) = (&*shared, &reported_types);
    rounds(shared, "watcher", interval, || async {
        watch_bulks(shared).await?;
        report_types(shared, reported_types, unattended_types(shared).await?);
        Ok(Pace::Rest)
    })
    .await;
}

async fn watch_bulks(shared: &Shared) -> Result<(), EngineError> {
    for bulk in shared.seen_bulks.all() {
        let found = shared.engine.call(InspectBulk { bulk: bulk.clone() }).await?;
        match found {
            Some(view) if !view.state.is_final() => {
                if shared.seen_bulks.is_stuck(&view, shared.settings.loops.stuck_after) {
                    let advice = advice(&view);
                    tracing::warn!(target: TARGET, group = %bulk.group, bulk = %bulk.id, advice, "a bulk action makes no progress");
                    shared.hooks.emit(|| Event::BulkStuck { bulk, advice });
                }
            }
            _ => shared.seen_bulks.forget(&bulk),
        }
    }
    Ok(())
}

/// What an operator can do about a bulk action that is stuck.
fn advice(view: &BulkView) -> String {
    let ended = view.succeeded + view.failed + view.cancelled;
    match view {
        _ if view.mode == BulkMode::Hold => "it is on hold; resume it".into(),
        _ if view.state == BulkState::Aggregating => {
            "it waits for its aggregation; is a worker running that knows its fold?".into()
        }
        _ if !view.sealed && ended == view.total => {
            format!("all {ended} jobs have ended but it is not sealed; seal it, or add what is missing")
        }
        _ => {
            let left = view.total - ended;
            format!("{left} of {} jobs have not ended; ask `fairlane why` about one of them", view.total)
        }
    }
}

/// Types whose jobs no worker requests, each with the number of its lanes that wait.
async fn unattended_types(shared: &Shared) -> Result<Vec<(TypeId, u64)>, EngineError> {
    let queue = shared.engine.call(InspectQueue).await?;
    // A lane keeps cancelled jobs until a lease removes them; then it has none that wait.
    if queue.backlog == 0 {
        return Ok(Vec::new());
    }
    let mut types: Vec<(TypeId, u64)> = Vec::new();
    for type_id in queue.types {
        if shared.types.contains_key(&type_id) {
            continue;
        }
        let Some(view) = shared.engine.call(InspectType { type_id: type_id.clone() }).await? else {
            continue;
        };
        let lanes = view.active_lanes.iter().sum::<u64>();
        let silent = view
            .asked_at
            .is_none_or(|asked_at| Clock::System.now().since(asked_at) > WORKER_SILENCE_MS * 1000);
        if silent && lanes + view.ready > 0 {
            types.push((type_id, lanes.max(view.ready)));
        }
    }
    Ok(types)
}

/// Reports unattended types when they are not the same types as in the last round.
fn report_types(shared: &Shared, reported: &Mutex<Vec<TypeId>>, types: Vec<(TypeId, u64)>) {
    let names: Vec<TypeId> = types.iter().map(|(type_id, _)| type_id.clone()).collect();
    let before = std::mem::replace(
        &mut *reported.lock().expect("nothing panics while it holds the types"),
        names.clone(),
    );
    if names.is_empty() || names == before {
        return;
    }
    // A hook prints a message of its own.
    if shared.hooks.is_empty() {
        let types = names.iter().map(TypeId::to_string).collect::<Vec<_>>().join(", ");
        tracing::warn!(target: TARGET, %types, "jobs of these types are waiting, but no worker requests them");
    }
    shared.hooks.emit(|| Event::Unattended { types });
}
