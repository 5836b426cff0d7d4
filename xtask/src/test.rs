//! Runs every check in one command, the same before a commit and in continuous integration.
//!
//! Steps run in order, and the first failure ends the run. Their output is passed through
//! unchanged.

mod programs;
mod readme;

use crate::{Outcome, book, dist, expect_no_arguments, shell, tidy};
use std::path::Path;
use std::time::{Duration, Instant};

/// Help of `cargo xtask test`.
pub const HELP: &str = "\
Usage: cargo xtask test

Runs, in order, and stops at the first failure:
  programs   installs missing programs that the tests need (as root, on Debian), or lists them
  format     cargo fmt --all --check
  lint       cargo clippy --workspace --all-targets -- -D warnings, and of the library with the feature sqlite alone
  tidy       cargo xtask tidy
  docs       cargo doc --no-deps --workspace --lib, with warnings denied
  deny       cargo deny check bans licenses sources, where cargo-deny is installed
  tests      cargo nextest run --workspace (cargo test where nextest is missing)
  examples   cargo test --doc --workspace
  readme     every command in a README block tagged `sh run`
  packages   an archive and a Debian package of the debug build, unpacked and tried
  book       the documentation as a site, where mdbook is installed, with every link checked
";

struct Step {
    name: &'static str,
    run: fn(&Path) -> Outcome,
}

const STEPS: [Step; 11] = [
    Step { name: "programs", run: programs::ensure },
    Step { name: "format", run: format },
    Step { name: "lint", run: lint },
    Step { name: "tidy", run: tidy_tree },
    Step { name: "docs", run: docs },
    Step { name: "deny", run: deny },
    Step { name: "tests", run: tests },
    Step { name: "examples", run: examples },
    Step { name: "readme", run: readme::run_commands },
    Step { name: "packages", run: dist::check },
    Step { name: "book", run: book::check },
];

/// Runs every step, then prints how long each took.
pub fn run(root: &Path, arguments: &[String]) -> Outcome {
    expect_no_arguments("test", arguments)?;
    let mut times = Vec::new();
    let outcome = run_steps(root, &STEPS, &mut times);
    println!("\n{}", time_table(&times));
    outcome
}

fn run_steps(root: &Path, steps: &[Step], times: &mut Vec<(&'static str, Duration)>) -> Outcome {
    for (index, step) in steps.iter().enumerate() {
        println!("\n[{}/{}] {}", index + 1, steps.len(), step.name);
        let started = Instant::now();
        let outcome = (step.run)(root);
        times.push((step.name, started.elapsed()));
        outcome.map_err(|message| format!("step `{}`: {message}", step.name))?;
    }
    Ok(())
}

fn format(root: &Path) -> Outcome {
    shell::run(&mut shell::cargo(root, &["fmt", "--all", "--check"]))
        .map_err(|message| format!("{message}; `cargo fmt --all` formats it"))
}

fn lint(root: &Path) -> Outcome {
    let all = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    shell::run(&mut shell::cargo(root, &all))?;
    // An application that embeds a data directory needs no HTTP client and no Redis client.
    let embedded = ["clippy", "-p", "fairlane", "--no-default-features", "--features", "sqlite"];
    shell::run(&mut shell::cargo(root, &[&embedded[..], &["--", "-D", "warnings"]].concat()))
}

fn tidy_tree(root: &Path) -> Outcome {
    tidy::run(root, &[])
}

fn docs(root: &Path) -> Outcome {
    let mut command = shell::cargo(root, &["doc", "--no-deps", "--workspace", "--lib"]);
    shell::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks dependencies. Advisories are left out, because their database has to be downloaded.
fn deny(root: &Path) -> Outcome {
    if !shell::succeeds_quietly(&mut shell::cargo(root, &["deny", "--version"])) {
        println!("skipped: cargo-deny is missing; `cargo install cargo-deny` brings it");
        return Ok(());
    }
    shell::run(&mut shell::cargo(root, &["deny", "check", "bans", "licenses", "sources"]))
}

fn tests(root: &Path) -> Outcome {
    let arguments: &[&str] = match programs::has_nextest(root) {
        true => &["nextest", "run", "--workspace"],
        false => &["test", "--workspace", "--all-targets"],
    };
    shell::run(&mut shell::cargo(root, arguments))
}

fn examples(root: &Path) -> Outcome {
    shell::run(&mut shell::cargo(root, &["test", "--doc", "--workspace"]))
}

fn time_table(times: &[(&'static str, Duration)]) -> String {
    let total = times.iter().map(|(_, time)| *time).sum();
    let rows = times.iter().copied().chain([("total", total)]);
    let lines: Vec<String> =
        rows.map(|(name, time)| format!("{name:<10}{:>8.1} s", time.as_secs_f64())).collect();
    lines.join("\n")
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn the_first_failing_step_ends_the_run_and_is_named() {
        let steps = [
            Step { name: "one", run: |_| Ok(()) },
            Step { name: "two", run: |_| Err("it broke".into()) },
            Step { name: "three", run: |_| panic!("must not run") },
        ];
        let mut times = Vec::new();
        let outcome = run_steps(Path::new("."), &steps, &mut times);
        assert_eq!(outcome, Err("step `two`: it broke".into()));
        assert_eq!(times.len(), 2);
    }

    #[test]
    fn the_table_ends_with_the_sum_of_all_steps() {
        let second = Duration::from_secs(1);
        let table = time_table(&[("format", second), ("lint", 2 * second)]);
        assert_eq!(table.lines().last(), Some("total          3.0 s"));
    }

    #[test]
    fn the_help_names_every_step_in_order() {
        let positions: Vec<_> =
            STEPS.iter().map(|step| HELP.find(&format!("\n  {}", step.name)).unwrap()).collect();
        assert!(positions.is_sorted());
    }
}
