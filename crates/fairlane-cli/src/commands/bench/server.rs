//! The counters of a Redis server.
//!
//! Reads counters before and after a turn and subtracts them. Resets nothing, because other clients
//! may monitor the counters.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};

use crate::failure::Failure;

/// How often the server is polled until it has freed unlinked keys …
const FREES_POLLED_MAX: usize = 600;
/// … and how far apart.
const FREES_POLL: std::time::Duration = std::time::Duration::from_millis(50);

/// Commands that scripts do not call: they come from clients, or from this measurement.
const NOT_CALLED_BY_SCRIPTS: [&str; 18] = [
    "fcall", "evalsha", "eval", "function", "script", "info", "latency", "config", "ping", "hello", "client",
    "select", "auth", "command", "scan", "blpop", "role", "cluster",
];
/// Commands that run a function or a script.
const SCRIPT_COMMANDS: [&str; 3] = ["fcall", "evalsha", "eval"];
/// Commands of the plain list, which has no script.
const LIST_COMMANDS: [&str; 2] = ["lpush", "rpop"];

/// A server whose counters can be read.
pub struct Server(MultiplexedConnection);

/// The counters at one moment.
pub struct Reading {
    script_us: u64,
    list_us: u64,
    calls: u64,
    cpu_us: f64,
    script_times: ScriptTimes,
}

/// What was spent between two readings.
pub struct Spent {
    /// Time in scripts.
    pub script_us: u64,
    /// Time in commands of the plain list.
    pub list_us: u64,
    /// Number of commands called by scripts.
    pub calls: u64,
    /// Processor time of the main thread.
    pub cpu_us: f64,
    /// Durations of script calls.
    pub script_times: ScriptTimes,
}

/// A histogram of the durations of script calls: the upper end of each bucket in microseconds, and
/// its number of calls.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ScriptTimes(BTreeMap<u64, u64>);

impl Server {
    /// Reads the counters over this connection.
    pub fn new(connection: MultiplexedConnection) -> Self {
        Self(connection)
    }

    /// The counters now.
    pub async fn read(&self) -> Result<Reading, Failure> {
        let mut connection = self.0.clone();
        let cpu: String = redis::cmd("INFO").arg("cpu").query_async(&mut connection).await?;
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
        let mut latency = redis::cmd("LATENCY");
        latency.arg("HISTOGRAM").arg(&SCRIPT_COMMANDS);
        let times: Value = latency.query_async(&mut connection).await?;
        Ok(Reading::parse(&cpu, &stats, ScriptTimes::parse(times).unwrap_or_default()))
    }

    /// Bytes that the server has allocated, after it has freed unlinked keys.
    pub async fn used_memory_bytes(&self) -> Result<u64, Failure> {
        let mut connection = self.0.clone();
        for _ in 0..FREES_POLLED_MAX {
            let memory: String = redis::cmd("INFO").arg("memory").query_async(&mut connection).await?;
            if field(&memory, "lazyfree_pending_objects").unwrap_or(0.0) == 0.0 {
                return Ok(field(&memory, "used_memory").unwrap_or(0.0) as u64);
            }
            tokio::time::sleep(FREES_POLL).await;
        }
        Err(Failure::broken("the server is still freeing memory of removed keys; try again later"))
    }
}

impl Reading {
    fn parse(cpu: &str, stats: &str, script_times: ScriptTimes) -> Self {
        let cpu_s = ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"];
        let cpu_us = cpu_s.into_iter().filter_map(|name| field(cpu, name)).sum::<f64>() * 1e6;
        let mut reading = Self { script_us: 0, list_us: 0, calls: 0, cpu_us, script_times };
        for (command, calls, us) in stats.lines().filter_map(command_stat) {
            if SCRIPT_COMMANDS.contains(&command) {
                reading.script_us += us;
            }
            if LIST_COMMANDS.contains(&command) {
                reading.list_us += us;
            }
            if !NOT_CALLED_BY_SCRIPTS.contains(&command) {
                reading.calls += calls;
            }
        }
        reading
    }

