//! When nothing is left to do for some types, and what is left of others.
//!
//! Jobs of paused types and groups, and jobs on hold, are not waited for: somebody has to let them run first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{LIST_GROUPS_MAX, LIST_JOBS_MAX};
use fairlane_core::queue::{
    GroupLine, Inspect, Inspected, LaneStanding, LaneView, ListJobs, Listing, TypeView,
};
use fairlane_core::{GroupId, TypeId};
use fairlane_engine::{Engine, EngineError};
use fairlane_worker::CALLBACK_TYPE;

use super::said::LeftSaid;
use super::telling::Telling;
use crate::failure::Failure;

/// The shortest pause between two looks; doubled while nothing happens.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Ends when nothing is left for a worker on these types, with what the queue still has for others; a store that does
/// not answer is asked again.
pub async fn until_nothing_is_left(
    engine: &Arc<dyn Engine>,
    types: &[TypeId],
    telling: &Telling,
) -> Result<Vec<LeftSaid>, Failure> {
    let mut pause = LOOK_PAUSE_MIN;
    loop {
        // A job that moves while it is looked for may be missed at both places; then there was an event.
        let before = telling.events();
        let looked = look(engine, types, pause == LOOK_PAUSE_MAX).await;
        let is_still = telling.events() == before;
        match looked {
            Ok(Some(left)) if is_still => return Ok(left),
            Err(error) if !error.is_retryable() => return Err(error.into()),
            _ => tokio::time::sleep(pause).await,
        }
        pause = if is_still { (pause * 2).min(LOOK_PAUSE_MAX) } else { LOOK_PAUSE_MIN };
    }
}

/// What the queue has for others, by type, with why a worker on these types leaves it; none if there is something for
/// that one.
async fn look(
    engine: &Arc<dyn Engine>,
    types: &[TypeId],
    is_quiet: bool,
) -> Result<Option<Vec<LeftSaid>>, EngineError> {
    let Inspected::Whole(whole) = engine.inspect(Inspect::Whole).await? else { return Ok(None) };
    if whole.aggregating + whole.sweeping > 0 {
        return Ok(None);
    }
    let all = whole.backlog + whole.in_flight;
    if all == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut running = Vec::new();
    for type_id in types {
        let Some(view) = view(engine, type_id).await? else { continue };
        // A lane may stand in order without a job until a lease meets it, and so is searched when nothing moves.
        let is_in_order = !view.settings.paused && view.active_lanes.iter().sum::<u64>() > 0;
        if view.in_flight + view.ready > 0 || (is_in_order && !is_quiet) {
            return Ok(None);
        }
        running.extend((!view.settings.paused).then(|| type_id.clone()));
    }
    let Some(counts) = counted(engine, &running, types, &whole.types).await? else { return Ok(None) };
    let counted: u64 = counts.values().sum();
    let counts = counts.into_iter().filter(|(_, jobs)| *jobs > 0);
    let mut left: Vec<LeftSaid> = counts
        .map(|(type_id, jobs)| LeftSaid {
            reason: reason(&type_id, types),
            r#type: Some(type_id.to_string()),
            jobs,
        })
        .collect();
    if all > counted {
        left.push(LeftSaid { r#type: None, jobs: all - counted, reason: "on hold" });
    }
    Ok(Some(left))
}

/// Counts unfinished jobs by type, in the order in which they move: waiting, pending, ready, in flight. None as soon as
/// one is found that this worker will do: one of a type that runs, or that any of its types has in flight.
async fn counted(
    engine: &Arc<dyn Engine>,
    running: &[TypeId],
    types: &[TypeId],
    known: &[TypeId],
) -> Result<Option<BTreeMap<TypeId, u64>>, EngineError> {
    let mut counts: BTreeMap<TypeId, u64> = BTreeMap::new();
    let others = known.iter().filter(|type_id| !running.contains(type_id));
    for type_id in running.iter().chain(others) {
        let mut pages = Waiting::of(type_id);
        while let Some(jobs) = pages.next(engine).await? {
            if jobs > 0 && running.contains(type_id) {
                return Ok(None);
            }
            *counts.entry(type_id.clone()).or_default() += jobs;
        }
    }
    let mut groups = Groups::default();
    while let Some(page) = groups.next(engine).await? {
        for line in page.into_iter().filter(|line| line.backlog > line.waiting) {
            for lane in lanes(engine, line.group).await? {
                let jobs = lane.backlog + lane.returned;
                let can_run = lane.standing != LaneStanding::Paused && running.contains(&lane.type_id);
                if jobs > 0 && can_run {
                    return Ok(None);
                }
                *counts.entry(lane.type_id).or_default() += jobs;
            }
        }
    }
    for type_id in known {
        let jobs = view(engine, type_id).await?.map_or(0, |view| view.in_flight + view.ready);
        if jobs > 0 && types.contains(type_id) {
            return Ok(None);
        }
        *counts.entry(type_id.clone()).or_default() += jobs;
    }
    Ok(Some(counts))
}

async fn view(engine: &Arc<dyn Engine>, type_id: &TypeId) -> Result<Option<TypeView>, EngineError> {
    match engine.inspect(Inspect::Type(type_id.clone())).await? {
        Inspected::Type(view) => Ok(view),
        _ => Ok(None),
    }
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

async fn lanes(engine: &Arc<dyn Engine>, group: GroupId) -> Result<Vec<LaneView>, EngineError> {
    match engine.inspect(Inspect::Group(group)).await? {
        Inspected::Group(Some(view)) => Ok(view.lanes),
        _ => Ok(Vec::new()),
    }
}

/// All groups with unfinished jobs, page by page.
#[derive(Default)]
struct Groups {
    after: Option<GroupId>,
    is_over: bool,
}

impl Groups {
    /// None behind the last page.
    async fn next(&mut self, engine: &Arc<dyn Engine>) -> Result<Option<Vec<GroupLine>>, EngineError> {
        if self.is_over {
            return Ok(None);
        }
        let page = Inspect::Groups { after: self.after.take(), limit: LIST_GROUPS_MAX };
        let Inspected::Groups(groups) = engine.inspect(page).await? else { return Ok(None) };
        self.is_over = groups.len() < LIST_GROUPS_MAX;
        self.after = groups.last().map(|last| last.group.clone());
        Ok(Some(groups))
    }
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
