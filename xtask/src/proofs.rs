//! The long proofs: the differential test, the soak, the trials and fuzzing.
//!
//! They are programs of the crates `fairlane-conformance` and `fairlane-trials`, built for release;
//! this module only starts them and passes all arguments on, so that each program defines its own
//! arguments.

use crate::{Outcome, shell};
use std::path::Path;

/// Help of `cargo xtask differential`.
pub const DIFFERENTIAL_HELP: &str = "\
Usage: cargo xtask differential [--ops N] [--seed S] [--scripts 1]

Drives N seeded random commands through the core and through Redis, and compares every reply and, at
intervals, the complete state. The same seed gives the same run. With --scripts 1 Redis refuses functions,
and the engine runs scripts instead.
";

/// Help of `cargo xtask soak`.
pub const SOAK_HELP: &str = "\
Usage: cargo xtask soak [--seed S] [--minutes M] [--scripts 1] [--disk-kills K] [--worker-kills K]

Runs producers and workers against the engines for M minutes, with faults drawn from seed S, and checks
that no job is lost, run under two leases at once, or served beyond its limits. With --scripts 1 Redis refuses
functions, and the engine runs scripts instead. With --disk-kills a process
at work on a data directory is killed K times instead, and everything acknowledged must be there each time.
With --worker-kills it is worker processes, in K rounds, half on a data directory and half on Redis: every job
of every bulk action must reach one end, counts must equal a recount, callbacks come under one id.
";

/// Help of `cargo xtask trials`.
pub const TRIALS_HELP: &str = "\
Usage: cargo xtask trials neighbours [--redis 1] [--slots N]
       cargo xtask trials downstream [--seconds N]
       cargo xtask trials dashboard [--groups N] [--jobs N] [--rounds N] [--open N] [--seconds N]
       cargo xtask trials hold [--redis 1] [--jobs N] [--stuck N]
       cargo xtask trials failover [--rounds N] [--seconds N]
       cargo xtask trials http [cycle|single|idle|flood] [--rounds N] [--connections N]
       cargo xtask trials attack [NAME…] [--seconds N] [--json]
       cargo xtask trials kills [--seed S] [--rounds N]
       cargo xtask trials locks fire [--seed S] [--acquisitions N] [--processes N] | races [--seed S] [--races N]
                                | crowd [--waiters N] [--processes N] [--killed N] | names [--locks N] [--calls N]
                                | speed [--rounds N] [--repetitions N] | contend [--tasks N] [--handles N] [--rounds N]
       cargo xtask trials outbox kills [--seed S] [--rounds N] | order [--jobs N] | outages [--seconds N]
                                 | speed [--seconds N] [--rounds N]
       cargo xtask trials rooms crowd [--rounds N] [--seed S] | scale [--waiters N] | passes [--passes N]
                                | draw [--users N] [--places N] [--seed S]
                                | fire [--kills N] [--processes N] [--seed S]
       cargo xtask trials rankings scale [--members N]

neighbours  200 customers with 50 jobs, alone and beside 20 with a bulk action of 50,000: waits and counts
downstream  an HTTP target that allows 50 calls a second while 500 are configured: accepted and refused calls
dashboard   every page over 100,000 groups and 1,000,000 jobs on Redis: time, rows and commands; 50 dashboards open
hold        a customer who holds, resumes and cancels a bulk action of 1,000,000 jobs beside one with 100 jobs a
            second: the throughput and waits of that one; a resume beside 10,000 cancelled bulk actions
failover    a Redis primary replaced behind one address while ten jobs run at once: the time to the rate before,
            results dropped and jobs lost
http        the server under load, against baselines measured in turns: batches, single requests, ten thousand
            idle connections, and a key that floods beside a gentle one
attack      a customer with a key bound to one group attacks `fairlane serve` on a data directory: ids (colliding job
            ids), payloads (500 KiB each), callbacks (receivers that never respond), folds (unknown ones), connections
            (hoarded), unknown-keys (bodies of 8 MiB). Beside it another customer's p99 of enqueue, completion and bulk
            action, before and during: it may grow by 20 ms. The server must neither end nor fail to start again.
            All six, or those named; about 25 s each on loopback, and up to 600 MiB of memory and disk
