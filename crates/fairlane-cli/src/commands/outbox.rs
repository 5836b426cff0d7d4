//! `fairlane outbox`: jobs that are committed with the rows of an application.
//!
//! - `outbox/relay.rs`: passes them on to the queue. `outbox/metrics.rs`: its metrics over HTTP.

mod metrics;
mod relay;

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use fairlane::duration_text;
use fairlane::views::OutboxView;
use fairlane_engine::BoxFuture;
use fairlane_postgres::{
    Error, HorizonHolder, Outbox, OutboxMonitor, OutboxStatus, ReconcileReport, ReconcileSettings, explain,
    sqlx,
};
use fairlane_server::OutboxSource;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::tables::{self, counted, thousands};
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane outbox migrate --database postgres://app@db/shop
  fairlane outbox relay --database postgres://app@db/shop --engine redis://10.0.0.5:6379
  fairlane outbox status --json
  fairlane outbox why
  fairlane outbox reconcile

A transaction of your application adds a job with fairlane_enqueue(…) or a plain INSERT; the relay \
passes it on to the queue after the commit. See docs/outbox.md.
Exit codes: 0 success; 1 failure; 2 bad input.";

/// Jobs committed with your own rows: a PostgreSQL outbox
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Relay(relay::Arguments),
    /// Makes the tables of the outbox, or brings them up to date
    #[command(after_help = "Example:\n  fairlane outbox migrate --database postgres://app@db/shop")]
    Migrate(DatabaseTarget),
    /// Shows the jobs that wait in the outbox
    #[command(after_help = "Example:\n  fairlane outbox status --database postgres://app@db/shop")]
    Status(DatabaseTarget),
    /// Explains why committed jobs are not passed on, and names the transactions they wait for
    #[command(after_help = "Example:\n  fairlane outbox why --database postgres://app@db/shop")]
    Why(DatabaseTarget),
    /// Compares the jobs in the database with the queue once, and repairs what differs
    #[command(after_help = "Example:\n  fairlane outbox reconcile --database postgres://app@db/shop")]
    Reconcile {
        /// Address of the database: postgres://user@host/database
        #[arg(long, value_name = "URL", env = "FAIRLANE_DATABASE", hide_env_values = true)]
        database: String,
        /// Only jobs whose state has not changed for this long
        #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration, default_value = "30s")]
        #[arg(allow_hyphen_values = true)]
        stale: Duration,
        #[command(flatten)]
        target: QueueTarget,
    },
}

/// The options that select a database.
#[derive(Args)]
struct DatabaseTarget {
    /// Address of the database: postgres://user@host/database
    #[arg(long, value_name = "URL", env = "FAIRLANE_DATABASE", hide_env_values = true)]
    database: String,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

impl DatabaseTarget {
    async fn outbox(&self) -> Result<Outbox, Failure> {
        connect(&self.database).await
    }

    fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { output::print_json(value) } else { output::print(&text()) }
    }
}

async fn connect(url: &str) -> Result<Outbox, Failure> {
    // A query may have a password too.
    let shown = || fairlane_engine::without_user(url.split('?').next().unwrap_or_default());
    Outbox::connect(url).await.map_err(|error| match error {
        Error::Database(sqlx::Error::PoolTimedOut) => Failure::broken(format!(
            "PostgreSQL at {} does not reply\nstart it, or correct the address (--database or FAIRLANE_DATABASE); if \
             it runs, all of its connections may be in use (max_connections)",
            shown()
        )),
        Error::Database(sqlx::Error::Io(error)) => Failure::broken(format!(
            "PostgreSQL at {} cannot be reached: {error}\ncorrect the address (--database or FAIRLANE_DATABASE), \
             or a file that it names",
            shown()
        )),
        error => failure(error),
    })
}

/// The failure of a command on a database.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Queue(error) => error.into(),
        Error::NewerSchema { .. } | Error::Database(sqlx::Error::Configuration(_)) => {
            Failure::bad_input(error.to_string())
        }
        error => Failure::broken(error.to_string()),
    }
}

