//! The result of one benchmark.

use serde::Serialize;

/// The result of a benchmark; `null` where a number does not apply.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BenchResult {
    /// The name of the benchmark.
    pub name: String,
    /// The kind of engine.
    pub engine: &'static str,
    /// The number of groups with jobs.
    pub groups: usize,
    /// The number of jobs measured on each side.
    pub jobs: usize,
    /// Jobs per second of the queue.
    pub jobs_per_second: Option<f64>,
    /// Jobs per second of the floor.
    pub floor_per_second: Option<f64>,
    /// The floor's cost divided by the queue's.
    pub floor_ratio: Option<f64>,
    /// Time that the server spent in scripts, per job.
    pub server_us_per_job: Option<f64>,
    /// Time that the server spent on the floor's commands, per job.
    pub floor_us_per_job: Option<f64>,
    /// Processor time of the server's main thread, per job.
    pub server_cpu_us_per_job: Option<f64>,
    /// Processor time of the server's main thread for the floor, per job.
    pub floor_cpu_us_per_job: Option<f64>,
    /// Commands that the scripts called, per job.
    pub calls_per_job: Option<f64>,
    /// Commands that the floor sent, per job.
    pub floor_calls_per_job: Option<f64>,
    /// The 99.9th percentile of the duration of script calls: the upper end of the server's bucket.
    pub script_p999_ms: Option<f64>,
    /// LPUSH or RPOP per second in a pipeline, without ids, leases or acknowledgement.
    pub list_per_second: Option<f64>,
    /// Server time of an LPUSH or RPOP.
    pub list_us_per_job: Option<f64>,
    /// The median time from sending a job to its start.
    pub latency_p50_us: Option<f64>,
    /// The 99th percentile of that time.
    pub latency_p99_us: Option<f64>,
    /// How long the reply to the cancellation of a bulk action took.
    pub cancel_ms: Option<f64>,
    /// The median time of a hand-off and a round trip.
    pub floor_latency_p50_us: Option<f64>,
    /// The 99th percentile of that time.
    pub floor_latency_p99_us: Option<f64>,
    /// Bytes of a waiting job in addition to its payload.
    pub bytes_per_job: Option<f64>,
    /// Bytes that the floor stores for a waiting job in addition to its payload.
    pub floor_bytes_per_job: Option<f64>,
    /// Memory of this process per waiting job in addition to its payload, with a directory.
    pub resident_bytes_per_job: Option<f64>,
    /// The time to open a directory with these jobs.
    pub restart_seconds: Option<f64>,
}
