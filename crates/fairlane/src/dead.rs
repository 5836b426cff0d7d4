//! Dead jobs: jobs that failed for good or have no attempts left.
//!
//! Invariant: a call processes each job that was dead when it began at most once, so that jobs
//! which die again during a requeue do not keep it going. The engine's operations take ids; a
//! filter scans the list of dead jobs page by page.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairlane_core::limits::LIST_JOBS_MAX;
use fairlane_core::queue::{
    Discard, Disposal, Explain, JobLine, JobRef, ListJobs, Listed, Listing, RequeueDead, Requeued,
};
use fairlane_core::{GroupId, Micros, TypeId};
use fairlane_engine::Engine;
use fairlane_worker::Problem;

use crate::error::Error;

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
    group: Option<String>,
    job_type: Option<String>,
    code: Option<String>,
    older_than: Option<Duration>,
}

/// The result of requeueing dead jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequeueCounts {
    /// Number of jobs requeued.
    pub requeued: u64,
    /// Number of jobs that stay dead because the queue is full; try again later.
    pub full: u64,
    /// Number of jobs that another client requeued or removed meanwhile.
    pub gone: u64,
}

/// The result of discarding dead jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiscardCounts {
    /// Number of jobs removed.
    pub discarded: u64,
    /// Number of jobs that another client requeued or removed meanwhile.
    pub gone: u64,
}

impl Dead {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, group: None, job_type: None, code: None, older_than: None }
    }

    /// Selects jobs of this group.
    pub fn group(self, group: impl Into<String>) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    /// Selects jobs of this type.
    pub fn job_type(self, job_type: impl Into<String>) -> Self {
        Self { job_type: Some(job_type.into()), ..self }
    }

    /// Selects jobs whose last error has this code.
    pub fn code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Selects jobs that died longer ago than this, by this machine's clock.
    pub fn older_than(self, age: Duration) -> Self {
        Self { older_than: Some(age), ..self }
    }

    /// The first `limit` selected jobs, oldest first.
    pub async fn list(&self, limit: usize) -> Result<Vec<JobLine>, Error> {
        let mut scan = self.scan()?;
        let mut found = Vec::new();
        while found.len() < limit {
            let Some(page) = scan.next(0).await? else { break };
            found.extend(page);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Requeues all selected jobs, with all their attempts. A job that died in a bulk action leaves
    /// it, since the bulk action has already counted it.
    pub async fn requeue(&self) -> Result<RequeueCounts, Error> {
        let (mut scan, mut counts, mut removed) = (self.scan()?, RequeueCounts::default(), 0);
        while let Some(page) = scan.next(removed).await? {
            let before = counts;
            if !page.is_empty() {
                let reply = self.engine.call(RequeueDead { jobs: names(page) }).await?;
                for requeued in reply.jobs {
                    match requeued {
                        Requeued::Requeued => counts.requeued += 1,
                        Requeued::Full => counts.full += 1,
                        Requeued::NotDead | Requeued::Unknown => counts.gone += 1,
                    }
                }
            }
            removed = counts.requeued + counts.gone - before.requeued - before.gone;
        }
        Ok(counts)
    }

    /// Removes all selected jobs.
    pub async fn discard(&self) -> Result<DiscardCounts, Error> {
        let (mut scan, mut counts, mut removed) = (self.scan()?, DiscardCounts::default(), 0);
        while let Some(page) = scan.next(removed).await? {
            removed = page.len() as u64;
            if !page.is_empty() {
                for disposal in self.engine.call(Discard { jobs: names(page) }).await?.jobs {
                    match disposal {
                        Disposal::Discarded => counts.discarded += 1,
                        Disposal::NotDead | Disposal::Unknown => counts.gone += 1,
                    }
                }
            }
        }
        Ok(counts)
    }

    fn scan(&self) -> Result<Scan, Error> {
        let age = self.older_than.unwrap_or_default();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Scan {
            engine: self.engine.clone(),
            group: self.group.as_ref().map(GroupId::new).transpose()?,
            type_id: self.job_type.as_ref().map(TypeId::new).transpose()?,
            code: self.code.clone(),
            died_before_us: self.older_than.map(|_| since_1970.saturating_sub(age).as_micros() as u64),
            cursor: 0,
            ended: false,
            began_at: None,
        })
    }
}

fn names(page: Vec<JobLine>) -> Vec<JobRef> {
    page.into_iter().map(|line| line.job).collect()
}

/// A scan of the dead jobs, oldest first.
struct Scan {
    engine: Arc<dyn Engine>,
    group: Option<GroupId>,
    type_id: Option<TypeId>,
    code: Option<String>,
    died_before_us: Option<u64>,
    /// The rank at which the next page begins.
    cursor: u64,
    /// Whether all jobs that were dead at the beginning have been read.
    ended: bool,
    /// The engine's time when the first page was read. A job that died later was not dead at the
    /// beginning.
    began_at: Option<Micros>,
}

impl Scan {
    /// The next page, which may be empty; `None` at the end. `removed` is the number of jobs of the
    /// last page that have left the list since.
    async fn next(&mut self, removed: u64) -> Result<Option<Vec<JobLine>>, Error> {
        self.cursor = self.cursor.saturating_sub(removed);
        if self.ended {
            return Ok(None);
        }
        let limit = LIST_JOBS_MAX;
        let (group, type_id) = (self.group.clone(), self.type_id.clone());
        let command = ListJobs { listing: Listing::Dead, group, type_id, cursor: self.cursor, limit };
        let Listed { jobs, next } = self.engine.call(command).await?;
        match next {
            Some(next) => self.cursor = next,
            None => self.ended = true,
        }
        self.begin(&jobs).await?;
        let is_late = |line: &JobLine| self.began_at.is_some_and(|began_at| died_at(line) > began_at);
        if jobs.iter().any(is_late) {
            self.ended = true;
        }
        Ok(Some(jobs.into_iter().filter(|line| !is_late(line) && self.is_selected(line)).collect()))
    }

    /// Reads the engine's time, which is part of an explanation. Without it, jobs that are requeued
    /// and die again would make a scan endless.
    async fn begin(&mut self, jobs: &[JobLine]) -> Result<(), Error> {
        if let (None, Some(line)) = (self.began_at, jobs.first()) {
            let explained = self.engine.call(Explain { job: line.job.clone() }).await?;
            self.began_at = explained.0.map(|explanation| explanation.at);
        }
        Ok(())
    }

    fn is_selected(&self, line: &JobLine) -> bool {
        self.died_before_us.is_none_or(|before| died_at(line).0 < before)
            && self.code.as_ref().is_none_or(|code| Problem::from_bytes(&line.note).code == *code)
    }
}

fn died_at(line: &JobLine) -> Micros {
    line.settled_at.unwrap_or(line.created_at)
}
