//! Runs a program for each job: the payload on its standard input, its standard output as the result.
//!
//! | exit code | outcome |
//! |---|---|
//! | 0 | done; standard output is the result |
//! | 69 (unavailable) | throttled; a number in the first line of standard output is Retry-After in seconds |
//! | 75 (temporary failure), any other, a signal | retry |
//! | 64, 65, 77, 78 (usage, data, permission, configuration), no such program | failed |
//!
//! Invariant: nothing it starts in its process group outlives the attempt, however that ends, and nothing it
//! writes is kept beyond a bound. Left out on purpose: a shell, which would read names and payloads as code.

mod group;
mod pipes;

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

use crate::answer::excerpt;
use crate::call::Call;
use crate::client::BadTarget;
use group::Group;
use pipes::Pipes;

/// How long pipes are read when the program has ended and something outside its group holds them open.
const PIPES_GRACE: Duration = Duration::from_secs(1);

/// Which program, and where it runs.
#[derive(Clone)]
pub struct CommandSettings {
    /// The program and its arguments; no shell reads them.
    pub command: Vec<String>,
    /// Where it runs; the worker's own directory if it is not said.
    pub directory: Option<PathBuf>,
    /// Its environment, beside what every program gets; the values are never shown.
    pub environment: Vec<(String, String)>,
}

impl CommandSettings {
    /// This program with these arguments, in the worker's directory.
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

/// Gives payloads to a program.
#[derive(Debug)]
pub struct CommandTarget {
    settings: CommandSettings,
}

impl CommandTarget {
    /// A target, or what is wrong with its settings. Whether the program is there is seen when it is run.
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

    /// Runs it once; told to stop, the group gets SIGTERM. When this future is dropped the group is killed.
    async fn call(&self, call: Call, cancelled: impl Future<Output = CancelReason>) -> Outcome {
        let mut child = match self.spawn(&call) {
            Ok(child) => child,
            Err(error) => return self.not_started(&error),
        };
        // Dropped before the child is, that is while its id is still its own.
        let mut group = Group::of(&child);
        let mut pipes = Pipes::take(&mut child, call.payload);
        let mut told = None;
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
                    reason = &mut cancelled, if told.is_none() => {
                        told = Some(reason);
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
            Ok(status) => judged(status, &pipes, told),
            Err(error) => Outcome::retry("wait", format!("the program's end could not be seen: {error}")),
        }
    }

    /// Starts the program with an environment that says nothing of the worker's but where and in which language it runs.
    fn spawn(&self, call: &Call) -> io::Result<Child> {
        let settings = &self.settings;
        let (program, arguments) = settings.command.split_first().expect("a target names a program");
        let mut command = Command::new(program);
        command
            .args(arguments)
            // The worker's environment has its secrets, and a job's result shows what its program prints.
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_passed_on(name)))
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

    /// A program that is not there will not be there for the next attempt either; want of memory or of
    /// processes passes.
    fn not_started(&self, error: &io::Error) -> Outcome {
        let program = &self.settings.command[0];
        let missing_directory = self.settings.directory.as_ref().filter(|directory| !directory.is_dir());
        if let Some(directory) = missing_directory {
            let message = format!("there is no directory {} to run {program} in", directory.display());
            return Outcome::failed("command_not_found", message);
        }
        match error.kind() {
            io::ErrorKind::NotFound => {
                let message = format!("there is no program {program}: {error}");
                Outcome::failed("command_not_found", message)
            }
            io::ErrorKind::PermissionDenied => {
                Outcome::failed("command_not_executable", format!("{program} must not be run: {error}"))
            }
            _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                let message = format!("{program} is no program, nor a script with a #! line: {error}");
                Outcome::failed("command_not_executable", message)
            }
            _ => Outcome::retry("spawn", format!("{program} could not be started: {error}")),
        }
    }
}

impl Processor for CommandTarget {
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        let call = Call::new(&job);
        Box::pin(async move { self.call(call, job.cancelled()).await })
    }
}

fn judged(status: ExitStatus, pipes: &Pipes, told: Option<CancelReason>) -> Outcome {
    if pipes.stdout.is_cut() && (status.success() || pipes.stdout.is_flood()) {
        return too_large();
    }
    let code = match status.code() {
        Some(0) => return Outcome::done_bytes(pipes.stdout.kept()),
        code => code,
    };
    if let Some(reason) = told {
        return stopped(reason);
    }
    let message = || match excerpt(&pipes.stderr.kept()) {
        errors if errors.is_empty() => format!("it ended with {status} and wrote nothing to standard error"),
        errors => format!("it ended with {status}: {errors}"),
    };
    match code {
        Some(69) => Outcome::throttled(asked(&pipes.stdout.kept())),
        Some(code @ (64 | 65 | 77 | 78)) => Outcome::failed(format!("exit_{code}"), message()),
        Some(code) => Outcome::retry(format!("exit_{code}"), message()),
        None => {
            let signal = std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default();
            Outcome::retry(format!("signal_{signal}"), message())
        }
    }
}

/// It was told to stop, and did.
fn stopped(reason: CancelReason) -> Outcome {
    match reason {
        CancelReason::Cancelled => Outcome::cancelled("the program was stopped: the job was cancelled"),
        CancelReason::TimedOut => Outcome::retry("timeout", "the program was stopped: its time was up"),
        CancelReason::Stopping | CancelReason::Lost => Outcome::Released,
    }
}

fn too_large() -> Outcome {
    let message = format!(
        "its standard output has more than {NOTE_BYTES_MAX} bytes, the most that is kept with a job; print less, or \
         write it to a file and print where it is"
    );
    Outcome::failed("result_too_large", message)
}

/// Seconds in the first line.
fn asked(stdout: &[u8]) -> Option<Duration> {
    let line = stdout.split(|byte| *byte == b'\n').next()?;
    let seconds: u64 = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(Duration::from_millis(RETRY_AFTER_MS_MAX)))
}

/// Whether a variable of the worker's environment is passed on to programs. The others may be secrets.
fn is_passed_on(name: &OsStr) -> bool {
    const NAMES: [&str; 6] = ["HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER"];
    name.to_str().is_some_and(|name| NAMES.contains(&name) || name.starts_with("LC_"))
}

#[cfg(test)]
mod tests;
