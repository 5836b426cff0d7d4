//! What a worker says while it works: to people on standard error, with its end on standard output; to programs
//! as a JSON object a line.
//!
//! Invariant: the worker never waits for a reader. A thread of its own writes, and what it cannot keep up with is
//! dropped. Of problems that repeat, one in a while is told, with how many there were.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairlane_worker::{CALLBACK_TYPE, CancelReason, Event, Outcome, Pool, Problem, StopReport};
use serde::Serialize;

use super::config::{Config, Target};
use crate::output;
use crate::tables::thousands;

/// Lines that wait to be written.
const LINES_MAX: usize = 1000;
/// A problem of the same type and code is told again after this long.
const PROBLEM_PAUSE: Duration = Duration::from_secs(10);
/// Kinds of problems that are told apart.
const PROBLEMS_MAX: usize = 1000;

/// Something to be said.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Said {
    /// The file is good.
    Checked { config: String, types: Vec<TypeSaid> },
    /// It works.
    Started { worker: String, engine: String, slots: usize, types: Vec<TypeSaid> },
    /// Attempts end badly.
    Problem { r#type: String, outcome: &'static str, code: String, message: String, job: String, more: u64 },
    /// The engine does not answer.
    EngineDown { doing: &'static str, error: String },
    /// It does again.
    EngineBack { after_ms: u64 },
    /// Jobs that nobody asks for.
    Unattended { types: Vec<String> },
    /// A bulk action stands still.
    BulkStuck { group: String, bulk: String, advice: String },
    /// A processor goes on although it was told to stop.
    Ignoring { r#type: String, job: String },
    /// It takes nothing new.
    Stopping { running: u64 },
    /// It has stopped.
    Stopped { finished: usize, handed_back: usize, left: usize, attempts: Ends },
}

/// A type and where its jobs go.
#[derive(Debug, Clone, Serialize)]
pub struct TypeSaid {
    r#type: String,
    target: String,
}

/// How attempts have ended since the start.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Ends {
    done: u64,
    retry: u64,
    throttled: u64,
    failed: u64,
    cancelled: u64,
    released: u64,
}

impl Said {
    /// The file is good.
    pub fn checked(path: &Path, config: &Config) -> Self {
        Self::Checked { config: path.display().to_string(), types: targets(config) }
    }

    /// It works.
    pub fn started(pool: &Pool, url: &str, config: &Config) -> Self {
        let slots = config.worker.worker_count;
        let (worker, engine) = (pool.id().to_string(), without_password(url));
        Self::Started { worker, engine, slots, types: targets(config) }
    }
}

fn targets(config: &Config) -> Vec<TypeSaid> {
    let mut said: Vec<TypeSaid> = Vec::new();
    for one in &config.types {
        let target = match &one.target {
            Target::Http(settings) => settings.origin(),
            Target::Command(settings) => settings.command[0].clone(),
        };
        said.push(TypeSaid { r#type: one.type_id.to_string(), target });
    }
    if config.callbacks.is_some() {
        said.push(TypeSaid { r#type: CALLBACK_TYPE.to_owned(), target: "callbacks".to_owned() });
    }
    said
}

/// `redis://user:password@host` without the user and the password.
fn without_password(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let hosts = rest.split_once('/').map_or(rest, |(hosts, _)| hosts);
            let shown = hosts.rsplit_once('@').map_or(rest, |(secret, _)| &rest[secret.len() + 1..]);
            format!("{scheme}://{shown}")
        }
        None => url.to_owned(),
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checked { config, types } => write!(f, "{config} can be used: {}", listed(types)),
            Self::Started { worker, engine, slots, types } => {
                write!(f, "{worker} works at {engine}, {slots} jobs at once: {}", listed(types))
            }
            Self::Problem { r#type, outcome, code, message, job, more } => {
                write!(f, "{type}: {outcome} of {job}: {code}: {message}")?;
                if *more > 0 {
                    write!(f, " (and {} more since)", thousands(*more))?;
                }
                Ok(())
            }
            Self::EngineDown { doing, error } => write!(f, "the engine does not answer ({doing}): {error}"),
            Self::EngineBack { after_ms } => write!(f, "the engine answers again after {after_ms} ms"),
            Self::Unattended { types } => {
                write!(f, "jobs wait that no worker asks for, of the types {}", types.join(", "))
            }
            Self::BulkStuck { group, bulk, advice } => {
                write!(f, "the bulk action {bulk} of {group} does not move: {advice}")
            }
            Self::Ignoring { r#type, job } => write!(f, "{type}: {job} was told to stop and goes on"),
            Self::Stopping { running: 0 } => f.write_str("stopping"),
            Self::Stopping { running } => {
                write!(f, "stopping with {} in hand; tell it once more to leave them", jobs(*running))
            }
            Self::Stopped { finished, handed_back, left, attempts } => write!(
                f,
                "stopped: {} ended while stopping, {handed_back} handed back, {left} left; in all {} done, {} retried, \
                 {} throttled, {} failed",
                jobs(*finished as u64),
                thousands(attempts.done),
                thousands(attempts.retry),
                thousands(attempts.throttled),
                thousands(attempts.failed)
            ),
        }
    }
}

/// `1 job`, `1,234 jobs`.
pub fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{} jobs", thousands(count)) }
}

fn listed(types: &[TypeSaid]) -> String {
    let words: Vec<String> = types.iter().map(|one| format!("{} ({})", one.r#type, one.target)).collect();
    words.join(", ")
}

/// Says what happens.
pub struct Telling {
    hearing: Arc<Hearing>,
    writing: JoinHandle<()>,
}

impl Telling {
    /// Begins to write.
    pub fn start(json: bool) -> Self {
        let (lines, waiting) = sync_channel::<Said>(LINES_MAX);
        let writing = std::thread::spawn(move || {
            for said in waiting {
                write(&said, json);
            }
        });
        let hearing = Hearing { lines: Mutex::new(Some(lines)), ..Hearing::default() };
        Self { hearing: Arc::new(hearing), writing }
    }

    /// Says it, unless too much waits to be written.
    pub fn say(&self, said: Said) {
        self.hearing.say(said);
    }

    /// To be given to the worker.
    pub fn hook(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let hearing = self.hearing.clone();
        move |event| hearing.hear(event)
    }

    /// Attempts that have begun or ended, counted together.
    pub fn events(&self) -> u64 {
        self.hearing.events.load(Ordering::SeqCst)
    }

    /// Attempts that have begun and not ended.
    pub fn running(&self) -> u64 {
        self.hearing.running()
    }

    /// What it came to.
    pub fn stopped(&self, report: StopReport) -> Said {
        let StopReport { finished, handed_back, left } = report;
        let attempts = *self.hearing.ends.lock().expect("nothing panics while it counts");
        Said::Stopped { finished, handed_back, left, attempts }
    }

    /// Waits until all is written.
    pub fn end(self) {
        self.hearing.lines.lock().expect("nothing panics while it says something").take();
        let _ = self.writing.join();
    }
}

fn write(said: &Said, json: bool) {
    let is_result = matches!(said, Said::Stopped { .. } | Said::Checked { .. });
    // Whoever does not read it any more has had enough of it.
    if json {
        let _ = serde_json::to_string(said).map(|line| output::print(&line));
    } else if is_result {
        let _ = output::print(&said.to_string());
    } else {
        eprintln!("{said}");
    }
}

#[derive(Default)]
struct Hearing {
    lines: Mutex<Option<SyncSender<Said>>>,
    events: AtomicU64,
    running: AtomicI64,
    ends: Mutex<Ends>,
    problems: Mutex<HashMap<(String, String), Told>>,
}

/// When a problem was last told, and how often it has happened since.
struct Told {
    at: Instant,
    more: u64,
}

impl Hearing {
    fn say(&self, said: Said) {
        if let Some(lines) = &*self.lines.lock().expect("nothing panics while it says something") {
            let _ = lines.try_send(said);
        }
    }

    fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst).max(0).unsigned_abs()
    }

    fn hear(&self, event: &Event) {
        match event {
            Event::Started { .. } => self.moved(1),
            Event::Settled { job, type_id, outcome, .. } => {
                self.moved(-1);
                self.count(outcome);
                if let Outcome::Retry { problem, .. } | Outcome::Failed(problem) = outcome {
                    let job = format!("{}/{}", job.group, job.id);
                    self.tell_problem(type_id.to_string(), outcome.as_str(), problem, job);
                }
            }
            // What was lost is settled by nobody here.
            Event::Cancelling { reason: CancelReason::Lost, .. } => self.moved(-1),
            Event::Ignoring { job, type_id } => {
                let job = format!("{}/{}", job.group, job.id);
                self.say(Said::Ignoring { r#type: type_id.to_string(), job });
            }
            Event::EngineDown { doing, error } => self.say(Said::EngineDown { doing, error: error.clone() }),
            Event::EngineBack { after } => self.say(Said::EngineBack { after_ms: after.as_millis() as u64 }),
            Event::Unattended { types } => {
                let types = types.iter().map(|(type_id, _)| type_id.to_string()).collect();
                self.say(Said::Unattended { types });
            }
            Event::BulkStuck { bulk, advice } => {
                let (group, bulk) = (bulk.group.to_string(), bulk.id.to_string());
                self.say(Said::BulkStuck { group, bulk, advice: advice.clone() });
            }
            Event::Stopping => self.say(Said::Stopping { running: self.running() }),
            _ => {}
        }
    }

    fn moved(&self, by: i64) {
        self.running.fetch_add(by, Ordering::SeqCst);
        self.events.fetch_add(1, Ordering::SeqCst);
    }

    fn count(&self, outcome: &Outcome) {
        let mut ends = self.ends.lock().expect("nothing panics while it counts");
        let count = match outcome {
            Outcome::Done { .. } => &mut ends.done,
            Outcome::Retry { .. } => &mut ends.retry,
            Outcome::Throttled { .. } => &mut ends.throttled,
            Outcome::Failed(_) => &mut ends.failed,
            Outcome::Cancelled(_) => &mut ends.cancelled,
            Outcome::Released => &mut ends.released,
        };
        *count += 1;
    }

    fn tell_problem(&self, r#type: String, outcome: &'static str, problem: &Problem, job: String) {
        let mut problems = self.problems.lock().expect("nothing panics while it looks at problems");
        let key = (r#type.clone(), problem.code.clone());
        let now = Instant::now();
        let is_full = problems.len() == PROBLEMS_MAX;
        let more = match problems.get_mut(&key) {
            Some(told) if now.duration_since(told.at) < PROBLEM_PAUSE => {
                told.more += 1;
                return;
            }
            Some(told) => told.more,
            None if is_full => return,
            None => 0,
        };
        problems.insert(key, Told { at: now, more: 0 });
        let (code, message) = (problem.code.clone(), problem.message.clone());
        self.say(Said::Problem { r#type, outcome, code, message, job, more });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_not_said() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://:hunter2@host:6379/0", "redis://host:6379/0"),
            ("redis+cluster://me:h@nter2@a:1,b:2", "redis+cluster://a:1,b:2"),
            ("./data", "./data"),
            ("dir:/var/lib/queue", "dir:/var/lib/queue"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn of_problems_that_repeat_the_first_is_told_and_the_others_counted() {
        let (lines, told) = sync_channel(10);
        let hearing = Hearing { lines: Mutex::new(Some(lines)), ..Hearing::default() };
        for code in ["http_500", "http_500", "connect", "http_500"] {
            hearing.tell_problem("mail".into(), "retry", &Problem::new(code, "words"), "a/1".into());
        }
        drop(hearing.lines.lock().unwrap().take());
        let codes: Vec<String> = told
            .iter()
            .map(|said| match said {
                Said::Problem { code, .. } => code,
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(codes, ["http_500", "connect"]);
        let problems = hearing.problems.lock().unwrap();
        assert_eq!(problems[&("mail".to_owned(), "http_500".to_owned())].more, 2);
    }
}
