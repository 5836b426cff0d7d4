//! Runs a program for each job: the payload is its standard input, its standard output the result.
//!
//! | exit code | outcome |
//! |---|---|
//! | 0 | done; standard output is the result |
//! | 69 (unavailable) | throttled; a number in the first line of standard output is Retry-After in seconds |
//! | 75 (temporary failure), any other, a signal | retry |
//! | 64, 65, 77, 78 (usage, data, permission, configuration), no such program | failed |
//!
//! Invariant: no process in its process group outlives the attempt, however that ends, and its
//! output is stored only up to a limit. Left out on purpose: a shell, which would interpret names
//! and payloads as code.

mod pipes;
mod process_group;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use fairlane_core::limits::{NOTE_BYTES_MAX, RETRY_AFTER_MS_MAX};
use fairlane_worker::{BoxFuture, CancelReason, Context, Outcome, Processor};
use rustix::process::Signal;
use tokio::process::{Child, Command};

use crate::call::Call;
use crate::client::BadTarget;
use crate::response::excerpt;
use pipes::Pipes;
use process_group::ProcessGroup;

/// How long pipes are read after the program has ended, in case a process outside its group holds
/// them open.
const PIPES_GRACE: Duration = Duration::from_secs(1);

/// The program of a command target, its directory and its environment.
#[derive(Clone)]
pub struct CommandSettings {
    /// The program and its arguments; no shell interprets them.
    pub command: Vec<String>,
    /// The working directory; the worker's own if `None`.
    pub directory: Option<PathBuf>,
    /// Environment variables in addition to those every program gets; values are never shown.
    pub environment: Vec<(String, String)>,
}

impl CommandSettings {
    /// Settings for this program and its arguments, in the worker's directory.
    pub fn new<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        Self { command, directory: None, environment: Vec::new() }
    }
}

impl fmt::Debug for CommandSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.environment.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("CommandSettings")
            .field("program", &self.command.first())
            .field("directory", &self.directory)
            .field("environment", &names)
            .finish_non_exhaustive()
    }
}

/// Runs a program for each job.
#[derive(Debug)]
pub struct CommandTarget {
    settings: CommandSettings,
}

impl CommandTarget {
    /// Makes a target; an error if the settings are invalid. Whether the program exists is checked
    /// only when it is run.
    pub fn new(settings: CommandSettings) -> Result<Self, BadTarget> {
        if settings.command.first().is_none_or(String::is_empty) {
            return Err(BadTarget(
                "the command names no program; write it as [\"program\", \"argument\"]".into(),
            ));
        }
        let named = settings.environment.iter().map(|(name, _)| name);
        if let Some(name) = named.into_iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(BadTarget(format!("{name:?} cannot be the name of an environment variable")));
        }
        if settings
            .command
            .iter()
            .chain(settings.environment.iter().map(|(_, value)| value))
            .any(|text| text.contains('\0'))
        {
            return Err(BadTarget("a command and its environment cannot contain a zero byte".into()));
        }
        Ok(Self { settings })
    }

    /// Runs the program once. A stop request sends SIGTERM to its process group; dropping this
    /// future kills the group.
    async fn call(&self, call: Call, cancelled: impl Future<Output = CancelReason>) -> Outcome {
        let mut child = match self.spawn(&call) {
            Ok(child) => child,
            Err(error) => return self.not_started(&error),
        };
        // Dropped before the child is, that is while the process id still belongs to it.
        let mut group = ProcessGroup::of(&child);
        let mut pipes = Pipes::take(&mut child, call.payload);
        let mut stop_reason = None;
        let ended = {
            let mut cancelled = std::pin::pin!(cancelled);
            let mut flowing = std::pin::pin!(pipes.flow());
            let mut flooded = None;
            let status = loop {
                tokio::select! {
                    status = child.wait() => break status,
                    end = &mut flowing, if flooded.is_none() => {
                        flooded = Some(end.flooded);
                        if end.flooded {
                            group.signal(Signal::KILL);
                        }
                    }
                    reason = &mut cancelled, if stop_reason.is_none() => {
                        stop_reason = Some(reason);
                        group.signal(Signal::TERM);
                    }
                }
            };
            group.kill_rest();
            if flooded.is_none() {
                let _ = tokio::time::timeout(PIPES_GRACE, flowing).await;
            }
            status
        };
        match ended {
            Ok(status) => outcome_of(status, &pipes, stop_reason),
            Err(error) => {
                Outcome::retry("wait", format!("the program's exit status cannot be read: {error}"))
            }
        }
    }

    /// Starts the program with a minimal environment: of the worker's own it gets only path, home,
    /// user, locale, time zone and temporary directory.
    fn spawn(&self, call: &Call) -> io::Result<Child> {
        let settings = &self.settings;
        let (program, arguments) = settings.command.split_first().expect("a target names a program");
        let mut command = Command::new(program);
        command
            .args(arguments)
            // The worker's environment contains secrets, and a job's result shows what its program
            // prints.
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_inherited(name)))
            .envs(settings.environment.iter().map(|(name, value)| (name, value)))
            .env("FAIRLANE_GROUP", call.group.to_string())
            .env("FAIRLANE_JOB", call.job.to_string())
            .env("FAIRLANE_TYPE", call.type_id.to_string())
            .env("FAIRLANE_ATTEMPT", call.attempt.to_string())
            .env("FAIRLANE_FENCE", call.fence.to_string())
            .env("FAIRLANE_BULK", call.bulk.as_ref().map(ToString::to_string).unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(trace) = &call.trace {
            command.env("TRACEPARENT", trace);
        }
        if let Some(directory) = &settings.directory {
            command.current_dir(directory);
        }
        command.spawn()
    }

    /// A missing program will be missing in the next attempt too; a lack of memory or processes is
    /// temporary.
    fn not_started(&self, error: &io::Error) -> Outcome {
        let program = &self.settings.command[0];
        let missing_directory = self.settings.directory.as_ref().filter(|directory| !directory.is_dir());
        if let Some(directory) = missing_directory {
            let message = format!(
                "there is no directory {} to run {program} in; create it, or name another in the settings",
                directory.display()
            );
            return Outcome::failed("command_not_found", message);
        }
        match error.kind() {
            io::ErrorKind::NotFound => {
                let message = format!(
                    "there is no program {program}: {error}; install it on the worker, or correct its path"
                );
                Outcome::failed("command_not_found", message)
            }
            io::ErrorKind::PermissionDenied => Outcome::failed(
                "command_not_executable",
                format!("{program} is not executable: {error}; run chmod +x {program}"),
            ),
            _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                let message = format!("{program} is neither a program nor a script with a #! line: {error}");
                Outcome::failed("command_not_executable", message)
            }
            _ => Outcome::retry("spawn", format!("{program} cannot be started: {error}")),
        }
    }
}

