//! The effect of new settings of one group on all groups: simulates the current queue twice in
//! virtual time, with the old and with the new settings.
//!
//! A preview assumes that no more jobs arrive, that each type answers as quickly as it does now,
//! and that every job has the same cost. Its work is bounded: it covers [`PREVIEW_SECONDS`] of
//! virtual time, or less if about [`PREVIEW_JOBS_MAX`] jobs are started before that.

use fairlane_core::limits::LEASE_JOBS_MAX;
use fairlane_core::queue::{GroupSettings, Settings};
use fairlane_core::{Cost, GroupId, Level, Rate, TypeId};

use crate::scenario::{Arrival, ClassicPart, GroupPart, Moment, Part, Pause, ServiceTime, TypePart};
use crate::simulation::{Played, played};

/// Most seconds of virtual time that a preview covers.
pub const PREVIEW_SECONDS: u64 = 60;
/// The approximate limit on the jobs that a run starts; a faster queue is simulated for a shorter
/// time.
pub const PREVIEW_JOBS_MAX: u64 = 30_000;
/// Limit on the concurrent jobs of all types. A queue with more is simulated with this many, each
/// of which takes less time.
pub const PREVIEW_WORKERS_MAX: u64 = 500;
/// Number of jobs of a lane that are enqueued at a time. The next chunk follows when half of them
/// are done.
const CHUNK_JOBS: u64 = 2 * PREVIEW_WORKERS_MAX;
/// Waits that differ by less than this many milliseconds count as equal.
const SAME_WAIT_MS: f64 = 50.0;

/// The state of a queue at one moment that a preview needs.
#[derive(Debug, Clone)]
pub struct QueueSnapshot {
    /// The settings of the queue.
    pub settings: Settings,
    /// The types with jobs that can start.
    pub types: Vec<TypeSnapshot>,
    /// The groups with jobs.
    pub groups: Vec<GroupSnapshot>,
}

/// A type at one moment.
#[derive(Debug, Clone)]
pub struct TypeSnapshot {
    /// The name of the type.
    pub name: TypeId,
    /// The rate in effect.
    pub rate: Option<Rate>,
    /// The number of jobs that run concurrently.
    pub concurrency: u32,
    /// How long a job takes, in microseconds.
    pub service_us: u64,
}

/// A group at one moment.
#[derive(Debug, Clone)]
pub struct GroupSnapshot {
    /// The name of the group.
    pub name: GroupId,
    /// Its settings.
    pub settings: GroupSettings,
    /// Its jobs by type and level. Those of types that the snapshot does not have are left out.
    pub lanes: Vec<(TypeId, Level, u64)>,
}

/// The result of a preview.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The virtual time that both runs cover, in seconds.
    pub seconds: f64,
    /// The groups of the snapshot, in its order.
    pub groups: Vec<Forecast>,
}

/// The forecast for one group, without and with the change.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// The name of the group.
    pub group: GroupId,
    /// The service it gets without the change.
    pub before: Got,
    /// The service it gets with the change.
    pub after: Got,
}

/// The service of a group in one run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Got {
    /// Number of jobs that were done.
    pub jobs: u64,
    /// The mean wait of the jobs that were started, in milliseconds; `None` if none was.
    pub wait_ms: Option<f64>,
}

/// The effect of a change on a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Fewer jobs are done, or as many after a longer wait.
    Loses,
    /// There is no significant difference.
    Same,
    /// More jobs are done, or as many after a shorter wait.
    Gains,
}

impl Forecast {
    /// The effect of the change on the group. A difference of one job or 2 % is not significant.
    pub fn effect(&self) -> Effect {
        let (before, after) = (self.before.jobs, self.after.jobs);
        if before.abs_diff(after) > (before / 50).max(1) {
            return if after > before { Effect::Gains } else { Effect::Loses };
        }
        match (self.before.wait_ms, self.after.wait_ms) {
            (Some(before), Some(after)) if (after - before).abs() > (before / 20.0).max(SAME_WAIT_MS) => {
                if after < before {
                    Effect::Gains
                } else {
                    Effect::Loses
                }
            }
            _ => Effect::Same,
        }
    }
}

/// Simulates the queue of a snapshot with the current and with the new settings of one group.
pub fn preview(snapshot: &QueueSnapshot, changed: &GroupId, new: &GroupSettings) -> Preview {
    let mut part = part(snapshot);
    let before = played(&part);
    for group in part.groups.iter_mut().filter(|group| group.id == *changed) {
        apply(group, new);
    }
    let after = played(&part);
    let forecast = |group: &GroupSnapshot| Forecast {
        group: group.name.clone(),
        before: got(&part, &before, &group.name),
        after: got(&part, &after, &group.name),
    };
    Preview {
        seconds: duration_us(snapshot) as f64 / 1e6,
        groups: snapshot.groups.iter().map(forecast).collect(),
    }
}

