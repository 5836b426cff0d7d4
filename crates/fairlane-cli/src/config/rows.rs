//! The configuration as rows, one per value.

use fairlane_core::queue::Settings;
use fairlane_engine::without_user;
use serde::Serialize;
use toml::de::{DeTable, DeValue};

use super::DATA;
use super::sources::Sources;
use super::tables::{QueueTable, ServerConfig, ServerTable, WorkerConfig, WorkerTable, rows_of};
use crate::discovery;

/// Replaces a value that may be secret.
const MASK: &str = "…";
/// Keys whose values, including nested ones, may be secret.
const SECRET: [&str; 4] = ["headers", "environment", "secrets", "group_secrets"];

/// The source of a value that is not configured.
const DEFAULT: &str = "default";
/// The source of a setting that is not configured, which the queue keeps.
const STORED: &str = "stored in the queue";

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The key with its table: `server.listen`.
    pub key: String,
    /// The value as it can be written into the file.
    pub value: String,
    /// The source: `default`, `fairlane.toml:3`, a variable or an option.
    pub origin: String,
}

/// All rows, in the order of the document.
pub fn all(
    text: &str,
    sources: &Sources,
    engine: Option<&str>,
    server: &ServerConfig,
    queue: &Settings,
    worker: &WorkerConfig,
) -> Vec<Row> {
    let mut rows = match (engine, sources.label(&["engine".to_owned()])) {
        (Some(url), Some(origin)) => vec![engine_row(url, origin)],
        _ => default_engine(),
    };
    rows.extend(table_rows(sources, rows_of::<_, ServerTable>("server", server), DEFAULT));
    rows.extend(table_rows(sources, rows_of::<_, QueueTable>("queue", queue), STORED));
    rows.extend(table_rows(sources, rows_of::<_, WorkerTable>("worker", worker), DEFAULT));
    if let Ok(table) = DeTable::parse(text) {
        for (key, value) in table.get_ref() {
            if matches!(key.get_ref().as_ref(), "types" | "groups" | "callbacks" | "waiting_pages") {
                add_file_rows(text, sources, &[key.get_ref().to_string()], value.get_ref(), &mut rows);
            }
        }
    }
    rows
}

fn engine_row(url: &str, origin: impl Into<String>) -> Row {
    Row { key: "engine".to_owned(), value: without_user(url), origin: origin.into() }
}

/// The default addresses: a server creates its queue, a worker searches for one.
fn default_engine() -> Vec<Row> {
    let served = format!("dir:{DATA}");
    match discovery::local() {
        DATA => vec![engine_row(&served, DEFAULT)],
        other => {
            let searched = format!("default of work, unless {DATA} contains a queue or a server runs here");
            vec![engine_row(&served, "default of serve"), engine_row(other, searched)]
        }
    }
}

/// The rows of a table; a value that is not configured comes from `otherwise`.
fn table_rows(sources: &Sources, rows: Vec<(String, String)>, otherwise: &str) -> impl Iterator<Item = Row> {
    rows.into_iter().map(move |(key, value)| {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        match sources.label(&path) {
            Some(origin) => Row { key, value, origin },
            None if otherwise == STORED => Row { key, value: "–".to_owned(), origin: STORED.to_owned() },
            None => Row { key, value, origin: otherwise.to_owned() },
        }
    })
}

/// Appends the values below a key as they are written in the file.
fn add_file_rows(text: &str, sources: &Sources, path: &[String], value: &DeValue<'_>, rows: &mut Vec<Row>) {
    let DeValue::Table(table) = value else { return };
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let path = [path, &[name.to_owned()]].concat();
        let shown = match value.get_ref() {
            _ if SECRET.contains(&name) => MASK.to_owned(),
            DeValue::Table(_) => {
                add_file_rows(text, sources, &path, value.get_ref(), rows);
                continue;
            }
            url if name == "http" => url.as_str().map_or(MASK.to_owned(), origin_of),
            _ => text[value.span()].trim_matches('"').to_owned(),
        };
        rows.push(Row {
            key: path.join("."),
            value: shown,
            origin: sources.label(&path).unwrap_or_default(),
        });
    }
}

/// The scheme and host of a URL; its user, path and query may be secret.
fn origin_of(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return MASK.to_owned() };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{}/{MASK}", without_user(&format!("{scheme}://{host}")))
}
