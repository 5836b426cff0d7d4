//! The long proofs: the differential test and the soak.
//!
//! Both are programs of the conformance crate, built for release; this module only starts them and hands every
//! argument on, so that their own argument list stays the single one.

use crate::{Outcome, shell};
use std::path::Path;

/// Help of `cargo xtask differential`.
pub const DIFFERENTIAL_HELP: &str = "\
Usage: cargo xtask differential [--ops N] [--seed S]

Drives N seeded random commands through the core and through Redis, and compares every reply and, at
intervals, the whole state. The same seed gives the same run.
";

/// Help of `cargo xtask soak`.
pub const SOAK_HELP: &str = "\
Usage: cargo xtask soak [--seed S] [--minutes M] [--disk-kills K]

Runs producers and workers against the engines for M minutes, with faults drawn from seed S, and checks
that no job is lost, run under two leases at once, or served beyond its limits. With --disk-kills a process
at work on a data directory is killed K times instead, and everything acknowledged must be there each time.
";

/// Runs the differential test.
pub fn differential(root: &Path, arguments: &[String]) -> Outcome {
    conformance_program(root, "differential", arguments)
}

/// Runs the soak.
pub fn soak(root: &Path, arguments: &[String]) -> Outcome {
    conformance_program(root, "soak", arguments)
}

fn conformance_program(root: &Path, name: &str, arguments: &[String]) -> Outcome {
    let package = ["run", "--release", "-p", "fairlane-conformance"];
    let mut command = shell::cargo(root, &package);
    command.args(["--bin", name, "--"]).args(arguments);
    shell::run(&mut command)
}
