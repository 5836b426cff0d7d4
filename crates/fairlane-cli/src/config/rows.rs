//! Everything that is configured, a row for each value.

use fairlane_engine::without_user;
use serde::Serialize;
use toml::de::{DeTable, DeValue};

use super::layers::{Laid, Origin};
use super::lists::{ServerConfig, WorkerConfig};
use super::mistakes::line_of;
use super::{DATA, Settings};
use crate::discovery;

/// What stands for a value that may be secret.
const MASK: &str = "…";
/// Keys whose values may be secret, with all that is below them.
const SECRET: [&str; 4] = ["headers", "environment", "secrets", "group_secrets"];

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// With its table: `server.listen`.
    pub key: String,
    /// As it can be written into the file.
    pub value: String,
    /// `default`, `fairlane.toml:3`, a variable or an option.
    pub origin: String,
}

/// All rows, in the order of the document.
pub fn all(
    text: &str,
    file: &str,
    engine: Option<&(String, Origin)>,
    server: &Laid<ServerConfig>,
    whole: &Laid<Settings>,
    worker: &Laid<WorkerConfig>,
) -> Vec<Row> {
    let mut rows = match engine {
        Some((url, origin)) => vec![of_engine(url, origin.shown(file))],
        None => unsaid_engine(),
    };
    rows.extend(of_table(server, file, &Origin::Default));
    rows.extend(of_table(whole, file, &Origin::Queue));
    rows.extend(of_table(worker, file, &Origin::Default));
    if let Ok(table) = DeTable::parse(text) {
        for (key, value) in table.get_ref() {
            if matches!(key.get_ref().as_ref(), "types" | "callbacks") {
                written(text, file, key.get_ref(), value.get_ref(), &mut rows);
            }
        }
    }
    rows
}

fn of_engine(url: &str, origin: String) -> Row {
    Row { key: "engine".to_owned(), value: without_user(url), origin }
}

/// Where nobody says, a server makes its queue and a worker looks for one.
fn unsaid_engine() -> Vec<Row> {
    let served = format!("dir:{DATA}");
    match discovery::unnamed() {
        DATA => vec![of_engine(&served, Origin::Default.shown(""))],
        other => vec![
            of_engine(&served, "default of serve".to_owned()),
            of_engine(other, format!("default of work, unless {DATA} holds a queue or a server runs here")),
        ],
    }
}

/// Every key of a table; what nobody has set comes from `otherwise`.
fn of_table<T>(laid: &Laid<T>, file: &str, otherwise: &Origin) -> Vec<Row> {
    let row = |setting: &super::setting::Setting<T>| {
        let origin = laid.origin(setting.key).unwrap_or(otherwise);
        let value = match origin {
            Origin::Queue => "–".to_owned(),
            _ => (setting.show)(&laid.value),
        };
        Row { key: format!("{}.{}", laid.table, setting.key), value, origin: origin.shown(file) }
    };
    laid.list.iter().map(row).collect()
}

/// What the file says below a key, as it is written there.
fn written(text: &str, file: &str, path: &str, value: &DeValue<'_>, rows: &mut Vec<Row>) {
    let DeValue::Table(table) = value else { return };
    for (key, value) in table {
        let name = key.get_ref();
        let path = format!("{path}.{name}");
        if let DeValue::Table(_) = value.get_ref()
            && !is_secret(name)
        {
            written(text, file, &path, value.get_ref(), rows);
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
            origin: Origin::File(line_of(text, span.start)).shown(file),
        });
    }
}

fn is_secret(name: &str) -> bool {
    SECRET.contains(&name)
}

/// The host of a URL: its user, path and query may hold secrets.
fn origin_of(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            format!("{}/{MASK}", without_user(&format!("{scheme}://{host}")))
        }
        None => MASK.to_owned(),
    }
}
