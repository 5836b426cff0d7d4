//! `fairlane serve`: a queue over HTTP, with its background loops.
//!
//! A worker runs in the same process: always its loops, and the types that the file configures.
//! Invariant: an acknowledged request is stored in the engine, so stopping loses nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use fairlane::Fairlane;
use fairlane_core::GroupId;
use fairlane_engine::directory_of;
use fairlane_server::keys::Keys;
use fairlane_server::{OutboxSource, Server, ServerError};
use fairlane_targets::CallbackSettings;
use fairlane_worker::Pool;

use super::key::KEYS;
use super::work::event::{ServerAccess, WorkEvent, jobs};
use super::work::reporter::Reporter;
use super::work::store::Purpose;
use super::work::{End, Signals, finish, programs, store, worker};
use crate::config::{Config, ConfigArguments, DATA};
use crate::discovery::reachable;
use crate::failure::Failure;
use crate::logs::{self, LogFormat};
use crate::output;
use crate::target::{QueueTarget, is_memory, is_server};

const EXAMPLES: &str = "\
Examples:
  fairlane serve
  fairlane serve --listen 127.0.0.1:9000 --engine redis://127.0.0.1:6379
  fairlane serve --listen 0.0.0.0:8080 --keys keys.json
  fairlane serve --config fairlane.toml --log json
  fairlane serve --database postgres://app@db/shop

The queue is stored in a directory, which is created if it does not exist, or on Redis. If Redis \
does not respond, serve waits for it. Other commands on this machine reach a served directory \
through its server (fairlane status --engine ./fairlane-data).
With [types.NAME] or [callbacks] in the file, serve also runs these jobs, like fairlane work.
fairlane config prints the values that serve would use, and their sources.
The first Ctrl-C or SIGTERM waits for running requests and jobs, the second stops at once.
Exit codes: 0 stopped; 1 failure, such as a port in use or a lost store; 2 bad input; 130 stopped \
with requests or jobs running.";

/// Serves a queue over HTTP, with an API for any language, metrics, and workers that need no code
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Same as --log json
    #[arg(long, conflicts_with = "log")]
    json: bool,
}

/// Serves until a signal arrives.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut overrides = arguments.config;
    if arguments.json {
        overrides.log = Some("json".to_owned());
    }
    let config = Config::read(&overrides)?;
    programs::check(&config)?;
    let outbox = outbox(&config)?;
    let json = config.server.log == LogFormat::Json;
    if json {
        output::report_failures_as_json();
    }
    let url = config.engine.clone().unwrap_or_else(|| format!("dir:{DATA}"));
    let target = QueueTarget { engine: url, json };
    check(&target)?;
    logs::install(config.server.log).map_err(Failure::bad_input)?;
    let keys = open_keys(&config, &target)?;
    // Before the engine is opened, because opening it creates its directory.
    Server::check(config.server.listen, keys.as_deref()).map_err(start_failure)?;
    let reporter = Reporter::start(json);
    let mut signals = Signals::listen()?;
    // Before the engine is opened, because it creates its metric handles then.
    fairlane_server::metrics::install();
    let reached = tokio::select! {
        reached = store::reach(&target, Purpose::Serve, None, &config, &reporter) => reached.map(Some),
        () = signals.next() => Ok(None),
    };
    let end = match reached {
        Ok(Some(fairlane)) => serve(&fairlane, keys, outbox, &target, &config, &reporter, &mut signals).await,
        Ok(None) => End::default(),
        Err(failure) => End::failed(failure),
    };
    finish(end, reporter).await
}

/// Accepts a queue in memory, which exists as long as the server; rejects the queue of another
/// server.
fn check(target: &QueueTarget) -> Result<(), Failure> {
    if is_server(&target.engine) {
        return Err(Failure::bad_input(
            "--engine selects a server, which already serves its queue; use a directory or a Redis",
        ));
    }
    Ok(fairlane_engine::check_address(&target.engine)?)
}

/// The keys of the configured file, else of the data directory, where they need not exist yet. A
/// queue in memory uses only configured keys.
fn open_keys(config: &Config, target: &QueueTarget) -> Result<Option<Arc<Keys>>, Failure> {
    let keys = match (&config.server.keys, directory_of(&target.engine)) {
        (Some(path), _) => Keys::open(path),
        (None, Some(folder)) => Keys::expect(folder.join(KEYS)),
        (None, None) if is_memory(&target.engine) => return Ok(None),
        (None, None) => {
            let path = Path::new(DATA).join(KEYS);
            tracing::warn!(
                target: "fairlane", path = %path.display(),
                "the API keys are searched relative to the working directory; set their file with --keys, so that a \
                 server started elsewhere finds them"
            );
            Keys::expect(path)
        }
    };
    keys.map(|keys| Some(Arc::new(keys))).map_err(|error| Failure::bad_input(error.to_string()))
}

