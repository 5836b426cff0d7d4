//! Compares Fairlane with other queues on one Redis: how fast jobs are enqueued and drained.
//!
//! ```text
//! peers/case.rs     what is measured: a system, a way to enqueue, slots, customers
//! peers/system.rs   how the program of a system is installed and started
//! peers/report.rs   medians, ratios, the table and the JSON
//! ```
//!
//! The programs are in `benches/peers`. Each takes the same arguments and prints one line with its
//! figures. Invariant: the systems take turns on the same server, which is emptied before each run,
//! so that noise affects all of them. Left out on purpose: tuning of any system.

mod case;
mod report;
mod system;

use crate::redis_server::RedisServer;
use crate::{Outcome, shell};
use case::{CASES, Case};
use report::{Figures, Report, Row};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;
use system::{Program, SYSTEMS, System};

/// Help of `cargo xtask peers`.
pub const HELP: &str = "\
Usage: cargo xtask peers [--jobs N] [--payload-bytes N] [--rounds N] [--only NAME,…] [--json]

Measures how fast Fairlane, BullMQ, Sidekiq and Celery enqueue and drain jobs on one redis-server,
which it starts on a free port without persistence. Handlers do nothing. Drain is the time from the
start of the workers until the last job has completed. The systems take turns, and rates are
medians. A ratio is the lowest and highest of a round to Fairlane with 100 customers, the same slots
and the same kind of enqueue. Results go to peers.json in the target folder, and to the terminal as
a table.

--jobs N           jobs of each run (20000)
--payload-bytes N  bytes of each payload (200)
--rounds N         runs of each case (5)
--only NAME,…      some of fairlane, bullmq, sidekiq and celery
--json             print the JSON instead of the table

BullMQ and Celery are installed into a temporary folder with npm and pip, in the versions of the
lock files in benches/peers. Sidekiq is used if Ruby finds it; Debian's package is ruby-sidekiq.
What is missing is skipped.
";

/// The longest time for one run of a program.
const RUN_LIMIT: Duration = Duration::from_secs(600);

/// The jobs of every run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Workload {
    jobs: u32,
    payload_bytes: u32,
}

/// The options of the command line.
#[derive(Debug, PartialEq)]
struct Options {
    workload: Workload,
    rounds: u32,
    systems: Vec<System>,
    is_json: bool,
}

/// Measures every case and prints the report.
pub fn run(root: &Path, arguments: &[String]) -> Outcome {
    let options = Options::parse(arguments)?;
    let server = RedisServer::start()?;
    let mut skipped = Vec::new();
    let mut programs = BTreeMap::new();
    for system in &options.systems {
        match system.install(root, server.folder()) {
            Ok(program) => drop(programs.insert(*system, program)),
            Err(reason) => skip(&mut skipped, *system, &reason),
        }
    }
    let rows = measure(&server, &options, &mut programs, &mut skipped)?;
    let report = Report { workload: options.workload, rounds: options.rounds, rows, skipped };
    let path = shell::target_folder(root).join("peers.json");
    std::fs::write(&path, report.json())
        .map_err(|error| format!("{} could not be written: {error}", path.display()))?;
    print!("{}", if options.is_json { report.json() } else { report.table() });
    Ok(())
}

/// Runs every case once in each round. A system whose program fails is skipped from then on.
fn measure(
    server: &RedisServer,
    options: &Options,
    programs: &mut BTreeMap<System, Program>,
    skipped: &mut Vec<String>,
) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = CASES.into_iter().map(Row::new).collect();
    for round in 1..=options.rounds {
        for row in &mut rows {
            let Some(program) = programs.get(&row.case.system) else { continue };
            eprintln!("round {round} of {}: {}", options.rounds, row.case);
            server.flush()?;
            match measure_once(server, program, row.case, options.workload) {
                Ok(figures) => row.rounds.push(figures),
                Err(reason) => {
                    programs.remove(&row.case.system);
                    skip(skipped, row.case.system, &reason);
                }
            }
        }
    }
    rows.retain(|row| programs.contains_key(&row.case.system));
    Ok(rows)
}

