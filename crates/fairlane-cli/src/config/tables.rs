//! Every setting of the tables `[server]`, `[queue]` and `[worker]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use fairlane_core::queue::Settings;
use fairlane_server::ServerSettings;
use fairlane_worker::{RetryPolicy, WorkerSettings};
use serde::Deserialize;

use super::values::{
    Address, Amount, AmountOrNone, Bytes, DatabaseOrNone, DisciplineName, Field, File, Flag, Lasting,
    LevelsName, Log, Millis, Name, RateOrNone, SessionSecretOrNone, StoredBytes, Text, Time, Whole,
};
use crate::logs::LogFormat;

/// The default port of a server.
const DEFAULT_PORT: u16 = 8080;

/// The table `[server]`.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The file with the API keys.
    pub keys: Option<PathBuf>,
    /// The format of the log.
    pub log: LogFormat,
    /// The database whose outbox the dashboard shows.
    pub database: Option<Text>,
    /// The limits of the server.
    pub settings: ServerSettings,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            keys: None,
            log: LogFormat::Text,
            database: None,
            settings: ServerSettings::default(),
        }
    }
}

/// The table `[worker]`.
#[derive(Debug, Clone, Default)]
pub struct WorkerConfig {
    /// The beginning of the worker's id.
    pub name: Option<String>,
    /// The settings of the worker.
    pub settings: WorkerSettings,
}

