//! `explain`: why a job is not running, in one sentence; looks and changes nothing.
//!
//! [`Explanation`] holds facts only, gathered in one step; what they mean is decided by pure functions
//! ([`Explanation::reason`], [`Explanation::starts_in_us`], [`Explanation::sentence`]). Positions and times to
//! come are estimates and say so.

mod reason;
mod words;

pub use reason::Reason;

use serde::{Deserialize, Serialize};

use crate::limits::EXPLAIN_SCAN_MAX;
use crate::numbers::Micros;
use crate::queue::job::{Job, JobKey, Place};
use crate::queue::lane::Lane;
use crate::queue::{BulkView, Discipline, JobRef, Machine};
use crate::rate::{Bucket, Flow, Rate};

use super::{GroupView, Invalid, JobLine, LaneView, TypeView};

/// Asks about one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explain {
    /// Whose and which.
    pub job: JobRef,
}

/// The reply; nothing if there is no such job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained(pub Option<Box<Explanation>>);

/// A job and everything it may be waiting for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// When this was so, by the store's clock.
    pub at: Micros,
    /// The job.
    pub job: JobLine,
    /// Somebody wants the job, which is running, not to run any further.
    pub unwanted: bool,
    /// Jobs before it in its lane's backlog, if it was found there. Backlogs are searched by the time jobs were
    /// enqueued, so this is an estimate after the clock has stepped.
    pub position: Option<u64>,
    /// Its group.
    pub group: GroupView,
    /// Its type.
    pub of_type: TypeView,
    /// Its bulk action.
    pub bulk: Option<BulkView>,
    /// The whole.
    pub whole: Rules,
    /// When its group's rate lets the next job pass, if not now.
    pub group_opens_at: Option<Micros>,
    /// When its type's rate does.
    pub type_opens_at: Option<Micros>,
    /// When the rate of the whole does.
    pub whole_opens_at: Option<Micros>,
}

/// What holds for all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The rules for order, gate and denial.
    pub discipline: Discipline,
    /// Retries before a job is dead, unless its type has a number of its own.
    pub max_retry_count: u32,
    /// Rate of all types together.
    pub rate: Option<Rate>,
    /// Admitted jobs of one type that may wait for a worker (`classic`).
    pub ready_queue_max_size: u64,
    /// Jobs a second over all groups (`classic`), and how many have passed in this second.
    pub global_rps: u64,
    /// See `global_rps`.
    pub passed: u64,
    /// Jobs a second of each active group (`classic`), and how many of this group have passed in this second.
    pub group_rps: u64,
    /// See `group_rps`.
    pub group_passed: u64,
}

impl Explain {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

impl Explanation {
    /// The lane the job belongs to, if that has jobs.
    pub fn lane(&self) -> Option<&LaneView> {
        let is_its = |lane: &&LaneView| lane.level == self.job.level && lane.type_id == self.job.type_id;
        self.group.lanes.iter().find(is_its)
    }

    /// Retries before the job is dead.
    pub fn max_retry_count(&self) -> u32 {
        self.of_type.settings.max_retry_count.unwrap_or(self.whole.max_retry_count)
    }
}

impl Machine {
    pub(in crate::queue) fn explain(&self, command: &Explain, now: Micros) -> Explained {
        Explained(self.explanation(&command.job, now).map(Box::new))
    }

    fn explanation(&self, name: &JobRef, now: Micros) -> Option<Explanation> {
        let key = self.find_job(name)?;
        let job = &self.jobs[key];
        let (group, state) = (&self.groups[job.group], &self.types[job.type_key]);
        let mut downstream = state.downstream.clone();
        let type_flow = downstream.flow(state.settings.rate, now);
        let group_flow = group.settings.rate.filter(|_| !self.is_classic()).map(Rate::flow);
        Some(Explanation {
            at: now,
            job: self.job_view(name)?.into(),
            unwanted: matches!(job.place, Place::InFlight(_)) && self.is_unwanted(key),
            position: self.position(key),
            group: self.group_view(&name.group)?,
            of_type: self.type_view(&state.name, now)?,
            bulk: job
                .bulk
                .filter(|number| self.bulks.contains_key(number))
                .map(|number| self.bulk_view(number)),
            whole: self.rules(job, now),
            group_opens_at: opens_at(group.bucket, group_flow, now),
            type_opens_at: opens_at(state.bucket, type_flow, now),
            whole_opens_at: opens_at(self.whole, self.settings.rate.map(Rate::flow), now),
        })
    }

    fn rules(&self, job: &Job, now: Micros) -> Rules {
        let settings = &self.settings;
        let passed = |window: (u64, u64)| if window.0 == Self::second(now) { window.1 } else { 0 };
        Rules {
            discipline: settings.discipline,
            max_retry_count: settings.max_retry_count,
            rate: settings.rate,
            ready_queue_max_size: settings.ready_queue_max_size,
            global_rps: settings.global_rps,
            passed: passed(self.window),
            group_rps: self.group_speed(),
            group_passed: passed(self.groups[job.group].window),
        }
    }

    /// Where a job that stands in a list stands in its lane's backlog, if it is found there.
    fn position(&self, key: JobKey) -> Option<u64> {
        let job = &self.jobs[key];
        if !matches!(job.place, Place::Lane | Place::Ready | Place::OnHold) || job.cancelled {
            return None;
        }
        let lanes = &self.groups[job.group].lanes;
        let lane = lanes.iter().find(|lane| lane.type_key == job.type_key && lane.level == job.level)?;
        let first = self.first_since(lane, job.created_at);
        let found = lane.backlog.range(first..).take(EXPLAIN_SCAN_MAX).position(|&other| other == key)?;
        Some((first + found) as u64)
    }

    /// The first of the backlog that was enqueued then or later, by halving: backlogs are in that order unless
    /// the clock has stepped.
    fn first_since(&self, lane: &Lane, created_at: Micros) -> usize {
        let (mut low, mut high) = (0, lane.backlog.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.jobs[lane.backlog[middle]].created_at < created_at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// When a bucket lets the next job pass, if not now.
fn opens_at(mut bucket: Bucket, flow: Option<Flow>, now: Micros) -> Option<Micros> {
    let flow = flow?;
    bucket.refill(flow, now);
    let missing = flow.job_units.saturating_sub(bucket.level);
    (missing > 0).then(|| now.plus_us(missing.div_ceil(flow.units_per_us)))
}
