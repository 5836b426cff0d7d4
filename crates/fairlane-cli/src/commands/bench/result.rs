//! One line of the outcome.

use serde::Serialize;

/// What a benchmark found; `null` where a number makes no sense.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BenchResult {
    /// The benchmark.
    pub name: String,
    /// Where the queue lived.
    pub engine: &'static str,
    /// How many groups had jobs.
    pub groups: usize,
    /// How many jobs were measured on each side.
    pub jobs: usize,
    /// Jobs a second.
    pub jobs_per_second: Option<f64>,
    /// The floor's.
    pub floor_per_second: Option<f64>,
    /// The floor's cost over ours.
    pub floor_ratio: Option<f64>,
    /// Time the server spent in scripts, per job.
    pub server_us_per_job: Option<f64>,
    /// The floor's.
    pub floor_us_per_job: Option<f64>,
    /// Processor time of the server's main thread, per job.
    pub server_cpu_us_per_job: Option<f64>,
    /// The floor's.
    pub floor_cpu_us_per_job: Option<f64>,
    /// Commands the scripts called, per job.
    pub calls_per_job: Option<f64>,
    /// The floor's.
    pub floor_calls_per_job: Option<f64>,
    /// 999 in 1000 script calls took no longer; the upper end of the server's bucket.
    pub script_p999_ms: Option<f64>,
    /// LPUSH or RPOP in a pipeline, without ids, leases or acknowledgement.
    pub list_per_second: Option<f64>,
    /// Its server time.
    pub list_us_per_job: Option<f64>,
    /// Half the jobs started within this time of being sent.
    pub latency_p50_us: Option<f64>,
    /// 99 in 100 did.
    pub latency_p99_us: Option<f64>,
    /// How long the cancellation of a bulk action took to be answered.
    pub cancel_ms: Option<f64>,
    /// A hand-off and a round trip.
    pub floor_latency_p50_us: Option<f64>,
    /// A hand-off and a round trip.
    pub floor_latency_p99_us: Option<f64>,
    /// Bytes of a waiting job beyond its payload.
    pub bytes_per_job: Option<f64>,
    /// The floor's.
    pub floor_bytes_per_job: Option<f64>,
    /// Bytes of this program's memory that a waiting job takes beyond its payload, in a directory.
    pub resident_bytes_per_job: Option<f64>,
    /// How long it took to open a directory with these jobs.
    pub restart_seconds: Option<f64>,
}
