//! `explain`: why a job is not running, in one sentence. Read-only.
//!
//! [`Explanation`] holds facts only, gathered in one step. Pure functions derive their meaning
//! ([`Explanation::reason`], [`Explanation::starts_in_us`], [`Explanation::sentence`]). Positions
//! and future times are estimates and are marked as such.

mod reason;
mod text;

pub use reason::Reason;

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::limits::EXPLAIN_SCAN_MAX;
use crate::numbers::Micros;
use crate::queue::job::{Job, JobKey, Place};
use crate::queue::lane::Lane;
use crate::queue::{BulkView, Discipline, JobRef, Machine};
use crate::rate::{Bucket, Flow, Rate};

use super::{GroupView, JobLine, LaneView, TypeView};

/// Explains one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explain {
    /// The job, by group and id.
    pub job: JobRef,
}

/// The reply to [`Explain`]; `None` if the job does not exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained(pub Option<Box<Explanation>>);

/// A job and everything it may be waiting for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The time of this state, by the store's clock.
    pub at: Micros,
    /// The job, without its payload.
    pub job: JobLine,
    /// Whether the job is running and its cancellation was requested.
    pub unwanted: bool,
    /// Jobs before it in its lane's backlog, if it was found there. Backlogs are searched by
    /// enqueue time, so this is an estimate after the clock has stepped.
    pub position: Option<u64>,
    /// The group of the job.
    pub group: GroupView,
    /// The type of the job.
    pub of_type: TypeView,
    /// The bulk action of the job.
    pub bulk: Option<BulkView>,
    /// The settings and counts that apply to all jobs.
    pub rules: Rules,
    /// When the group's rate allows the next job, if not now.
    pub group_opens_at: Option<Micros>,
    /// When the type's rate allows the next job, if not now.
    pub type_opens_at: Option<Micros>,
    /// When the queue's rate allows the next job, if not now.
    pub queue_opens_at: Option<Micros>,
}

/// The settings and counts that apply to all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The discipline of the queue.
    pub discipline: Discipline,
    /// Retries before a job is dead, unless its type overrides it.
    pub max_retry_count: u32,
    /// The rate of all types together.
    pub rate: Option<Rate>,
    /// The most admitted jobs of one type that wait for a worker (`classic`).
    pub ready_queue_max_size: u64,
    /// Jobs per second over all groups (`classic`).
    pub global_rps: u64,
    /// Jobs of all groups that have passed in this second (`classic`).
    pub passed: u64,
    /// Jobs per second of each active group (`classic`).
    pub group_rps: u64,
    /// Jobs of this group that have passed in this second (`classic`).
    pub group_passed: u64,
}

impl Operation for Explain {
    type Machine = Machine;
    type Reply = Explained;

    const STEM: &'static str = "explain";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Read, &self.job.group)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Explained {
        machine.explain(&self, context.now)
    }
}

impl Explanation {
    /// The lane of the job, if the lane has jobs.
    pub fn lane(&self) -> Option<&LaneView> {
        let is_its = |lane: &&LaneView| lane.level == self.job.level && lane.type_id == self.job.type_id;
        self.group.lanes.iter().find(is_its)
    }

    /// Retries before this job is dead.
    pub fn max_retry_count(&self) -> u32 {
        self.of_type.settings.max_retry_count.unwrap_or(self.rules.max_retry_count)
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
            of_type: TypeView::of(state, now),
            bulk: job
                .bulk
                .filter(|number| self.bulks.contains_key(number))
                .map(|number| self.bulk_view(number)),
            rules: self.rules(job, now),
            group_opens_at: opens_at(group.bucket, group_flow, now),
            type_opens_at: opens_at(state.bucket, type_flow, now),
            queue_opens_at: opens_at(self.bucket, self.settings.rate.map(Rate::flow), now),
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

    /// The position of a job in its lane's backlog, if it is found there.
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

    /// The index of the first job in the backlog that was enqueued at `created_at` or later, by
    /// binary search. Backlogs are sorted by enqueue time unless the clock has stepped.
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

/// When a bucket allows the next job, if not now.
fn opens_at(mut bucket: Bucket, flow: Option<Flow>, now: Micros) -> Option<Micros> {
    let flow = flow?;
    bucket.refill(flow, now);
    let missing = flow.job_units.saturating_sub(bucket.level);
    (missing > 0).then(|| now.plus_us(missing.div_ceil(flow.units_per_us)))
}
