//! When nothing is left to do for some types, and what is left of others.
//!
//! Jobs of paused types and groups, and jobs on hold, are not waited for: somebody has to let them run first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{LIST_GROUPS_MAX, LIST_JOBS_MAX};
use fairlane_core::queue::{Inspect, Inspected, LaneStanding, LaneView, ListJobs, Listing, TypeView};
use fairlane_core::{GroupId, TypeId};
use fairlane_engine::{Engine, EngineError};
use fairlane_worker::CALLBACK_TYPE;

use super::said::LeftSaid;
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
    let mut pages = Waiting::of(type_id);
    while let Some(jobs) = pages.next(engine).await? {
        if jobs > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The jobs of a type that must not run yet, page by page.
struct Waiting {
    type_id: TypeId,
    cursor: Option<u64>,
}

impl Waiting {
    fn of(type_id: &TypeId) -> Self {
        Self { type_id: type_id.clone(), cursor: Some(0) }
    }

    /// How many the next page has; none behind the last.
    async fn next(&mut self, engine: &Arc<dyn Engine>) -> Result<Option<u64>, EngineError> {
        let Some(cursor) = self.cursor else { return Ok(None) };
        let (listing, type_id) = (Listing::Waiting, Some(self.type_id.clone()));
        let listed = engine
            .list_jobs(ListJobs { listing, group: None, type_id, cursor, limit: LIST_JOBS_MAX })
            .await?;
        self.cursor = listed.next;
        Ok(Some(listed.jobs.len() as u64))
    }
}

async fn is_any_pending(engine: &Arc<dyn Engine>, types: &[TypeId]) -> Result<bool, EngineError> {
    let mut groups = Groups::default();
    while let Some(page) = groups.next(engine).await? {
        for lane in page.iter().filter(|lane| lane.standing != LaneStanding::Paused) {
            if types.contains(&lane.type_id) && lane.backlog + lane.returned > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The lanes of all groups with unfinished jobs, a page of groups at a time.
#[derive(Default)]
struct Groups {
    after: Option<GroupId>,
    is_over: bool,
}

impl Groups {
    /// None behind the last page.
    async fn next(&mut self, engine: &Arc<dyn Engine>) -> Result<Option<Vec<LaneView>>, EngineError> {
        if self.is_over {
            return Ok(None);
        }
        let page = Inspect::Groups { after: self.after.take(), limit: LIST_GROUPS_MAX };
        let Inspected::Groups(groups) = engine.inspect(page).await? else { return Ok(None) };
        self.is_over = groups.len() < LIST_GROUPS_MAX;
        self.after = groups.last().map(|last| last.group.clone());
        let mut lanes = Vec::new();
        for line in groups {
            if let Inspected::Group(Some(view)) = engine.inspect(Inspect::Group(line.group)).await? {
                lanes.extend(view.lanes);
            }
        }
        Ok(Some(lanes))
    }
}

/// What the queue still has, by type, with why a worker on these types leaves it; a store that does not answer is
/// asked again.
pub async fn left(engine: &Arc<dyn Engine>, types: &[TypeId]) -> Result<Vec<LeftSaid>, Failure> {
    loop {
        match counted(engine, types).await {
            Err(error) if error.is_retryable() => tokio::time::sleep(LOOK_PAUSE).await,
            counted => return Ok(counted?),
        }
    }
}

async fn counted(engine: &Arc<dyn Engine>, types: &[TypeId]) -> Result<Vec<LeftSaid>, EngineError> {
    let Inspected::Whole(whole) = engine.inspect(Inspect::Whole).await? else { return Ok(Vec::new()) };
    let all = whole.backlog + whole.in_flight;
    if all == 0 {
        return Ok(Vec::new());
    }
    let mut counts: BTreeMap<TypeId, u64> = BTreeMap::new();
    let mut groups = Groups::default();
    while let Some(page) = groups.next(engine).await? {
        for lane in page {
            *counts.entry(lane.type_id).or_default() += lane.backlog + lane.returned;
        }
    }
    for type_id in whole.types {
        let mut count = view(engine, &type_id).await?.map_or(0, |view| view.in_flight + view.ready);
        let mut pages = Waiting::of(&type_id);
        while let Some(jobs) = pages.next(engine).await? {
            count += jobs;
        }
        *counts.entry(type_id).or_default() += count;
    }
    let counted: u64 = counts.values().sum();
    let mut left: Vec<LeftSaid> = counts
        .into_iter()
        .filter(|(_, jobs)| *jobs > 0)
        .map(|(type_id, jobs)| LeftSaid {
            reason: reason(&type_id, types),
            r#type: Some(type_id.to_string()),
            jobs,
        })
        .collect();
    if all > counted {
        left.push(LeftSaid { r#type: None, jobs: all - counted, reason: "on hold" });
    }
    Ok(left)
}

fn reason(type_id: &TypeId, types: &[TypeId]) -> &'static str {
    if types.contains(type_id) {
        "paused"
    } else if type_id.to_string() == CALLBACK_TYPE {
        "the file has no [callbacks]"
    } else {
        "the file does not name it"
    }
}
