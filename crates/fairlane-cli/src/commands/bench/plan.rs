//! The benchmarks and their sizes.

use fairlane_engine::directory_of;

use crate::failure::Failure;
use crate::own_engine::is_redis;

/// Jobs enqueued, leased and settled by one call.
pub const BATCH_JOBS: usize = 100;
/// Jobs that a producer of many groups adds by one call.
pub const MIXED_JOBS: usize = 1000;
/// Groups of a benchmark that does not vary them.
pub const GROUPS: usize = 100;
/// Concurrent calls, so that the network latency of one call is hidden by the others.
pub const CALLERS: usize = 4;
/// Slots of a worker: the default, many, and as many as `drain` has jobs in flight.
const SLOTS: [usize; 3] = [10, 100, CALLERS * BATCH_JOBS];

/// One benchmark with its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Benchmark {
    /// Adds jobs to the queue; `jobs` in each round.
    Enqueue { rounds: usize, jobs: usize },
    /// Adds jobs of many groups in turn to the queue; `jobs` in each round.
    Mixed { groups: usize, rounds: usize, jobs: usize },
    /// Leases and settles jobs; `jobs` in each round.
    Drain { rounds: usize, jobs: usize },
    /// Measures one job at a time.
    IdleLatency { samples: usize },
    /// Drains the queue by a worker with `slots` slots; `jobs` in each round.
    Pool { rounds: usize, jobs: usize, slots: usize },
    /// Drains many groups.
    Groups { groups: usize },
    /// Drains many jobs.
    Jobs { jobs: usize },
    /// Measures the bytes per waiting job.
    Memory { jobs: usize },
    /// Enqueues, leases and settles jobs; `jobs` in each round.
    Cycle { rounds: usize, jobs: usize },
    /// Opens a directory with `jobs` jobs.
    Restart { jobs: usize },
    /// Cancels a bulk action of `jobs` jobs.
    Cancel { jobs: usize },
    /// Measures the core alone.
    Core { groups: usize, jobs: usize },
}

impl Benchmark {
    /// The name of the benchmark; there are two of the name `core`, with different numbers of
    /// groups.
    pub fn name(&self) -> String {
        match self {
            Self::Enqueue { .. } => "enqueue".into(),
            Self::Mixed { groups, .. } => format!("mixed-{groups}"),
            Self::Drain { .. } => "drain".into(),
            Self::IdleLatency { .. } => "idle-latency".into(),
            Self::Pool { slots, .. } => format!("pool-{slots}"),
            Self::Groups { groups } => format!("groups-{groups}"),
            Self::Jobs { jobs } => format!("jobs-{jobs}"),
            Self::Memory { .. } => "memory".into(),
            Self::Cycle { .. } => "cycle".into(),
            Self::Restart { .. } => "restart".into(),
            Self::Cancel { jobs } => format!("cancel-{jobs}"),
            Self::Core { .. } => "core".into(),
        }
    }

    fn is_called(&self, word: &str) -> bool {
        let name = self.name();
        name == word || name.split_once('-').is_some_and(|(first, _)| first == word)
    }
}

/// The selected benchmarks that can run on this engine.
pub fn select(engine: &str, quick: bool, only: Option<&str>) -> Result<Vec<Benchmark>, Failure> {
    // Memory is faster than a server, so a round needs more jobs to take long enough.
    let on_disk = directory_of(engine).is_some();
    let round_jobs = if is_redis(engine) || on_disk { 20_000 } else { 200_000 };
    let all = if quick { quick_plan(round_jobs / 4) } else { full_plan(round_jobs) };
    let possible = |benchmark: &&Benchmark| match benchmark {
        Benchmark::Memory { .. } => is_redis(engine),
        Benchmark::Cycle { .. } | Benchmark::Restart { .. } => on_disk,
        _ => true,
    };
    let wanted = |benchmark: &&Benchmark| only.is_none_or(|word| benchmark.is_called(word));
    let chosen: Vec<Benchmark> = all.iter().filter(possible).filter(wanted).cloned().collect();
    if chosen.is_empty() {
        let mut names: Vec<String> = all.iter().filter(possible).map(Benchmark::name).collect();
        names.dedup();
        let word = only.unwrap_or_default();
        return Err(Failure::bad_input(format!(
            "there is no benchmark {word:?} for this engine; use one of {}",
            names.join(", ")
        )));
    }
    Ok(chosen)
}

