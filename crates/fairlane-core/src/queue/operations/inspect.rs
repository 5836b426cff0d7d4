//! `inspect`: looks and changes nothing.

use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::congestion::{CongestionLevel, estimate_completion_ms};
use crate::limits::{INTEGER_MAX, LIST_GROUPS_MAX, STATS_RETENTION_MS_MAX};
use crate::names::{BulkId, GroupId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros, within};
use crate::queue::job::{Job, Place};
use crate::queue::lane::{Group, Record, Standing};
use crate::queue::{
    BulkRef, BulkView, Course, GroupSettings, JobRef, JobState, Machine, Settings, Snapshot, TypeSettings,
};
use crate::trace::Trace;

use super::Invalid;

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inspect {
    /// One job.
    Job(JobRef),
    /// One group.
    Group(GroupId),
    /// One type.
    Type(TypeId),
    /// One bulk action.
    Bulk(BulkRef),
    /// A group's bulk actions in the order they were opened, at most 500 at a time.
    Bulks {
        /// Whose.
        group: GroupId,
        /// 0 for the first page, then as the reply says.
        after: u64,
        /// At most this many.
        limit: usize,
        /// Only those that have not ended; then those that have cost nothing.
        unfinished: bool,
    },
    /// One group's congestion.
    Congestion(GroupId),
    /// One group's congestion over time: the newest snapshots, oldest first.
    History {
        /// Whose.
        group: GroupId,
        /// At most this many.
        limit: usize,
    },
    /// Groups that have unfinished jobs, by name, at most 500 at a time.
    Groups {
        /// Those behind this one.
        after: Option<GroupId>,
        /// At most this many.
        limit: usize,
    },
    /// The whole.
    Whole,
}

impl Inspect {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let limit = match self {
            Self::Bulks { limit, after, .. } => {
                within("the cursor of a page", *after, 0, INTEGER_MAX - 1)?;
                *limit
            }
            Self::Groups { limit, .. } => *limit,
            Self::History { limit, .. } => return history_limit(*limit),
            _ => return Ok(()),
        };
        within("the limit of a page", limit as u64, 1, LIST_GROUPS_MAX as u64)?;
        Ok(())
    }
}

/// A limit of 0 must not mean all.
fn history_limit(limit: usize) -> Result<(), Invalid> {
    within("the limit of a history", limit as u64, 1, STATS_RETENTION_MS_MAX / 1000)?;
    Ok(())
}

/// The reply; `None` where there is no such thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Inspected {
    /// One job.
    Job(Option<JobView>),
    /// One group.
    Group(Option<GroupView>),
    /// One type.
    Type(Option<TypeView>),
    /// One bulk action.
    Bulk(Option<BulkView>),
    /// A page of bulk actions, and where the next begins.
    Bulks {
        /// In the order they were opened.
        bulks: Vec<BulkView>,
        /// `None` at the end.
        next: Option<u64>,
    },
    /// One group's congestion.
    Congestion(Option<CongestionView>),
    /// Oldest first.
    History(Vec<Snapshot>),
    /// By name; fewer than asked for at the end.
    Groups(Vec<GroupLine>),
    /// The whole.
    Whole(WholeView),
}

/// A group's congestion as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CongestionView {
    /// Jobs kept away: waiting (`classic`), or all that are not in flight (`share`).
    pub waiting: u64,
    /// Jobs a second it is allowed; 0 if that is not known.
    pub speed: u64,
    /// The newest backoff (`classic`) or predicted wait (`share`).
    pub backoff_ms: u64,
    /// How crowded that is.
    pub level: CongestionLevel,
    /// Throttles of jobs that have ended since the group was last idle …
    pub throttles: u64,
    /// … and how many jobs those were.
    pub ended: u64,
}

impl CongestionView {
    /// Throttles per job, on average.
    pub fn throttles_per_job(&self) -> f64 {
        if self.ended == 0 { 0.0 } else { self.throttles as f64 / self.ended as f64 }
    }

