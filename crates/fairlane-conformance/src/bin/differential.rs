//! Drives seeded random commands through the core and through a Redis it starts, and compares them.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use fairlane_conformance::differential::{Run, run};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let known = [("--ops", 100_000), ("--seed", 1), ("--dump-every", 50), ("--scripts", 0)];
    let values = fairlane_conformance::arguments::read(&known);
    let [ops, seed, dump_every, scripts] = values[..] else { unreachable!("as many values as names") };
    let server = RedisServer::start(ServerOptions::default());
    let mut plan = Run { dump_every, ..Run::new(server.url(), seed, ops) };
    if scripts > 0 {
        server.refuse_functions();
        plan.sent_at_once = 1;
    }
    let started = Instant::now();
    let outcome = run(&plan, |steps| {
        if steps.is_multiple_of(1000) {
            let per_second = steps as f64 / started.elapsed().as_secs_f64();
            eprint!("\r{steps} of {ops} operations, {per_second:.0} a second ");
            // A failure to print progress does not end the run.
            let _ = std::io::stderr().flush();
        }
    })
    .await;
    eprintln!();
    let divergences = u32::from(outcome.divergence.is_some());
    println!(
        "seed {seed}: {} operations in {:.1} seconds, state compared every {dump_every}, {divergences} divergences",
        outcome.steps, outcome.seconds
    );
    match outcome.divergence {
        Some(divergence) => {
            println!("{divergence}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}
