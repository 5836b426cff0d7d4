//! Dead jobs: jobs that failed for good or have no attempts left.
//!
//! Invariant: a scan processes each job that was dead when it began at most once, also if it is
//! continued with a cursor. Jobs that die again during a requeue therefore do not make it endless.
//! The engine's operations take ids; a filter scans the list of dead jobs page by page.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairlane_core::limits::{INTEGER_MAX, LIST_JOBS_MAX};
use fairlane_core::queue::{
    Discard, Disposal, Explain, JobLine, JobRef, ListJobs, Listed, Listing, RequeueDead, Requeued,
};
use fairlane_core::{GroupId, Micros, TypeId};
use fairlane_engine::Engine;
use fairlane_worker::Problem;
use serde::Serialize;

use crate::error::Error;

/// Most pages of the engine that one [`Dead::page`] reads.
const PAGES_MAX: usize = 40;

/// A selection of dead jobs, made with [`Fairlane::dead`](crate::Fairlane::dead) and narrowed by
/// its methods.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// # use std::time::Duration;
/// # let fairlane = fairlane::Fairlane::open("memory:").await?;
/// let timeouts = fairlane.dead().group("customer-7").job_type("mail").code("timed_out");
/// for job in timeouts.list(20).await? {
///     println!("{} died after {} attempts", job.job.id, job.attempts);
/// }
/// let counts = timeouts.requeue().await?;
/// assert_eq!(counts.requeued, 0);
/// fairlane.dead().older_than(Duration::from_secs(86_400)).discard().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Dead {
    engine: Arc<dyn Engine>,
    filter: DeadFilter,
}

/// Which dead jobs to select; fields that are `None` match every job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadFilter {
    /// Jobs of this group.
    pub group: Option<String>,
    /// Jobs of this type.
    pub job_type: Option<String>,
    /// Jobs whose last error has this code.
    pub code: Option<String>,
    /// Jobs that died longer ago than this, by this machine's clock.
    pub older_than: Option<Duration>,
}

/// The number of jobs by the outcome of a requeue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequeueCounts {
    /// Jobs that are in their lanes again, with all their attempts.
    pub requeued: u64,
    /// Jobs that stay dead because their group or the queue has reached its maximum of unfinished
    /// jobs; try again later.
    pub full: u64,
    /// Jobs that are not dead, or not any more.
    pub not_dead: u64,
    /// Jobs that do not exist, or not any more.
    pub unknown: u64,
}

/// The number of jobs by the outcome of a discard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DiscardCounts {
    /// Jobs that are deleted; their ids are free.
    pub discarded: u64,
    /// Jobs that are not dead, or not any more.
    pub not_dead: u64,
    /// Jobs that do not exist, or not any more.
    pub unknown: u64,
}

/// Where a scan of dead jobs continues; its text form can be stored or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadCursor {
    /// The rank at which the next page begins.
    rank: u64,
    /// The engine's time when the scan found its first job. A job that died later was not dead
    /// then.
    began_at: Option<Micros>,
}

impl fmt::Display for DeadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.rank, self.began_at.map_or(0, |at| at.0))
    }
}

impl DeadCursor {
    /// How many dead jobs are before it in the list, oldest first.
    pub fn position(&self) -> u64 {
        self.rank
    }
}

/// The text is not a cursor of dead jobs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cursor of dead jobs; continue with the one that the last call returned")]
pub struct InvalidCursor(String);

impl FromStr for DeadCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let number = |text: &str| text.parse().ok().filter(|number| *number < INTEGER_MAX);
        let cursor = text.split_once('.').and_then(|(rank, began_at)| {
            let began_at = Some(Micros(number(began_at)?)).filter(|at| at.0 > 0);
            Some(Self { rank: number(rank)?, began_at })
        });
        cursor.ok_or_else(|| InvalidCursor(text.to_owned()))
    }
}

