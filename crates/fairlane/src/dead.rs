//! Dead jobs: those that failed for good or are out of attempts.
//!
//! Invariant: a call looks at each job that was dead when it began at most once, so that jobs which die again while
//! it requeues do not keep it going. The store's commands take ids; a filter is a walk through the list in front
//! of them, page by page.

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

/// Dead jobs, made with [`Fairlane::dead`](crate::Fairlane::dead) and narrowed by its methods.
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

/// What became of dead jobs that were to run again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequeueCounts {
    /// They are in their lanes again.
    pub requeued: u64,
    /// They stay dead because the queue is full; try again later.
    pub full: u64,
    /// Somebody else requeued or removed them meanwhile.
    pub gone: u64,
}

/// What became of dead jobs that were to be removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiscardCounts {
    /// They are removed.
    pub discarded: u64,
    /// Somebody else requeued or removed them meanwhile.
    pub gone: u64,
}

impl Dead {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, group: None, job_type: None, code: None, older_than: None }
    }

    /// Those of this group.
    pub fn group(self, group: impl Into<String>) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    /// Those of this type.
    pub fn job_type(self, job_type: impl Into<String>) -> Self {
        Self { job_type: Some(job_type.into()), ..self }
    }

    /// Those whose last problem has this code.
    pub fn code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Those that died longer ago than this, by this machine's clock.
    pub fn older_than(self, age: Duration) -> Self {
        Self { older_than: Some(age), ..self }
    }

    /// At most so many of them, oldest first.
    pub async fn list(&self, limit: usize) -> Result<Vec<JobLine>, Error> {
        let mut walk = self.walk()?;
        let mut found = Vec::new();
        while found.len() < limit {
            let Some(page) = walk.next(0).await? else { break };
            found.extend(page);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Lets all of them run again, with all their attempts. One that died in a bulk action leaves it, as that has
    /// counted it already.
    pub async fn requeue(&self) -> Result<RequeueCounts, Error> {
        let (mut walk, mut counts, mut left) = (self.walk()?, RequeueCounts::default(), 0);
        while let Some(page) = walk.next(left).await? {
            let before = counts;
            if !page.is_empty() {
                let answers = self.engine.requeue_dead(RequeueDead { jobs: names(page) }).await?;
                for answer in answers.jobs {
                    match answer {
                        Requeued::Requeued => counts.requeued += 1,
                        Requeued::Full => counts.full += 1,
                        Requeued::NotDead | Requeued::Unknown => counts.gone += 1,
                    }
                }
            }
            left = counts.requeued + counts.gone - before.requeued - before.gone;
        }
        Ok(counts)
    }

    /// Removes all of them.
    pub async fn discard(&self) -> Result<DiscardCounts, Error> {
        let (mut walk, mut counts, mut left) = (self.walk()?, DiscardCounts::default(), 0);
        while let Some(page) = walk.next(left).await? {
            left = page.len() as u64;
            if !page.is_empty() {
                for answer in self.engine.discard(Discard { jobs: names(page) }).await?.jobs {
                    match answer {
                        Disposal::Discarded => counts.discarded += 1,
                        Disposal::NotDead | Disposal::Unknown => counts.gone += 1,
                    }
                }
            }
        }
        Ok(counts)
    }

    fn walk(&self) -> Result<Walk, Error> {
        let age = self.older_than.unwrap_or_default();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Walk {
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

/// A walk through the dead, oldest first.
struct Walk {
    engine: Arc<dyn Engine>,
    group: Option<GroupId>,
    type_id: Option<TypeId>,
    code: Option<String>,
    died_before_us: Option<u64>,
    /// The rank at which the next page begins.
    cursor: u64,
    /// Whether everything that was dead at the beginning has been looked at.
    ended: bool,
    /// When the first dead job was met, by the store's clock. What died later was not dead at the beginning.
    began_at: Option<Micros>,
}

impl Walk {
    /// The next page, which may be empty; `left` jobs of the last one have left the list since. None at the end.
    async fn next(&mut self, left: u64) -> Result<Option<Vec<JobLine>>, Error> {
        self.cursor = self.cursor.saturating_sub(left);
        if self.ended {
            return Ok(None);
        }
        let limit = LIST_JOBS_MAX;
        let (group, type_id) = (self.group.clone(), self.type_id.clone());
        let command = ListJobs { listing: Listing::Dead, group, type_id, cursor: self.cursor, limit };
        let Listed { jobs, next } = self.engine.list_jobs(command).await?;
        match next {
            Some(next) => self.cursor = next,
            None => self.ended = true,
        }
        self.begin(&jobs).await?;
        let is_late = |line: &JobLine| self.began_at.is_some_and(|began_at| died_at(line) > began_at);
        if jobs.iter().any(is_late) {
            self.ended = true;
        }
        Ok(Some(jobs.into_iter().filter(|line| !is_late(line) && self.is_wanted(line)).collect()))
    }

    /// Asks for the time, which comes with an explanation. Jobs that are requeued and die again would make a walk endless.
    async fn begin(&mut self, jobs: &[JobLine]) -> Result<(), Error> {
        if let (None, Some(line)) = (self.began_at, jobs.first()) {
            let explained = self.engine.explain(Explain { job: line.job.clone() }).await?;
            self.began_at = explained.0.map(|explanation| explanation.at);
        }
        Ok(())
    }

    fn is_wanted(&self, line: &JobLine) -> bool {
        self.died_before_us.is_none_or(|before| died_at(line).0 < before)
            && self.code.as_ref().is_none_or(|code| Problem::from_bytes(&line.note).code == *code)
    }
}

fn died_at(line: &JobLine) -> Micros {
    line.settled_at.unwrap_or(line.created_at)
}
