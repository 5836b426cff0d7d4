//! `fairlane serve`: a queue over HTTP, with what keeps it going.
//!
//! A worker runs in the same process: its loops always, and the types of the file if it names any.
//! Invariant: what was answered is in the engine, so a stop loses nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use fairlane::Fairlane;
use fairlane_core::GroupId;
use fairlane_engine::{Engine, directory_of};
use fairlane_server::keys::Keys;
use fairlane_server::{Server, ServerError};
use fairlane_targets::CallbackSettings;
use fairlane_worker::Pool;

use super::key::KEYS;
use super::work::said::{Guarding, Said, jobs};
use super::work::store::Purpose;
use super::work::telling::Telling;
use super::work::{End, Signals, ended, programs, store, worker};
use crate::config::{Config, DATA, Given};
use crate::discovery::reachable;
use crate::failure::Failure;
use crate::logs::{self, LogFormat};
use crate::output;
use crate::place::{Place, is_memory, is_server};

const EXAMPLES: &str = "\
Examples:
  fairlane serve
  fairlane serve --listen 127.0.0.1:9000 --engine redis://127.0.0.1:6379
  fairlane serve --listen 0.0.0.0:8080 --keys keys.json
  fairlane serve --config fairlane.toml --log json

The queue is in a directory, which is made if it is not there, or on Redis, which is waited for. Other commands of this
machine reach a directory that is served through its server (fairlane status --engine ./fairlane-data).
With [types.NAME] or [callbacks] in the file it works on them too, as fairlane work does.
fairlane config says what it would be started with, and where each value comes from.
The first Ctrl-C or SIGTERM lets running requests and jobs end, the second one does not.
Exit codes: 0 stopped; 1 it failed, such as on a port that is in use, or its store is lost; 2 bad input; 130 stopped with work in hand.";

/// Serves a queue over HTTP: an API for any language, metrics, and workers without code
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    given: Given,
    /// The same as --log json
    #[arg(long, conflicts_with = "log")]
    json: bool,
}

/// Serves until it is told to stop.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut given = arguments.given;
    if arguments.json {
        given.log = Some("json".to_owned());
    }
    let config = Config::read(&given)?;
    programs::check(&config)?;
    let json = config.server.log == LogFormat::Json;
    if json {
        output::speak_to_programs();
    }
    let url = config.engine.clone().unwrap_or_else(|| format!("dir:{DATA}"));
    let place = Place { engine: url, json };
    check(&place)?;
    logs::install(config.server.log).map_err(Failure::bad_input)?;
    let keys = open_keys(&config, &place)?;
    // Before the engine is opened, which makes its directory.
    Server::check(config.server.listen, keys.as_deref()).map_err(unstarted)?;
    let telling = Telling::start(json);
    let mut signals = Signals::listen()?;
    // Before the engine is opened, which takes its handles then.
    fairlane_server::figures::install();
    let reached = tokio::select! {
        reached = store::reach(&place, Purpose::Serve, None, &config, &telling) => reached.map(Some),
        () = signals.next() => Ok(None),
    };
    let end = match reached {
        Ok(Some(engine)) => serve(&engine, keys, &place, &config, &telling, &mut signals).await,
        Ok(None) => End::default(),
        Err(failure) => End::of(failure),
    };
    ended(end, telling).await
}

/// A queue in memory is as good as any for as long as it is served; one behind a server is not this one's to serve.
fn check(place: &Place) -> Result<(), Failure> {
    if is_server(&place.engine) {
        return Err(Failure::bad_input(
            "--engine names a server, which serves its queue already; name a directory or a Redis",
        ));
    }
    Ok(fairlane_engine::check_address(&place.engine)?)
}

/// The keys of the file that is named, else of that of the data directory, which need not be there yet. A queue in memory
/// has only those that are named.
fn open_keys(config: &Config, place: &Place) -> Result<Option<Arc<Keys>>, Failure> {
    let keys = match (&config.server.keys, directory_of(&place.engine)) {
        (Some(path), _) => Keys::open(path),
        (None, Some(folder)) => Keys::expect(folder.join(KEYS)),
        (None, None) if is_memory(&place.engine) => return Ok(None),
        (None, None) => {
            let path = Path::new(DATA).join(KEYS);
            tracing::warn!(
                target: "fairlane", path = %path.display(),
                "the keys are looked for below the working directory; name their file with --keys, so that a start \
                 elsewhere finds them"
            );
            Keys::expect(path)
        }
    };
    keys.map(|keys| Some(Arc::new(keys))).map_err(|error| Failure::bad_input(error.to_string()))
}

async fn serve(
    engine: &Arc<dyn Engine>,
    keys: Option<Arc<Keys>>,
    place: &Place,
    config: &Config,
    telling: &Telling,
    signals: &mut Signals,
) -> End {
    let bound = keys.as_ref().map(|keys| keys.bound_groups()).unwrap_or_default();
    let shared = config.callbacks.as_ref().and_then(|one| shared_secret(&one.settings, &bound));
    let (server, pool) = match start(engine, keys, place, config, telling).await {
        Ok(started) => started,
        Err(failure) => return End::of(failure),
    };
    engine
        .warnings()
        .into_iter()
        .chain(shared)
        .for_each(|warning| telling.say(Said::EngineWarning { warning }));
    tokio::select! {
        () = signals.next() => {}
        () = store::keep(engine, config, telling) => {}
        error = engine.lost() => return End::lost(&error, telling.running()),
    }
    let stopped = async { tokio::join!(pool.stop(), server.stop()).0 };
    tokio::select! {
        report = stopped => End { report, ..End::default() },
        () = signals.next() => End::at_once(telling.running(), &format!(
            "{} and requests that were being answered",
            jobs(telling.running())
        )),
    }
}

/// A warning if customers have keys and their callbacks are signed with a secret that other customers know.
fn shared_secret(settings: &CallbackSettings, bound: &BTreeSet<GroupId>) -> Option<String> {
    let has_own = |group: &&GroupId| settings.group_secrets.iter().any(|(owner, _)| owner == *group);
    let group = bound.iter().find(|group| !has_own(group))?;
    Some(format!(
        "callbacks of {group} are signed with the secret of all groups, so its receiver could forge callbacks to others; \
         give each group that has a key its own in group_secrets of [callbacks]"
    ))
}

async fn start(
    engine: &Arc<dyn Engine>,
    keys: Option<Arc<Keys>>,
    place: &Place,
    config: &Config,
    telling: &Telling,
) -> Result<(Server, Pool), Failure> {
    let guarding = Guarding::new(keys.as_deref(), place);
    let fairlane = Fairlane::from_engine(engine.clone());
    let (address, settings) = (config.server.listen, config.server.settings.clone());
    let server = Server::start(fairlane, address, keys, settings).await.map_err(unstarted)?;
    engine.announce(format!("http://{}", reachable(server.address()))).await?;
    let worker = worker(engine, config, telling)?;
    let pool = worker.start().map_err(|error| Failure::bad_input(error.to_string()))?;
    telling.say(Said::serving(server.address(), &place.engine, guarding, config));
    Ok((server, pool))
}

fn unstarted(error: ServerError) -> Failure {
    match &error {
        ServerError::Listen { address, reason } if reason.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::broken(format!(
                "something listens on {address} already; name another port with --listen {}:{}, or any free one with \
                 port 0",
                address.ip(),
                address.port().wrapping_add(1)
            ))
        }
        ServerError::Open(_) => Failure::bad_input(error.to_string()),
        _ => Failure::broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_key_without_a_secret_of_its_groups_own_is_warned_about() {
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