impl Dead {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, filter: DeadFilter::default() }
    }

    /// Selects the jobs of this filter.
    pub fn filter(self, filter: DeadFilter) -> Self {
        Self { filter, ..self }
    }

    /// Selects jobs of this group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.filter.group = Some(group.into());
        self
    }

    /// Selects jobs of this type.
    pub fn job_type(mut self, job_type: impl Into<String>) -> Self {
        self.filter.job_type = Some(job_type.into());
        self
    }

    /// Selects jobs whose last error has this code.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.filter.code = Some(code.into());
        self
    }

    /// Selects jobs that died longer ago than this, by this machine's clock.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.filter.older_than = Some(age);
        self
    }

    /// The first `limit` selected jobs, oldest first.
    pub async fn list(&self, limit: usize) -> Result<Vec<JobLine>, Error> {
        let (filter, mut cursor, mut found) = (self.checked_filter()?, Some(0), Vec::new());
        while let Some(from) = cursor.filter(|_| found.len() < limit) {
            let page = filter.read(&*self.engine, from, LIST_JOBS_MAX).await?;
            found.extend(page.jobs.into_iter().filter(|line| filter.includes(line)));
            cursor = page.next;
        }
        found.truncate(limit);
        Ok(found)
    }

    /// A page of at most `limit` (up to 500) selected jobs, oldest first, and the cursor of the
    /// next page. The first page is at 0. A page may be short or empty although more follow.
    pub async fn page(&self, cursor: u64, limit: usize) -> Result<(Vec<JobLine>, Option<u64>), Error> {
        let (filter, mut next, mut found) = (self.checked_filter()?, Some(cursor), Vec::new());
        for _ in 0..PAGES_MAX {
            let Some(from) = next.filter(|_| found.len() < limit) else { break };
            let page = filter.read(&*self.engine, from, limit - found.len()).await?;
            found.extend(page.jobs.into_iter().filter(|line| filter.includes(line)));
            next = page.next;
        }
        Ok((found, next))
    }

    /// Requeues all selected jobs, with all their attempts. A job that died in a bulk action leaves
    /// it, since the bulk action has already counted it.
    pub async fn requeue(&self) -> Result<RequeueCounts, Error> {
        Ok(self.requeue_part(None, u64::MAX).await?.0)
    }

    /// As [`requeue`](Self::requeue), but scans about `scanned_max` dead jobs, and returns the
    /// cursor to continue with if there are more.
    pub async fn requeue_part(
        &self,
        from: Option<DeadCursor>,
        scanned_max: u64,
    ) -> Result<(RequeueCounts, Option<DeadCursor>), Error> {
        let (counts, next) = self.scan(Action::Requeue, from, scanned_max).await?;
        Ok((counts.into(), next))
    }

    /// Requeues these jobs, at most 500, each once; the filter does not apply.
    pub async fn requeue_jobs(&self, jobs: Vec<JobRef>) -> Result<RequeueCounts, Error> {
        Ok(self.apply(Action::Requeue, jobs).await?.into())
    }

    /// Removes all selected jobs.
    pub async fn discard(&self) -> Result<DiscardCounts, Error> {
        Ok(self.discard_part(None, u64::MAX).await?.0)
    }

    /// As [`discard`](Self::discard), but scans about `scanned_max` dead jobs, and returns the
    /// cursor to continue with if there are more.
    pub async fn discard_part(
        &self,
        from: Option<DeadCursor>,
        scanned_max: u64,
    ) -> Result<(DiscardCounts, Option<DeadCursor>), Error> {
        let (counts, next) = self.scan(Action::Discard, from, scanned_max).await?;
        Ok((counts.into(), next))
    }

    /// Removes these jobs, at most 500, each once; the filter does not apply.
    pub async fn discard_jobs(&self, jobs: Vec<JobRef>) -> Result<DiscardCounts, Error> {
        Ok(self.apply(Action::Discard, jobs).await?.into())
    }

    fn checked_filter(&self) -> Result<Filter<'_>, Error> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Filter {
            group: self.filter.group.as_ref().map(GroupId::new).transpose()?,
            type_id: self.filter.job_type.as_ref().map(TypeId::new).transpose()?,
            code: self.filter.code.as_deref(),
            died_before: self
                .filter
                .older_than
                .map(|age| Micros(since_1970.saturating_sub(age).as_micros() as u64)),
        })
    }

    async fn scan(
        &self,
        action: Action,
        from: Option<DeadCursor>,
        scanned_max: u64,
    ) -> Result<(Outcomes, Option<DeadCursor>), Error> {
        let (filter, mut outcomes, mut scanned) = (self.checked_filter()?, Outcomes::default(), 0);
        let mut rank = from.map_or(0, |cursor| cursor.rank);
        let mut began_at = from.and_then(|cursor| cursor.began_at);
        while scanned < scanned_max {
            let Listed { jobs, next } = filter.read(&*self.engine, rank, LIST_JOBS_MAX).await?;
            if let (None, Some(line)) = (began_at, jobs.first()) {
                began_at = self.time(line).await?;
            }
            let is_late = |line: &JobLine| began_at.is_some_and(|began_at| died_at(line) > began_at);
            let is_end = next.is_none() || jobs.iter().any(is_late);
            let selected = jobs.into_iter().filter(|line| !is_late(line) && filter.includes(line));
            let selected: Vec<JobRef> = selected.map(|line| line.job).collect();
            let (count, full_before) = (selected.len() as u64, outcomes.full);
            if count > 0 {
                outcomes.add(self.apply(action, selected).await?);
            }
            let Some(next) = next.filter(|_| !is_end) else { return Ok((outcomes, None)) };
            scanned += next.saturating_sub(rank);
            // Jobs that left the list moved the following jobs to lower ranks.
            rank = next.saturating_sub(count - (outcomes.full - full_before));
        }
        Ok((outcomes, Some(DeadCursor { rank, began_at })))
    }

    /// The engine's time, which is part of an explanation. Without it, jobs that are requeued and
    /// die again would make a scan endless.
    async fn time(&self, line: &JobLine) -> Result<Option<Micros>, Error> {
        let explained = self.engine.call(Explain { job: line.job.clone() }).await?;
        Ok(explained.0.map(|explanation| explanation.at))
    }

    async fn apply(&self, action: Action, jobs: Vec<JobRef>) -> Result<Outcomes, Error> {
        let mut outcomes = Outcomes::default();
        match action {
            Action::Requeue => {
                for outcome in self.engine.call(RequeueDead { jobs }).await?.jobs {
                    *match outcome {
                        Requeued::Requeued => &mut outcomes.done,
                        Requeued::Full => &mut outcomes.full,
                        Requeued::NotDead => &mut outcomes.not_dead,
                        Requeued::Unknown => &mut outcomes.unknown,
                    } += 1;
                }
            }
            Action::Discard => {
                for outcome in self.engine.call(Discard { jobs }).await?.jobs {
                    *match outcome {
                        Disposal::Discarded => &mut outcomes.done,
                        Disposal::NotDead => &mut outcomes.not_dead,
                        Disposal::Unknown => &mut outcomes.unknown,
                    } += 1;
                }
            }
        }
        Ok(outcomes)
    }
}

