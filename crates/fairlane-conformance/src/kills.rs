//! A process at work on a data directory, killed at random moments; and what must hold after each kill.
//!
//! The victim says on its standard output what has been acknowledged to it; it may know more than it came
//! to say. After a kill the directory is opened here: whatever was said must be there. Moments are drawn
//! from a seed; where they hit is up to the machine. Left out: failures of power, which need a disk that
//! loses what it has not confirmed.
//!
//! - `kills/victim.rs`: the process.

mod victim;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fairlane_core::queue::{Inspect, Inspected, JobRef, JobState};
use fairlane_engine::{DirectoryOptions, EmbeddedEngine, Engine};

use crate::dice::Dice;
use crate::subject::{job_ref, trace_of};
pub use victim::be_victim;

/// Longest life of a victim after it has said its first word.
const LIFE_MS_MAX: u64 = 400;
/// Jobs last heard of longer ago are looked for in the end only.
const ROUNDS_CHECKED: u64 = 2;
/// More violations than this say nothing new.
const VIOLATIONS_MAX: usize = 20;

/// What was heard of one job.
#[derive(Debug, Default)]
struct Heard {
    enqueued: bool,
    /// The kill after which it was last heard of.
    kill: u64,
    fence: u64,
    ended: Option<u64>,
}

/// How it went.
#[derive(Debug, Default)]
pub struct Report {
    /// Times the process was killed.
    pub kills: u64,
    /// Jobs whose enqueue was acknowledged.
    pub acknowledged: u64,
    /// Leases that were given.
    pub leases: u64,
    /// Ends that were acknowledged.
    pub ends: u64,
    /// What did not hold; empty if all is well.
    pub violations: Vec<String>,
    heard: BTreeMap<JobRef, Heard>,
}

/// Starts `program` with the words `victim`, the folder and a number, and kills it, so many times.
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
        listen_and_kill(&mut victim, life, &mut report);
        report.kills += 1;
        let since = if round + 1 == rounds { 0 } else { round.saturating_sub(ROUNDS_CHECKED) };
        check(folder, since, &mut report).await;
    }
    report
}

/// Takes down what the victim says until it is dead.
fn listen_and_kill(victim: &mut Child, life: Duration, report: &mut Report) {
    let words = BufReader::new(victim.stdout.take().expect("standard output is a pipe"));
    let (first, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let listening = scope.spawn(move || {
            let mut lines = Vec::new();
            // The last line may be cut off in the middle.
            for line in words.split(b'\n').map_while(Result::ok) {
                let _ = first.send(());
                lines.push(String::from_utf8_lossy(&line).into_owned());
            }
            lines
        });
        // A victim that ends without a word is found out by what it did not say.
        if begun.recv().is_ok() {
            std::thread::sleep(life);
        } else {
            report.violate("the victim ended by itself".into());
        }
        victim.kill().expect("it is ours to kill");
        victim.wait().expect("it has ended");
        for line in listening.join().expect("listening does not panic") {
            report.hear(&line);
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
    fn hear(&mut self, line: &str) {
        let Some(line) = line.strip_suffix(" .") else { return };
        let words: Vec<&str> = line.split(' ').collect();
        let &[verb, group, id, fence] = &words[..] else { return self.violate(format!("it said {line:?}")) };
        let fence: u64 = fence.parse().unwrap_or(0);
        let heard = self.heard.entry(job_ref(group, id)).or_default();
        heard.kill = self.kills;
        let wrong = match verb {
            "enqueued" => {
                self.acknowledged += u64::from(!heard.enqueued);
                heard.enqueued = true;
                None
            }
            "leased" => {
                self.leases += 1;
                let before = std::mem::replace(&mut heard.fence, fence);
                if heard.ended.is_some() {
                    Some("was leased after its end".to_owned())
                } else {
                    (fence <= before).then(|| format!("was leased under {fence} after {before}"))
                }
            }
            "ended" => {
                self.ends += 1;
                heard.ended.replace(fence).map(|before| format!("ended under {before} and {fence}"))
            }
            _ => Some(format!("has {verb}")),
        };
        if let Some(wrong) = wrong {
            self.violate(format!("{group}/{id} {wrong}"));
        }
    }
}

/// Opens the directory and looks for everything that was said since a kill.
async fn check(folder: &Path, since: u64, report: &mut Report) {
    let engine = match EmbeddedEngine::open(folder, DirectoryOptions::default()) {
        Ok(engine) => engine,
        Err(error) => return report.violate(format!("after kill {}: {error}", report.kills)),
    };
    if let Err(fault) = engine.check().await.expect("the engine runs") {
        report.violate(format!("after kill {}: {fault}", report.kills));
    }
    let seam: &dyn Engine = &engine;
    let mut wrong = Vec::new();
    for (job, heard) in report.heard.iter().filter(|(_, heard)| heard.kill >= since) {
        let found = match seam.inspect(Inspect::Job(job.clone())).await.expect("the engine runs") {
            Inspected::Job(found) => found,
            other => panic!("{other:?}"),
        };
        if let Some(view) = found.as_ref().filter(|view| view.trace != trace_of(job)) {
            wrong.push(format!("after kill {}: {job:?} has the trace {:?}", report.kills, view.trace));
        }
        let found = found.map(|view| view.state);
        let at_end = matches!(found, Some(JobState::Completed | JobState::Failed));
        if found.is_none() || (heard.ended.is_some() && !at_end) {
            wrong.push(format!("after kill {}: {job:?} is {found:?}, {heard:?}", report.kills));
        }
    }
    for what in wrong {
        report.violate(what);
    }
}