/// The time that both runs cover: shorter if all types together would start too many jobs.
fn duration_us(snapshot: &QueueSnapshot) -> u64 {
    let quickest = |one: &TypeSnapshot| f64::from(one.concurrency) * 1e6 / one.service_us.max(1) as f64;
    let per_second: f64 = snapshot.types.iter().map(quickest).sum();
    let seconds = (PREVIEW_JOBS_MAX as f64 / per_second.max(1.0)).min(PREVIEW_SECONDS as f64);
    (seconds * 1e6) as u64
}

/// The service of a group over all its lanes.
fn got(part: &Part, played: &Played, name: &GroupId) -> Got {
    let lanes = part.groups.iter().zip(&played.lanes).filter(|(group, _)| group.id == *name);
    let (mut jobs, mut started, mut waits_us) = (0, 0, 0);
    for (_, lane) in lanes {
        jobs += lane.completed;
        started += lane.started;
        waits_us += lane.waits_us;
    }
    Got { jobs, wait_ms: (started > 0).then(|| waits_us as f64 / 1000.0 / started as f64) }
}

fn part(snapshot: &QueueSnapshot) -> Part {
    let workers: u64 = snapshot.types.iter().map(|one| u64::from(one.concurrency)).sum();
    let workers = workers.clamp(1, PREVIEW_WORKERS_MAX);
    let mut groups = Vec::new();
    for group in &snapshot.groups {
        for (type_id, level, jobs) in &group.lanes {
            let type_index = snapshot.types.iter().position(|one| one.name == *type_id);
            if let Some(type_index) = type_index.filter(|_| *jobs > 0) {
                groups.push(lane(group, groups.len(), type_index, *level, *jobs));
            }
        }
    }
    Part {
        name: "preview".to_owned(),
        discipline: snapshot.settings.discipline,
        is_fifo: false,
        classic: ClassicPart::of(&snapshot.settings),
        seed: 1,
        workers,
        lease_jobs: workers.min(LEASE_JOBS_MAX as u64),
        rate: snapshot.settings.rate,
        levels: snapshot.settings.levels,
        stop_after_us: Some(duration_us(snapshot)),
        stop_after_jobs: None,
        types: snapshot.types.iter().map(type_part).collect(),
        groups,
        alone_without: Vec::new(),
    }
}

fn type_part(one: &TypeSnapshot) -> TypePart {
    let service = ServiceTime { least_us: one.service_us.max(1), most_us: one.service_us.max(1) };
    TypePart {
        id: one.name.clone(),
        rate: one.rate,
        concurrency: Some(one.concurrency.max(1)),
        service,
        downstream: None,
    }
}

/// The jobs of one lane. They are enqueued as they are needed, since most of a large backlog is not
/// served in the time of a preview.
fn lane(group: &GroupSnapshot, index: usize, type_index: usize, level: Level, jobs: u64) -> GroupPart {
    let jobs = jobs.min(2 * PREVIEW_JOBS_MAX);
    let chunk = |number: u64| {
        let moment = match number {
            0 => Moment::At { us: 0 },
            _ => Moment::WhenDone { group: index, jobs: number * CHUNK_JOBS - CHUNK_JOBS / 2, later_us: 0 },
        };
        Arrival::AtOnce { jobs: CHUNK_JOBS.min(jobs - number * CHUNK_JOBS), moment }
    };
    let mut part = GroupPart {
        name: group.name.to_string(),
        id: group.name.clone(),
        stream: [index as u64, 0],
        weight: group.settings.weight,
        base_priority: group.settings.base_priority,
        rate: None,
        concurrency: None,
        level,
        type_index,
        cost: Cost::default(),
        arrivals: (0..jobs.div_ceil(CHUNK_JOBS)).map(chunk).collect(),
        pauses: Vec::new(),
    };
    apply(&mut part, &group.settings);
    part
}

fn apply(group: &mut GroupPart, settings: &GroupSettings) {
    group.weight = settings.weight;
    group.base_priority = settings.base_priority;
    group.rate = settings.rate;
    group.concurrency = settings.concurrency;
    group.pauses = if settings.paused { vec![Pause { from_us: 0, until_us: None }] } else { Vec::new() };
}
