//! The configuration: `fairlane.toml`, above it variables `FAIRLANE_…`, above them what the command line says.
//!
//! - `config/lists.rs`: the settings of `[server]`, `[whole]` and `[worker]`. `config/setting.rs`: one of them.
//! - `config/targets.rs`: `[types.NAME]` and `[callbacks]`. `config/text.rs`: `${VAR}` and rates in them.
//! - `config/layers.rs`: settings laid over each other, with where each came from. `config/rows.rs`: all of it, shown.
//! - `config/mistakes.rs`: what is wrong in the file, in its own words.
//!
//! Invariant: whatever is wrong is told with where it stands, and never with a secret.

mod layers;
mod lists;
mod mistakes;
mod rows;
mod setting;
mod targets;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use fairlane_core::TypeId;
use fairlane_core::queue::{Command, SetWhole, Settings};
use fairlane_worker::CALLBACK_TYPE;
use serde::Deserialize;
use toml::{Spanned, Value};

use crate::failure::Failure;
use layers::{Entry, Laid, Origin, Spoken};
use lists::{SERVER, WHOLE, WORKER};
pub use lists::{ServerConfig, WorkerConfig};
use mistakes::{described, line_of};
pub use rows::Row;
use setting::Written;
use targets::{CallbackConfig, CheckedCallbacks, CheckedType};
pub use targets::{Target, TypeConfig};
use text::Text;

/// The file that is used if nobody names another.
pub const FILE: &str = "fairlane.toml";
/// Where a server keeps its queue if nobody says.
pub const DATA: &str = "./fairlane-data";

/// What the command line says of the configuration.
#[derive(Args, Clone, Default)]
pub struct Given {
    /// The file of settings [default: ./fairlane.toml if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the queue lives: dir:path, redis://host:port or redis+cluster://host:port,host:port [env:
    /// FAIRLANE_ENGINE] [default: dir:./fairlane-data]
    #[arg(long, value_name = "URL")]
    pub engine: Option<String>,
    /// Where to listen; port 0 is any free one [env: FAIRLANE_SERVER_LISTEN] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// The file of keys (fairlane key create); without keys only this machine can reach it [env: FAIRLANE_KEYS]
    /// [default: keys.json in the data directory if it is there]
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// How it is told what happens: text on standard error; or json, an object a line, what is said to you on standard
    /// output and events on standard error; FAIRLANE_LOG=debug tells more, =off none
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log: Option<String>,
}

/// Everything that is configured.
#[derive(Debug)]
pub struct Config {
    /// The file, if there is one.
    pub path: Option<PathBuf>,
    /// Where the queue lives, if somebody says.
    pub engine: Option<String>,
    /// The server.
    pub server: ServerConfig,
    /// The worker.
    pub worker: WorkerConfig,
    /// What it works on, by name.
    pub types: Vec<TypeConfig>,
    /// How it delivers callbacks, if it does.
    pub callbacks: Option<CallbackConfig>,
    /// What is said of the whole queue.
    whole: Vec<(&'static str, Written)>,
    /// All of it, to be shown.
    pub rows: Vec<Row>,
}

impl Config {
    /// Reads and checks all there is.
    pub fn read(given: &Given) -> Result<Self, Failure> {
        let path = given.config.clone().or_else(|| Path::new(FILE).exists().then(|| FILE.into()));
        let text = match &path {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| Failure::bad_input(format!("{} cannot be read: {error}", path.display())))?,
            None => String::new(),
        };
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::layered(path, &text, variables, given.spoken()).map_err(Failure::bad_input)
    }

    fn layered(
        path: Option<PathBuf>,
        text: &str,
        variables: impl Iterator<Item = (String, String)>,
        spoken: Vec<Spoken>,
    ) -> Result<Self, String> {
        let file = path.as_ref().map_or(FILE.to_owned(), |path| path.display().to_string());
        let in_file = |problem: String| format!("{file}, {problem}");
        let table: FileTable = toml::from_str(text).map_err(|error| in_file(described(text, &error)))?;
        let mut entries = table.entries(text);
        entries.extend(layers::of_variables(variables, text)?);
        entries.extend(spoken.into_iter().map(Entry::from));
        let mut engine = table.engine.map(|text_at| {
            let line = line_of(text, text_at.span().start);
            (text_at.into_inner().0, Origin::File(line))
        });
        let mut server = Laid::new("server", SERVER, ServerConfig::default());
        let mut whole = Laid::new("whole", WHOLE, Settings::default());
        let mut worker = Laid::new("worker", WORKER, WorkerConfig::default());
        for entry in entries {
            match (entry.table, &entry.written) {
                ("", Written::Bare(url)) => engine = Some((url.clone(), entry.origin)),
                ("server", _) => server.lay(entry, &file)?,
                ("whole", _) => whole.lay(entry, &file)?,
                _ => worker.lay(entry, &file)?,
            }
        }
        server.check(&file, check_server)?;
        whole.check(&file, check_whole)?;
        worker.check(&file, check_worker)?;
        let rows = rows::all(text, &file, engine.as_ref(), &server, &whole, &worker);
        let job_timeout = worker.value.settings.job_timeout;
        let types = table.types.into_iter().map(|(name, one)| one.named(&name, job_timeout).map_err(in_file));
        Ok(Self {
            types: types.collect::<Result<_, String>>()?,
            callbacks: table.callbacks.map(|callbacks| callbacks.0),
            engine: engine.map(|(url, _)| url),
            server: server.value,
            worker: worker.value,
            whole: whole.written,
            rows,
            path,
        })
    }

