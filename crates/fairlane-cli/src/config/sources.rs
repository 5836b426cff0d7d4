//! Merges the file, variables and options; the last one wins. Records where each value came from.
//!
//! Invariant: an error names the source of the value and does not contain the value, because any
//! value may be secret. Only numbers that are out of range are printed.

use std::collections::BTreeMap;

use fairlane_simulator::with_suggestion;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::values::Field;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// This line of the file.
    File(usize),
    /// This environment variable.
    Variable(String),
    /// This option of the command line.
    Flag(&'static str),
}

/// The merged values and their sources.
pub struct Sources {
    /// The path of the file.
    file: String,
    table: Table,
    /// The source of each key by its path, such as `["server", "listen"]`.
    origins: BTreeMap<Vec<String>, Origin>,
}

impl Sources {
    /// Parses the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, String> {
        let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let syntax = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line_of(span.start));
            format!("{file}, line {line}: {}", error.message().trim_end().replace('\n', ", "))
        };
        let mut origins = BTreeMap::new();
        add_lines(DeTable::parse(text).map_err(syntax)?.get_ref(), &[], &line_of, &mut origins);
        Ok(Self { file: file.to_owned(), table: toml::from_str(text).map_err(syntax)?, origins })
    }

    /// Values without a source: a message about them names only the key.
    pub fn of_pairs(pairs: Vec<(String, String)>) -> Self {
        let table = pairs.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
        Self { file: String::new(), table, origins: BTreeMap::new() }
    }

    /// Replaces the value of a key such as `server.listen`.
    pub fn set(&mut self, key: &str, value: String, origin: Origin) {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        let (last, outer) = path.split_last().expect("a key is not empty");
        let mut table = &mut self.table;
        for name in outer {
            let inner = table.entry(name.as_str()).or_insert_with(|| Value::Table(Table::new()));
            // A value in place of a table is reported when the tables are read.
            let Value::Table(inner) = inner else { return };
            table = inner;
        }
        table.insert(last.clone(), Value::String(value));
        self.origins.insert(path, origin);
    }

    /// Deserialises the merged values.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        let read = serde_path_to_error::deserialize(self.table.clone());
        read.map_err(|error: serde_path_to_error::Error<toml::de::Error>| {
            self.describe(error.path(), error.inner().message().trim_end())
        })
    }

    /// The values of a table over the default ones, checked.
    pub fn applied<T: Default>(
        &self,
        table: &str,
        configured: &impl Field<T>,
        check: impl FnOnce(&T) -> Result<(), String>,
    ) -> Result<T, String> {
        let mut value = T::default();
        configured.apply(&mut value);
        check(&value).map_err(|problem| self.error_in(&[table], &problem))?;
        Ok(value)
    }

    /// The error for a problem of a table. A message about one key begins with the name of its
    /// field: `lease is 5 ms; …` for the key `lease_ms`.
    pub fn error_in(&self, table: &[&str], message: &str) -> String {
        let (word, rest) = message.split_once(' ').unwrap_or((message, ""));
        let (name, colon) = word.strip_suffix(':').map_or((word, ""), |name| (name, ":"));
        let name = name.trim_start_matches("congestion.");
        for key in [name.to_owned(), format!("{name}_ms")] {
            let path: Vec<String> = table.iter().copied().chain(key.split('.')).map(str::to_owned).collect();
            if self.origins.contains_key(&path) {
                return self.error(&path, &key, &format!("{colon} {}", rest.replacen(" ms;", ";", 1)));
            }
        }
        let path: Vec<String> = table.iter().map(|name| (*name).to_owned()).collect();
        self.error(&path, &header(&path), &format!(": {message}"))
    }

    /// The source of a value, if it is configured.
    pub fn label(&self, path: &[String]) -> Option<String> {
        Some(match self.origins.get(path)? {
            Origin::File(line) => format!("{}:{line}", self.file),
            Origin::Variable(name) => name.clone(),
            Origin::Flag(flag) => (*flag).to_owned(),
        })
    }

    /// The parser's error as a message for users.
    fn describe(&self, at: &serde_path_to_error::Path, message: &str) -> String {
        let (mut path, mut element) = (Vec::new(), String::new());
        for segment in at {
            match segment {
                Segment::Map { key } => path.push(key.clone()),
                Segment::Seq { index } => element = format!("number {} of ", index + 1),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        if message.starts_with("unknown field") {
            let table = path.split_last().map_or(String::new(), |(_, table)| header(table));
            let label = if table.is_empty() { table } else { format!("{table}: ") };
            return self.error(&path, &label, &with_suggestion(message));
        }
        if let Some(key) = message.strip_prefix("missing field `") {
            return self.error(&path, &header(&path), &format!(" needs {}", key.trim_end_matches('`')));
        }
        let tables = if path.first().is_some_and(|first| first == "types") { 2 } else { 1 };
        let key = path[tables.min(path.len().saturating_sub(1))..].join(".");
        let problem = match message.rsplit_once(", expected ") {
            Some((found, expected)) if found.starts_with("invalid ") => {
                format!(" must be {}", needed(expected))
            }
            _ if message.starts_with("must be ") => format!(" {message}"),
            _ => format!(": {message}"),
        };
        self.error(&path, &format!("{element}{key}"), &problem)
    }

    /// An error with the source of the value, or of the closest table around it.
    fn error(&self, path: &[String], label: &str, problem: &str) -> String {
        let known = (1..=path.len()).rev().find_map(|length| self.origins.get(&path[..length]));
        match known {
            Some(Origin::File(line)) => format!("{}, line {line}: {label}{problem}", self.file),
            Some(Origin::Variable(name)) => format!("{name}{problem}"),
            Some(Origin::Flag(flag)) => format!("{flag}{problem}"),
            None => format!("{label}{problem}"),
        }
    }
}

/// Adds the lines of all keys below a path.
fn add_lines(
    table: &DeTable<'_>,
    path: &[String],
    line_of: &impl Fn(usize) -> usize,
    origins: &mut BTreeMap<Vec<String>, Origin>,
) {
    for (key, value) in table {
        let path = [path, &[key.get_ref().to_string()]].concat();
        if let DeValue::Table(inner) = value.get_ref() {
            add_lines(inner, &path, line_of, origins);
        }
        origins.insert(path, Origin::File(line_of(key.span().start)));
    }
}

/// `[types.mail]`; nothing for the top of the file.
fn header(path: &[String]) -> String {
    if path.is_empty() { String::new() } else { format!("[{}]", path.join(".")) }
}

/// What the parser expects, in the words of the file's format.
fn needed(expected: &str) -> &str {
    match expected {
        "a sequence" => "a list such as [\"a\", \"b\"]",
        "a map" => "a table such as { name = \"value\" }",
        "a string" | "path string" => "text in quotes",
        "a boolean" => "true or false",
        name if name.starts_with("struct ") => "a table",
        name => name,
    }
}
