//! The configuration: options override variables `FAIRLANE_…`, which override `fairlane.toml`.
//!
//! - `config/lists.rs`: the settings of `[server]`, `[queue]` and `[worker]`. `config/setting.rs`:
//!   one setting.
//! - `config/targets.rs`: `[types.NAME]` and `[callbacks]`. `config/text.rs`: `${VAR}` and rates in
//!   them.
//! - `config/layers.rs`: merges the sources and records where each value came from.
//!   `config/rows.rs`: all values, for `fairlane config`.
//! - `config/errors.rs`: error messages for the file.
//!
//! Invariant: an error names its source, such as a line of the file, and never contains a secret.

mod errors;
mod layers;
mod lists;
mod rows;
mod setting;
mod targets;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use fairlane_core::TypeId;
use fairlane_core::kernel::Operation;
use fairlane_core::queue::{SetQueue, Settings};
use fairlane_worker::CALLBACK_TYPE;
use serde::Deserialize;
use toml::{Spanned, Value};

use crate::failure::Failure;
use errors::{described, line_of};
use layers::{CliOverride, Entry, Merged, Origin};
use lists::{QUEUE, SERVER, WORKER};
pub use lists::{ServerConfig, WorkerConfig};
pub use rows::Row;
use setting::RawValue;
use targets::{CallbackConfig, CheckedCallbacks, CheckedType};
pub use targets::{Target, TypeConfig};
use text::Text;

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
    /// The types that the worker runs, by name.
    pub types: Vec<TypeConfig>,
    /// How the worker delivers callbacks, if it does.
    pub callbacks: Option<CallbackConfig>,
    /// The configured settings of the queue.
    queue: Vec<(&'static str, RawValue)>,
    /// Every value with its source.
    pub rows: Vec<Row>,
}

impl Config {
    /// Reads, merges and checks all sources.
    pub fn read(arguments: &ConfigArguments) -> Result<Self, Failure> {
        let path = arguments.config.clone().or_else(|| Path::new(FILE).exists().then(|| FILE.into()));
        let text = match &path {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| Failure::bad_input(format!("{} cannot be read: {error}", path.display())))?,
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
        let in_file = |problem: String| format!("{file}, {problem}");
        let table: FileTable = toml::from_str(text).map_err(|error| in_file(described(text, &error)))?;
        let mut entries = table.entries(text);
        entries.extend(layers::of_variables(variables, text)?);
        entries.extend(overrides.into_iter().map(Entry::from));
        let mut engine = table.engine.map(|text_at| {
            let line = line_of(text, text_at.span().start);
            (text_at.into_inner().0, Origin::File(line))
        });
        let mut server = Merged::new("server", SERVER, ServerConfig::default());
        let mut queue = Merged::new("queue", QUEUE, Settings::default());
        let mut worker = Merged::new("worker", WORKER, WorkerConfig::default());
        for entry in entries {
            match (entry.table, &entry.value) {
                ("", RawValue::Bare(url)) => engine = Some((url.clone(), entry.origin)),
                ("server", _) => server.merge(entry, &file)?,
                ("queue", _) => queue.merge(entry, &file)?,
                _ => worker.merge(entry, &file)?,
            }
        }
        server.check(&file, check_server)?;
        queue.check(&file, check_queue)?;
        worker.check(&file, check_worker)?;
        let rows = rows::all(text, &file, engine.as_ref(), &server, &queue, &worker);
        let job_timeout = worker.value.settings.job_timeout;
        let types = table.types.into_iter().map(|(name, one)| one.named(&name, job_timeout).map_err(in_file));
        Ok(Self {
            types: types.collect::<Result<_, String>>()?,
            callbacks: table.callbacks.map(|callbacks| callbacks.0),
            engine: engine.map(|(url, _)| url),
            server: server.value,
            worker: worker.value,
            queue: queue.raw,
            rows,
            path,
        })
    }

    /// Every type that the worker runs, including callbacks.
    pub fn type_ids(&self) -> Vec<TypeId> {
        let callbacks =
            self.callbacks.iter().map(|_| TypeId::new(CALLBACK_TYPE).expect("a plain word is a name"));
        self.types.iter().map(|one| one.type_id.clone()).chain(callbacks).collect()
    }

