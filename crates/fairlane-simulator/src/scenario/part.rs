//! One part of a scenario, checked and ready to run: references resolved, groups with a `count`
//! expanded.

use std::collections::BTreeMap;

use fairlane_core::queue::{Discipline, LevelOrder, Settings};
use fairlane_core::{Cost, GroupId, Level, Rate, TypeId, Weight};

use crate::generator::Generator;
use crate::steps::Steps;

use super::classic::ClassicPart;

/// The name of a plain queue in scenarios and reports.
pub const FIFO: &str = "fifo";

/// One run.
#[derive(Debug, Clone)]
pub struct Part {
    pub name: String,
    pub discipline: Discipline,
    /// Whether all jobs of a type share one lane, as in a plain queue; settings of groups are ignored.
    pub is_fifo: bool,
    pub classic: ClassicPart,
    pub seed: u64,
    pub workers: u64,
    pub lease_jobs: u64,
    pub rate: Option<Rate>,
    pub levels: LevelOrder,
    pub stop_after_us: Option<u64>,
    pub stop_after_jobs: Option<u64>,
    pub types: Vec<TypePart>,
    pub groups: Vec<GroupPart>,
    /// The indices of the groups that are left out when the waits of the others alone are measured.
    pub alone_without: Vec<usize>,
}

#[derive(Debug, Clone)]
pub struct TypePart {
    pub id: TypeId,
    pub rate: Option<Rate>,
    pub concurrency: Option<u32>,
    pub service: ServiceTime,
    pub downstream: Option<DownstreamPart>,
}

/// The true limit of a downstream, and how it rejects calls.
#[derive(Debug, Clone)]
pub struct DownstreamPart {
    pub limit: Steps,
    pub depth_seconds: f64,
    pub retry_after: bool,
    pub refusal_us: Option<u64>,
    pub retry_delay_ms: u64,
}

#[derive(Debug, Clone)]
pub struct GroupPart {
    pub name: String,
    pub id: GroupId,
    /// The index of the group in the file and the index within its `count`: the name of its random
    /// numbers.
    pub stream: [u64; 2],
    pub weight: Weight,
    pub base_priority: i64,
    pub rate: Option<Rate>,
    pub concurrency: Option<u32>,
    pub level: Level,
    pub type_index: usize,
    pub cost: Cost,
    pub arrivals: Vec<Arrival>,
    pub pauses: Vec<Pause>,
}

/// One way in which jobs arrive.
#[derive(Debug, Clone)]
pub enum Arrival {
    AtOnce { jobs: u64, moment: Moment },
    Flow { rate: Steps, until_us: Option<u64>, jobs: Option<u64>, poisson: bool },
}

/// When jobs that arrive at once arrive.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    At { us: u64 },
    WhenDone { group: usize, jobs: u64, later_us: u64 },
}

#[derive(Debug, Clone, Copy)]
pub struct Pause {
    pub from_us: u64,
    pub until_us: Option<u64>,
}

/// The duration of a call, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct ServiceTime {
    pub least_us: u64,
    pub most_us: u64,
}

impl ServiceTime {
    /// The duration of one call.
    pub fn draw(self, generator: &mut Generator) -> u64 {
        if self.least_us == self.most_us {
            return self.least_us;
        }
        generator.between(self.least_us, self.most_us)
    }

    /// The mean duration of a call.
    pub fn mean_us(self) -> f64 {
        (self.least_us + self.most_us) as f64 / 2.0
    }
}

impl Arrival {
    /// Number of jobs that will arrive, as far as that is known beforehand.
    pub fn jobs_expected(&self) -> u64 {
        match self {
            Self::AtOnce { jobs, .. } => *jobs,
            Self::Flow { rate, until_us, jobs, .. } => {
                let by_time = until_us.map(|until_us| rate.between(0.0, until_us as f64).round() as u64);
                [by_time, *jobs].into_iter().flatten().min().unwrap_or(0)
            }
        }
    }
}

impl GroupPart {
    /// Number of jobs that will arrive, as far as that is known beforehand.
    pub fn jobs_expected(&self) -> u64 {
        self.arrivals.iter().map(Arrival::jobs_expected).sum()
    }

    /// Whether a limit of its own, and not only the fair order, decides what it is served.
    pub fn has_own_limit(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some()
    }
}

