//! Kills a process that works on a data directory at random moments, and checks the invariants
//! after each kill.
//!
//! The victim prints each acknowledgement to its standard output; a kill may lose the last lines.
//! After a kill the directory is opened here: every acknowledged job must be in it. Moments are
//! drawn from a seed; where in the code they hit depends on the machine. Left out: power failures,
//! which need a disk that loses unconfirmed writes.
//!
//! - `kills/victim.rs`: the process.

mod victim;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fairlane_core::queue::{InspectJob, JobRef, JobState};
use fairlane_engine::{DirectoryOptions, EmbeddedEngine, Engine};

use crate::dice::Dice;
use crate::subject::{job_ref, trace_of};
pub use victim::run_victim;

/// The longest life of a victim after its first line of output, in milliseconds.
const LIFE_MS_MAX: u64 = 400;
/// Jobs whose last line is more kills ago than this are checked only at the end.
const ROUNDS_CHECKED: u64 = 2;
/// The most violations that are recorded.
const VIOLATIONS_MAX: usize = 20;

/// What a victim printed about one job.
#[derive(Debug, Default)]
struct JobRecord {
    enqueued: bool,
    /// The number of kills before its last line.
    kill: u64,
    /// The fence of its last lease.
    fence: u64,
    /// The fence under which it ended.
    ended: Option<u64>,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of times the process was killed.
    pub kills: u64,
    /// Jobs whose enqueue was acknowledged.
    pub acknowledged: u64,
    /// Leases that were acknowledged.
    pub leases: u64,
    /// Ends that were acknowledged.
    pub ends: u64,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
    records: BTreeMap<JobRef, JobRecord>,
}

/// Starts `program` with the arguments `victim`, the folder and a number, and kills it, `rounds`
/// times.
pub async fn run(program: &Path, folder: &Path, seed: u64, rounds: u64) -> Report {
    let mut dice = Dice::new(seed);
    let mut report = Report::default();
    for round in 0..rounds {
        let number = (seed * 10_000 + round).to_string();
        let mut victim = Command::new(program)
            .arg("victim")
            .arg(folder)
            .arg(&number)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let life = Duration::from_millis(1 + dice.below(LIFE_MS_MAX));
        read_and_kill(&mut victim, life, &mut report);
        report.kills += 1;
        let since = if round + 1 == rounds { 0 } else { round.saturating_sub(ROUNDS_CHECKED) };
        check(folder, since, &mut report).await;
    }
    report
}

/// Reads the output of the victim until it is dead.
fn read_and_kill(victim: &mut Child, life: Duration, report: &mut Report) {
    let output = BufReader::new(victim.stdout.take().expect("standard output is a pipe"));
    let (first, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut lines = Vec::new();
            // The last line may be cut off in the middle.
            for line in output.split(b'\n').map_while(Result::ok) {
                let _ = first.send(());
                lines.push(String::from_utf8_lossy(&line).into_owned());
            }
            lines
        });
        // A victim that exits without output has not been killed.
        if begun.recv().is_ok() {
            std::thread::sleep(life);
        } else {
            report.violate("the victim exited by itself".into());
        }
        victim.kill().expect("it is ours to kill");
        victim.wait().expect("it has ended");
        for line in reading.join().expect("reading does not panic") {
            report.record(&line);
        }
    });
}

impl Report {
    fn violate(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what);
        }
    }

    /// One line: a verb, the job, and a fence, closed by a dot.
    fn record(&mut self, line: &str) {
        let Some(line) = line.strip_suffix(" .") else { return };
        let fields: Vec<&str> = line.split(' ').collect();
        let &[verb, group, id, fence] = &fields[..] else {
            return self.violate(format!("the victim printed {line:?}"));
        };
        let fence: u64 = fence.parse().unwrap_or(0);
        let record = self.records.entry(job_ref(group, id)).or_default();
        record.kill = self.kills;
        let wrong = match verb {
            "enqueued" => {
                self.acknowledged += u64::from(!record.enqueued);
                record.enqueued = true;
                None
            }
            "leased" => {
                self.leases += 1;
                let before = std::mem::replace(&mut record.fence, fence);
                if record.ended.is_some() {
                    Some("was leased after its end".to_owned())
                } else {
                    (fence <= before).then(|| format!("was leased under {fence} after {before}"))
                }
            }
            "ended" => {
                self.ends += 1;
                record.ended.replace(fence).map(|before| format!("ended under {before} and {fence}"))
            }
            _ => Some(format!("has {verb}")),
        };
        if let Some(wrong) = wrong {
            self.violate(format!("{group}/{id} {wrong}"));
        }
    }
}

/// Opens the directory and checks every job that was printed since a kill.
async fn check(folder: &Path, since: u64, report: &mut Report) {
    let engine = match EmbeddedEngine::open(folder, DirectoryOptions::default()) {
        Ok(engine) => engine,
        Err(error) => return report.violate(format!("after kill {}: {error}", report.kills)),
    };
    if let Err(fault) = engine.check().await.expect("the engine runs") {
        report.violate(format!("after kill {}: {fault}", report.kills));
    }
    let engine: &dyn Engine = &engine;
    let mut wrong = Vec::new();
    for (job, record) in report.records.iter().filter(|(_, record)| record.kill >= since) {
        let found = engine.call(InspectJob { job: job.clone() }).await.expect("the engine runs");
        if let Some(view) = found.as_ref().filter(|view| view.trace != trace_of(job)) {
            wrong.push(format!("after kill {}: {job:?} has the trace {:?}", report.kills, view.trace));
        }
        let found = found.map(|view| view.state);
        let at_end = matches!(found, Some(JobState::Completed | JobState::Failed));
        if found.is_none() || (record.ended.is_some() && !at_end) {
            wrong.push(format!("after kill {}: {job:?} is {found:?}, {record:?}", report.kills));
        }
    }
    for what in wrong {
        report.violate(what);
    }
}
