//! Every setting of the tables `[server]`, `[queue]` and `[worker]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use fairlane_core::queue::Settings;
use fairlane_server::ServerSettings;
use fairlane_worker::WorkerSettings;

use super::setting::{Setting, kinds, settings};
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
    /// The limits of the server.
    pub settings: ServerSettings,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            keys: None,
            log: LogFormat::Text,
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

/// The settings of `[server]`.
pub const SERVER: &[Setting<ServerConfig>] = settings! {
    "listen" => listen: address,
    "keys" => keys: file,
    "log" => log: log,
    "connections_max" => settings.connections_max: amount,
    "address_connections_max" => settings.address_connections_max: amount_or_none,
    "requests_max" => settings.requests_max: amount,
    "key_requests_max" => settings.key_requests_max: amount,
    "held_max" => settings.held_max: amount,
    "streams_max" => settings.streams_max: amount,
    "key_rate" => settings.key_rate: rate,
    "body_bytes_max" => settings.body_bytes_max: bytes,
    "bodies_bytes_max" => settings.bodies_bytes_max: bytes,
    "head_bytes_max" => settings.head_bytes_max: bytes,
    "head_timeout" => settings.head_timeout: time,
    "first_head_timeout" => settings.first_head_timeout: time,
    "idle_timeout" => settings.idle_timeout: time,
    "body_timeout" => settings.body_timeout: time,
    "body_whole_timeout" => settings.body_whole_timeout: time,
    "request_timeout" => settings.request_timeout: time,
    "write_timeout" => settings.write_timeout: time,
    "poll_max" => settings.poll_max: time,
    "stream_patience" => settings.stream_patience: time,
    "shutdown_grace_period" => settings.shutdown_grace_period: time,
    "groups_shown_max" => settings.groups_shown_max: number,
};

/// The settings of `[queue]` and `fairlane settings set`.
pub const QUEUE: &[Setting<Settings>] = settings! {
    "discipline" => discipline: discipline,
    "levels" => levels: levels,
    "rate" => rate: rate,
    "max_retry_count" => max_retry_count: number,
    "max_throttle_count" => max_throttle_count: number,
    "max_loss_count" => max_loss_count: number,
    "group_backlog_max" => group_backlog_max: number,
    "whole_backlog_max" => whole_backlog_max: number,
    "group_stored_bytes_max" => group_stored_bytes_max: stored_bytes,
    "stored_bytes_max" => stored_bytes_max: stored_bytes,
    "completed_retention_ms" => completed_retention_ms: millis,
    "failed_retention_ms" => failed_retention_ms: millis,
    "bulk_retention_ms" => bulk_retention_ms: millis,
    "completed_kept_max" => completed_kept_max: number,
    "failed_kept_max" => failed_kept_max: number,
    "alpha" => alpha: number,
    "global_rps" => global_rps: number,
    "ready_queue_max_size" => ready_queue_max_size: number,
    "congestion_enabled" => congestion.enabled: flag,
    "base_backoff_ms" => congestion.base_backoff_ms: millis,
    "max_backoff_ms" => congestion.max_backoff_ms: millis,
    "stats_retention_ms" => congestion.stats_retention_ms: millis,
};

/// The settings of `[worker]`.
pub const WORKER: &[Setting<WorkerConfig>] = settings! {
    "name" => name: name,
    "worker_count" => settings.worker_count: number,
    "fetch_batch_size" => settings.fetch_batch_size: number,
    "worker_timeout_ms" => settings.worker_timeout: lasting,
    "job_timeout_ms" => settings.job_timeout: lasting,
    "shutdown_grace_period_ms" => settings.shutdown_grace_period: lasting,
    "lease_ms" => settings.lease: lasting,
    "cancel_grace_period_ms" => settings.cancel_grace_period: lasting,
    "retry.base_ms" => settings.retry.base: lasting,
    "retry.cap_ms" => settings.retry.cap: lasting,
    "dispatch_interval_ms" => settings.loops.dispatch_interval: lasting,
    "dispatch_batch_size" => settings.loops.dispatch_batch_size: number,
    "fetch_interval_ms" => settings.loops.fetch_interval: lasting,
    "reclaim_interval_ms" => settings.loops.reclaim_interval: lasting,
    "watch_interval_ms" => settings.loops.watch_interval: lasting,
    "stuck_after_ms" => settings.loops.stuck_after: lasting,
    "aggregate_interval_ms" => settings.loops.aggregate_interval: lasting,
    "aggregation_lease_ms" => settings.loops.aggregation_lease: lasting,
    "sweep_interval_ms" => settings.loops.sweep_interval: lasting,
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Counts the fields of a struct; a field that is missing in its list could not be configured.
    fn counted(what: impl Debug) -> usize {
        format!("{what:?}").matches(": ").count()
    }

    #[test]
    fn every_field_has_a_key() {
        // The fields of a rate and the names of nested structs are not keys.
        let rate = counted(ServerSettings::default().key_rate);
        assert_eq!(SERVER.len(), counted(ServerSettings::default()) - rate + 3);
        assert_eq!(QUEUE.len(), counted(Settings::default()) - 1, "congestion is a struct");
        assert_eq!(WORKER.len(), counted(WorkerSettings::default()) - 2 + 1, "retry and loops are structs");
    }

    #[test]
    fn every_key_is_documented_with_its_default() {
        let document = include_str!("../../../../docs/configuration.md");
        let has = |row: String| assert!(document.contains(&row), "docs/configuration.md lacks {row}");
        let server = ServerConfig::default();
        for setting in SERVER {
            has(format!("| `{}` | `{}` |", setting.key, (setting.show)(&server)));
        }
        for setting in QUEUE {
            has(format!("`{}`", setting.key));
        }
        for setting in WORKER {
            has(format!("`{}`", setting.key.trim_end_matches("_ms")));
        }
    }
}
