//! Decides when nothing is left for a worker on some types, and counts the jobs of other types.
//!
//! Does not wait for jobs of paused types and groups, nor for jobs on hold: an operator has to
//! release them first.

use std::collections::BTreeMap;
use std::time::Duration;

use fairlane::{Error, Fairlane, GroupId, GroupLine, ListJobs, Listing, TypeId};
use fairlane_core::limits::{LIST_GROUPS_MAX, LIST_JOBS_MAX};
use fairlane_core::queue::LaneStanding;
use fairlane_worker::CALLBACK_TYPE;

use super::event::RemainingJobs;
use super::reporter::Reporter;
use crate::failure::Failure;

/// The shortest pause between two checks; doubled while nothing happens.
const CHECK_PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest pause between two checks.
const CHECK_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Completes when nothing is left for a worker on these types, with the jobs that remain for
/// others. Retries while the store does not respond.
pub async fn until_nothing_is_left(
    fairlane: &Fairlane,
    types: &[TypeId],
    reporter: &Reporter,
) -> Result<Vec<RemainingJobs>, Failure> {
    let mut pause = CHECK_PAUSE_MIN;
    loop {
        // A job that moves during a check may be missed before and after its move; then there was a
        // transition.
        let before = reporter.transitions();
        let checked = check(fairlane, types, pause == CHECK_PAUSE_MAX).await;
        let is_still = reporter.transitions() == before;
        match checked {
            Ok(Some(left)) if is_still => return Ok(left),
            Err(error) if !error.is_retryable() => return Err(error.into()),
            _ => tokio::time::sleep(pause).await,
        }
        pause = if is_still { (pause * 2).min(CHECK_PAUSE_MAX) } else { CHECK_PAUSE_MIN };
    }
}