    /// How long what is kept away will take, in milliseconds: an estimate; none if the speed is not known.
    pub fn estimated_completion_ms(&self) -> Option<u64> {
        let is_known = self.speed > 0 || self.waiting == 0;
        is_known.then(|| estimate_completion_ms(self.waiting, self.speed))
    }
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLine {
    /// Which.
    pub group: GroupId,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Of the backlog, jobs that must not run yet.
    pub waiting: u64,
    /// Jobs enqueued since it was last idle.
    pub total: u64,
    /// Of these, jobs that have ended.
    pub done: u64,
    /// The newest backoff or predicted wait.
    pub backoff_ms: u64,
    /// Its share, limits and pause.
    pub settings: GroupSettings,
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// Whose and which.
    pub job: JobRef,
    /// Its type.
    pub type_id: TypeId,
    /// Its level.
    pub level: Level,
    /// Its cost.
    pub cost: Cost,
    /// Its payload.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
    /// When it was enqueued.
    pub created_at: Micros,
    /// Where it is.
    pub state: JobState,
    /// When it is due (waiting) or its lease ends (processing).
    pub until: Option<Micros>,
    /// Attempts charged so far, the running one included.
    pub attempts: u32,
    /// Times the downstream refused it.
    pub throttles: u32,
    /// Leases it lost.
    pub losses: u32,
    /// The fence of its lease, else the one settled last.
    pub fence: Option<Fence>,
    /// Who leased it last.
    pub worker: Option<WorkerId>,
    /// When it was last settled.
    pub settled_at: Option<Micros>,
    /// Its result, or why it last failed.
    #[serde(with = "crate::encoding::bytes")]
    pub note: Arc<[u8]>,
    /// The bulk action it belongs to.
    pub bulk: Option<BulkId>,
    /// The trace it was enqueued with.
    pub trace: Option<Trace>,
}

/// A group as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// What is set.
    pub settings: GroupSettings,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Of the backlog, jobs that must not run yet.
    pub waiting: u64,
    /// Jobs enqueued since it was last idle.
    pub total: u64,
    /// Of these, jobs that have ended.
    pub done: u64,
    /// Bytes it has stored, finished jobs included.
    pub stored_bytes: u64,
    /// Its lanes with jobs, by (level, type).
    pub lanes: Vec<LaneView>,
}

/// A lane as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneView {
    /// Its level.
    pub level: Level,
    /// Its type.
    pub type_id: TypeId,
    /// Jobs never leased, or promoted for the first time.
    pub backlog: u64,
    /// Jobs that came back; served first.
    pub returned: u64,
    /// Whether it can be served.
    pub standing: LaneStanding,
}

/// Whether a lane can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaneStanding {
    /// It has no jobs.
    Idle,
    /// In fair order.
    Active,
    /// Its group's rate is used up until then.
    RateParked(Micros),
    /// All its group's seats are taken.
    SeatParked,
    /// Its group is paused.
    Paused,
    /// The jobs at its head are held or cancelled, and `sweep` takes them out; since when.
    Clearing(Micros),
}

/// A type as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeView {
    /// What is set.
    pub settings: TypeSettings,
    /// Leased jobs.
    pub in_flight: u64,
    /// Lanes in order, by level.
    pub active_lanes: [u64; 3],
    /// The rate in effect, in thousandths of a job a second; below the set one after refusals.
    pub rate_milli: Option<u64>,
    /// The downstream asked for silence until then.
    pub closed_until: Option<Micros>,
    /// Jobs it has answered in the last second, refusals not counted.
    pub answers: u64,
    /// When somebody last asked for its jobs, give or take a second.
    pub asked_at: Option<Micros>,
    /// Admitted jobs that wait for a worker (`classic`).
    pub ready: u64,
}

/// The whole as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeView {
    /// What is set.
    pub settings: Settings,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Of these, jobs that must not run yet.
    pub waiting: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Lanes whose group's rate is used up.
    pub parked_lanes: u64,
    /// Completed and cancelled jobs still kept that belong to no bulk action.
    pub completed: u64,
    /// Dead jobs still kept.
    pub failed: u64,
    /// Bytes stored, finished jobs included: payloads and results of jobs, payloads and summaries of bulk actions.
    pub stored_bytes: u64,
    /// Groups that have unfinished jobs.
    pub active_groups: u64,
    /// Complete bulk actions that are (to be) aggregated.
    pub aggregating: u64,
    /// Bulk actions with dropped or resumed jobs to be swept.
    pub sweeping: u64,
    /// Useless tries that backoff has avoided, an estimate.
    pub saved_spins: u64,
    /// Lanes in order, by level, over all types.
    pub active_lanes: [u64; 3],
    /// The known types, by name.
    pub types: Vec<TypeId>,
}

