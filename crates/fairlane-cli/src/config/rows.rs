//! The configuration as rows, one per value.

use fairlane_engine::without_user;
use serde::Serialize;
use toml::de::{DeTable, DeValue};

use super::errors::line_of;
use super::layers::{Merged, Origin};
use super::lists::{ServerConfig, WorkerConfig};
use super::{DATA, Settings};
use crate::discovery;

/// Replaces a value that may be secret.
const MASK: &str = "…";
/// Keys whose values, including nested ones, may be secret.
const SECRET: [&str; 4] = ["headers", "environment", "secrets", "group_secrets"];

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
    file: &str,
    engine: Option<&(String, Origin)>,
    server: &Merged<ServerConfig>,
    queue: &Merged<Settings>,
    worker: &Merged<WorkerConfig>,
) -> Vec<Row> {
    let mut rows = match engine {
        Some((url, origin)) => vec![engine_row(url, origin.label(file))],
        None => default_engine(),
    };
    rows.extend(table_rows(server, file, &Origin::Default));
    rows.extend(table_rows(queue, file, &Origin::Queue));
    rows.extend(table_rows(worker, file, &Origin::Default));
    if let Ok(table) = DeTable::parse(text) {
        for (key, value) in table.get_ref() {
            if matches!(key.get_ref().as_ref(), "types" | "callbacks") {
                add_file_rows(text, file, key.get_ref(), value.get_ref(), &mut rows);
            }
        }
    }
    rows
}

fn engine_row(url: &str, origin: String) -> Row {
    Row { key: "engine".to_owned(), value: without_user(url), origin }
}

/// The default addresses: a server creates its queue, a worker searches for one.
fn default_engine() -> Vec<Row> {
    let served = format!("dir:{DATA}");
    match discovery::local() {
        DATA => vec![engine_row(&served, Origin::Default.label(""))],
        other => vec![
            engine_row(&served, "default of serve".to_owned()),
            engine_row(
                other,
                format!("default of work, unless {DATA} contains a queue or a server runs here"),
            ),
        ],
    }
}

/// Every key of a table; values that are not configured come from `otherwise`.
fn table_rows<T>(merged: &Merged<T>, file: &str, otherwise: &Origin) -> Vec<Row> {
    let row = |setting: &super::setting::Setting<T>| {
        let origin = merged.origin(setting.key).unwrap_or(otherwise);
        let value = match origin {
            Origin::Queue => "–".to_owned(),
            _ => (setting.show)(&merged.value),
        };
        Row { key: format!("{}.{}", merged.table, setting.key), value, origin: origin.label(file) }
    };
    merged.list.iter().map(row).collect()
}

/// Appends the values below a key as they are written in the file.
fn add_file_rows(text: &str, file: &str, path: &str, value: &DeValue<'_>, rows: &mut Vec<Row>) {
    let DeValue::Table(table) = value else { return };
    for (key, value) in table {
        let name = key.get_ref();
        let path = format!("{path}.{name}");
        if let DeValue::Table(_) = value.get_ref()
            && !is_secret(name)
        {
            add_file_rows(text, file, &path, value.get_ref(), rows);
            continue;
        }
        let span = value.span();
        let shown = match name.as_ref() {
            name if is_secret(name) => MASK.to_owned(),
            "http" => value.get_ref().as_str().map_or(MASK.to_owned(), origin_of),
            _ => text[span.clone()].trim_matches('"').to_owned(),
        };
        rows.push(Row {
            key: path,
            value: shown,
            origin: Origin::File(line_of(text, span.start)).label(file),
        });
    }
}

fn is_secret(name: &str) -> bool {
    SECRET.contains(&name)
}

/// The scheme and host of a URL; its user, path and query may be secret.
fn origin_of(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            format!("{}/{MASK}", without_user(&format!("{scheme}://{host}")))
        }
        None => MASK.to_owned(),
    }
}
