//! `fairlane bench`: the cost of the queue, each number beside a floor measured in the same run.
//!
//! - `plan.rs`: the benchmarks and their sizes. One file per benchmark beside it.
//! - `ground.rs`: the environment of a benchmark: a temporary engine, the server's counters, the
//!   floor.
//! - `rounds.rs`: the turns of one side, and their medians. `server.rs`: the counters of Redis.
//! - `floors.rs`: minimal implementations for comparison. `workload.rs`: the jobs.
//! - `result.rs`: one result. `plot.rs`: the plot.
//!
//! Invariant: floor and queue take turns on the same server with the same jobs in the same batches,
//! and medians are reported, so that noise affects both sides. Left out on purpose: verdicts.

mod cancel;
mod core;
mod cycle;
mod drain;
mod enqueue;
mod floors;
mod ground;
mod groups;
mod idle_latency;
mod jobs;
mod memory;
mod plan;
mod plot;
mod pool;
mod restart;
pub mod result;
mod rounds;
mod server;
mod workload;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::{output, tables};
use ground::Ground;
use plan::Benchmark;
use result::BenchResult;

const EXAMPLES: &str = "\
Examples:
  fairlane bench
  fairlane bench --engine redis://127.0.0.1:6379
  fairlane bench --engine redis://127.0.0.1:6379 --only drain --json
  fairlane bench --engine dir:/var/tmp --only cycle
  fairlane bench --quick --plot ratios.svg

Benchmarks (--only takes a name or the first word of one):
  enqueue       100 groups, batches of 100 jobs with 200 bytes each, one group per batch
  mixed-N       calls of 1000 jobs, of N groups in turn
  drain         lease 100, settle 100, nothing in between
  idle-latency  from enqueue to the start of the handler on an idle queue
  pool-N        a worker with N slots drains the queue; the floor is drain
  groups-N      drain with N groups of 64 jobs
  jobs-N        drain with N jobs of up to 100 groups
  memory        bytes per waiting job in addition to its payload (Redis only)
  cycle         enqueue, lease and settle, all in batches of 100 (directories only)
  restart       open a directory full of waiting jobs, and measure their size (directories only)
  cancel-N      cancel and sweep a bulk action of N jobs while another group leases
  core          lease and settle in the core alone, on one thread

The floor is a minimal implementation, measured in turns with the queue. On Redis: scripts that \
accept each id once, pop with a lease and acknowledge, without fairness, limits or retries. In \
memory: a queue and a set. In a directory: the rows of the same jobs, written to SQLite in the same \
batches. The ratio is the floor's cost divided by the queue's (1 is as cheap as the floor). The \
cost is server time per job on Redis and elapsed time elsewhere, the median for idle-latency, and \
bytes for memory.

On Redis, bench uses its own key prefix and removes its keys at the end. It reads counters of the \
entire server, so no other client should use the server during a measurement.
Exit codes: 0 measured; 1 failure; 2 bad input.";

const BAR: &str = "[{bar:30}] {pos} of {len}  {msg}";

/// Measures throughput, latency and memory, each against a floor measured in the same run
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Address of the queue: memory:, dir:PATH or redis://host:port
    #[arg(long, value_name = "URL", default_value = "memory:")]
    engine: String,
    /// Use fewer jobs, groups and rounds: takes at most a minute, with more noise
    #[arg(long)]
    quick: bool,
    /// Run only this benchmark, or those whose name begins with this word
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Draw the ratios into this SVG file
    #[arg(long, value_name = "OUT.SVG")]
    plot: Option<PathBuf>,
    /// Print JSON: {"results": [...]}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    results: &'a [BenchResult],
}

/// Runs the benchmarks one after the other.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let plan = plan::select(&arguments.engine, arguments.quick, arguments.only.as_deref())?;
    let bar = output::progress_bar(arguments.json, BAR, Some(plan.len() as u64));
    let mut results = Vec::new();
    for benchmark in plan {
        let name = benchmark.name();
        bar.set_message(name.clone());
        if bar.is_hidden() && !arguments.json {
            output::print_message(&format!("measuring {name}"));
        }
        results.push(measure(&benchmark, &arguments).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(path) = &arguments.plot {
        output::write_file(path, &plot::ratios_svg(&results)?)?;
    }
    if arguments.json {
        return output::print_json(&Report { results: &results });
    }
    output::print(&tables::bench(&results))
}

/// Runs one benchmark in an environment of its own, and removes its data afterwards.
async fn measure(benchmark: &Benchmark, arguments: &Arguments) -> Result<BenchResult, Failure> {
    if let Benchmark::Core { groups, jobs } = *benchmark {
        return Ok(core::measure(groups, jobs));
    }
    let ground = Ground::open(&arguments.engine).await?;
    let measured = match *benchmark {
        Benchmark::Enqueue { rounds, jobs } => enqueue::measure(&ground, rounds, jobs).await,
        Benchmark::Mixed { groups, rounds, jobs } => {
            enqueue::measure_mixed(&ground, groups, rounds, jobs).await
        }
        Benchmark::Drain { rounds, jobs } => drain::measure(&ground, rounds, jobs).await,
        Benchmark::IdleLatency { samples } => idle_latency::measure(&ground, samples).await,
        Benchmark::Pool { rounds, jobs, slots } => pool::measure(&ground, rounds, jobs, slots).await,
        Benchmark::Groups { groups } => groups::measure(&ground, groups).await,
        Benchmark::Jobs { jobs } => jobs::measure(&ground, jobs).await,
        Benchmark::Memory { jobs } => memory::measure(&ground, jobs).await,
        Benchmark::Cancel { jobs } => cancel::measure(&ground, jobs).await,
        Benchmark::Cycle { rounds, jobs } => cycle::measure(&ground, rounds, jobs).await,
        Benchmark::Restart { jobs } => restart::measure(&ground, jobs).await,
        Benchmark::Core { .. } => unreachable!("the core needs no ground"),
    };
    let cleared = ground.clear().await;
    let mut result = measured?;
    cleared?;
    result.name = benchmark.name();
    result.engine = ground.own.engine.name();
    Ok(result)
}
