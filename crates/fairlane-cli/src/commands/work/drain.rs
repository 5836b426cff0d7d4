//! When nothing is left to do for some types.
//!
//! Jobs of paused types and groups, and jobs on hold, are not waited for: somebody has to let them run first.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::TypeId;
use fairlane_core::limits::{LIST_GROUPS_MAX, LIST_JOBS_MAX};
use fairlane_core::queue::{Inspect, Inspected, LaneStanding, ListJobs, Listing, TypeView};
use fairlane_engine::{Engine, EngineError};

use super::telling::Telling;
use crate::failure::Failure;

/// How often it looks.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Ends when nothing is left; a store that does not answer is asked again.
pub async fn until_nothing_is_left(
    engine: &Arc<dyn Engine>,
    types: &[TypeId],
    telling: &Telling,
) -> Result<(), Failure> {
    loop {
        // A job that moves while it is looked for may be missed at both places; then there was an event.
        let before = telling.events();
        match is_anything_left(engine, types).await {
            Ok(false) if telling.events() == before => return Ok(()),
            Err(error) if !error.is_retryable() => return Err(error.into()),
            _ => tokio::time::sleep(LOOK_PAUSE).await,
        }
    }
}

/// Looks in the order in which jobs move: waiting, pending, ready, in flight.
async fn is_anything_left(engine: &Arc<dyn Engine>, types: &[TypeId]) -> Result<bool, EngineError> {
    let Inspected::Whole(whole) = engine.inspect(Inspect::Whole).await? else { return Ok(true) };
    if whole.aggregating + whole.sweeping > 0 {
        return Ok(true);
    }
    if whole.backlog + whole.in_flight == 0 {
        return Ok(false);
    }
    let mut running = Vec::new();
    for type_id in types {
        if view(engine, type_id).await?.is_some_and(|view| !view.settings.paused) {
            running.push(type_id.clone());
        }
    }
    for type_id in &running {
        if is_any_waiting(engine, type_id).await? {
            return Ok(true);
        }
    }
    if is_any_pending(engine, &running).await? {
        return Ok(true);
    }
    for type_id in types {
        if view(engine, type_id).await?.is_some_and(|view| view.in_flight + view.ready > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn view(engine: &Arc<dyn Engine>, type_id: &TypeId) -> Result<Option<TypeView>, EngineError> {
    match engine.inspect(Inspect::Type(type_id.clone())).await? {
        Inspected::Type(view) => Ok(view),
        _ => Ok(None),
    }
}

async fn is_any_waiting(engine: &Arc<dyn Engine>, type_id: &TypeId) -> Result<bool, EngineError> {
    let mut cursor = Some(0);
    while let Some(position) = cursor {
        let page = ListJobs {
            listing: Listing::Waiting,
            group: None,
            type_id: Some(type_id.clone()),
            cursor: position,
            limit: LIST_JOBS_MAX,
        };
        let listed = engine.list_jobs(page).await?;
        if !listed.jobs.is_empty() {
            return Ok(true);
        }
        cursor = listed.next;
    }
    Ok(false)
}

async fn is_any_pending(engine: &Arc<dyn Engine>, types: &[TypeId]) -> Result<bool, EngineError> {
    let mut after = None;
    loop {
        let page = Inspect::Groups { after: after.take(), limit: LIST_GROUPS_MAX };
        let Inspected::Groups(groups) = engine.inspect(page).await? else { return Ok(true) };
        for line in &groups {
            let Inspected::Group(Some(view)) = engine.inspect(Inspect::Group(line.group.clone())).await?
            else {
                continue;
            };
            let mut lanes = view.lanes.iter().filter(|lane| lane.standing != LaneStanding::Paused);
            if lanes.any(|lane| types.contains(&lane.type_id) && lane.backlog + lane.returned > 0) {
                return Ok(true);
            }
        }
        match groups.last() {
            Some(last) if groups.len() == LIST_GROUPS_MAX => after = Some(last.group.clone()),
            _ => return Ok(false),
        }
    }
}
