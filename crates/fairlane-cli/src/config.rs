//! The configuration: options override variables `FAIRLANE_…`, which override `fairlane.toml`.
//!
//! - `config/tables.rs`: the settings of `[server]`, `[queue]` and `[worker]`.
//!   `config/targets.rs`: `[types.NAME]`, `[groups.NAME]` and `[callbacks]`.
//!   `config/waiting_pages.rs`: `[waiting_pages.ROOM]`.
//! - `config/values.rs`: how values are written. `config/variables.rs`: the names of variables.
//! - `config/sources.rs`: merges the sources, records where each value came from, and describes
//!   errors. `config/rows.rs`: all values, for `fairlane config`.
//!
//! Invariant: an error names its source, such as a line of the file, and never contains a secret.

mod rows;
mod sources;
mod tables;
mod targets;
mod values;
mod variables;
mod waiting_pages;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use fairlane_core::kernel::Operation;
use fairlane_core::queue::{GroupPatch, SetQueue, Settings};
use fairlane_core::{GroupId, RoomName, TypeId};
use serde::Deserialize;

use crate::failure::Failure;
pub use rows::Row;
use sources::{Origin, Sources};
pub use tables::{QueueTable, ServerConfig, WorkerConfig};
use tables::{ServerTable, WorkerTable, rows_of};
use targets::{CallbackConfig, CallbackTable, GroupTable, TypeTable, check_retry};
pub use targets::{Target, TypeConfig, callback_type};
pub use values::Field;
use values::{File, Text, listen_address};
use waiting_pages::WaitingPageTable;

/// The default name of the configuration file.
pub const FILE: &str = "fairlane.toml";
/// The default data directory of a server.
pub const DATA: &str = "./fairlane-data";

/// The options that override the configuration.
#[derive(Args, Clone, Default)]
pub struct ConfigArguments {
    /// Configuration file [default: ./fairlane.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of the queue: dir:path, redis://host:port or redis+cluster://host:port,host:port
    /// [env: FAIRLANE_ENGINE] [default: dir:./fairlane-data]
    #[arg(long, value_name = "URL")]
    pub engine: Option<String>,
    /// Address and port to listen on; port 0 selects a free port [env: FAIRLANE_SERVER_LISTEN]
    /// [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// File with the API keys (see fairlane key create). Without keys, the server accepts only
    /// connections from this machine [env: FAIRLANE_KEYS] [default: keys.json in the data directory
    /// if it exists]
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Database whose outbox the dashboard shows: postgres://user@host/database. It is only read
    /// [env: FAIRLANE_DATABASE] [default: none]
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
    /// Log format: `text` or `json`. With json, each line is an object: status events on standard
    /// output, log events on standard error. FAIRLANE_LOG sets the log level, such as debug or off
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log: Option<String>,
}

/// The merged configuration.
#[derive(Debug)]
pub struct Config {
    /// The path of the file, if there is one.
    pub path: Option<PathBuf>,
    /// The address of the queue, if one is configured.
    pub engine: Option<String>,
    /// The settings of the server.
    pub server: ServerConfig,
    /// The settings of the worker.
    pub worker: WorkerConfig,
    /// The types in the file, by name.
    pub types: Vec<TypeConfig>,
    /// The settings of groups to store in the queue, by name.
    pub groups: Vec<(GroupId, GroupPatch)>,
    /// How the worker delivers callbacks, if it does.
    pub callbacks: Option<CallbackConfig>,
    /// The configured settings of the queue.
    queue: QueueTable,
    /// Every value with its source.
    pub rows: Vec<Row>,
}

impl Config {
    /// Reads, merges and checks all sources.
    pub fn read(arguments: &ConfigArguments) -> Result<Self, Failure> {
        let path = arguments.config.clone().or_else(|| Path::new(FILE).exists().then(|| FILE.into()));
        let text = match &path {
            Some(path) => std::fs::read_to_string(path).map_err(Failure::unreadable(path))?,
            None => String::new(),
        };
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::merged(path, &text, variables, arguments.overrides()).map_err(Failure::bad_input)
    }