impl Machine {
    pub(in crate::queue) fn inspect(&self, command: &Inspect, now: Micros) -> Inspected {
        match command {
            Inspect::Job(job) => Inspected::Job(self.job_view(job)),
            Inspect::Group(group) => Inspected::Group(self.group_view(group)),
            Inspect::Type(type_id) => Inspected::Type(self.type_view(type_id, now)),
            Inspect::Bulk(bulk) => Inspected::Bulk(self.find_bulk(bulk).map(|number| self.bulk_view(number))),
            Inspect::Bulks { group, after, limit, unfinished } => {
                self.bulks_page(group, *after, *limit, *unfinished)
            }
            Inspect::Congestion(group) => Inspected::Congestion(self.congestion_view(group)),
            Inspect::History { group, limit } => Inspected::History(self.history(group, *limit)),
            Inspect::Groups { after, limit } => Inspected::Groups(self.groups_page(after.as_ref(), *limit)),
            Inspect::Whole => Inspected::Whole(self.whole_view()),
        }
    }

    pub(super) fn job_view(&self, name: &JobRef) -> Option<JobView> {
        let job = &self.jobs[self.find_job(name)?];
        let held = match &job.place {
            Place::InFlight(held) => Some(held),
            _ => None,
        };
        let (state, until) = match &job.place {
            Place::Lane | Place::OnHold | Place::Ready if self.is_stopped(job) => (JobState::Cancelled, None),
            Place::Lane | Place::OnHold => (JobState::Pending, None),
            Place::Ready => (JobState::Ready, None),
            Place::Waiting(due) => (JobState::Waiting, Some(*due)),
            Place::InFlight(held) => {
                (JobState::Processing, self.batches.get(&held.batch).map(|batch| batch.deadline))
            }
            Place::Completed => (JobState::Completed, None),
            Place::Failed(_) => (JobState::Failed, None),
            Place::Cancelled => (JobState::Cancelled, None),
        };
        let run = job.run.as_ref();
        let settled = run.map(|run| run.settled).filter(|fence| fence.0 > 0);
        Some(JobView {
            job: name.clone(),
            type_id: self.types[job.type_key].name.clone(),
            level: job.level,
            cost: job.cost,
            payload: job.payload.clone(),
            created_at: job.created_at,
            state,
            until,
            attempts: job.attempts() + u32::from(held.is_some()),
            throttles: run.map_or(0, |run| run.throttles),
            losses: run.map_or(0, |run| run.losses),
            fence: held.map(|held| held.fence).or(settled),
            worker: held.map(|held| &held.worker).or(run.and_then(|run| run.worker.as_ref())).cloned(),
            settled_at: run.map(|run| run.settled_at).filter(|at| at.0 > 0),
            note: run.map_or_else(|| Arc::from(&[][..]), |run| run.note.clone()),
            bulk: self.bulk_name(job.bulk),
            trace: job.trace.clone(),
        })
    }

    /// Whether a job that stands in a list will not run: it was cancelled, or its bulk action drops it.
    fn is_stopped(&self, job: &Job) -> bool {
        let course = job.bulk.map(|number| self.bulks.get(&number).map_or(Course::Drop, |bulk| bulk.course));
        job.cancelled || course == Some(Course::Drop)
    }

    fn bulks_page(&self, group: &GroupId, after: u64, limit: usize, unfinished: bool) -> Inspected {
        let group = self.groups_by_name.get(group).map(|&key| &self.groups[key]);
        let mut numbers: Vec<u64> = match group {
            None => Vec::new(),
            Some(group) if unfinished => {
                let behind = group.unfinished.range((Bound::Excluded(after), Bound::Unbounded));
                behind.take(limit + 1).copied().collect()
            }
            Some(group) => group.bulks.values().copied().filter(|number| *number > after).collect(),
        };
        numbers.sort_unstable();
        let next = (numbers.len() > limit).then(|| numbers[limit - 1]);
        numbers.truncate(limit);
        Inspected::Bulks { bulks: numbers.into_iter().map(|number| self.bulk_view(number)).collect(), next }
    }

