//! Merges the sources of settings: the file, then variables, then options; the last one wins.

use std::collections::BTreeMap;
use std::fmt;

use fairlane_simulator::with_suggestion;

use super::lists::{QUEUE, SERVER, WORKER};
use super::setting::{RawValue, Setting};

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The value is not configured anywhere.
    Default,
    /// This line of the file.
    File(usize),
    /// This environment variable.
    Variable(String),
    /// This option of the command line.
    Flag(&'static str),
    /// The value is not configured, so the queue keeps its own.
    Queue,
}

impl Origin {
    /// The source as text.
    pub fn label(&self, file: &str) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File(line) => format!("{file}:{line}"),
            Self::Variable(name) => name.clone(),
            Self::Flag(flag) => (*flag).to_owned(),
            Self::Queue => "stored in the queue".to_owned(),
        }
    }

    /// An error message that names the source and the key.
    fn error(&self, file: &str, key: &str, problem: impl fmt::Display) -> String {
        match self {
            Self::File(line) => format!("{file}, line {line}: {key} {problem}"),
            Self::Variable(name) => format!("{name} {problem}"),
            Self::Flag(flag) => format!("{flag} {problem}"),
            Self::Default | Self::Queue => format!("{key} {problem}"),
        }
    }
}

/// One configured value.
pub struct Entry {
    /// The table of the key; empty for `engine`.
    pub table: &'static str,
    pub key: String,
    pub value: RawValue,
    pub origin: Origin,
}

/// A value from the command line.
pub struct CliOverride {
    table: &'static str,
    key: &'static str,
    flag: &'static str,
    value: String,
}

impl CliOverride {
    /// None if the option was not given.
    pub fn new(
        table: &'static str,
        key: &'static str,
        flag: &'static str,
        value: Option<String>,
    ) -> Option<Self> {
        value.map(|value| Self { table, key, flag, value })
    }
}

impl From<CliOverride> for Entry {
    fn from(option: CliOverride) -> Self {
        let CliOverride { table, key, flag, value } = option;
        Self { table, key: key.to_owned(), value: RawValue::Bare(value), origin: Origin::Flag(flag) }
    }
}

/// A table of settings, merged from its sources.
pub struct Merged<T: 'static> {
    pub table: &'static str,
    pub list: &'static [Setting<T>],
    pub value: T,
    /// The configured values before they were parsed, in the order of the sources.
    pub raw: Vec<(&'static str, RawValue)>,
    origins: BTreeMap<&'static str, Origin>,
}

impl<T> Merged<T> {
    pub fn new(table: &'static str, list: &'static [Setting<T>], value: T) -> Self {
        Self { table, list, value, raw: Vec::new(), origins: BTreeMap::new() }
    }

    /// Replaces the value of a key.
    pub fn merge(&mut self, entry: Entry, file: &str) -> Result<(), String> {
        let Entry { key, value, origin, .. } = entry;
        let line = match &origin {
            Origin::File(line) => format!("{file}, line {line}: "),
            _ => String::new(),
        };
        let setting =
            find(self.list, &key).map_err(|unknown| format!("{line}[{}]: {unknown}", self.table))?;
        (setting.set)(&mut self.value, &value)
            .map_err(|needed| origin.error(file, &key, format_args!("must be {needed}")))?;
        self.raw.push((setting.key, value));
        self.origins.insert(setting.key, origin);
        Ok(())
    }

    /// The source of a key's value.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// Checks the merged values. The check's message begins with the name of the setting.
    pub fn check(&self, file: &str, check: impl FnOnce(&T) -> Result<(), String>) -> Result<(), String> {
        let Err(message) = check(&self.value) else { return Ok(()) };
        let (name, rest) = message.split_once(' ').unwrap_or((&message, ""));
        let name = name.trim_start_matches("congestion.");
        let is_named = |key: &str| key == name || key.strip_suffix("_ms") == Some(name);
        match self.origins.iter().find(|(key, _)| is_named(key)) {
            Some((key, origin)) => Err(origin.error(file, key, rest.replacen(" ms;", ";", 1))),
            None => Err(format!("{file}, [{}]: {message}", self.table)),
        }
    }
}

