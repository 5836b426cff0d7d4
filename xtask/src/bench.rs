//! The benchmark, against a Redis of its own.

use crate::redis_server::RedisServer;
use crate::{Outcome, shell};
use std::path::Path;

/// Help of `cargo xtask bench`.
pub const HELP: &str = "\
Usage: cargo xtask bench [arguments of `fairlane bench`]

Starts redis-server on a free port without persistence, runs `fairlane bench` against it in a release
build, and stops it again, also on failure and on Ctrl-C.
";

/// Runs the benchmark.
pub fn run(root: &Path, arguments: &[String]) -> Outcome {
    let server = RedisServer::start()?;
    let mut command = shell::cargo(root, &["run", "--release", "-p", "fairlane-cli"]);
    command.args(["--", "bench", "--engine", &server.url()]);
    shell::run(command.args(arguments))
}