    /// The queue's settings with the configured ones applied; none if nothing would change.
    pub fn queue_over(&self, settings: &Settings) -> Option<Settings> {
        let mut changed = settings.clone();
        for (key, value) in &self.queue {
            let setting = QUEUE.iter().find(|setting| setting.key == *key);
            // The value was parsed successfully before.
            setting.and_then(|setting| (setting.set)(&mut changed, value).ok());
        }
        (changed != *settings).then_some(changed)
    }
}

/// The values in `./fairlane.toml` for commands that only need the queue, or its keys.
#[derive(Default)]
pub struct Nearby {
    /// The address of the queue.
    pub engine: Option<String>,
    /// The address that a server started here listens on.
    pub listen: Option<String>,
    /// The file with the API keys.
    pub keys: Option<PathBuf>,
}

/// Reads these values and ignores the rest of the file.
pub fn nearby() -> Result<Nearby, String> {
    let Ok(text) = std::fs::read_to_string(FILE) else { return Ok(Nearby::default()) };
    #[derive(Deserialize)]
    struct File {
        engine: Option<Text>,
        #[serde(default)]
        server: Server,
    }
    #[derive(Deserialize, Default)]
    struct Server {
        listen: Option<Value>,
        keys: Option<Value>,
    }
    let read: File =
        toml::from_str(&text).map_err(|error| format!("{FILE}, {}", described(&text, &error)))?;
    let keys = read.server.keys.map(|keys| setting::kinds::file::parse(&RawValue::Typed(keys)));
    let keys = keys.transpose().map_err(|needed| format!("{FILE}, [server]: keys must be {needed}"))?;
    let listen = read.server.listen.and_then(|listen| Some(listen.as_str()?.to_owned()));
    Ok(Nearby { engine: read.engine.map(|text| text.0), listen, keys: keys.flatten() })
}

/// An environment variable; an empty one counts as not set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The keys of `[queue]` with their exact values.
pub fn queue_settings(settings: &Settings) -> Vec<(&'static str, String)> {
    QUEUE.iter().map(|setting| (setting.key, (setting.show)(settings))).collect()
}

/// Changes one setting of the queue. The engine checks the range of the value.
pub fn set_queue(settings: &mut Settings, key: &str, value: &str) -> Result<(), String> {
    let setting = layers::find(QUEUE, key).map_err(|unknown| format!("settings of the queue: {unknown}"))?;
    let set = (setting.set)(settings, &RawValue::Bare(value.to_owned()));
    set.map_err(|needed| format!("{key} must be {needed}"))
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
    let (base, cap) = (worker.settings.retry.base.as_millis(), worker.settings.retry.cap.as_millis());
    if base > cap {
        return Err(format!("retry.base is {base} and must not be above retry.cap_ms, which is {cap}"));
    }
    Ok(())
}

impl ConfigArguments {
    fn overrides(&self) -> Vec<CliOverride> {
        let path = |path: &PathBuf| path.display().to_string();
        let all = [
            CliOverride::new("", "engine", "--engine", self.engine.clone()),
            CliOverride::new("server", "listen", "--listen", self.listen.clone()),
            CliOverride::new("server", "keys", "--keys", self.keys.as_ref().map(path)),
            CliOverride::new("server", "log", "--log", self.log.clone()),
        ];
        all.into_iter().flatten().collect()
    }
}

/// The keys of a table with their values and positions.
type Table = BTreeMap<String, Spanned<Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    engine: Option<Spanned<Text>>,
    #[serde(default)]
    server: Table,
    #[serde(default)]
    queue: Table,
    #[serde(default)]
    worker: Table,
    #[serde(default)]
    types: BTreeMap<String, CheckedType>,
    callbacks: Option<CheckedCallbacks>,
}

impl FileTable {
    /// The entries of its tables. A nested table has keys with a dot.
    fn entries(&self, text: &str) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (table, of_table) in [("server", &self.server), ("queue", &self.queue), ("worker", &self.worker)]
        {
            for (key, value) in of_table {
                let origin = Origin::File(line_of(text, value.span().start));
                let mut add = |key: String, value: &Value| {
                    let value = RawValue::Typed(value.clone());
                    entries.push(Entry { table, key, value, origin: origin.clone() });
                };
                match value.as_ref() {
                    Value::Table(inner) => {
                        inner.iter().for_each(|(name, value)| add(format!("{key}.{name}"), value))
                    }
                    value => add(key.clone(), value),
                }
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests;