/// A table of the file: each key with the field that it configures and the kind of its value.
macro_rules! table {
    ($(#[$attribute:meta])* $name:ident of $of:ty { $($key:ident => $($field:ident).+: $kind:ty,)* }) => {
        #[derive(Debug, Clone, Default, Deserialize)]
        $(#[$attribute])*
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($key: Option<$kind>,)*
        }

        impl Field<$of> for $name {
            fn apply(&self, to: &mut $of) {
                $(if let Some(value) = &self.$key {
                    value.apply(&mut to.$($field).+);
                })*
            }

            fn rows(key: String, of: &$of, rows: &mut Vec<(String, String)>) {
                $(<$kind>::rows(format!("{key}.{}", stringify!($key)), &of.$($field).+, rows);)*
            }
        }
    };
}

table! {
    /// The keys of `[server]`.
    ServerTable of ServerConfig {
        listen => listen: Address,
        keys => keys: File,
        log => log: Log,
        database => database: DatabaseOrNone,
        connections_max => settings.connections_max: Amount,
        address_connections_max => settings.address_connections_max: AmountOrNone,
        requests_max => settings.requests_max: Amount,
        key_requests_max => settings.key_requests_max: Amount,
        held_max => settings.held_max: Amount,
        streams_max => settings.streams_max: Amount,
        key_rate => settings.key_rate: RateOrNone,
        body_bytes_max => settings.body_bytes_max: Bytes,
        bodies_bytes_max => settings.bodies_bytes_max: Bytes,
        head_bytes_max => settings.head_bytes_max: Bytes,
        head_timeout => settings.head_timeout: Time,
        first_head_timeout => settings.first_head_timeout: Time,
        idle_timeout => settings.idle_timeout: Time,
        body_timeout => settings.body_timeout: Time,
        body_whole_timeout => settings.body_whole_timeout: Time,
        request_timeout => settings.request_timeout: Time,
        write_timeout => settings.write_timeout: Time,
        poll_max => settings.poll_max: Time,
        stream_patience => settings.stream_patience: Time,
        shutdown_grace_period => settings.shutdown_grace_period: Time,
        groups_shown_max => settings.groups_shown_max: Whole<usize>,
        session_length => settings.session_length: Time,
        session_secret => settings.session_secret: SessionSecretOrNone,
        pass_keys => settings.pass_keys: File,
        pass_ttl => settings.pass_ttl: Time,
    }
}

table! {
    /// The keys of `[queue]` and `fairlane settings set`.
    QueueTable of Settings {
        discipline => discipline: DisciplineName,
        levels => levels: LevelsName,
        rate => rate: RateOrNone,
        max_retry_count => max_retry_count: Whole<u32>,
        max_throttle_count => max_throttle_count: Whole<u32>,
        max_loss_count => max_loss_count: Whole<u32>,
        group_backlog_max => group_backlog_max: Whole<u64>,
        queue_backlog_max => queue_backlog_max: Whole<u64>,
        group_stored_bytes_max => group_stored_bytes_max: StoredBytes,
        stored_bytes_max => stored_bytes_max: StoredBytes,
        completed_retention_ms => completed_retention_ms: Millis,
        failed_retention_ms => failed_retention_ms: Millis,
        bulk_retention_ms => bulk_retention_ms: Millis,
        completed_kept_max => completed_kept_max: Whole<u64>,
        failed_kept_max => failed_kept_max: Whole<u64>,
        alpha => alpha: Whole<i64>,
        global_rps => global_rps: Whole<u64>,
        ready_queue_max_size => ready_queue_max_size: Whole<u64>,
        congestion_enabled => congestion.enabled: Flag,
        base_backoff_ms => congestion.base_backoff_ms: Millis,
        max_backoff_ms => congestion.max_backoff_ms: Millis,
        stats_retention_ms => congestion.stats_retention_ms: Millis,
    }
}

table! {
    /// The keys of `[worker]`.
    WorkerTable of WorkerConfig {
        name => name: Name,
        worker_count => settings.worker_count: Whole<usize>,
        fetch_batch_size => settings.fetch_batch_size: Whole<usize>,
        worker_timeout_ms => settings.worker_timeout: Lasting,
        job_timeout_ms => settings.job_timeout: Lasting,
        shutdown_grace_period_ms => settings.shutdown_grace_period: Lasting,
        lease_ms => settings.lease: Lasting,
        cancel_grace_period_ms => settings.cancel_grace_period: Lasting,
        retry => settings.retry: RetryTable,
        dispatch_interval_ms => settings.loops.dispatch_interval: Lasting,
        dispatch_batch_size => settings.loops.dispatch_batch_size: Whole<usize>,
        fetch_interval_ms => settings.loops.fetch_interval: Lasting,
        reclaim_interval_ms => settings.loops.reclaim_interval: Lasting,
        watch_interval_ms => settings.loops.watch_interval: Lasting,
        stuck_after_ms => settings.loops.stuck_after: Lasting,
        aggregate_interval_ms => settings.loops.aggregate_interval: Lasting,
        aggregation_lease_ms => settings.loops.aggregation_lease: Lasting,
        sweep_interval_ms => settings.loops.sweep_interval: Lasting,
        room_admit_interval_ms => settings.loops.room_admit_interval: Lasting,
        room_cleanup_interval_ms => settings.loops.room_cleanup_interval: Lasting,
    }
}

table! {
    /// The delays between attempts, of a worker, a type or callbacks.
    #[serde(expecting = "a table such as { base_ms = 1000, cap_ms = 300000 }")]
    RetryTable of RetryPolicy {
        base_ms => base: Lasting,
        cap_ms => cap: Lasting,
    }
}

/// Every key of a table with its value.
pub fn rows_of<T, F: Field<T>>(table: &str, of: &T) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    F::rows(table.to_owned(), of, &mut rows);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Counts the fields of a struct; a field that is missing in its table could not be configured.
    fn counted(what: impl Debug) -> usize {
        format!("{what:?}").matches(": ").count()
    }

    #[test]
    fn every_field_has_a_key() {
        // The fields of a rate and the names of nested structs are not keys.
        let rate = counted(ServerSettings::default().key_rate);
        let server = rows_of::<_, ServerTable>("server", &ServerConfig::default());
        assert_eq!(server.len(), counted(ServerSettings::default()) - rate + 4 - 1, "pages are tables");
        let queue = rows_of::<_, QueueTable>("queue", &Settings::default());
        assert_eq!(queue.len(), counted(Settings::default()) - 1, "congestion is a struct");
        let worker = rows_of::<_, WorkerTable>("worker", &WorkerConfig::default());
        assert_eq!(worker.len(), counted(WorkerSettings::default()) - 2 + 1, "retry and loops are structs");
    }

    #[test]
    fn every_key_is_documented_with_its_default() {
        let document = include_str!("../../../../docs/configuration.md");
        let has = |row: String| assert!(document.contains(&row), "docs/configuration.md lacks {row}");
        let name = |key: String| key.split_once('.').unwrap().1.to_owned();
        for (key, value) in rows_of::<_, ServerTable>("server", &ServerConfig::default()) {
            has(format!("| `{}` | `{value}` |", name(key)));
        }
        for (key, _) in rows_of::<_, QueueTable>("queue", &Settings::default()) {
            has(format!("`{}`", name(key)));
        }
        for (key, _) in rows_of::<_, WorkerTable>("worker", &WorkerConfig::default()) {
            has(format!("`{}`", name(key).trim_end_matches("_ms")));
        }
    }
}
