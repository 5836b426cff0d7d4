//! Settings laid over each other: the file, variables, the command line; the last one holds.

use std::collections::BTreeMap;
use std::fmt;

use fairlane_simulator::with_suggestion;

use super::lists::{SERVER, WHOLE, WORKER};
use super::setting::{Setting, Written};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A line of the file.
    File(usize),
    /// A variable of the environment.
    Variable(String),
    /// An option of the command line.
    Flag(&'static str),
    /// It is left as the queue has it.
    Queue,
}

impl Origin {
    /// As it is shown.
    pub fn shown(&self, file: &str) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File(line) => format!("{file}:{line}"),
            Self::Variable(name) => name.clone(),
            Self::Flag(flag) => (*flag).to_owned(),
            Self::Queue => "as the queue has it".to_owned(),
        }
    }

    /// What is wrong with a key, in words of whoever wrote it.
    fn blamed(&self, file: &str, key: &str, problem: impl fmt::Display) -> String {
        match self {
            Self::File(line) => format!("{file}, line {line}: {key} {problem}"),
            Self::Variable(name) => format!("{name} {problem}"),
            Self::Flag(flag) => format!("{flag} {problem}"),
            Self::Default | Self::Queue => format!("{key} {problem}"),
        }
    }
}

/// One value that somebody has written.
pub struct Entry {
    /// Its table; none for `engine`.
    pub table: &'static str,
    pub key: String,
    pub written: Written,
    pub origin: Origin,
}

/// A value of the command line.
pub struct Spoken {
    table: &'static str,
    key: &'static str,
    flag: &'static str,
    value: String,
}

impl Spoken {
    /// Nothing, if nothing was said.
    pub fn new(
        table: &'static str,
        key: &'static str,
        flag: &'static str,
        value: Option<String>,
    ) -> Option<Self> {
        value.map(|value| Self { table, key, flag, value })
    }
}

impl From<Spoken> for Entry {
    fn from(spoken: Spoken) -> Self {
        let Spoken { table, key, flag, value } = spoken;
        Self { table, key: key.to_owned(), written: Written::Bare(value), origin: Origin::Flag(flag) }
    }
}

/// A table with what was laid over its defaults.
pub struct Laid<T: 'static> {
    pub table: &'static str,
    pub list: &'static [Setting<T>],
    pub value: T,
    pub written: Vec<(&'static str, Written)>,
    origins: BTreeMap<&'static str, Origin>,
}

impl<T> Laid<T> {
    pub fn new(table: &'static str, list: &'static [Setting<T>], value: T) -> Self {
        Self { table, list, value, written: Vec::new(), origins: BTreeMap::new() }
    }

    /// Lays a value over what is there.
    pub fn lay(&mut self, entry: Entry, file: &str) -> Result<(), String> {
        let Entry { key, written, origin, .. } = entry;
        let line = match &origin {
            Origin::File(line) => format!("{file}, line {line}: "),
            _ => String::new(),
        };
        let setting =
            find(self.list, &key).map_err(|unknown| format!("{line}[{}]: {unknown}", self.table))?;
        (setting.set)(&mut self.value, &written)
            .map_err(|needed| origin.blamed(file, &key, format_args!("must be {needed}")))?;
        self.written.push((setting.key, written));
        self.origins.insert(setting.key, origin);
        Ok(())
    }

    /// Where the value of a key came from.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// Whether all values fit; the message of one that does not begins with its name.
    pub fn check(&self, file: &str, check: impl FnOnce(&T) -> Result<(), String>) -> Result<(), String> {
        let Err(message) = check(&self.value) else { return Ok(()) };
        let (name, rest) = message.split_once(' ').unwrap_or((&message, ""));
        let name = name.trim_start_matches("congestion.");
        let is_named = |key: &str| key == name || key.strip_suffix("_ms") == Some(name);
        match self.origins.iter().find(|(key, _)| is_named(key)) {
            Some((key, origin)) => Err(origin.blamed(file, key, rest.replacen(" ms;", ";", 1))),
            None => Err(format!("{file}, [{}]: {message}", self.table)),
        }
    }
}

/// The setting of this key, or that there is none and which may be meant.
pub fn find<T>(list: &'static [Setting<T>], key: &str) -> Result<&'static Setting<T>, String> {
    list.iter().find(|setting| setting.key == key).ok_or_else(|| unknown(key, list.iter().map(|one| one.key)))
}

fn unknown(key: &str, known: impl Iterator<Item = impl fmt::Display>) -> String {
    let known: Vec<String> = known.map(|key| format!("`{key}`")).collect();
    with_suggestion(&format!("unknown field `{key}`, expected one of {}", known.join(", ")))
}

/// Variables that are not of the configuration: those of other commands, of the programs a worker runs, which may run
/// this one, and of the examples.
const OTHERS: [&str; 9] = ["KEY", "LOG", "GROUP", "JOB", "TYPE", "BULK", "ATTEMPT", "FENCE", "URL"];
/// Those of Fairlane's own tests, which start this program.
const TESTS: [&str; 5] = ["REWRITE", "WRITE_HELP", "FUZZ_ROUNDS", "FUZZ_SEED", "SCHEMA_EXAMPLES"];

/// What variables say. One that begins as ours and is none is a mistake, unless the file names it as `${VAR}`.
pub fn of_variables(
    variables: impl Iterator<Item = (String, String)>,
    file: &str,
) -> Result<Vec<Entry>, String> {
    let keys = |table: &'static str, keys: Vec<&'static str>| keys.into_iter().map(move |key| (table, key));
    let known: Vec<(&str, &str)> = keys("server", SERVER.iter().map(|one| one.key).collect())
        .chain(keys("whole", WHOLE.iter().map(|one| one.key).collect()))
        .chain(keys("worker", WORKER.iter().map(|one| one.key).collect()))
        .chain([("", "engine")])
        .collect();
    let mut entries = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix("FAIRLANE_") else { continue };
        let found = known.iter().find(|(table, key)| variable(table, key) == name);
        match found {
            // A variable that is set to nothing is not set.
            Some(_) if value.is_empty() => {}
            Some((table, key)) => entries.push(Entry {
                table,
                key: (*key).to_owned(),
                written: Written::Bare(value),
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

/// `FAIRLANE_WORKER_RETRY_BASE_MS` of `retry.base_ms` in `[worker]`; the keys have the variable of `fairlane key`.
fn variable(table: &str, key: &str) -> String {
    if (table, key) == ("server", "keys") {
        return "FAIRLANE_KEYS".to_owned();
    }
    let words = ["FAIRLANE", table, key].into_iter().filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").replace('.', "_").to_uppercase()
}

/// Of a hundred known ones only the nearest is named.
fn unknown_variable(name: &str, known: impl Iterator<Item = String>) -> String {
    // What all of them begin with says nothing of how near they are, and the table is often left out.
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
        "the environment: `{name}` is not known{meant} docs/configuration.md has them all; one of your own must not begin \
         with FAIRLANE_, unless the file names it"
    )
}

/// Kubernetes sets variables such as `FAIRLANE_PORT`, `FAIRLANE_PORT_8080_TCP` and `FAIRLANE_SERVER_SERVICE_HOST` for
/// services whose names begin so; those are nobody's mistake.
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