    fn merged(
        path: Option<PathBuf>,
        text: &str,
        variables: impl Iterator<Item = (String, String)>,
        overrides: Vec<CliOverride>,
    ) -> Result<Self, String> {
        let file = path.as_ref().map_or(FILE.to_owned(), |path| path.display().to_string());
        let mut sources = Sources::parse(&file, text)?;
        for (key, value, name) in variables::configured(variables, &keys(), text)? {
            sources.set(&key, literal(&key, value), Origin::Variable(name));
        }
        for (key, flag, value) in overrides {
            sources.set(key, literal(key, value), Origin::Flag(flag));
        }
        let tables: Tables = sources.read()?;
        let mut server = sources.applied("server", &tables.server, check_server)?;
        let settings = sources.applied("queue", &tables.queue, check_queue)?;
        let worker = sources.applied("worker", &tables.worker, check_worker)?;
        let engine = tables.engine.map(|text| text.0);
        let rows = rows::all(text, &sources, engine.as_deref(), &server, &settings, &worker);
        let types = tables.types.into_iter().map(|(name, table)| {
            let checked = table.checked(&name, worker.settings.job_timeout);
            checked.map_err(|problem| sources.error_in(&["types", &name.to_string()], &problem))
        });
        let types = types.collect::<Result<_, String>>()?;
        let groups = tables.groups.into_iter().map(|(name, table)| match table.checked(&name) {
            Ok(patch) => Ok((name, patch)),
            Err(problem) => Err(sources.error_in(&["groups", &name.to_string()], &problem)),
        });
        let groups = groups.collect::<Result<_, String>>()?;
        for (room, table) in tables.waiting_pages {
            let page = table.checked(server.settings.pass_keys.is_some());
            let page =
                page.map_err(|problem| sources.error_in(&["waiting_pages", &room.to_string()], &problem))?;
            server.settings.waiting_pages.insert(room, page);
        }
        let callbacks = tables.callbacks.map(CallbackTable::checked).transpose();
        let callbacks = callbacks.map_err(|problem| sources.error_in(&["callbacks"], &problem))?;
        Ok(Self { path, engine, server, worker, types, groups, callbacks, queue: tables.queue, rows })
    }

    /// Every type that the worker runs, including callbacks.
    pub fn type_ids(&self) -> Vec<TypeId> {
        let callbacks = self.callbacks.iter().map(|_| callback_type());
        let run = self.types.iter().filter(|one| one.target.is_some());
        run.map(|one| one.type_id.clone()).chain(callbacks).collect()
    }

    /// The queue's settings with the configured ones applied, except those with these keys; none if
    /// nothing would change.
    pub fn queue_over(&self, settings: &Settings, kept: &[&str]) -> Option<Settings> {
        let mut changed = settings.clone();
        self.queue.apply(&mut changed);
        let kept = queue_settings(settings).into_iter().filter(|(key, _)| kept.contains(&key.as_str()));
        let kept = parse_queue(kept.collect()).expect("a printed setting can be parsed");
        kept.apply(&mut changed);
        (changed != *settings).then_some(changed)
    }
}

/// The tables of the merged sources.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    engine: Option<Text>,
    #[serde(default)]
    server: ServerTable,
    #[serde(default)]
    queue: QueueTable,
    #[serde(default)]
    worker: WorkerTable,
    #[serde(default)]
    types: BTreeMap<TypeId, TypeTable>,
    #[serde(default)]
    groups: BTreeMap<GroupId, GroupTable>,
    callbacks: Option<CallbackTable>,
    #[serde(default)]
    waiting_pages: BTreeMap<RoomName, WaitingPageTable>,
}

/// The keys that variables can set.
fn keys() -> Vec<String> {
    let server = rows_of::<_, ServerTable>("server", &ServerConfig::default());
    let queue = rows_of::<_, QueueTable>("queue", &Settings::default());
    let worker = rows_of::<_, WorkerTable>("worker", &WorkerConfig::default());
    let tables = [server, queue, worker].into_iter().flatten().map(|(key, _)| key);
    tables.chain(["engine".to_owned()]).collect()
}

