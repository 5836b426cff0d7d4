//! `fairlane bench`: what the queue costs, each number beside a floor measured in the same run.
//!
//! - `plan.rs`: which benchmarks there are, and their sizes. One file per benchmark beside it.
//! - `ground.rs`: what a benchmark runs on: an engine of its own, the server's counters, the floor.
//! - `rounds.rs`: one side's turns, and their medians. `server.rs`: what Redis says about itself.
//! - `floors.rs`: the least that does a comparable job. `workload.rs`: the jobs.
//! - `result.rs`: one line of the outcome. `plot.rs`: the picture.
//!
//! Invariant: floor and queue take turns on the same server with the same jobs in the same batches, and
//! medians are taken, so that noise hits both. Left out on purpose: verdicts; numbers are for reading.

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
  drain         lease 100, settle 100, nothing in between
  idle-latency  from enqueue to the start of the handler when nothing else is going on
  groups-N      drain with N groups of 64 jobs
  jobs-N        drain with N jobs of up to 100 groups
  memory        bytes per waiting job beyond its payload (Redis only)
  cycle         enqueue, lease and settle, all in batches of 100 (directories only)
  restart       opening a directory full of waiting jobs, and their bytes there (directories only)
  cancel-N      a bulk action of N jobs is cancelled and swept while others lease
  core          lease and settle in the core alone, on one thread

Floors, measured in turns with the queue: on Redis, scripts that take each id once, pop with
a lease and acknowledge, with no fairness, limits or retries; in memory, a queue and a set;
in a directory, the rows of the same jobs written to SQLite in the same batches, and nothing else.
The ratio is the floor's cost over ours (1 is as cheap as the floor): on Redis of server time
per job, elsewhere of elapsed time, for idle-latency of the median, for memory of bytes.

On Redis the keys have a prefix of their own and are removed afterwards. The counters of the
whole server are read, so for honest numbers let nobody else use it meanwhile.
Exit codes: 0 measured; 1 something broke; 2 bad input.";

const BAR: &str = "[{bar:30}] {pos} of {len}  {msg}";

/// Measures throughput, latency and memory, each against a floor measured in the same run
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Where the queue lives: memory:, dir:PATH or redis://host:port
    #[arg(long, value_name = "URL", default_value = "memory:")]
    engine: String,
    /// Fewer jobs, groups and rounds: a minute at most, and more noise
    #[arg(long)]
    quick: bool,
    /// Only this benchmark, or those whose name begins with this word
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Also draw the ratios into this file
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
            output::say(&format!("measuring {name}"));
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

/// Runs one benchmark on ground of its own, and clears that afterwards.
async fn measure(benchmark: &Benchmark, arguments: &Arguments) -> Result<BenchResult, Failure> {
    if let Benchmark::Core { groups, jobs } = *benchmark {
        return Ok(core::measure(groups, jobs));
    }
    let ground = Ground::open(&arguments.engine).await?;
    let measured = match *benchmark {
        Benchmark::Enqueue { rounds, jobs } => enqueue::measure(&ground, rounds, jobs).await,
        Benchmark::Drain { rounds, jobs } => drain::measure(&ground, rounds, jobs).await,
        Benchmark::IdleLatency { samples } => idle_latency::measure(&ground, samples).await,
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