/// The outbox that the dashboard of a server shows.
struct Monitored(OutboxMonitor);

impl OutboxSource for Monitored {
    fn read(&self) -> BoxFuture<'_, Result<OutboxView, String>> {
        Box::pin(async { self.0.read().await.map_err(|error| error.to_string()) })
    }
}

/// The outbox in the database at this address, for a server. The database need not reply yet.
pub fn source(url: &str) -> Result<Arc<dyn OutboxSource>, Failure> {
    Ok(Arc::new(Monitored(OutboxMonitor::new(url).map_err(failure)?)))
}

/// The JSON form of a migration.
#[derive(Serialize)]
struct Migrated {
    steps: usize,
}

/// The JSON form of an explanation.
#[derive(Serialize)]
struct Explanation {
    explanation: String,
    #[serde(flatten)]
    status: OutboxStatus,
    holders: Vec<HorizonHolder>,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Relay(arguments) => relay::run(arguments).await,
        Action::Migrate(database) => migrate(&database).await,
        Action::Status(database) => status(&database).await,
        Action::Why(database) => why(&database).await,
        Action::Reconcile { database, stale, target } => reconcile(&database, stale, &target).await,
    }
}

async fn migrate(database: &DatabaseTarget) -> Result<(), Failure> {
    let steps = database.outbox().await?.migrate().await.map_err(failure)?;
    database.print(&Migrated { steps }, || match steps {
        0 => "The tables of the outbox are up to date.".to_owned(),
        steps => format!("The tables of the outbox are ready ({}).", counted(steps as u64, "step")),
    })
}

async fn status(database: &DatabaseTarget) -> Result<(), Failure> {
    let status = database.outbox().await?.status().await.map_err(failure)?;
    database.print(&status, || status_text(&status))
}

fn status_text(status: &OutboxStatus) -> String {
    let waiting = match status.rows {
        0 => "No job waits in the outbox.".to_owned(),
        rows => format!(
            "{} in the outbox, {} of them ready; the oldest has waited {}.",
            counted(rows, "job"),
            thousands(status.ready),
            time(status.lag_seconds)
        ),
    };
    tables::prose(&format!(
        "{waiting}\n{} not ended, by the mirror. The oldest open transaction that has written is {} old.",
        counted(status.open_jobs, "job"),
        time(status.horizon_age_seconds)
    ))
}

async fn why(database: &DatabaseTarget) -> Result<(), Failure> {
    let outbox = database.outbox().await?;
    let status = outbox.status().await.map_err(failure)?;
    let holders = outbox.horizon_holders().await.map_err(failure)?;
    let explanation = explain(&status, &holders);
    let view = Explanation { explanation, status, holders };
    database.print(&view, || view.text())
}

impl Explanation {
    fn text(&self) -> String {
        let mut text = self.explanation.clone();
        for holder in &self.holders {
            let name = match (&holder.prepared, holder.pid) {
                (Some(name), _) => format!("prepared transaction {name}"),
                (None, Some(pid)) => format!("pid {pid}"),
                (None, None) => "a transaction".to_owned(),
            };
            let cure = holder.ending().map_or(String::new(), |ending| format!(" ({ending} ends it)"));
            text.push_str(&format!(
                "\n  {name}{cure}: open for {}, {}, user {}, database {}, application {}\n    {}",
                time(holder.age_seconds),
                holder.state,
                holder.user,
                holder.database,
                if holder.application.is_empty() { "–" } else { &holder.application },
                holder.query
            ));
        }
        tables::prose(&text)
    }
}

async fn reconcile(database: &str, stale: Duration, target: &QueueTarget) -> Result<(), Failure> {
    let outbox = connect(database).await?;
    let fairlane = target.attach().await?;
    let settings = ReconcileSettings { stale_after: stale, ..ReconcileSettings::default() };
    let report: ReconcileReport = outbox.reconcile(&fairlane, settings).await.map_err(failure)?;
    target.print(&report, || report.to_string())
}

fn time(seconds: f64) -> String {
    duration_text(Duration::from_millis((seconds.max(0.0) * 1000.0) as u64))
}