fn measure_once(
    server: &RedisServer,
    program: &Program,
    case: Case,
    workload: Workload,
) -> Result<Figures, String> {
    let path = server.folder().join("figures.txt");
    let unusable = |error| format!("{} cannot be used: {error}", path.display());
    let mut command = program.command();
    let Workload { jobs, payload_bytes } = workload;
    command.arg(server.url()).args([jobs, payload_bytes].map(|number| number.to_string()));
    command.args(case.arguments());
    command.stdout(File::create(&path).map_err(unusable)?);
    shell::finish_within(&mut command, &case.to_string(), RUN_LIMIT)?;
    Figures::parse(&std::fs::read_to_string(&path).map_err(unusable)?)
}

fn skip(skipped: &mut Vec<String>, system: System, reason: &str) {
    let sentence = format!("{} is skipped: {reason}", system.title());
    eprintln!("{sentence}");
    skipped.push(sentence);
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let workload = Workload { jobs: 20_000, payload_bytes: 200 };
        let mut options = Self { workload, rounds: 5, systems: SYSTEMS.to_vec(), is_json: false };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            match name.as_str() {
                "--json" => options.is_json = true,
                "--jobs" => options.workload.jobs = count(name, 1, arguments.next())?,
                "--payload-bytes" => options.workload.payload_bytes = count(name, 2, arguments.next())?,
                "--rounds" => options.rounds = count(name, 1, arguments.next())?,
                "--only" => options.systems = systems(arguments.next())?,
                _ => return Err(format!("there is no option `{name}`; see `cargo xtask peers --help`")),
            }
        }
        Ok(options)
    }
}

fn count(name: &str, least: u32, value: Option<&String>) -> Result<u32, String> {
    let count = value.and_then(|value| value.parse().ok()).filter(|count| *count >= least);
    count.ok_or_else(|| format!("{name} needs a whole number of at least {least}"))
}

fn systems(value: Option<&String>) -> Result<Vec<System>, String> {
    let names = value.map(String::as_str).unwrap_or_default().split(',');
    let find = |name: &str| SYSTEMS.into_iter().find(|system| system.title().eq_ignore_ascii_case(name));
    let known: Option<Vec<System>> = names.map(find).collect();
    known.ok_or_else(|| "--only needs some of fairlane,bullmq,sidekiq,celery".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn every_option_is_understood_and_has_a_default() {
        let workload = Workload { jobs: 20_000, payload_bytes: 200 };
        let all = Options { workload, rounds: 5, systems: SYSTEMS.to_vec(), is_json: false };
        assert_eq!(parse(""), Ok(all));
        let workload = Workload { jobs: 7, payload_bytes: 9 };
        let systems = vec![System::BullMq, System::Fairlane];
        let some = Options { workload, rounds: 1, systems, is_json: true };
        let text = "--jobs 7 --payload-bytes 9 --rounds 1 --only bullmq,fairlane --json";
        assert_eq!(parse(text), Ok(some));
    }

    #[test]
    fn a_wrong_option_is_refused_with_what_to_write_instead() {
        assert!(parse("--job 7").unwrap_err().contains("--help"));
        assert!(parse("--jobs 0").unwrap_err().contains("at least 1"));
        assert!(parse("--payload-bytes 1").unwrap_err().contains("at least 2"));
        assert!(parse("--only rabbit").unwrap_err().contains("celery"));
    }

    #[test]
    fn a_system_that_fails_is_skipped_and_the_others_are_measured() {
        let server = RedisServer::start().unwrap();
        let script = |line: &str| Program::new("sh", &["-c", line]);
        let mut programs = BTreeMap::from([
            (System::Celery, script("echo ready; echo enqueue_s=2 drain_s=4 version=5.7")),
            (System::BullMq, script("exit 3")),
        ]);
        let workload = Workload { jobs: 8, payload_bytes: 200 };
        let options = Options { workload, rounds: 2, systems: Vec::new(), is_json: false };
        let mut skipped = Vec::new();
        let rows = measure(&server, &options, &mut programs, &mut skipped).unwrap();
        assert!(rows.iter().all(|row| row.case.system == System::Celery && row.rounds.len() == 2));
        assert!(skipped[0].starts_with("BullMQ is skipped: "), "{skipped:?}");
        assert_eq!(skipped.len(), 1);
    }
}
