//! The state of the queue in the format of core's dump, read from Redis; for tests.

use ::redis::Value;
use fairlane_core::Micros;
use fairlane_core::kernel::{Dump, DumpValue};
use fairlane_core::queue::Settings;

use super::codec::text;
use super::connection::Connection;
use super::keys::Keys;
use crate::engine::EngineError;

const DUMP: &str = include_str!("dump.lua");

pub(super) async fn dump(connection: &Connection, keys: &Keys, now: Micros) -> Result<Dump, EngineError> {
    let mut call = ::redis::cmd("EVAL");
    call.arg(DUMP).arg(1).arg(keys.partition());
    let mut dump = Dump::default();
    for entry in items(connection.query(&call).await?)? {
        let mut entry = items(entry)?.into_iter();
        let mut next = || entry.next().ok_or_else(|| EngineError::broken("a dump entry is cut short"));
        let (key, kind, contents) = (lossy(next()?)?, text(next()?)?, next()?);
        let contents = value(&key, &kind, contents)?;
        dump.0.insert(key, contents);
    }
    Ok(dump.normalise(now))
}

fn items(value: Value) -> Result<Vec<Value>, EngineError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(EngineError::broken(format!("a dump holds {other:?} where a list belongs"))),
    }
}

fn lossy(value: Value) -> Result<String, EngineError> {
    match value {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        other => text(other),
    }
}

fn texts(value: Value) -> Result<Vec<String>, EngineError> {
    items(value)?.into_iter().map(lossy).collect()
}

fn pairs(value: Value) -> Result<Vec<(String, String)>, EngineError> {
    let flat = texts(value)?;
    Ok(flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

fn value(key: &str, kind: &str, contents: Value) -> Result<DumpValue, EngineError> {
    Ok(match kind {
        "string" => DumpValue::Text(lossy(contents)?),
        "hash" if key == "partition" => {
            let stored =
                Settings::default().fields().into_iter().map(|(field, value)| (field.to_owned(), value));
            let mut fields: std::collections::BTreeMap<String, String> = stored.collect();
            fields.extend(pairs(contents)?);
            // A machine has always had its index.
            fields.remove("indexed");
            fields.remove("version");
            DumpValue::Hash(fields)
        }
        "hash" => {
            let fields = pairs(contents)?.into_iter();
            let hidden = |field: &str| match key {
                "in-flight" => field == Keys::WIDENER,
                _ => key.starts_with("lease:") && field == "names",
            };
            DumpValue::Hash(fields.filter(|(field, _)| !hidden(field)).collect())
        }
        "list" => DumpValue::List(texts(contents)?),
        "zset" => {
            let mut members = Vec::new();
            for (member, score) in pairs(contents)? {
                let score: f64 = score.parse().map_err(|_| EngineError::broken(format!("score {score}")))?;
                members.push((score, member));
            }
            DumpValue::scored(members)
        }
        _ => {
            let mut members = texts(contents)?;
            members.sort();
            DumpValue::Set(members)
        }
    })
}
