//! Requests to the server besides the scripts: on connecting, the version of the layout and
//! settings that operators should know about; later, its memory use.

use ::redis::Value;

use super::codec::text;
use super::connection::{Connection, Link};
use super::keys::Keys;
use crate::engine::{EngineError, Space};

/// The version of the key layout that this program reads and writes.
pub(super) const LAYOUT_VERSION: &str = "6";
/// Bytes of a value longer than `hash-max-listpack-value`, which is 64 unless an
/// operator raised it.
const WIDENER_BYTES: usize = 512;

/// Refuses a store with another layout, and one with data but without a version, to which an older
/// program has written since it was emptied. Returns true if the store has our layout, false if it
/// is new. Read-only.
pub(super) async fn check_layout(link: &Link, keys: &Keys) -> Result<bool, EngineError> {
    let mut read = ::redis::cmd("HGET");
    read.arg(keys.partition()).arg("version");
    let mut found = link.query(&read).await?;
    if found == Value::Nil {
        let mut exists = ::redis::cmd("EXISTS");
        exists.arg(keys.partition());
        if link.query(&exists).await? == Value::Int(0) {
            return Ok(false);
        }
        // Another client may have marked the store between the two commands.
        found = link.query(&read).await?;
    }
    match found {
        Value::Nil => Err(EngineError::broken(other_layout("none", keys.prefix()))),
        found => match text(found)? {
            found if found == LAYOUT_VERSION => Ok(true),
            found => Err(EngineError::broken(other_layout(&found, keys.prefix()))),
        },
    }
}

/// Marks a new store with our layout's version, and refuses a store with another. A marked store is
/// only read, because a full one accepts no writes.
pub(super) async fn mark_layout(link: &Link, keys: &Keys) -> Result<(), EngineError> {
    if !check_layout(link, keys).await? {
        let mut mark = ::redis::cmd("HSETNX");
        mark.arg(keys.partition()).arg("version").arg(LAYOUT_VERSION);
        link.query(&mark).await?;
        check_layout(link, keys).await?;
    }
    widen_in_flight(link, keys).await
}

/// Fails like a write would. The field exists, so nothing is changed. The server still refuses the
/// command while it is a replica, is out of memory, cannot save or has too few replicas.
pub(super) async fn check_writes(connection: &Connection, keys: &Keys) -> Result<(), EngineError> {
    check_layout(&connection.link().await?, keys).await?;
    let mut mark = ::redis::cmd("HSETNX");
    mark.arg(keys.partition()).arg("version").arg(LAYOUT_VERSION);
    connection.query(&mark).await.map(drop)
}

/// A message with both versions and advice. Data of an older layout is not converted; the program
/// that wrote it drains it.
fn other_layout(found: &str, prefix: &str) -> String {
    let known = format!(
        "the data under {prefix} has layout version {found}, this program reads version {LAYOUT_VERSION}"
    );
    if !is_older(found) {
        return format!("{known}; use the program that wrote it, or another key prefix");
    }
    format!(
        "{known}; drain it with the program that wrote it: stop the producers, run workers until \
         `fairlane status` counts no waiting and no running jobs, stop the workers, and delete the keys that \
         begin with {prefix}; or use another key prefix"
    )
}

/// Whether this is the version of an older layout.
pub(super) fn is_older(version: &str) -> bool {
    version.parse::<u32>().is_ok_and(|version| version < LAYOUT_VERSION.parse().unwrap_or(0))
}

/// Redis keeps a small hash as a flat list, which is searched from the start, until a value is
/// long. One long value, under a name that no job can have, makes every lookup of a leased job fast
/// from the beginning.
async fn widen_in_flight(link: &Link, keys: &Keys) -> Result<(), EngineError> {
    let mut has = ::redis::cmd("HEXISTS");
    has.arg(keys.in_flight()).arg(Keys::WIDENER);
    if link.query(&has).await? == Value::Int(1) {
        return Ok(());
    }
    let mut set = ::redis::cmd("HSETNX");
    set.arg(keys.in_flight()).arg(Keys::WIDENER).arg("-".repeat(WIDENER_BYTES));
    link.query(&set).await?;
    Ok(())
}

/// Warnings about settings that weaken guarantees. None for a server that does not
/// reveal its settings.
pub(super) async fn warnings(connection: &Connection) -> Result<Vec<String>, EngineError> {
    let mut warnings = Vec::new();
    if let Some(policy) = setting(connection, "maxmemory-policy").await
        && policy != "noeviction"
    {
        warnings.push(format!(
            "maxmemory-policy is {policy}: Redis may drop jobs when memory is full; set it to noeviction"
        ));
    }
    let appendonly = setting(connection, "appendonly").await;
    let fsync = setting(connection, "appendfsync").await;
    match (appendonly.as_deref(), fsync.as_deref()) {
        (Some("no"), _) => warnings.push(
            "appendonly is off: a crash of Redis loses what is not in its last snapshot; set appendonly yes"
                .into(),
        ),
        (Some("yes"), Some("everysec")) => warnings.push(
            "appendfsync is everysec: a crash of Redis can lose up to a second; always loses nothing".into(),
        ),
        _ => {}
    }
    if setting(connection, "maxmemory").await.is_some_and(|limit| limit == "0") {
        warnings.push(
            "maxmemory is 0: Redis grows until the machine is out of memory and the kernel ends it; set maxmemory \
             below the memory of the machine, so that enqueues are refused in time"
                .into(),
        );
    }
    Ok(warnings)
}

/// The memory use and `maxmemory` of the server with the partition; `None` without a limit. A
/// script reads them, because it runs on the right server of a cluster.
pub(super) async fn space(connection: &Connection, keys: &Keys) -> Result<Option<Space>, EngineError> {
    let mut ask = ::redis::cmd("EVAL");
    ask.arg("#!lua flags=no-writes\nreturn redis.call('INFO', 'memory')").arg(1).arg(keys.partition());
    let info = text(connection.query(&ask).await?)?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let (used, limit) = (field("used_memory"), field("maxmemory").filter(|limit| *limit > 0));
    Ok(used.zip(limit).map(|(used_bytes, limit_bytes)| Space { used_bytes, limit_bytes }))
}

async fn setting(connection: &Connection, name: &str) -> Option<String> {
    let mut get = ::redis::cmd("CONFIG");
    get.arg("GET").arg(name);
    let value = match connection.query(&get).await.ok()? {
        Value::Array(items) => items.into_iter().nth(1)?,
        Value::Map(pairs) => pairs.into_iter().next()?.1,
        _ => return None,
    };
    text(value).ok()
}