/// The text of a variable or an option, in which `${` has no meaning.
fn literal(key: &str, value: String) -> String {
    if matches!(key, "engine" | "server.database") { value.replace("${", "$${") } else { value }
}

/// The values in `./fairlane.toml` for commands that only need the queue, or its keys.
#[derive(Deserialize, Default)]
pub struct Nearby {
    engine: Option<Text>,
    #[serde(default)]
    server: NearbyServer,
}

#[derive(Deserialize, Default)]
struct NearbyServer {
    listen: Option<toml::Value>,
    keys: Option<File>,
}

impl Nearby {
    /// The address of the queue.
    pub fn engine(&self) -> Option<String> {
        self.engine.as_ref().map(|text| text.0.clone())
    }

    /// The address that a server started here listens on.
    pub fn listen(&self) -> Option<SocketAddr> {
        let of_file = || self.server.listen.as_ref()?.as_str().map(str::to_owned);
        listen_address(&variable("FAIRLANE_SERVER_LISTEN").or_else(of_file)?)
    }

    /// The file with the API keys.
    pub fn keys(self) -> Option<PathBuf> {
        self.server.keys?.0
    }
}

/// Reads these values and ignores the rest of the file.
pub fn nearby() -> Result<Nearby, String> {
    let Ok(text) = std::fs::read_to_string(FILE) else { return Ok(Nearby::default()) };
    Sources::parse(FILE, &text)?.read()
}

/// The address of the queue in the environment.
pub fn engine_variable() -> Option<String> {
    variable(variables::ENGINE).or_else(|| variable(variables::ENGINE_ALIAS))
}

/// An environment variable; an empty one counts as not set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The keys of `[queue]` with their exact values.
pub fn queue_settings(settings: &Settings) -> Vec<(String, String)> {
    let rows = rows_of::<_, QueueTable>("", settings).into_iter();
    rows.map(|(key, value)| (key.trim_start_matches('.').to_owned(), value)).collect()
}

/// Parses settings of the queue. The engine checks the range of the values.
pub fn parse_queue(pairs: Vec<(String, String)>) -> Result<QueueTable, String> {
    Sources::of_pairs(pairs).read()
}

/// The minimum that the HTTP implementation needs, in bytes.
const HEAD_BYTES_MIN: usize = 8 * 1024;

fn check_server(server: &ServerConfig) -> Result<(), String> {
    let settings = &server.settings;
    if settings.head_bytes_max < HEAD_BYTES_MIN {
        return Err(format!("head_bytes_max is {}; it must be at least 8KiB", settings.head_bytes_max));
    }
    if settings.bodies_bytes_max < settings.body_bytes_max {
        let (all, one) = (settings.bodies_bytes_max, settings.body_bytes_max);
        return Err(format!("bodies_bytes_max is {all}; it must be at least body_bytes_max, which is {one}"));
    }
    Ok(())
}

fn check_queue(settings: &Settings) -> Result<(), String> {
    SetQueue { settings: settings.clone() }.validate().map_err(|error| error.to_string())
}

fn check_worker(worker: &WorkerConfig) -> Result<(), String> {
    worker.settings.check()?;
    check_retry(&worker.settings.retry)
}

/// The key, the option and the value of an option.
type CliOverride = (&'static str, &'static str, String);

impl ConfigArguments {
    fn overrides(&self) -> Vec<CliOverride> {
        let keys = self.keys.as_ref().map(|path| path.display().to_string());
        let all = [
            ("engine", "--engine", self.engine.clone()),
            ("server.listen", "--listen", self.listen.clone()),
            ("server.keys", "--keys", keys),
            ("server.database", "--database", self.database.clone()),
            ("server.log", "--log", self.log.clone()),
        ];
        all.into_iter().filter_map(|(key, flag, value)| Some((key, flag, value?))).collect()
    }
}

#[cfg(test)]
mod tests;
