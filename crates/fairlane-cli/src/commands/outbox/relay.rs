//! `fairlane outbox relay`: passes committed jobs on to the queue until a signal arrives.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fairlane_postgres::{Order, Outbox, ReconcileSettings, Relay, RelaySettings};
use serde::Serialize;

use super::{failure, metrics};
use crate::commands::work::Signals;
use crate::failure::Failure;
use crate::logs::{self, LogFormat};
use crate::output;
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane outbox relay --database postgres://app@db/shop --engine redis://10.0.0.5:6379
  fairlane outbox relay --database postgres://app@pgbouncer:6432/shop --listen postgres://app@db:5432/shop
  fairlane outbox relay --metrics 127.0.0.1:9464

Run as many as you like, for the same database and queue. A relay waits for a database or queue that \
does not respond. FAIRLANE_LOG sets the level of its log.
Exit codes: 0 stopped by Ctrl-C or SIGTERM; 1 failure, such as missing tables; 2 bad input.";

/// Passes committed jobs on to the queue
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Address of the database: postgres://user@host/database
    #[arg(long, value_name = "URL", env = "FAIRLANE_DATABASE", hide_env_values = true)]
    database: String,
    /// Address at which to listen for commits, if --database leads through a PgBouncer
    #[arg(long, value_name = "URL")]
    listen: Option<String>,
    /// Order of the jobs of a group
    #[arg(long, value_enum, default_value_t = RelayOrder::Group)]
    order: RelayOrder,
    /// How often the database and the queue are compared
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration, default_value = "30s")]
    #[arg(allow_hyphen_values = true)]
    reconcile: Duration,
    /// Jobs are compared once their state has not changed for this long
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration, default_value = "30s")]
    #[arg(allow_hyphen_values = true)]
    stale: Duration,
    /// How long ended jobs stay in the database
    #[arg(long, value_name = "TIME", value_parser = fairlane::parse_duration, default_value = "7d")]
    #[arg(allow_hyphen_values = true)]
    retention: Duration,
    /// Serve metrics for Prometheus at this address
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    target: QueueTarget,
}

#[derive(Clone, Copy, ValueEnum)]
enum RelayOrder {
    /// Jobs of a group in the order of their commits; they wait for older open transactions
    Group,
    /// No order; jobs wait for no transaction
    None,
}

/// The first line of a relay.
#[derive(Serialize)]
struct Relaying<'a> {
    event: &'a str,
    queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
}

/// Passes jobs on until a signal arrives.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { database, listen, order, reconcile, stale, retention, metrics: address, target } =
        arguments;
    target.check()?;
    logs::install(if target.json { LogFormat::Json } else { LogFormat::Text }).map_err(Failure::bad_input)?;
    let mut signals = Signals::listen()?;
    let mut listening = None;
    if let Some(address) = address {
        fairlane_server::metrics::install();
        fairlane_postgres::names::describe();
        listening = Some(metrics::listen(address).await?);
    }
    let outbox = Outbox::connect_lazy(&database).map_err(failure)?;
    let fairlane = target.attach_or_make().await?;
    let settings = RelaySettings {
        order: match order {
            RelayOrder::Group => Order::Group,
            RelayOrder::None => Order::None,
        },
        listen_url: listen,
        reconcile_interval: Some(reconcile.max(Duration::from_millis(10))),
        reconcile: ReconcileSettings { stale_after: stale, retention },
    };
    let relay = Relay::new(&outbox, &fairlane, settings);
    let bound = listening.as_ref().and_then(|listener| listener.local_addr().ok());
    print_start(&target, bound)?;
    let relaying = relay.run(signals.next());
    match listening {
        None => relaying.await.map_err(failure),
        Some(listener) => tokio::select! {
            relayed = relaying => relayed.map_err(failure),
            () = metrics::serve(listener) => Ok(()),
        },
    }
}

fn print_start(target: &QueueTarget, metrics: Option<SocketAddr>) -> Result<(), Failure> {
    let queue = target.address();
    if target.json {
        return output::print_json_line(&Relaying { event: "relaying", queue, metrics });
    }
    let metrics = metrics.map_or(String::new(), |address| format!("; metrics at http://{address}/metrics"));
    output::print(&format!("passing jobs on to {queue}{metrics}; Ctrl-C stops"))
}