impl Processor for CommandTarget {
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        let call = Call::new(&job);
        Box::pin(async move { self.call(call, job.cancelled()).await })
    }
}

fn outcome_of(status: ExitStatus, pipes: &Pipes, stop_reason: Option<CancelReason>) -> Outcome {
    if pipes.stdout.is_truncated() && (status.success() || pipes.stdout.is_flood()) {
        return too_large();
    }
    let code = match status.code() {
        Some(0) => return Outcome::done_bytes(pipes.stdout.bytes()),
        code => code,
    };
    if let Some(reason) = stop_reason {
        return stopped(reason);
    }
    let message = || match excerpt(&pipes.stderr.bytes()) {
        errors if errors.is_empty() => format!("it ended with {status} and no output on standard error"),
        errors => format!("it ended with {status}: {errors}"),
    };
    match code {
        Some(69) => Outcome::throttled(retry_after(&pipes.stdout.bytes())),
        Some(code @ (64 | 65 | 77 | 78)) => Outcome::failed(format!("exit_{code}"), message()),
        Some(code) => Outcome::retry(format!("exit_{code}"), message()),
        None => {
            let signal = std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default();
            Outcome::retry(format!("signal_{signal}"), message())
        }
    }
}

/// The outcome of a program that ended after a stop request.
fn stopped(reason: CancelReason) -> Outcome {
    match reason {
        CancelReason::Cancelled => Outcome::cancelled("the program was stopped: the job was cancelled"),
        CancelReason::TimedOut => Outcome::retry("timeout", "the program was stopped: it timed out"),
        CancelReason::Stopping | CancelReason::Lost => Outcome::Released,
    }
}

fn too_large() -> Outcome {
    let message = format!(
        "its standard output has more than {NOTE_BYTES_MAX} bytes, the most that is stored with a job; print less, or \
         write it to a file and print its path"
    );
    Outcome::failed("result_too_large", message)
}

/// The delay in seconds on the first line of standard output.
fn retry_after(stdout: &[u8]) -> Option<Duration> {
    let line = stdout.split(|byte| *byte == b'\n').next()?;
    let seconds: u64 = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(Duration::from_millis(RETRY_AFTER_MS_MAX)))
}

/// Whether a variable of the worker's environment is passed to programs. All others may be secrets.
fn is_inherited(name: &OsStr) -> bool {
    const NAMES: [&str; 6] = ["HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER"];
    name.to_str().is_some_and(|name| NAMES.contains(&name) || name.starts_with("LC_"))
}

#[cfg(test)]
mod tests;
