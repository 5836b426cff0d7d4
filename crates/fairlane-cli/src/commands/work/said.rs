//! What a worker can say: a sentence for people, an object for programs.
//!
//! Invariant: nothing it says holds a password.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fairlane::duration_text;
use fairlane_engine::{directory_of, without_user};
use fairlane_server::keys::Keys;
use fairlane_worker::{CALLBACK_TYPE, Pool};
use serde::Serialize;

use crate::config::{Config, DATA, Target};
use crate::escape;
use crate::place::Place;
use crate::tables::thousands;

/// Something to be said.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Said {
    /// The file is good.
    Checked { config: String, engine: String, types: Vec<TypeSaid> },
    /// It works.
    Started { worker: String, engine: String, slots: usize, types: Vec<TypeSaid> },
    /// It serves.
    Serving { address: String, engine: String, keys: Guarding, types: Vec<TypeSaid> },
    /// A setting of the engine weakens what is promised.
    EngineWarning { warning: String },
    /// Attempts end badly.
    Problem {
        r#type: String,
        outcome: &'static str,
        code: String,
        message: String,
        job: String,
        /// Whether the job is dead now.
        dead: bool,
        more: u64,
    },
    /// A downstream refuses jobs for now; how often since this was last said.
    Throttled { r#type: String, job: String, retry_after_ms: Option<u64>, count: u64 },
    /// A result was dropped; its job runs again.
    ResultDropped { r#type: String, job: String, outcome: &'static str, error: String },
    /// What has happened since this was last said.
    Progress { running: u64, attempts: Ends },
    /// The engine does not answer.
    EngineDown { doing: &'static str, error: String },
    /// It does again.
    EngineBack { after_ms: u64 },
    /// It answers that it cannot do something.
    EngineRefuses { doing: &'static str, error: String, more: u64 },
    /// Jobs that nobody asks for.
    Unattended { types: Vec<String> },
    /// A bulk action stands still.
    BulkStuck { group: String, bulk: String, advice: String },
    /// A processor goes on although it was told to stop.
    Ignoring { r#type: String, job: String },
    /// Nothing is left that this worker could do.
    Drained { left: Vec<LeftSaid> },
    /// It takes nothing new.
    Stopping { running: u64 },
    /// It has stopped.
    Stopped {
        drained: bool,
        finished: usize,
        handed_back: usize,
        left: usize,
        attempts: Ends,
        /// What went wrong, if that is why.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// Who may come in.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarding {
    /// Whoever has a key of this file.
    Keys(String),
    /// Everybody on this machine.
    Loopback {
        /// The command that makes a key.
        create: String,
    },
}

/// A type and where its jobs go.
#[derive(Debug, Clone, Serialize)]
pub struct TypeSaid {
    r#type: String,
    target: String,
}

/// Jobs of a type that a drained queue still has, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftSaid {
    /// Which type; none for jobs that are set aside, whose types nobody counts.
    pub r#type: Option<String>,
    /// How many.
    pub jobs: u64,
    /// Why this worker left them.
    pub reason: &'static str,
}

/// How attempts have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    pub done: u64,
    pub retry: u64,
    pub throttled: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub released: u64,
    /// Of those that failed or were to be retried: their jobs are dead.
    pub dead: u64,
}

impl Guarding {
    /// By the keys of a server, if it asks for any.
    pub fn new(keys: Option<&Keys>, place: &Place) -> Self {
        if let Some(keys) = keys.filter(|keys| keys.are_asked_for()) {
            return Self::Keys(keys.path().display().to_string());
        }
        if keys.is_none() {
            let create = "fairlane key create --name me --role admin --keys keys.json";
            let serve = format!("fairlane serve --engine {} --keys keys.json", place.engine);
            return Self::Loopback { create: format!("{create} && {serve}") };
        }
        let data = directory_of(&place.engine).filter(|folder| folder != Path::new(DATA));
        let data = data.map_or(String::new(), |folder| format!(" --data {}", folder.display()));
        Self::Loopback { create: format!("fairlane key create --name me --role admin{data}") }
    }
}

impl Ends {
    /// What has been added to an earlier count.
    pub fn since(self, before: Self) -> Self {
        Self {
            done: self.done - before.done,
            retry: self.retry - before.retry,
            throttled: self.throttled - before.throttled,
            failed: self.failed - before.failed,
            cancelled: self.cancelled - before.cancelled,
            released: self.released - before.released,
            dead: self.dead - before.dead,
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [done, retry, throttled, failed, dead] =
            [self.done, self.retry, self.throttled, self.failed, self.dead].map(thousands);
        write!(f, "{done} done, {retry} retried, {throttled} throttled, {failed} failed, {dead} dead")
    }
}

impl Said {
    /// The file is good.
    pub fn checked(path: &Path, url: &str, config: &Config) -> Self {
        let (config_path, engine) = (path.display().to_string(), without_user(url));
        Self::Checked { config: config_path, engine, types: targets(config) }
    }

    /// It works.
    pub fn started(pool: &Pool, url: &str, config: &Config) -> Self {
        let slots = config.worker.settings.worker_count;
        let (worker, engine) = (pool.id().to_string(), without_user(url));
        Self::Started { worker, engine, slots, types: targets(config) }
    }

    /// It serves; the worker in it works on what the file names.
    pub fn serving(address: SocketAddr, url: &str, keys: Guarding, config: &Config) -> Self {
        let (address, engine) = (format!("http://{address}"), without_user(url));
        Self::Serving { address, engine, keys, types: targets(config) }
    }

    /// Whether it is what was asked for, rather than something about the way there.
    pub fn is_result(&self) -> bool {
        matches!(self, Self::Stopped { .. } | Self::Checked { .. }) && !self.is_for_programs()
    }

    /// Whether people need not be told.
    pub fn is_for_programs(&self) -> bool {
        match self {
            Self::Drained { left } => left.is_empty(),
            // They are told what went wrong, and nothing else has happened.
            Self::Stopped { error: Some(_), finished: 0, handed_back: 0, left: 0, attempts, .. } => {
                *attempts == Ends::default()
            }
            _ => false,
        }
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

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checked { config, engine, types } => {
                write!(f, "{config} can be used: {}; the queue is at {engine}", listed(types))
            }
            Self::Started { worker, engine, slots, types } => {
                write!(f, "{worker} works at {engine}, {slots} jobs at once: {}", listed(types))
            }
            Self::Serving { address, engine, keys, types } => serving(f, address, engine, keys, types),
            Self::EngineWarning { warning } => write!(f, "warning: {warning}"),
            Self::Problem { r#type, outcome, code, message, job, dead, more } => {
                let (code, message) = (escape::line(code), escape::line(message));
                match dead {
                    true => write!(f, "{type}: {job} is dead ({outcome}): {code}: {message}")?,
                    false => write!(f, "{type}: {outcome} of {job}: {code}: {message}")?,
                }
                and_more(f, *more)
            }
            Self::Throttled { r#type, job, retry_after_ms, count } => {
                write!(f, "{type}: throttled {}, last {job}", times(*count))?;
                match retry_after_ms {
                    Some(ms) => write!(f, ", until {} later", duration_text(Duration::from_millis(*ms))),
                    None => Ok(()),
                }
            }
            Self::ResultDropped { r#type, job, outcome, error } => write!(
                f,
                "{type}: the result of {job} ({outcome}) was dropped, the job runs again when its lease runs out: {error}"
            ),
            Self::Progress { running, attempts } => write!(f, "{attempts}; {} running", jobs(*running)),
            Self::EngineDown { doing, error } => {
                write!(f, "the engine does not answer ({doing}): {}", escape::line(error))
            }
            Self::EngineBack { after_ms } => write!(f, "the engine answers again after {after_ms} ms"),
            Self::EngineRefuses { doing, error, more } => {
                write!(f, "the engine refuses ({doing}): {}", escape::line(error))?;
                and_more(f, *more)
            }
            Self::Unattended { types } => {
                write!(f, "jobs wait that no worker asks for, of the types {}", types.join(", "))
            }
            Self::BulkStuck { group, bulk, advice } => {
                write!(f, "the bulk action {bulk} of {group} does not move: {advice}")
            }
            Self::Ignoring { r#type, job } => write!(f, "{type}: {job} was told to stop and goes on"),
            Self::Drained { left } => {
                let words: Vec<String> = left.iter().map(ToString::to_string).collect();
                write!(f, "left in the queue: {}", words.join("; "))
            }
            Self::Stopping { running: 0 } => f.write_str("stopping"),
            Self::Stopping { running } => {
                write!(f, "stopping with {} in hand; tell it once more to leave them", jobs(*running))
            }
            Self::Stopped { drained: false, finished: 0, handed_back: 0, left: 0, attempts, .. }
                if *attempts == Ends::default() =>
            {
                f.write_str("stopped")
            }
            Self::Stopped { drained: true, handed_back: 0, left: 0, attempts, .. } => {
                write!(f, "drained: in all {attempts}")
            }
            Self::Stopped { finished, handed_back, left, attempts, .. } => write!(
                f,
                "stopped: {} ended while stopping, {handed_back} handed back, {left} left; in all {attempts}",
                jobs(*finished as u64)
            ),
        }
    }
}

/// What somebody who has just started a server wants to know.
fn serving(
    f: &mut fmt::Formatter<'_>,
    address: &str,
    engine: &str,
    keys: &Guarding,
    types: &[TypeSaid],
) -> fmt::Result {
    writeln!(f, "serving {engine} at {address}")?;
    match keys {
        Guarding::Keys(file) => writeln!(f, "  keys      asked for with every request; they are in {file}")?,
        Guarding::Loopback { create } => {
            writeln!(f, "  no keys   only this machine can reach it; create one with")?;
            writeln!(f, "            {create}")?;
        }
    }
    if !types.is_empty() {
        writeln!(f, "  works on  {}", listed(types))?;
    }
    writeln!(f, "  docs      {address}/docs")?;
    writeln!(f, "  metrics   {address}/metrics")?;
    write!(f, "  stop      Ctrl-C lets running requests and jobs end; a second one does not")
}

impl fmt::Display for LeftSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&jobs(self.jobs))?;
        if let Some(name) = &self.r#type {
            write!(f, " of {name}")?;
        }
        write!(f, " ({})", self.reason)
    }
}

fn and_more(f: &mut fmt::Formatter<'_>, more: u64) -> fmt::Result {
    match more {
        0 => Ok(()),
        more => write!(f, " (and {} more since)", thousands(more)),
    }
}

/// `once`, `1,234 times`.
fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", thousands(count)) }
}

/// `1 job`, `1,234 jobs`.
pub fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{} jobs", thousands(count)) }
}

fn listed(types: &[TypeSaid]) -> String {
    let words: Vec<String> = types.iter().map(|one| format!("{} ({})", one.r#type, one.target)).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_with_its_type_its_number_and_why() {
        let left = vec![
            LeftSaid { r#type: Some("foreign".into()), jobs: 2, reason: "the file does not name it" },
            LeftSaid { r#type: None, jobs: 1, reason: "on hold" },
        ];
        let said = Said::Drained { left }.to_string();
        assert_eq!(said, "left in the queue: 2 jobs of foreign (the file does not name it); 1 job (on hold)");
    }
}