/// The outbox in the configured database, if there is one.
#[cfg(feature = "postgres")]
fn outbox(config: &Config) -> Result<Option<Arc<dyn OutboxSource>>, Failure> {
    config.server.database.as_ref().map(|url| super::outbox::source(&url.0)).transpose()
}

#[cfg(not(feature = "postgres"))]
fn outbox(config: &Config) -> Result<Option<Arc<dyn OutboxSource>>, Failure> {
    match &config.server.database {
        None => Ok(None),
        Some(_) => Err(Failure::bad_input(
            "a database is configured, and this program was built without PostgreSQL; remove --database, \
             FAIRLANE_DATABASE or database in [server], or build it with the feature postgres",
        )),
    }
}

async fn serve(
    fairlane: &Fairlane,
    keys: Option<Arc<Keys>>,
    outbox: Option<Arc<dyn OutboxSource>>,
    target: &QueueTarget,
    config: &Config,
    reporter: &Reporter,
    signals: &mut Signals,
) -> End {
    let bound = keys.as_ref().map(|keys| keys.bound_groups()).unwrap_or_default();
    let shared = config.callbacks.as_ref().and_then(|one| shared_secret(&one.settings, &bound));
    let (server, pool) = match start(fairlane, keys, outbox, target, config, reporter).await {
        Ok(started) => started,
        Err(failure) => return End::failed(failure),
    };
    for warning in fairlane.engine().info().warnings.into_iter().chain(shared) {
        reporter.report(WorkEvent::EngineWarning { warning });
    }
    tokio::select! {
        () = signals.next() => {}
        () = store::keep(fairlane, config, reporter) => {}
        error = fairlane.engine().admin().lost() => return End::lost(&error, reporter.running()),
    }
    let stopped = async { tokio::join!(pool.stop(), server.stop()).0 };
    tokio::select! {
        report = stopped => End { report, ..End::default() },
        () = signals.next() => {
            let running = reporter.running();
            End::interrupted(running, &format!("{} and unfinished requests", jobs(running)))
        }
    }
}

/// A warning if a group has a key and its callbacks are signed with a secret that other groups
/// know.
fn shared_secret(settings: &CallbackSettings, bound: &BTreeSet<GroupId>) -> Option<String> {
    let has_own = |group: &&GroupId| settings.group_secrets.iter().any(|(owner, _)| owner == *group);
    let group = bound.iter().find(|group| !has_own(group))?;
    Some(format!(
        "callbacks of {group} are signed with the secret of all groups, so their receiver could forge callbacks to other \
         groups; give each group that has a key its own secret in group_secrets of [callbacks]"
    ))
}

async fn start(
    fairlane: &Fairlane,
    keys: Option<Arc<Keys>>,
    outbox: Option<Arc<dyn OutboxSource>>,
    target: &QueueTarget,
    config: &Config,
    reporter: &Reporter,
) -> Result<(Server, Pool), Failure> {
    let access = ServerAccess::new(keys.as_deref(), target);
    let (address, settings) = (config.server.listen, config.server.settings.clone());
    let server = Server::start_with_outbox(fairlane.clone(), address, keys, settings, outbox).await;
    let server = server.map_err(start_failure)?;
    fairlane.engine().admin().announce(format!("http://{}", reachable(server.address()))).await?;
    let worker = worker(server.uncharged(), config, reporter)?;
    let pool = worker.start().map_err(|error| Failure::bad_input(error.to_string()))?;
    reporter.report(WorkEvent::serving(server.address(), &target.engine, access, config));
    Ok((server, pool))
}

fn start_failure(error: ServerError) -> Failure {
    match &error {
        ServerError::Listen { address, reason } if reason.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::broken(format!(
                "{address} is already in use; select another port with --listen {}:{}, or any free port with port 0",
                address.ip(),
                address.port().wrapping_add(1)
            ))
        }
        ServerError::Open(_) | ServerError::PassKeys(_) => Failure::bad_input(error.to_string()),
        _ => Failure::broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_group_without_its_own_secret_causes_a_warning() {
        let groups = |names: &[&str]| names.iter().map(|name| GroupId::new(*name).unwrap()).collect();
        let secret = || "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let mut settings = CallbackSettings::new(vec![secret()]);
        settings.group_secrets = vec![(GroupId::new("a").unwrap(), vec![secret()])];
        assert_eq!(shared_secret(&settings, &groups(&[])), None);
        assert_eq!(shared_secret(&settings, &groups(&["a"])), None);
        let warning = shared_secret(&settings, &groups(&["a", "b"])).expect("b shares a secret");
        assert!(warning.contains("callbacks of b ") && warning.contains("group_secrets"), "{warning}");
    }
}