fn full_plan(round_jobs: usize) -> Vec<Benchmark> {
    let mut plan = vec![
        Benchmark::Enqueue { rounds: 5, jobs: round_jobs },
        Benchmark::Drain { rounds: 5, jobs: round_jobs },
        Benchmark::IdleLatency { samples: 500 },
    ];
    plan.extend(SLOTS.map(|slots| Benchmark::Pool { rounds: 5, jobs: round_jobs, slots }));
    let mixed = |groups| Benchmark::Mixed { groups, rounds: 5, jobs: round_jobs };
    plan.extend([1, 10, 100, 1000, 10_000].map(mixed));
    plan.extend([10, 100, 1000, 20_000].map(|groups| Benchmark::Groups { groups }));
    plan.extend([1000, 10_000, 100_000, 1_000_000].map(|jobs| Benchmark::Jobs { jobs }));
    plan.push(Benchmark::Memory { jobs: 100_000 });
    plan.extend([1000, 1_000_000].map(|jobs| Benchmark::Cancel { jobs }));
    plan.extend([
        Benchmark::Cycle { rounds: 9, jobs: 2 * round_jobs },
        Benchmark::Restart { jobs: 1_000_000 },
    ]);
    plan.extend([100, 100_000].map(|groups| Benchmark::Core { groups, jobs: 400_000 }));
    plan
}

fn quick_plan(round_jobs: usize) -> Vec<Benchmark> {
    let mut plan = vec![
        Benchmark::Enqueue { rounds: 3, jobs: round_jobs },
        Benchmark::Drain { rounds: 3, jobs: round_jobs },
        Benchmark::IdleLatency { samples: 100 },
    ];
    plan.extend(SLOTS.map(|slots| Benchmark::Pool { rounds: 3, jobs: round_jobs, slots }));
    plan.extend([10, 1000].map(|groups| Benchmark::Mixed { groups, rounds: 3, jobs: round_jobs }));
    plan.extend([10, 100, 2000].map(|groups| Benchmark::Groups { groups }));
    plan.extend([1000, 10_000, 100_000].map(|jobs| Benchmark::Jobs { jobs }));
    plan.push(Benchmark::Memory { jobs: 20_000 });
    plan.extend([1000, 20_000].map(|jobs| Benchmark::Cancel { jobs }));
    plan.extend([Benchmark::Cycle { rounds: 3, jobs: 2 * round_jobs }, Benchmark::Restart { jobs: 100_000 }]);
    plan.extend([100, 100_000].map(|groups| Benchmark::Core { groups, jobs: 100_000 }));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(engine: &str, only: Option<&str>) -> Vec<String> {
        select(engine, false, only).unwrap().iter().map(Benchmark::name).collect()
    }

    #[test]
    fn only_takes_a_name_or_its_first_word() {
        assert_eq!(names("memory:", Some("groups-10")), ["groups-10"]);
        assert_eq!(
            names("memory:", Some("groups")),
            ["groups-10", "groups-100", "groups-1000", "groups-20000"]
        );
        assert_eq!(names("memory:", Some("core")), ["core", "core"]);
        assert_eq!(names("memory:", Some("idle")), ["idle-latency"]);
    }

    #[test]
    fn restarts_are_measured_in_directories_only() {
        assert!(names("./data", None).contains(&"restart".into()));
        assert!(!names("redis://localhost", None).contains(&"cycle".into()));
    }

    #[test]
    fn bytes_are_measured_on_redis_only() {
        assert!(names("redis://localhost", None).contains(&"memory".into()));
        assert!(!names("memory:", None).contains(&"memory".into()));
        assert!(matches!(select("memory:", false, Some("memory")), Err(Failure::BadInput(_))));
    }
}