/// What to do with dead jobs.
#[derive(Clone, Copy)]
enum Action {
    Requeue,
    Discard,
}

/// The number of jobs by outcome.
#[derive(Default)]
struct Outcomes {
    done: u64,
    full: u64,
    not_dead: u64,
    unknown: u64,
}

impl Outcomes {
    fn add(&mut self, other: Self) {
        self.done += other.done;
        self.full += other.full;
        self.not_dead += other.not_dead;
        self.unknown += other.unknown;
    }
}

impl From<Outcomes> for RequeueCounts {
    fn from(Outcomes { done, full, not_dead, unknown }: Outcomes) -> Self {
        Self { requeued: done, full, not_dead, unknown }
    }
}

impl From<Outcomes> for DiscardCounts {
    fn from(Outcomes { done, not_dead, unknown, .. }: Outcomes) -> Self {
        Self { discarded: done, not_dead, unknown }
    }
}

/// The jobs that a selection includes.
struct Filter<'a> {
    group: Option<GroupId>,
    type_id: Option<TypeId>,
    code: Option<&'a str>,
    died_before: Option<Micros>,
}

impl Filter<'_> {
    /// A page of dead jobs of the group and type.
    async fn read(&self, engine: &dyn Engine, cursor: u64, limit: usize) -> Result<Listed, Error> {
        let (group, type_id) = (self.group.clone(), self.type_id.clone());
        Ok(engine.call(ListJobs { listing: Listing::Dead, group, type_id, cursor, limit }).await?)
    }

    fn includes(&self, line: &JobLine) -> bool {
        self.died_before.is_none_or(|before| died_at(line) < before)
            && self.code.is_none_or(|code| Problem::from_bytes(&line.note).code == code)
    }
}

fn died_at(line: &JobLine) -> Micros {
    line.settled_at.unwrap_or(line.created_at)
}
