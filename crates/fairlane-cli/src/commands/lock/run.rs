//! `fairlane lock run`: a command under a lock.
//!
//! Invariant: the command gets a signal to stop before another process can hold the lock. Left out on
//! purpose: a command that outlives this program, which was killed, is stopped by no one; let what
//! it changes check the fence.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use fairlane::{Error, LockError, LockGuard, LockMode, LockOptions, parse_duration};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::output;
use crate::target::QueueTarget;

/// The exit code if the lock was not acquired in time; `EX_TEMPFAIL` of sysexits.
const NOT_ACQUIRED: u8 = 75;
/// The exit code if the lock was lost while the command ran.
const LOST: u8 = 76;

const HELP: &str = "\
Examples:
  fairlane lock run nightly-report -- ./report.sh --all
  fairlane lock run index --read -- ./search.sh
  fairlane lock run nightly-report --wait 0s -- ./report.sh

The command gets FAIRLANE_LOCK (the name) and FAIRLANE_FENCE (a number larger than that of every
earlier holder) in its environment. Let what it changes refuse smaller fences: a lock without a
checked fence is advisory.

The lock is renewed while the command runs. If it is lost, the command gets SIGTERM, and SIGKILL
after --kill-after. SIGTERM and SIGHUP are passed on to the command.

Exit codes: that of the command; 128 + N if signal N ended it; 75 lock not acquired in time;
76 lock lost; 126 or 127 command cannot be run or not found; 1 failure; 2 bad input.";

/// Runs a command while it holds a lock
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Name of the lock
    lock: String,
    /// How long the lock stays held if this program dies; it is renewed three times in this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    ttl: Duration,
    /// How long to wait for the lock; 0s tries once
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    wait: Duration,
    /// Leave a lock that has become free to the waiter that is next
    #[arg(long)]
    fair: bool,
    /// Hold the lock beside other readers
    #[arg(long, conflicts_with_all = ["write", "semaphore"])]
    read: bool,
    /// Hold the lock without readers and other writers
    #[arg(long, conflicts_with = "semaphore")]
    write: bool,
    /// Hold one of N permits
    #[arg(long, value_name = "N")]
    semaphore: Option<u32>,
    /// The longest time to hold the lock; the command is stopped then
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_hold: Option<Duration>,
    /// How long no one gets the lock if this program dies, so that its last requests can end
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    lock_delay: Duration,
    /// The name that others see [default: host, program and process id]
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    /// How long the command has to end after SIGTERM when the lock is lost
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    kill_after: Duration,
    #[command(flatten)]
    target: QueueTarget,
    /// The command and its arguments, after --. With --json its output goes to standard error
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The JSON form of the result.
#[derive(Serialize)]
struct Ran {
    lock: String,
    fence: u64,
    exit_code: u8,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let fairlane = arguments.target.attach().await?;
    arguments.target.refuse_to_block(&fairlane, "use a Redis (--engine redis://host:port)")?;
    let lock = fairlane.lock(&arguments.lock).options(arguments.options());
    let known = fairlane.engine().info().warnings;
    let acquired = match arguments.wait.is_zero() {
        true => lock.try_lock().await,
        false => lock.lock().await,
    };
    // What waiting has shown: a Redis that denies the signals to waiters.
    for warning in fairlane.engine().info().warnings.iter().filter(|warning| !known.contains(*warning)) {
        output::print_message(&format!("warning: {warning}"));
    }
    let guard = acquired.map_err(|error| match error {
        Error::Lock(LockError::Busy { .. } | LockError::WaitTimeout { .. }) => {
            Failure::Exit { code: NOT_ACQUIRED, message: error.to_string() }
        }
        error => arguments.target.failure(error),
    })?;
    let fence = guard.fence().0;
    let code = arguments.hold(guard).await?;
    if arguments.target.json {
        output::print_json(&Ran { lock: arguments.lock, fence, exit_code: code })?;
    }
    match code {
        0 => Ok(()),
        code => Err(Failure::Exit { code, message: String::new() }),
    }
}

impl Arguments {
    fn options(&self) -> LockOptions {
        let mode = match self.semaphore {
            Some(of) => LockMode::Permit { of },
            None if self.read => LockMode::Read,
            None if self.write => LockMode::Write,
            None => LockMode::Exclusive,
        };
        LockOptions {
            mode,
            ttl: self.ttl,
            max_wait: self.wait,
            fair: self.fair,
            lock_delay: self.lock_delay,
            max_hold: self.max_hold,
            holder: self.holder.clone(),
            ..LockOptions::default()
        }
    }

    /// Runs the command while the lock is held, and returns its exit code.
    async fn hold(&self, guard: LockGuard) -> Result<u8, Failure> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).kill_on_drop(true);
        command.env("FAIRLANE_LOCK", &self.lock).env("FAIRLANE_FENCE", guard.fence().to_string());
        if self.target.json {
            command.stdout(io::stderr());
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                // The result of the release does not matter: nothing has run.
                let _ = guard.release().await;
                return Err(cannot_run(&self.command[0], &error));
            }
        };
        let status = tokio::select! {
            biased;
            lost = guard.lost() => {
                terminate(&mut child, self.kill_after).await;
                return Err(Failure::Exit { code: LOST, message: lost.to_string() });
            }
            status = wait_with_signals(&mut child) => status.map_err(|error| Failure::broken(error.to_string()))?,
        };
        match guard.release().await {
            Ok(false) => {
                let message = format!("lock {} was lost before the command ended", self.lock);
                Err(Failure::Exit { code: LOST, message })
            }
            // The lock was held until the command ended.
            Ok(true) | Err(_) => Ok(exit_code(status)),
        }
    }
}

fn cannot_run(program: &OsString, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure::Exit { code, message: format!("cannot run {}: {error}", program.to_string_lossy()) }
}

/// Waits for the command, and passes signals on to it. A terminal sends Ctrl-C to both.
async fn wait_with_signals(child: &mut Child) -> io::Result<ExitStatus> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            _ = terminate.recv() => send(child, Signal::TERM),
            _ = hang_up.recv() => send(child, Signal::HUP),
            _ = interrupt.recv() => {}
        }
    }
}

/// Asks the command to end, and kills it if it does not.
async fn terminate(child: &mut Child, kill_after: Duration) {
    send(child, Signal::TERM);
    if tokio::time::timeout(kill_after, child.wait()).await.is_err() {
        // It fails only if the command has ended.
        let _ = child.kill().await;
    }
}

fn send(child: &Child, signal: Signal) {
    let process = child.id().and_then(|id| Pid::from_raw(id as i32));
    if let Some(process) = process {
        // It fails only if the command has ended.
        let _ = kill_process(process, signal);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(1)
}
