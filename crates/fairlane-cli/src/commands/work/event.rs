//! The events that `work` and `serve` report: a sentence for people, an object for programs.
//!
//! Invariant: an event contains no password.

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
use crate::tables::{counted, thousands};
use crate::target::QueueTarget;

/// An event. Its JSON form has the name of the variant in `event`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkEvent {
    /// The file is valid.
    Checked { config: String, engine: String, types: Vec<TypeTarget> },
    /// The worker has started.
    Started { worker: String, engine: String, slots: usize, types: Vec<TypeTarget> },
    /// The server has started.
    Serving { address: String, engine: String, keys: ServerAccess, types: Vec<TypeTarget> },
    /// A setting of the engine weakens its guarantees.
    EngineWarning { warning: String },
    /// Attempts fail.
    Problem {
        r#type: String,
        outcome: &'static str,
        code: String,
        reason: String,
        job: String,
        /// Whether the job is dead now.
        dead: bool,
        /// The number of suppressed events of this kind.
        more: u64,
    },
    /// A downstream throttles a type; `count` is the number since the last report.
    Throttled { r#type: String, job: String, retry_after_ms: Option<u64>, count: u64 },
    /// A result was dropped; its job runs again.
    ResultDropped { r#type: String, job: String, outcome: &'static str, error: String },
    /// The attempts since the last report.
    Progress { running: u64, attempts: AttemptCounts },
    /// The engine does not respond.
    EngineDown { doing: &'static str, error: String },
    /// The engine responds again.
    EngineBack { after_ms: u64 },
    /// The engine rejects a command.
    EngineRefuses { doing: &'static str, error: String, more: u64 },
    /// Jobs of these types wait, and no worker requests them.
    Unattended { types: Vec<String> },
    /// A bulk action makes no progress.
    BulkStuck { group: String, bulk: String, advice: String },
    /// A processor keeps running although it was asked to stop.
    Ignoring { r#type: String, job: String },
    /// Nothing is left for this worker.
    Drained { left: Vec<RemainingJobs> },
    /// The worker leases no more jobs.
    Stopping { running: u64 },
    /// The worker has stopped.
    Stopped {
        drained: bool,
        finished: usize,
        handed_back: usize,
        left: usize,
        attempts: AttemptCounts,
        /// Why it stopped, if that was a failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// Who may use a server.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerAccess {
    /// Clients with a key of this file.
    Keys(String),
    /// Every client on this machine.
    Loopback {
        /// The command that creates a key.
        create: String,
    },
}

/// A type and the target of its jobs.
#[derive(Debug, Clone, Serialize)]
pub struct TypeTarget {
    r#type: String,
    target: String,
}

/// Jobs that a drained queue still contains, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemainingJobs {
    /// The type of the jobs; none for jobs on hold, whose types are not counted.
    pub r#type: Option<String>,
    /// The number of jobs.
    pub jobs: u64,
    /// Why this worker did not run them.
    pub reason: &'static str,
}

/// The number of attempts, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AttemptCounts {
    pub done: u64,
    pub retry: u64,
    pub throttled: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub released: u64,
    /// Attempts among `failed` and `retry` after which the job is dead.
    pub dead: u64,
}

impl ServerAccess {
    /// The access to a server with these keys, if it requires any.
    pub fn new(keys: Option<&Keys>, target: &QueueTarget) -> Self {
        if let Some(keys) = keys.filter(|keys| keys.are_required()) {
            return Self::Keys(keys.path().display().to_string());
        }
        if keys.is_none() {
            let create = "fairlane key create --name me --role admin --keys keys.json";
            let serve = format!("fairlane serve --engine {} --keys keys.json", target.engine);
            return Self::Loopback { create: format!("{create} && {serve}") };
        }
        let data = directory_of(&target.engine).filter(|folder| folder != Path::new(DATA));
        let data = data.map_or(String::new(), |folder| format!(" --data {}", folder.display()));
        Self::Loopback { create: format!("fairlane key create --name me --role admin{data}") }
    }
}

impl AttemptCounts {
    /// The difference to an earlier count.
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

impl fmt::Display for AttemptCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [done, retry, throttled, failed, dead] =
            [self.done, self.retry, self.throttled, self.failed, self.dead].map(thousands);
        write!(f, "{done} done, {retry} retried, {throttled} throttled, {failed} failed, {dead} dead")
    }
}

impl WorkEvent {
    /// The event of `--check`.
    pub fn checked(path: &Path, url: &str, config: &Config) -> Self {
        let (config_path, engine) = (path.display().to_string(), without_user(url));
        Self::Checked { config: config_path, engine, types: type_targets(config) }
    }

    /// The first event of a worker.
    pub fn started(pool: &Pool, url: &str, config: &Config) -> Self {
        let slots = config.worker.settings.worker_count;
        let (worker, engine) = (pool.id().to_string(), without_user(url));
        Self::Started { worker, engine, slots, types: type_targets(config) }
    }

    /// The first event of a server, whose worker runs the types of the file.
    pub fn serving(address: SocketAddr, url: &str, keys: ServerAccess, config: &Config) -> Self {
        let (address, engine) = (format!("http://{address}"), without_user(url));
        Self::Serving { address, engine, keys, types: type_targets(config) }
    }

    /// Whether the event is the result of the command, which goes to standard output.
    pub fn is_result(&self) -> bool {
        matches!(self, Self::Stopped { .. } | Self::Checked { .. }) && !self.is_json_only()
    }

    /// Whether the event is left out of the text for people.
    pub fn is_json_only(&self) -> bool {
        match self {
            Self::Drained { left } => left.is_empty(),
            // Nothing happened before the failure, and the failure itself is printed.
            Self::Stopped { error: Some(_), finished: 0, handed_back: 0, left: 0, attempts, .. } => {
                *attempts == AttemptCounts::default()
            }
            _ => false,
        }
    }
}

fn type_targets(config: &Config) -> Vec<TypeTarget> {
    let mut targets: Vec<TypeTarget> = Vec::new();
    for one in &config.types {
        let target = match &one.target {
            Some(Target::Http(settings)) => settings.origin(),
            Some(Target::Command(settings)) => settings.command[0].clone(),
            Some(Target::ComfyUi(settings)) => settings.origin(),
            None => continue,
        };
        targets.push(TypeTarget { r#type: one.type_id.to_string(), target });
    }
    if config.callbacks.is_some() {
        targets.push(TypeTarget { r#type: CALLBACK_TYPE.to_owned(), target: "callbacks".to_owned() });
    }
    targets
}

impl fmt::Display for WorkEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checked { config, engine, types } => {
                write!(f, "{config} is valid: {}; the queue is at {engine}", listed(types))
            }
            Self::Started { worker, engine, slots, types } => {
                let slots = counted(*slots as u64, "slot");
                write!(f, "worker {worker} is connected to {engine}, with {slots}: {}", listed(types))
            }
            Self::Serving { address, engine, keys, types } => serving(f, address, engine, keys, types),
            Self::EngineWarning { warning } => write!(f, "warning: {warning}"),
            Self::Problem { r#type, outcome, code, reason, job, dead, more } => {
                let (code, reason) = (escape::line(code), escape::line(reason));
                match (dead, *outcome) {
                    // The outcome of its last attempt, which is not retried.
                    (true, "retry") => {
                        write!(f, "{type}: {job} is dead (retries used up): {code}: {reason}")?
                    }
                    (true, _) => write!(f, "{type}: {job} is dead ({outcome}): {code}: {reason}")?,
                    (false, _) => write!(f, "{type}: {outcome} of {job}: {code}: {reason}")?,
                }
                and_more(f, *more)
            }
            Self::Throttled { r#type, job, retry_after_ms, count } => {
                write!(f, "{type}: throttled {}, last {job}", times(*count))?;
                match retry_after_ms {
                    Some(ms) => write!(f, ", for {}", duration_text(Duration::from_millis(*ms))),
                    None => Ok(()),
                }
            }
            Self::ResultDropped { r#type, job, outcome, error } => write!(
                f,
                "{type}: the result of {job} ({outcome}) was dropped, the job runs again when its lease expires: {error}"
            ),
            Self::Progress { running, attempts } => write!(f, "{attempts}; {} running", jobs(*running)),
            Self::EngineDown { doing, error } => {
                write!(f, "the engine does not respond ({doing}): {}", escape::line(error))
            }
            Self::EngineBack { after_ms } => write!(f, "the engine responds again after {after_ms} ms"),
            Self::EngineRefuses { doing, error, more } => {
                write!(f, "the engine rejects a command ({doing}): {}", escape::line(error))?;
                and_more(f, *more)
            }
            Self::Unattended { types } => {
                write!(f, "jobs are waiting that no worker requests; their types: {}", types.join(", "))
            }
            Self::BulkStuck { group, bulk, advice } => {
                write!(f, "bulk action {bulk} of {group} makes no progress: {advice}")
            }
            Self::Ignoring { r#type, job } => {
                write!(f, "{type}: {job} was asked to stop and is still running")
            }
            Self::Drained { left } => {
                let parts: Vec<String> = left.iter().map(ToString::to_string).collect();
                write!(f, "left in the queue: {}", parts.join("; "))
            }
            Self::Stopping { running: 0 } => f.write_str("stopping"),
            Self::Stopping { running } => {
                write!(f, "stopping with {} running; send the signal again to stop at once", jobs(*running))
            }
            Self::Stopped { drained: false, finished: 0, handed_back: 0, left: 0, attempts, .. }
                if *attempts == AttemptCounts::default() =>
            {
                f.write_str("stopped")
            }
            Self::Stopped { drained: true, handed_back: 0, left: 0, attempts, .. } => {
                write!(f, "drained: {attempts} in total")
            }
            Self::Stopped { finished, handed_back, left, attempts, .. } => write!(
                f,
                "stopped: {} ended while stopping, {handed_back} handed back, {left} left; {attempts} in total",
                jobs(*finished as u64)
            ),
        }
    }
}

/// The text after the start of a server: how to reach it, and what to do next.
fn serving(
    f: &mut fmt::Formatter<'_>,
    address: &str,
    engine: &str,
    keys: &ServerAccess,
    types: &[TypeTarget],
) -> fmt::Result {
    writeln!(f, "serving {engine} at {address}")?;
    match keys {
        ServerAccess::Keys(file) => writeln!(f, "  keys      required for every request, from {file}")?,
        ServerAccess::Loopback { create } => {
            writeln!(f, "  no keys   only this machine can reach the server; create a key with")?;
            writeln!(f, "            {create}")?;
            writeln!(f, "            From the first key on, every client needs one.")?;
        }
    }
    if !types.is_empty() {
        writeln!(f, "  types     {}", listed(types))?;
    }
    writeln!(f, "  dashboard {address}/")?;
    writeln!(f, "  docs      {address}/docs")?;
    writeln!(f, "  metrics   {address}/metrics")?;
    write!(f, "  stop      Ctrl-C waits for running requests and jobs; press it again to stop at once")
}

impl fmt::Display for RemainingJobs {
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
    counted(count, "job")
}

fn listed(types: &[TypeTarget]) -> String {
    let parts: Vec<String> = types.iter().map(|one| format!("{} ({})", one.r#type, one.target)).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_jobs_are_listed_with_type_number_and_reason() {
        let left = vec![
            RemainingJobs { r#type: Some("foreign".into()), jobs: 2, reason: "not in the file" },
            RemainingJobs { r#type: None, jobs: 1, reason: "on hold" },
        ];
        let text = WorkEvent::Drained { left }.to_string();
        assert_eq!(text, "left in the queue: 2 jobs of foreign (not in the file); 1 job (on hold)");
    }
}