    /// Every type it works on, callbacks too.
    pub fn type_ids(&self) -> Vec<TypeId> {
        let callbacks =
            self.callbacks.iter().map(|_| TypeId::new(CALLBACK_TYPE).expect("a plain word is a name"));
        self.types.iter().map(|one| one.type_id.clone()).chain(callbacks).collect()
    }

    /// These settings of the whole with what is said of them; none if nothing would change.
    pub fn whole_over(&self, settings: &Settings) -> Option<Settings> {
        let mut changed = settings.clone();
        for (key, written) in &self.whole {
            let setting = WHOLE.iter().find(|setting| setting.key == *key);
            // It was read once already.
            setting.and_then(|setting| (setting.set)(&mut changed, written).ok());
        }
        (changed != *settings).then_some(changed)
    }
}

/// What `./fairlane.toml` says to commands that only look for the queue, or its keys.
#[derive(Default)]
pub struct Nearby {
    /// Where the queue lives.
    pub engine: Option<String>,
    /// Where a server that is started here listens.
    pub listen: Option<String>,
    /// The file of keys.
    pub keys: Option<PathBuf>,
}

/// Reads it. What else stands there is not the business of those who ask.
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
    let keys = read.server.keys.map(|keys| setting::kinds::file::read(&Written::Typed(keys)));
    let keys = keys.transpose().map_err(|needed| format!("{FILE}, [server]: keys must be {needed}"))?;
    let listen = read.server.listen.and_then(|listen| Some(listen.as_str()?.to_owned()));
    Ok(Nearby { engine: read.engine.map(|text| text.0), listen, keys: keys.flatten() })
}

/// A variable of the environment; one that is empty is not set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The keys of `[whole]` with their values, to be shown.
pub fn whole_shown(settings: &Settings) -> Vec<(&'static str, String)> {
    WHOLE.iter().map(|setting| (setting.key, (setting.show)(settings))).collect()
}

/// Changes one of them by its key; a value out of range is found when all are sent.
pub fn set_whole(settings: &mut Settings, key: &str, value: &str) -> Result<(), String> {
    let setting = layers::find(WHOLE, key).map_err(|unknown| format!("settings of the whole: {unknown}"))?;
    let set = (setting.set)(settings, &Written::Bare(value.to_owned()));
    set.map_err(|needed| format!("{key} must be {needed}"))
}

/// What the server's own reader of heads needs.
const HEAD_BYTES_LEAST: usize = 8 * 1024;

fn check_server(server: &ServerConfig) -> Result<(), String> {
    let settings = &server.settings;
    if settings.head_bytes_max < HEAD_BYTES_LEAST {
        return Err(format!("head_bytes_max is {}; it must be at least 8KiB", settings.head_bytes_max));
    }
    if settings.bodies_bytes_max < settings.body_bytes_max {
        let (all, one) = (settings.bodies_bytes_max, settings.body_bytes_max);
        return Err(format!("bodies_bytes_max is {all}; it must be at least body_bytes_max, which is {one}"));
    }
    Ok(())
}

fn check_whole(settings: &Settings) -> Result<(), String> {
    let command = Command::SetWhole(SetWhole { settings: settings.clone() });
    command.validate().map_err(|error| error.to_string())
}

fn check_worker(worker: &WorkerConfig) -> Result<(), String> {
    worker.settings.check()?;
    let (base, cap) = (worker.settings.retry.base.as_millis(), worker.settings.retry.cap.as_millis());
    if base > cap {
        return Err(format!("retry.base is {base} and must not be above retry.cap_ms, which is {cap}"));
    }
    Ok(())
}

impl Given {
    fn spoken(&self) -> Vec<Spoken> {
        let path = |path: &PathBuf| path.display().to_string();
        let all = [
            Spoken::new("", "engine", "--engine", self.engine.clone()),
            Spoken::new("server", "listen", "--listen", self.listen.clone()),
            Spoken::new("server", "keys", "--keys", self.keys.as_ref().map(path)),
            Spoken::new("server", "log", "--log", self.log.clone()),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Keys with their values and where those stand.
type Table = BTreeMap<String, Spanned<Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    engine: Option<Spanned<Text>>,
    #[serde(default)]
    server: Table,
    #[serde(default)]
    whole: Table,
    #[serde(default)]
    worker: Table,
    #[serde(default)]
    types: BTreeMap<String, CheckedType>,
    callbacks: Option<CheckedCallbacks>,
}

impl FileTable {
    /// What its tables say, in the order of its lines. A table within one of them has keys with a dot.
    fn entries(&self, text: &str) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (table, of_table) in [("server", &self.server), ("whole", &self.whole), ("worker", &self.worker)]
        {
            for (key, value) in of_table {
                let origin = Origin::File(line_of(text, value.span().start));
                let mut add = |key: String, value: &Value| {
                    let written = Written::Typed(value.clone());
                    entries.push(Entry { table, key, written, origin: origin.clone() });
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