    fn congestion_view(&self, name: &GroupId) -> Option<CongestionView> {
        let group = &self.groups[*self.groups_by_name.get(name)?];
        let settings = &self.settings.congestion;
        let Record { throttles, done, throttles_since, .. } = group.record;
        let ended = done - throttles_since;
        if !settings.enabled {
            let level = CongestionLevel::None;
            return Some(CongestionView { waiting: 0, speed: 0, backoff_ms: 0, level, throttles, ended });
        }
        let (waiting, speed) = if self.is_classic() {
            (group.record.waiting, self.group_speed())
        } else {
            let newest = group.record.history.back().map_or(0, |snapshot| snapshot.speed);
            (group.backlog, group.settings.rate.map_or(newest, |rate| rate.milli_per_second() / 1000))
        };
        let backoff_ms = group.record.backoff_ms;
        let level = CongestionLevel::classify(backoff_ms, settings.base_backoff_ms);
        Some(CongestionView { waiting, speed, backoff_ms, level, throttles, ended })
    }

    fn history(&self, name: &GroupId, limit: usize) -> Vec<Snapshot> {
        let Some(&key) = self.groups_by_name.get(name) else { return Vec::new() };
        let history = &self.groups[key].record.history;
        history.iter().skip(history.len().saturating_sub(limit)).copied().collect()
    }

    fn groups_page(&self, after: Option<&GroupId>, limit: usize) -> Vec<GroupLine> {
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.active_groups.range((first, Bound::Unbounded)).take(limit);
        let line = |name: &GroupId| {
            let group = &self.groups[self.groups_by_name[name]];
            let Record { waiting, total, done, backoff_ms, .. } = group.record;
            let (backlog, in_flight) = (group.backlog, group.in_flight);
            let settings = group.settings.clone();
            GroupLine { group: name.clone(), backlog, in_flight, waiting, total, done, backoff_ms, settings }
        };
        names.map(line).collect()
    }

    pub(super) fn group_view(&self, name: &GroupId) -> Option<GroupView> {
        let group = &self.groups[*self.groups_by_name.get(name)?];
        let mut lanes: Vec<LaneView> = Vec::new();
        for lane in group.lanes.iter().filter(|lane| !lane.is_empty()) {
            lanes.push(LaneView {
                level: lane.level,
                type_id: self.types[lane.type_key].name.clone(),
                backlog: lane.backlog.len() as u64,
                returned: lane.returned.len() as u64,
                standing: match lane.standing {
                    Standing::Idle => LaneStanding::Idle,
                    Standing::Active => LaneStanding::Active,
                    Standing::RateParked(until) => LaneStanding::RateParked(until),
                    Standing::SeatParked => LaneStanding::SeatParked,
                    Standing::Paused => LaneStanding::Paused,
                    Standing::Clearing(since) => LaneStanding::Clearing(since),
                },
            });
        }
        lanes.sort_by(|a, b| (a.level, &a.type_id).cmp(&(b.level, &b.type_id)));
        let settings = group.settings.clone();
        let Record { waiting, total, done, .. } = group.record;
        let Group { backlog, in_flight, stored_bytes, .. } = *group;
        Some(GroupView { settings, backlog, in_flight, waiting, total, done, stored_bytes, lanes })
    }

    pub(super) fn type_view(&self, name: &TypeId, now: Micros) -> Option<TypeView> {
        let state = &self.types[*self.types_by_name.get(name)?];
        let mut downstream = state.downstream.clone();
        Some(TypeView {
            settings: state.settings.clone(),
            in_flight: state.in_flight,
            active_lanes: [0, 1, 2].map(|level| state.orders[level].lanes.len() as u64),
            rate_milli: downstream.rate_milli(state.settings.rate, now),
            closed_until: Some(downstream.closed_until).filter(|until| *until > now),
            answers: state.downstream.answers(now),
            asked_at: Some(state.asked_at).filter(|at| at.0 > 0),
            ready: state.ready.len() as u64,
        })
    }

    fn whole_view(&self) -> WholeView {
        let lanes =
            |level: usize| self.types.values().map(|state| state.orders[level].lanes.len() as u64).sum();
        WholeView {
            settings: self.settings.clone(),
            backlog: self.backlog,
            waiting: self.waiting.len() as u64,
            in_flight: self.types.values().map(|state| state.in_flight).sum(),
            parked_lanes: self.parked.len() as u64,
            completed: self.completed.jobs,
            failed: self.dead.len() as u64,
            stored_bytes: self.stored_bytes,
            active_groups: self.active_groups.len() as u64,
            aggregating: self.aggregating.len() as u64,
            sweeping: self.sweeping.len() as u64,
            saved_spins: self.saved_spins,
            active_lanes: [0, 1, 2].map(lanes),
            types: self.types_by_name.keys().cloned().collect(),
        }
    }
}