kills       the same as `cargo xtask soak --worker-kills`
locks       fire: holders that are killed, stopped and cut off, restarts and failovers, with a resource that checks
            every fence; races: releases that meet a new waiter; crowd: 10,000 waiters for one lock; names: 100,000
            locks; speed: against SET NX PX and DEL, a message and a round trip, and the crate rslock; contend: grants
            a second of one lock
outbox      kills: every process at every step between BEGIN and the settled job; order: 64 producers and 4 relays;
            outages: PostgreSQL and Redis away, Redis flushed, a transaction left open; speed: commits, relay, start
rooms       crowd: 64 schedulers; scale: a million visitors who wait; draw: a pre-queue of a million, verified by
            another program; passes: verification; fire: killed servers, a Redis that restarts, clocks that jump
rankings    an event with the rank of its member on boards of 1,000, 32,000 and 1,000,000 members, in turns with
            ZINCRBY and ZREVRANK: at most 1.5 times as long with one window, 2 times with four. Memory per member
            and per remembered event; the longest command while everything expires and is removed: at most 5 ms
";

/// Help of `cargo xtask fuzz`.
pub const FUZZ_HELP: &str = "\
Usage: cargo xtask fuzz [--target T] [--seconds N] [--seed S] [--keep N]

Mutates valid inputs of the target T, or of each target, for N seconds (60). It needs no nightly compiler.
An input that fails is made smaller and kept in crates/fairlane-trials/corpus, which the check replays;
--keep adds N valid inputs to the corpus. Overflows of numbers are checked.

wire    commands and replies between the `http` engine and a server; commands are applied if they are valid
ndjson  jobs as lines of JSON, the same however the source is cut
redis   replies of the scripts, recorded from a Redis that it starts
rows    rows of a data directory, changed, lost and repeated
http    where requests of a connection begin and end, the same however its bytes are cut
";

/// Runs the differential test.
pub fn differential(root: &Path, arguments: &[String]) -> Outcome {
    program(root, "fairlane-conformance", "differential", arguments)
}

/// Runs the soak.
pub fn soak(root: &Path, arguments: &[String]) -> Outcome {
    if arguments.iter().any(|argument| argument == "--worker-kills") {
        let rounds = |argument: &String| match argument.as_str() {
            "--worker-kills" => "--rounds".to_owned(),
            other => other.to_owned(),
        };
        let mut kills = vec!["kills".to_owned()];
        kills.extend(arguments.iter().map(rounds));
        return trials(root, &kills);
    }
    program(root, "fairlane-conformance", "soak", arguments)
}

/// Runs a trial. Attacks run against the real program, which is built first.
pub fn trials(root: &Path, arguments: &[String]) -> Outcome {
    if arguments.first().is_some_and(|name| name == "attack") {
        shell::run(&mut shell::cargo(root, &["build", "--release", "-p", "fairlane-cli"]))?;
        let target = shell::target_folder(root).join("release/fairlane").display().to_string();
        let attack = [arguments, &["--program".to_owned(), target]].concat();
        return program(root, "fairlane-trials", "trials", &attack);
    }
    program(root, "fairlane-trials", "trials", arguments)
}

/// Fuzzes in the profile of tests, which checks numbers for overflows.
pub fn fuzz(root: &Path, arguments: &[String]) -> Outcome {
    let mut command = shell::cargo(root, &["run", "-p", "fairlane-trials", "--bin", "fuzz", "--"]);
    shell::run(command.args(arguments))
}

fn program(root: &Path, package: &str, name: &str, arguments: &[String]) -> Outcome {
    let mut command = shell::cargo(root, &["run", "--release", "-p", package]);
    command.args(["--bin", name, "--"]).args(arguments);
    shell::run(&mut command)
}
