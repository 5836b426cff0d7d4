//! Reports what does not move by itself: bulk actions that have stood still for long, and types with jobs that
//! no worker asks for. It changes nothing; deadlines are the janitor's.
//!
//! It looks at bulk actions whose jobs this worker has met, so that a round costs the same however many there
//! are; one that stands still because no job of it was ever leased shows as an unattended type or a paused group.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fairlane_core::limits::WORKER_SILENCE_MS;
use fairlane_core::queue::{BulkRef, BulkState, BulkView, Course, Inspect, Inspected};
use fairlane_core::{BulkId, GroupId, TypeId};
use fairlane_engine::{Clock, EngineError};

use super::{Pace, rounds};
use crate::events::Event;
use crate::pool::{Shared, TARGET};

/// Bulk actions remembered at once.
const BULKS_MET_MAX: usize = 1000;

/// Bulk actions whose jobs were met, with how far they had come when last looked at.
#[derive(Default)]
pub(crate) struct BulksMet(Mutex<HashMap<BulkRef, Met>>);

#[derive(Debug, Clone, Copy)]
struct Met {
    moved: Option<(u64, u64)>,
    since: Instant,
    reported: bool,
}

impl BulksMet {
    pub fn meet(&self, group: &GroupId, bulk: &BulkId) {
        let bulk = BulkRef { group: group.clone(), id: bulk.clone() };
        let mut met = self.0.lock().expect("nothing panics while it holds the bulk actions");
        if met.contains_key(&bulk) {
            return;
        }
        if met.len() >= BULKS_MET_MAX {
            met.retain(|_, known| !known.reported);
        }
        if met.len() < BULKS_MET_MAX {
            met.insert(bulk, Met { moved: None, since: Instant::now(), reported: false });
        }
    }

    fn all(&self) -> Vec<BulkRef> {
        self.0.lock().expect("nothing panics while it holds the bulk actions").keys().cloned().collect()
    }

    fn forget(&self, bulk: &BulkRef) {
        self.0.lock().expect("nothing panics while it holds the bulk actions").remove(bulk);
    }

    /// Notes how far it has come; true if it has not moved for too long and that was not yet reported.
    fn is_stuck(&self, view: &BulkView, patience: std::time::Duration) -> bool {
        let mut met = self.0.lock().expect("nothing panics while it holds the bulk actions");
        let Some(known) = met.get_mut(&view.bulk) else { return false };
        let moved = Some((view.total, view.succeeded + view.failed + view.cancelled));
        if known.moved != moved {
            *known = Met { moved, since: Instant::now(), reported: false };
            return false;
        }
        let stuck = !known.reported && known.since.elapsed() >= patience;
        known.reported |= stuck;
        stuck
    }
}

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.watch_interval;
    let shared = &*shared;
    rounds(shared, "watcher", interval, || async {
        watch_bulks(shared).await?;
        watch_types(shared).await?;
        Ok(Pace::Rest)
    })
    .await;
}

async fn watch_bulks(shared: &Shared) -> Result<(), EngineError> {
    for bulk in shared.bulks_met.all() {
        let looked = shared.engine.inspect(Inspect::Bulk(bulk.clone())).await?;
        match looked {
            Inspected::Bulk(Some(view)) if !view.state.is_final() => {
                if shared.bulks_met.is_stuck(&view, shared.settings.loops.stuck_after) {
                    let advice = advice(&view);
                    tracing::warn!(target: TARGET, ?bulk, advice, "a bulk action does not move");
                    shared.hooks.tell(|| Event::BulkStuck { bulk, advice });
                }
            }
            _ => shared.bulks_met.forget(&bulk),
        }
    }
    Ok(())
}

/// What somebody can do about a bulk action that stands still.
fn advice(view: &BulkView) -> String {
    let ended = view.succeeded + view.failed + view.cancelled;
    match view {
        _ if view.course == Course::Hold => "it is on hold; resume it".into(),
        _ if view.state == BulkState::Aggregating => {
            "it waits for its aggregation; is a worker running that knows its fold?".into()
        }
        _ if !view.sealed && ended == view.total => {
            format!("all {ended} jobs have ended but it is not sealed; seal it, or add what is missing")
        }
        _ => format!("{} of {} jobs have not ended; ask why of one of them", view.total - ended, view.total),
    }
}

async fn watch_types(shared: &Shared) -> Result<(), EngineError> {
    let Inspected::Whole(whole) = shared.engine.inspect(Inspect::Whole).await? else { return Ok(()) };
    // A lane keeps jobs that were cancelled until a lease meets them; then none waits.
    if whole.backlog == 0 {
        return Ok(());
    }
    let mut types: Vec<(TypeId, u64)> = Vec::new();
    for type_id in whole.types {
        if shared.types.contains_key(&type_id) {
            continue;
        }
        let Inspected::Type(Some(view)) = shared.engine.inspect(Inspect::Type(type_id.clone())).await? else {
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
    if !types.is_empty() {
        tracing::warn!(target: TARGET, ?types, "jobs of these types wait and no worker asks for them");
        shared.hooks.tell(|| Event::Unattended { types });
    }
    Ok(())
}