    /// The cost since an earlier reading.
    pub fn since(self, before: &Self) -> Spent {
        Spent {
            script_us: self.script_us.saturating_sub(before.script_us),
            list_us: self.list_us.saturating_sub(before.list_us),
            calls: self.calls.saturating_sub(before.calls),
            cpu_us: self.cpu_us - before.cpu_us,
            script_times: self.script_times.since(&before.script_times),
        }
    }
}

impl ScriptTimes {
    /// Parses the server's reply: by command, pairs of a bucket's upper end and the cumulative number
    /// of calls.
    fn parse(reply: Value) -> Option<Self> {
        let by_command = BTreeMap::<String, BTreeMap<String, Value>>::from_redis_value(reply).ok()?;
        let times = by_command.into_values().filter_map(|mut command| command.remove("histogram_usec"));
        Some(times.filter_map(Self::of_command).fold(Self::default(), |sum, times| sum.merge(&times)))
    }

    fn of_command(buckets: Value) -> Option<Self> {
        let up_to = BTreeMap::<u64, u64>::from_redis_value(buckets).ok()?;
        let mut before = 0;
        let counts = up_to.into_iter().map(|(us, calls)| {
            let count = calls - before;
            before = calls;
            (us, count)
        });
        Some(Self(counts.collect()))
    }

    fn since(&self, before: &Self) -> Self {
        let earlier = |us: &u64| before.0.get(us).copied().unwrap_or(0);
        Self(self.0.iter().map(|(us, count)| (*us, count.saturating_sub(earlier(us)))).collect())
    }

    /// Adds the calls of another histogram.
    pub fn merge(mut self, other: &Self) -> Self {
        for (us, count) in &other.0 {
            *self.0.entry(*us).or_default() += count;
        }
        self
    }

    /// The duration that `per_mille` thousandths of the calls do not exceed; `None` without calls.
    pub fn per_mille_us(&self, per_mille: u64) -> Option<u64> {
        let total: u64 = self.0.values().sum();
        let rank = (total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|(us, count)| {
            seen += count;
            (seen >= rank).then_some(*us)
        })
    }
}

fn field(info: &str, name: &str) -> Option<f64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

/// Parses `cmdstat_get:calls=1,usec=2,…`; a subcommand (`script|load`) counts as its command.
fn command_stat(line: &str) -> Option<(&str, u64, u64)> {
    let (name, values) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let value = |name: &str| {
        values
            .split(',')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
            .and_then(|n| n.parse().ok())
    };
    let command = name.split('|').next()?;
    Some((command, value("calls")?, value("usec")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "# Commandstats\r\n\
        cmdstat_evalsha:calls=2,usec=500,usec_per_call=250.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_fcall:calls=2,usec=100,usec_per_call=50.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_function|load:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_script|load:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_rpush:calls=3,usec=4,usec_per_call=1.33,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_lpush:calls=5,usec=7,usec_per_call=1.40,rejected_calls=0,failed_calls=0\r\n";

    #[test]
    fn scripts_and_their_commands_are_counted_separately() {
        let cpu = "used_cpu_user_main_thread:1.5\r\nused_cpu_sys_main_thread:0.5\r\n";
        let reading = Reading::parse(cpu, STATS, ScriptTimes::default());
        assert_eq!((reading.script_us, reading.list_us, reading.calls), (600, 7, 8));
        assert!((reading.cpu_us - 2e6).abs() < 1.0);
    }

    #[test]
    fn script_times_are_those_between_two_readings() {
        let times = |pairs: &[(u64, u64)]| ScriptTimes(pairs.iter().copied().collect());
        let spent = times(&[(4, 10), (8, 995), (64, 10)]).since(&times(&[(4, 10), (64, 5)]));
        assert_eq!(spent, times(&[(4, 0), (8, 995), (64, 5)]));
        assert_eq!(spent.per_mille_us(500), Some(8));
        assert_eq!(spent.per_mille_us(999), Some(64));
        assert_eq!(ScriptTimes::default().per_mille_us(999), None);
    }
}