impl TypePart {
    /// The effective limit: the declared rate or the downstream's limit, whichever is lower.
    pub fn limit(&self) -> Option<Steps> {
        let declared = self.rate.map(|rate| Steps::constant(per_second(rate)));
        let truly = self.downstream.as_ref().map(|downstream| downstream.limit.clone());
        least(declared, truly)
    }
}

impl Part {
    /// The queue's settings. Finished jobs are removed early, because no one reads them. In
    /// `classic` the window replaces the queue's rate.
    pub fn settings(&self) -> Settings {
        Settings {
            discipline: self.discipline,
            alpha: self.classic.alpha,
            global_rps: self.classic.global_rps,
            ready_queue_max_size: self.classic.ready_queue_max_size,
            congestion: self.classic.congestion,
            rate: self.rate.filter(|_| !self.is_classic()),
            levels: self.levels,
            group_backlog_max: u64::from(u32::MAX),
            queue_backlog_max: u64::from(u32::MAX),
            completed_kept_max: 0,
            failed_kept_max: 0,
            ..Settings::default()
        }
    }

    /// Whether the part runs under `classic`.
    pub fn is_classic(&self) -> bool {
        self.discipline == Discipline::Classic
    }

    /// The declared rate of all types together, in jobs per second.
    pub fn queue_per_second(&self) -> Option<f64> {
        match self.discipline {
            Discipline::Share => self.rate.map(per_second),
            Discipline::Classic => Some(self.classic.global_rps as f64),
        }
    }

    /// Number of jobs that will arrive, as far as that is known beforehand.
    pub fn jobs_expected(&self) -> u64 {
        let all = self.groups.iter().map(GroupPart::jobs_expected).sum();
        self.stop_after_jobs.map_or(all, |stop| stop.min(all))
    }

    /// The effective limit of all types together; `None` if nothing limits them.
    pub fn limit(&self) -> Option<Steps> {
        let types: Option<Vec<Steps>> = self.used_types().map(TypePart::limit).collect();
        let types = types.and_then(|all| all.into_iter().reduce(|sum, next| sum.plus(&next)));
        least(self.queue_per_second().map(Steps::constant), types)
    }

    /// Number of starts that the declared limits allow in any one second, bursts included. A window
    /// of `classic` has no burst, though two windows overlap some seconds.
    pub fn starts_per_second_max(&self) -> Option<f64> {
        let most = |rate: Rate| per_second(rate) + rate.burst() as f64;
        let types: Option<Vec<f64>> = self.used_types().map(|part| part.rate.map(most)).collect();
        let types = types.map(|all| all.iter().sum());
        let queue = match self.discipline {
            Discipline::Share => self.rate.map(most),
            Discipline::Classic => self.queue_per_second(),
        };
        [queue, types].into_iter().flatten().reduce(f64::min)
    }

    fn used_types(&self) -> impl Iterator<Item = &TypePart> {
        let used = |index: &usize| self.groups.iter().any(|group| group.type_index == *index);
        (0..self.types.len()).filter(used).map(|index| &self.types[index])
    }

    /// The same part without the groups of `alone_without`. Jobs that arrive when another group has
    /// completed a number of jobs arrive at the same times as in the full run.
    pub fn alone(&self, moments_us: &BTreeMap<(usize, usize), u64>) -> Self {
        let mut alone = self.clone();
        alone.alone_without = Vec::new();
        alone.groups.clear();
        for (index, group) in self.groups.iter().enumerate() {
            if self.alone_without.contains(&index) {
                continue;
            }
            let mut group = group.clone();
            for (number, arrival) in group.arrivals.iter_mut().enumerate() {
                if let Arrival::AtOnce { moment: moment @ Moment::WhenDone { .. }, .. } = arrival {
                    let never = u64::MAX;
                    *moment = Moment::At { us: moments_us.get(&(index, number)).copied().unwrap_or(never) };
                }
            }
            alone.groups.push(group);
        }
        alone
    }
}

/// A rate in jobs per second.
pub fn per_second(rate: Rate) -> f64 {
    rate.count() as f64 * 1000.0 / rate.period_ms() as f64
}

fn least(one: Option<Steps>, other: Option<Steps>) -> Option<Steps> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.least(&other)),
        (one, other) => one.or(other),
    }
}