/// The jobs that remain for other workers, by type, with the reason; none if a job is left for this
/// worker.
async fn check(
    fairlane: &Fairlane,
    types: &[TypeId],
    is_quiet: bool,
) -> Result<Option<Vec<RemainingJobs>>, Error> {
    let queue = fairlane.queue_view().await?;
    if queue.aggregating + queue.sweeping > 0 {
        return Ok(None);
    }
    let all = queue.backlog + queue.in_flight;
    if all == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut running = Vec::new();
    for type_id in types {
        let Some(view) = fairlane.job_type(type_id).view().await? else { continue };
        // An empty lane stays in the order until a lease visits it, so lanes are inspected only
        // when nothing moves.
        let is_in_order = !view.settings.paused && view.active_lanes.iter().sum::<u64>() > 0;
        if view.in_flight + view.ready > 0 || (is_in_order && !is_quiet) {
            return Ok(None);
        }
        running.extend((!view.settings.paused).then(|| type_id.clone()));
    }
    let Some(counts) = count_others(fairlane, &running, types, &queue.types).await? else { return Ok(None) };
    let counted: u64 = counts.values().sum();
    let counts = counts.into_iter().filter(|(_, jobs)| *jobs > 0);
    let mut left: Vec<RemainingJobs> = counts
        .map(|(type_id, jobs)| RemainingJobs {
            reason: reason(&type_id, types),
            r#type: Some(type_id.to_string()),
            jobs,
        })
        .collect();
    if all > counted {
        left.push(RemainingJobs { r#type: None, jobs: all - counted, reason: "on hold" });
    }
    Ok(Some(left))
}

/// Counts unfinished jobs by type, in the order in which jobs move: waiting, pending, ready, in
/// flight. None as soon as a job is found that this worker will run: one of a running type, or one
/// in flight of any of its types.
async fn count_others(
    fairlane: &Fairlane,
    running: &[TypeId],
    types: &[TypeId],
    known: &[TypeId],
) -> Result<Option<BTreeMap<TypeId, u64>>, Error> {
    let mut counts: BTreeMap<TypeId, u64> = BTreeMap::new();
    let others = known.iter().filter(|type_id| !running.contains(type_id));
    for type_id in running.iter().chain(others) {
        let mut pages = WaitingPages::of(type_id);
        while let Some(jobs) = pages.next(fairlane).await? {
            if jobs > 0 && running.contains(type_id) {
                return Ok(None);
            }
            *counts.entry(type_id.clone()).or_default() += jobs;
        }
    }
    let mut groups = GroupPages::default();
    while let Some(page) = groups.next(fairlane).await? {
        for line in page.into_iter().filter(|line| line.backlog > line.waiting) {
            let view = fairlane.group(&line.group).view().await?;
            for lane in view.into_iter().flat_map(|view| view.lanes) {
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
        let jobs = fairlane.job_type(type_id).view().await?.map_or(0, |view| view.in_flight + view.ready);
        if jobs > 0 && types.contains(type_id) {
            return Ok(None);
        }
        *counts.entry(type_id.clone()).or_default() += jobs;
    }
    Ok(Some(counts))
}

/// The jobs of a type that are not due yet, page by page.
struct WaitingPages {
    type_id: TypeId,
    cursor: Option<u64>,
}

impl WaitingPages {
    fn of(type_id: &TypeId) -> Self {
        Self { type_id: type_id.clone(), cursor: Some(0) }
    }

    /// The number of jobs on the next page; none after the last page.
    async fn next(&mut self, fairlane: &Fairlane) -> Result<Option<u64>, Error> {
        let Some(cursor) = self.cursor else { return Ok(None) };
        let (listing, type_id) = (Listing::Waiting, Some(self.type_id.clone()));
        let page = ListJobs { listing, group: None, type_id, cursor, limit: LIST_JOBS_MAX };
        let listed = fairlane.jobs(page).await?;
        self.cursor = listed.next;
        Ok(Some(listed.jobs.len() as u64))
    }
}

/// All groups with unfinished jobs, page by page.
#[derive(Default)]
struct GroupPages {
    after: Option<GroupId>,
    is_over: bool,
}

impl GroupPages {
    /// The next page; none after the last one.
    async fn next(&mut self, fairlane: &Fairlane) -> Result<Option<Vec<GroupLine>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let groups = fairlane.groups(self.after.take(), LIST_GROUPS_MAX).await?;
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use fairlane::{Job, Outcome, Settings};
    use fairlane_engine::{Clock, EmbeddedEngine, Hooks, layer};

    use super::*;

    const GROUPS: usize = 120;

    /// Checks that are seen while the job runs; the last ones come at the longest pause.
    const CHECKS: usize = 8;

    /// Counts the commands of a queue by their stem.
    #[derive(Clone, Default)]
    struct Calls(Arc<Mutex<BTreeMap<&'static str, usize>>>);

    impl Calls {
        fn counted(&self) -> Fairlane {
            let engine = EmbeddedEngine::new(Settings::default(), Clock::default()).unwrap();
            let calls = self.clone();
            let hooks = Hooks::default().submit(move |inner, command| {
                *calls.0.lock().unwrap().entry(command.stem()).or_default() += 1;
                Box::pin(async move { inner.submit(command).await })
            });
            Fairlane::from_engine(layer(Arc::new(engine), hooks))
        }

        fn of(&self, stem: &str) -> usize {
            self.0.lock().unwrap().get(stem).copied().unwrap_or_default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_groups_are_not_inspected_while_a_job_runs() {
        let calls = Calls::default();
        let fairlane = calls.counted();
        let jobs = (0..GROUPS).map(|number| Job::new(format!("other-{number}"), "other", &1));
        fairlane.enqueue_all(jobs.chain([Job::new("customer-7", "mail", &1)])).await.unwrap();
        let leases = fairlane.leases();
        let jobs = leases.leaser("w", ["mail"]).unwrap().lease(1, Duration::ZERO).await.unwrap();

        let reporter = Reporter::start(false);
        let types = [TypeId::new("mail").unwrap()];
        let drain = async { until_nothing_is_left(&fairlane, &types, &reporter).await.unwrap() };
        let job = async {
            while calls.of("inspect_type") < CHECKS {
                tokio::time::sleep(CHECK_PAUSE_MIN).await;
            }
            assert_eq!(calls.of("inspect_group"), 0, "a check inspects no group while a job runs");
            leases.settle([Outcome::done(&1).settlement(&jobs[0])]).await.unwrap();
        };
        let (left, ()) = tokio::join!(drain, job);
        reporter.finish().await;
        let left: Vec<_> = left.iter().map(|left| (left.r#type.as_deref(), left.jobs)).collect();
        assert_eq!(left, [(Some("other"), GROUPS as u64)]);
        assert_eq!(calls.of("inspect_group"), GROUPS, "each group once, to count the remaining jobs");
    }
}