/// The setting with this key, or an error that suggests a similar key.
pub fn find<T>(list: &'static [Setting<T>], key: &str) -> Result<&'static Setting<T>, String> {
    list.iter().find(|setting| setting.key == key).ok_or_else(|| unknown(key, list.iter().map(|one| one.key)))
}

fn unknown(key: &str, known: impl Iterator<Item = impl fmt::Display>) -> String {
    let known: Vec<String> = known.map(|key| format!("`{key}`")).collect();
    with_suggestion(&format!("unknown field `{key}`, expected one of {}", known.join(", ")))
}

/// Variables outside the configuration: those of other commands, of the examples, and of programs
/// that a worker runs, because such a program may run `fairlane`.
const OTHERS: [&str; 9] = ["KEY", "LOG", "GROUP", "JOB", "TYPE", "BULK", "ATTEMPT", "FENCE", "URL"];
/// Variables of Fairlane's own tests, which start this program.
const TESTS: [&str; 5] = ["REWRITE", "WRITE_HELP", "FUZZ_ROUNDS", "FUZZ_SEED", "SCHEMA_EXAMPLES"];

/// The entries of the variables. An unknown `FAIRLANE_…` is an error unless the file uses it as
/// `${VAR}`.
pub fn of_variables(
    variables: impl Iterator<Item = (String, String)>,
    file: &str,
) -> Result<Vec<Entry>, String> {
    let keys = |table: &'static str, keys: Vec<&'static str>| keys.into_iter().map(move |key| (table, key));
    let known: Vec<(&str, &str)> = keys("server", SERVER.iter().map(|one| one.key).collect())
        .chain(keys("queue", QUEUE.iter().map(|one| one.key).collect()))
        .chain(keys("worker", WORKER.iter().map(|one| one.key).collect()))
        .chain([("", "engine")])
        .collect();
    let mut entries = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix("FAIRLANE_") else { continue };
        let found = known.iter().find(|(table, key)| variable(table, key) == name);
        match found {
            // An empty variable counts as not set.
            Some(_) if value.is_empty() => {}
            Some((table, key)) => entries.push(Entry {
                table,
                key: (*key).to_owned(),
                value: RawValue::Bare(value),
                origin: Origin::Variable(name),
            }),
            None if OTHERS.contains(&rest) || TESTS.contains(&rest) || is_of_kubernetes(rest, &value) => {}
            None if file.contains(&format!("${{{name}}}")) => {}
            None => {
                return Err(unknown_variable(&name, known.iter().map(|(table, key)| variable(table, key))));
            }
        }
    }
    Ok(entries)
}

/// `FAIRLANE_WORKER_RETRY_BASE_MS` for `retry.base_ms` in `[worker]`. The API keys share the
/// variable of `fairlane key`.
fn variable(table: &str, key: &str) -> String {
    if (table, key) == ("server", "keys") {
        return "FAIRLANE_KEYS".to_owned();
    }
    let words = ["FAIRLANE", table, key].into_iter().filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").replace('.', "_").to_uppercase()
}

/// The error for an unknown variable. Suggests only the most similar one of about a hundred.
fn unknown_variable(name: &str, known: impl Iterator<Item = String>) -> String {
    // The common prefix says nothing about similarity, and users often leave out the table.
    let rest = |name: &str| name.trim_start_matches("FAIRLANE_").to_owned();
    let (known, wanted) = (known.map(|known| rest(&known)).collect::<Vec<_>>(), rest(name));
    let nearest = match known.iter().find(|known| known.ends_with(&format!("_{wanted}"))) {
        Some(known) => Some(known.clone()),
        None => unknown(&wanted, known.iter())
            .rsplit_once("did you mean `")
            .map(|(_, near)| near.replace("`?", "")),
    };
    let meant = nearest.map_or(".".to_owned(), |near| format!("; did you mean `FAIRLANE_{near}`?"));
    format!(
        "the environment: `{name}` is unknown{meant} docs/configuration.md lists all variables; your own variables must \
         not begin with FAIRLANE_, unless the file uses them"
    )
}

/// Whether Kubernetes set the variable. It sets variables such as `FAIRLANE_PORT`,
/// `FAIRLANE_PORT_8080_TCP` and `FAIRLANE_SERVER_SERVICE_HOST` for services with such a name.
fn is_of_kubernetes(rest: &str, value: &str) -> bool {
    let words: Vec<&str> = rest.split('_').collect();
    let is_number = |word: &&str| word.parse::<u16>().is_ok();
    let follows = |pair: &[&str]| match pair {
        ["SERVICE", next] => matches!(*next, "HOST" | "PORT"),
        ["PORT", next] => is_number(next),
        _ => false,
    };
    words.windows(2).any(follows) || (words.last() == Some(&"PORT") && value.contains("://"))
}
