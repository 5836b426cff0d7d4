//! The turns of one side in a comparison, and their medians.

use std::time::Instant;

use super::result::BenchResult;
use super::server::{Server, Spent};
use crate::failure::Failure;
use crate::percentiles::median;

/// One turn of one side.
struct Round {
    jobs: usize,
    seconds: f64,
    spent: Option<Spent>,
}

/// All turns of one side.
#[derive(Default)]
pub struct Rounds(Vec<Round>);

impl Rounds {
    /// Runs one turn and records its cost.
    pub async fn measure(
        &mut self,
        server: Option<&Server>,
        jobs: usize,
        work: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let before = match server {
            Some(server) => Some(server.read().await?),
            None => None,
        };
        let started = Instant::now();
        work.await?;
        let seconds = started.elapsed().as_secs_f64();
        let spent = match (server, before) {
            (Some(server), Some(before)) => Some(server.read().await?.since(&before)),
            _ => None,
        };
        self.0.push(Round { jobs, seconds, spent });
        Ok(())
    }

    /// The median rate of the turns.
    pub fn jobs_per_second(&self) -> Option<f64> {
        median(self.0.iter().map(|round| round.jobs as f64 / round.seconds).collect())
    }

    /// The median of a cost on the server, per job.
    pub fn per_job(&self, of: impl Fn(&Spent) -> f64) -> Option<f64> {
        let spent = self.0.iter().filter_map(|round| Some((round.jobs, round.spent.as_ref()?)));
        median(spent.map(|(jobs, spent)| of(spent) / jobs as f64).collect())
    }

    /// The 99.9th percentile of the duration of script calls in all turns.
    fn script_p999_ms(&self) -> Option<f64> {
        let all = self.0.iter().filter_map(|round| Some(&round.spent.as_ref()?.script_times));
        let merged = all.fold(Default::default(), super::server::ScriptTimes::merge);
        merged.per_mille_us(999).map(|us| us as f64 / 1000.0)
    }

    fn jobs(&self) -> usize {
        self.0.iter().map(|round| round.jobs).sum()
    }
}

/// The comparison of two sides; the ratio is of server time if there is a server.
pub fn compare(groups: usize, ours: &Rounds, floor: &Rounds) -> BenchResult {
    let server_us_per_job = ours.per_job(|spent| spent.script_us as f64);
    let floor_us_per_job = floor.per_job(|spent| spent.script_us as f64);
    let (jobs_per_second, floor_per_second) = (ours.jobs_per_second(), floor.jobs_per_second());
    BenchResult {
        groups,
        jobs: ours.jobs(),
        jobs_per_second,
        floor_per_second,
        floor_ratio: ratio(floor_us_per_job, server_us_per_job)
            .or_else(|| ratio(jobs_per_second, floor_per_second)),
        server_us_per_job,
        floor_us_per_job,
        server_cpu_us_per_job: ours.per_job(|spent| spent.cpu_us),
        floor_cpu_us_per_job: floor.per_job(|spent| spent.cpu_us),
        calls_per_job: ours.per_job(|spent| spent.calls as f64),
        floor_calls_per_job: floor.per_job(|spent| spent.calls as f64),
        script_p999_ms: ours.script_p999_ms(),
        ..BenchResult::default()
    }
}

/// The quotient of two numbers, if both are present.
pub fn ratio(upper: Option<f64>, lower: Option<f64>) -> Option<f64> {
    Some(upper? / lower.filter(|lower| *lower > 0.0)?)
}
