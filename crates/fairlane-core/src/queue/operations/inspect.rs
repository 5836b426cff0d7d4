//! `inspect`: looks and changes nothing.

use std::sync::Arc;

use crate::names::{GroupId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros};
use crate::queue::job::Place;
use crate::queue::lane::Standing;
use crate::queue::{GroupSettings, JobRef, JobState, Machine, Settings, TypeSettings};

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspect {
    /// One job.
    Job(JobRef),
    /// One group.
    Group(GroupId),
    /// One type.
    Type(TypeId),
    /// The whole.
    Whole,
}

/// The reply; `None` where there is no such thing.
#[derive(Debug, Clone, PartialEq)]
pub enum Inspected {
    /// One job.
    Job(Option<JobView>),
    /// One group.
    Group(Option<GroupView>),
    /// One type.
    Type(Option<TypeView>),
    /// The whole.
    Whole(WholeView),
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq)]
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
    pub note: Arc<[u8]>,
}

/// A group as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// What is set.
    pub settings: GroupSettings,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Its lanes with jobs, by (level, type).
    pub lanes: Vec<LaneView>,
}

/// A lane as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// A type as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// The whole as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Completed jobs still kept.
    pub completed: u64,
    /// Dead jobs still kept.
    pub failed: u64,
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
            Inspect::Whole => Inspected::Whole(self.whole_view()),
        }
    }

    fn job_view(&self, name: &JobRef) -> Option<JobView> {
        let job = &self.jobs[self.find_job(name)?];
        let held = match &job.place {
            Place::InFlight(held) => Some(held),
            _ => None,
        };
        let (state, until) = match &job.place {
            Place::Lane => (JobState::Pending, None),
            Place::Waiting(due) => (JobState::Waiting, Some(*due)),
            Place::InFlight(held) => {
                (JobState::Processing, self.batches.get(&held.batch).map(|batch| batch.deadline))
            }
            Place::Completed => (JobState::Completed, None),
            Place::Failed => (JobState::Failed, None),
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
            worker: held.map(|held| &held.worker).or(run.map(|run| &run.worker)).cloned(),
            settled_at: run.map(|run| run.settled_at).filter(|at| at.0 > 0),
            note: run.map_or_else(|| Arc::from(&[][..]), |run| run.note.clone()),
        })
    }

    fn group_view(&self, name: &GroupId) -> Option<GroupView> {
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
                },
            });
        }
        lanes.sort_by(|a, b| (a.level, &a.type_id).cmp(&(b.level, &b.type_id)));
        let settings = group.settings.clone();
        Some(GroupView { settings, backlog: group.backlog, in_flight: group.in_flight, lanes })
    }

    fn type_view(&self, name: &TypeId, now: Micros) -> Option<TypeView> {
        let state = &self.types[*self.types_by_name.get(name)?];
        let mut downstream = state.downstream.clone();
        Some(TypeView {
            settings: state.settings.clone(),
            in_flight: state.in_flight,
            active_lanes: [0, 1, 2].map(|level| state.orders[level].lanes.len() as u64),
            rate_milli: downstream.rate_milli(state.settings.rate, now),
            closed_until: Some(downstream.closed_until).filter(|until| *until > now),
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
            failed: self.failed.jobs,
            active_lanes: [0, 1, 2].map(lanes),
            types: self.types_by_name.keys().cloned().collect(),
        }
    }
}
