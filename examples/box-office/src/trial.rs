//! A crowd against two instances that are killed and started again, while payments fail.
//!
//! Must hold at the end: every seat is sold once, the money equals the seats, the boards equal the
//! database, and no buyer was overtaken in the waiting room.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::{Args, Parser};
use fairlane::Fairlane;
use serde::Serialize;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::audit::{Audit, audit};
use crate::boards::Boards;
use crate::crowd::{self, CrowdOptions, CrowdReport};
use crate::options::{Options, duration};
use crate::serve::{StartError, open_shop};

/// How long the instances may take to end what is open after the last buyer has left.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How often the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The options of a trial.
#[derive(Debug, Clone, Args)]
pub struct TrialOptions {
    /// The engine, which the instances share: a Redis such as redis://127.0.0.1:6379. Use an empty
    /// one; ?prefix=trial: at the end keeps the keys apart.
    #[arg(long, env = "BOX_OFFICE_ENGINE")]
    pub engine: String,
    /// The folder of the database, which must not have one yet; a temporary one by default
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// Schedules on sale
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub schedules: u32,
    /// Seats of each schedule
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=260))]
    pub seats: u32,
    /// Users who may shop at once
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_active: u32,
    /// The share of calls to the payment provider that fail
    #[arg(long, default_value_t = 0.2, value_parser = crate::options::share)]
    pub provider_failures: f64,
    /// The longest time between two kills
    #[arg(long, default_value = "8s", value_parser = duration)]
    pub kill_every: Duration,
    /// The program of the instances; this one by default
    #[arg(long, hide = true)]
    pub program: Option<PathBuf>,
    /// The crowd.
    #[command(flatten)]
    pub crowd: CrowdOptions,
}

/// What a trial found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialReport {
    /// Instances that were killed.
    pub kills: u32,
    /// What the buyers met.
    pub crowd: CrowdReport,
    /// Whether seats, money and boards agree.
    pub audit: Audit,
    /// What must hold and does not.
    pub violations: Vec<String>,
}

/// Runs the trial.
pub async fn run(options: &TrialOptions) -> Result<TrialReport, StartError> {
    let temporary = tempfile::Builder::new().prefix("box-office-trial-").tempdir()?;
    let folder = options.folder.as_deref().unwrap_or(temporary.path());
    let database = folder.join("shop.db");
    if database.exists() {
        return Err(format!("{} exists; name an empty folder", database.display()).into());
    }
    let program = options.program.clone().map_or_else(std::env::current_exe, Ok)?;
    let mut instances = Vec::new();
    for _ in 0..2 {
        instances.push(Instance::start(&program, &database, options).await?);
    }
    let urls: Vec<String> = instances.iter().map(Instance::url).collect();
    let mut kills = 0;
    let crowd = {
        let crowd = crowd::run(&urls, &options.crowd);
        let killing = kill(&mut instances, options, &mut kills);
        tokio::pin!(crowd);
        tokio::select! {
            report = &mut crowd => report?,
            error = killing => return Err(error),
        }
    };
    for instance in &mut instances {
        instance.ensure_runs().await?;
    }
    let audit = settle(&database, options).await?;
    let violations = violations(&crowd, &audit);
    Ok(TrialReport { kills, crowd, audit, violations })
}

/// Kills one instance after the other, and starts it again. Returns only with an error.
async fn kill(instances: &mut [Instance], options: &TrialOptions, kills: &mut u32) -> StartError {
    let mut rng = fastrand::Rng::with_seed(options.crowd.seed);
    loop {
        sleep(options.kill_every.mul_f64(0.25 + 0.75 * rng.f64())).await;
        let index = rng.usize(..instances.len());
        let instance = &mut instances[index];
        if let Err(error) = instance.kill().await {
            return error;
        }
        *kills += 1;
        sleep(Duration::from_millis(rng.u64(..1000))).await;
        if let Err(error) = instance.ensure_runs().await {
            return error;
        }
    }
}

/// Waits until nothing is open, and audits.
async fn settle(database: &Path, options: &TrialOptions) -> Result<Audit, StartError> {
    let fairlane = Fairlane::attach(&options.engine).await?;
    let shop = open_shop(fairlane.clone(), database, &instance_options(&[])).await?;
    let boards = Boards::new(fairlane, shop.store.clone());
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let audit = audit(&shop, &boards).await?;
        if audit.open == 0 || Instant::now() > deadline {
            return Ok(audit);
        }
        sleep(LOOK_EVERY).await;
    }
}

fn violations(crowd: &CrowdReport, audit: &Audit) -> Vec<String> {
    let mut violations = audit.problems.clone();
    if audit.open > 0 {
        violations.push(format!("{} steps were not done in time", audit.open));
    }
    if audit.sold != audit.seats {
        violations.push(format!("{} of {} seats are sold", audit.sold, audit.seats));
    }
    if crowd.bought != audit.sold {
        violations.push(format!("{} buyers believe they have a seat, {} are sold", crowd.bought, audit.sold));
    }
    if crowd.overtaken > 0 {
        violations.push(format!("{} times a waiting buyer was overtaken", crowd.overtaken));
    }
    violations
}

/// An instance in a process of its own.
struct Instance {
    program: PathBuf,
    arguments: Vec<String>,
    address: SocketAddr,
    process: Child,
}

impl Instance {
    async fn start(program: &Path, database: &Path, options: &TrialOptions) -> Result<Self, StartError> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let arguments = [
            ("--listen", address.to_string()),
            ("--engine", options.engine.clone()),
            ("--database", database.display().to_string()),
            ("--schedules", options.schedules.to_string()),
            ("--seats", options.seats.to_string()),
            ("--max-active", options.max_active.to_string()),
            ("--provider-failures", options.provider_failures.to_string()),
            ("--provider-delay", "100ms".to_owned()),
            ("--payment-timeout", "2s".to_owned()),
            ("--hold", "20s".to_owned()),
            ("--polls-per-second", "200".to_owned()),
        ];
        let arguments: Vec<String> =
            arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        let process = spawn(program, &arguments)?;
        let mut instance = Self { program: program.to_owned(), arguments, address, process };
        instance.ensure_runs().await?;
        Ok(instance)
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn kill(&mut self) -> Result<(), StartError> {
        Ok(self.process.kill().await?)
    }

    /// Starts the process unless it runs, and waits until it listens.
    async fn ensure_runs(&mut self) -> Result<(), StartError> {
        if self.process.try_wait()?.is_some() {
            self.process = spawn(&self.program, &self.arguments)?;
        }
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        while tokio::net::TcpStream::connect(self.address).await.is_err() {
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("an instance has ended with {status}").into());
            }
            if Instant::now() > deadline {
                return Err("an instance does not listen".into());
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

fn spawn(program: &Path, arguments: &[String]) -> Result<Child, StartError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    Ok(command.spawn()?)
}

/// Options with their defaults, and these arguments.
pub fn instance_options(arguments: &[&str]) -> Options {
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }
    Command::parse_from(["box-office"].iter().chain(arguments)).options
}
