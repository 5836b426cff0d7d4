//! Fuzzes everything that reads bytes from outside; see `fairlane_trials::fuzz`.

use std::process::ExitCode;
use std::time::Duration;

use fairlane_trials::fuzz::{TARGETS, hide_panics};

/// Seconds for each target.
const SECONDS: u64 = 60;

fn main() -> ExitCode {
    let (mut target, mut seconds, mut seed, mut keep) = (None, SECONDS, 1, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = value.parse();
        match (name.as_str(), number) {
            ("--target", _) => target = Some(value),
            ("--seconds", Ok(number)) => seconds = number,
            ("--seed", Ok(number)) => seed = number,
            ("--keep", Ok(number)) => keep = number as usize,
            _ => {
                eprintln!("{name} {value}: wrong argument; see cargo xtask fuzz --help");
                return ExitCode::from(2);
            }
        }
    }
    let chosen = |name: &str| target.as_deref().is_none_or(|target| target == name);
    let targets: Vec<_> = TARGETS.iter().filter(|target| chosen(target.name)).collect();
    if targets.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("there is no such target; the targets are {}", names.join(", "));
        return ExitCode::from(2);
    }
    hide_panics();
    let mut code = ExitCode::SUCCESS;
    for target in targets {
        let seeds = target.all_seeds();
        for kept in target.kept() {
            if let Err(problem) = target.try_input(&kept) {
                println!("{}: an input of the corpus fails: {problem}", target.name);
                code = ExitCode::FAILURE;
            }
        }
        seeds.iter().step_by(seeds.len().div_ceil(keep.max(1))).take(keep).for_each(|seed| {
            target.keep(seed);
        });
        let (inputs, finding) = target.fuzz(seed, Duration::from_secs(seconds));
        println!("{}: {inputs} inputs, seed {seed}", target.name);
        if let Some(finding) = finding {
            println!("  failed: {}\n  kept as {}", finding.problem, target.keep(&finding.input).display());
            code = ExitCode::FAILURE;
        }
    }
    code
}
