//! The scripts: expanded once, run by their digest, and sent as source if the server
//! does not have them.
//!
//! A line `--@include name` is replaced by `scripts/include/name.lua`, and the name of a limit by
//! core's constant, so that both engines share one set. A server forgets scripts on restart,
//! failover and `SCRIPT FLUSH`. Any call may therefore find its script missing, also among others
//! in flight, and then sends the source.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use ::redis::{Cmd, ErrorKind, RedisError, Script, ServerErrorKind, Value};
use fairlane_core::Trace;
use fairlane_core::limits as l;
use fairlane_core::queue::{CALLBACK_TYPE, Settings};

use super::ScriptEdit;
use super::connection::Link;
use super::startup::LAYOUT_VERSION;
use crate::observe;

macro_rules! sources {
    ($folder:literal: $($stem:literal)*) => {
        &[$(($stem, include_str!(concat!($folder, $stem, ".lua")))),*]
    };
}

const OPERATIONS: &[(&str, &str)] = sources!("scripts/":
    "enqueue" "lease" "extend" "settle" "promote" "reclaim" "set_group" "set_type" "set_queue" "admit"
    "open_bulk" "seal_bulk" "hold_bulk" "resume_bulk" "cancel_bulk" "lease_bulks" "settle_bulk" "cancel_job"
    "requeue_dead" "discard" "make_due" "sweep" "list_jobs" "explain" "audit" "remove_type"
    "inspect_job" "inspect_group" "inspect_type" "inspect_bulk" "inspect_congestion" "inspect_queue" "list_groups"
    "list_bulks" "list_snapshots");
const INCLUDES: &[(&str, &str)] = sources!("scripts/include/":
    "base" "rate" "lane" "write" "order" "waiting" "clamp" "downstream" "gate" "answer" "pick" "wake_after_lease" "end_lease"
    "purge" "bytes" "bulk" "finish_job" "clear" "congestion" "serve" "round_robin" "views" "pages" "locate_job"
    "match" "recount" "recount_bytes" "mend" "checks" "scan" "scan_groups" "idle" "add_jobs");

struct Source {
    code: String,
    digest: String,
}

/// All scripts by stem.
pub(super) struct Scripts(HashMap<&'static str, Source>);

/// The unmodified scripts: expanded and digested once per process, and shared by all engines.
static SHIPPED: LazyLock<Arc<Scripts>> = LazyLock::new(|| Arc::new(Scripts::expand(None)));

impl Scripts {
    pub fn new(edit: Option<ScriptEdit>) -> Arc<Self> {
        if edit.is_none() { SHIPPED.clone() } else { Arc::new(Self::expand(edit)) }
    }

    fn expand(edit: Option<ScriptEdit>) -> Self {
        let expand = |(stem, source): &(&'static str, &str)| {
            let mut code = expanded(source);
            if let Some(edit) = edit {
                code = edit(stem, &code);
            }
            let digest = Script::new(&code).get_hash().to_owned();
            (*stem, Source { code, digest })
        };
        Self(OPERATIONS.iter().map(expand).collect())
    }

    /// Runs a script on the partition at `key`.
    pub async fn run(
        &self,
        link: &Link,
        stem: &'static str,
        key: &str,
        arguments: &[Vec<u8>],
    ) -> Result<Value, RedisError> {
        let source = self.0.get(stem).expect("every operation has a script");
        let by_digest = call("EVALSHA", &source.digest, key, arguments);
        let reply = match link.query_raw(&by_digest).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                observe::script_resent(stem);
                link.query_raw(&call("EVAL", &source.code, key, arguments)).await
            }
            reply => reply,
        };
        if reply.is_ok() {
            link.met();
        }
        reply
    }
}

/// Whether a script has refused a partition without our layout's version.
pub(super) fn is_other_layout(error: &RedisError) -> bool {
    error.code() == Some("LAYOUT")
}

fn call(command: &str, script: &str, key: &str, arguments: &[Vec<u8>]) -> Cmd {
    let mut cmd = ::redis::cmd(command);
    cmd.arg(script).arg(1).arg(key);
    for argument in arguments {
        cmd.arg(argument.as_slice());
    }
    cmd
}

/// A script with its includes and the values of its limits. The first line stays first, because it
/// carries the flags.
fn expanded(source: &str) -> String {
    let mut code = String::new();
    for line in source.lines() {
        match line.strip_prefix("--@include ") {
            Some(name) => code.push_str(included(name)),
            None => {
                code.push_str(line);
                code.push('\n');
            }
        }
    }
    with_limits(&code)
}

fn included(name: &str) -> &'static str {
    let found = INCLUDES.iter().find(|(stem, _)| *stem == name);
    found.expect("every include is listed").1
}

/// Replaces the name of each limit by its value. Locals would be slower: a function that uses one
/// captures it each time a script runs, which dominates the cost of a short script.
fn with_limits(code: &str) -> String {
    let limits: HashMap<&str, String> = limits().into_iter().collect();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut whole = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(is_word) {
        let (before, from_word) = rest.split_at(start);
        let (word, after) = from_word.split_at(from_word.find(|c| !is_word(c)).unwrap_or(from_word.len()));
        whole.push_str(before);
        whole.push_str(limits.get(word).map_or(word, String::as_str));
        rest = after;
    }
    whole.push_str(rest);
    whole
}

fn limits() -> Vec<(&'static str, String)> {
    let number = |value: u64| value.to_string();
    let count = |value: usize| value.to_string();
    // Fields of the partition with a default other than 0; text values are never numbers.
    let mut defaults =
        vec!["bucket = '0:0'".to_owned(), "cursor = ''".to_owned(), "window = '0:0'".to_owned()];
    for (field, value) in Settings::default().fields() {
        let number = value.bytes().all(|byte| byte.is_ascii_digit());
        defaults.push(if number { format!("{field} = {value}") } else { format!("{field} = '{value}'") });
    }
    let defaults = defaults.join(", ");
    vec![
        ("MILLI", number(l::MILLI)),
        ("UNITS", number(l::UNITS)),
        ("QUANTUM", number(l::QUANTUM)),
        ("CREDIT", number(l::CREDIT)),
        ("POOL_SERVED", number(l::POOL_SERVED)),
        ("POOL_FULL", number(l::POOL * l::POOL_SERVED)),
        ("HIGH_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[0])),
        ("NORMAL_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[1])),
        ("LOW_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[2])),
        ("DEFAULTS", format!("{{{defaults}}}")),
        ("LAYOUT_VERSION", LAYOUT_VERSION.to_owned()),
        ("TYPES_MAX", count(l::TYPES_MAX)),
        ("CALLBACK_TYPE", format!("'{CALLBACK_TYPE}'")),
        ("REMOVE_TYPE_LANES_MAX", count(l::REMOVE_TYPE_LANES_MAX)),
        ("TOKENS_MAX", count(l::TOKENS_MAX)),
        ("CLAMPS_MAX", count(l::CLAMPS_MAX)),
        ("LEASE_PROMOTES_MAX", count(l::LEASE_PROMOTES_MAX)),
        ("LEASE_WAKES_MAX", count(l::LEASE_WAKES_MAX)),
        ("LEASE_PARKS_MAX", count(l::LEASE_PARKS_MAX)),
        ("PURGED_CHUNKS_MAX", count(l::PURGED_CHUNKS_MAX)),
        ("LEASE_SKIPS_MAX", count(l::LEASE_SKIPS_MAX)),
        ("VISIT_SKIPS_MAX", count(l::VISIT_SKIPS_MAX)),
        ("LEASE_BYTES_MAX", count(l::LEASE_BYTES_MAX)),
        ("PURGED_DEAD_MAX", count(l::PURGED_DEAD_MAX)),
        ("SWEEP_BULKS_MAX", count(l::SWEEP_BULKS_MAX)),
        ("SWEEP_LANES_MAX", count(l::SWEEP_LANES_MAX)),
        ("SWEEP_GROUPS_MAX", count(l::SWEEP_GROUPS_MAX)),
        ("GROUP_IDLE_US", number(l::GROUP_IDLE_MS * 1000)),
        ("LEASE_BULKS_MAX", count(l::LEASE_BULKS_MAX)),
        ("GROUP_BULKS_MAX", count(l::GROUP_BULKS_MAX)),
        ("PROGRESS_JOBS_MAX", number(l::PROGRESS_JOBS_MAX)),
        ("LIST_BYTES_MAX", count(l::LIST_BYTES_MAX)),
        ("LIST_STRIDE", number(l::LIST_STRIDE)),
        ("EXPLAIN_SCAN_MAX", count(l::EXPLAIN_SCAN_MAX)),
        ("BOOST_MAX", l::BOOST_MAX.to_string()),
        ("SCORE_CENTRE", l::SCORE_CENTRE.to_string()),
        ("PARK_US_MAX", number(l::PARK_MS_MAX * 1000)),
        ("LEASE_US_MAX", number(l::LEASE_MS_MAX * 1000)),
        ("TIMER_BACKSTOP_US", number(l::TIMER_BACKSTOP_MS * 1000)),
        ("RETRY_AFTER_US_MAX", number(l::RETRY_AFTER_MS_MAX * 1000)),
        ("RECLAIM_STALE_US", number(l::RECLAIM_STALE_MS * 1000)),
        ("RECLAIM_GRACE_US", number(l::RECLAIM_GRACE_MS * 1000)),
        ("BURST_US", number(l::BURST_US)),
        ("AUDIT_ENTRIES_MAX", count(l::AUDIT_ENTRIES_MAX)),
        ("AUDIT_STEP_ENTRIES", count(l::AUDIT_STEP_ENTRIES)),
        ("AUDIT_PASSED_MAX", count(l::AUDIT_PASSED_MAX)),
        ("AUDIT_BYTES_MAX", count(l::AUDIT_BYTES_MAX)),
        ("AUDIT_LEASE_US", number(l::AUDIT_LEASE_MS * 1000)),
        ("VIRTUAL_TIME_HIGH", number(l::VIRTUAL_TIME_HIGH)),
        ("RATE_COUNT_MAX", number(l::RATE_COUNT_MAX)),
        ("CUT_RATE_MILLI_MIN", number(l::CUT_RATE_MILLI_MIN)),
        ("CUBIC_DIVISOR", number(l::CUBIC_DIVISOR)),
        ("CUBIC_MS_MAX", number(l::CUBIC_MS_MAX)),
        ("GOODPUT_BUCKETS", count(l::GOODPUT_BUCKETS)),
        ("GOODPUT_BUCKET_MS", number(l::GOODPUT_BUCKET_MS)),
        ("TRACE_BYTES", count(Trace::PACKED_BYTES)),
        // A run that was never settled: no fence, no time.
        ("ZEROS", format!("'{}'", "0".repeat(32))),
    ]
}

/// The names of all commands in the sources: quoted words in capitals, wherever they are, because
/// some are passed as arguments. Words that are not commands are in one of the two lists.
#[cfg(test)]
pub(super) fn commands_of_all_scripts() -> std::collections::BTreeSet<String> {
    const OPTIONS: &[&str] = &["COUNT", "MATCH", "WITHSCORES", "BYSCORE", "BYLEX", "LIMIT", "REV", "RANK"];
    const STATES: &[&str] =
        &["AGGREGATING", "CANCELLED", "COMPLETED", "CREATED", "DISPATCHED", "FAILED", "RUNNING", "RSP"];
    let sources = OPERATIONS.iter().chain(INCLUDES).flat_map(|(_, source)| source.lines());
    let code = sources.filter(|line| !line.trim_start().starts_with("--"));
    let words = code.flat_map(|line| line.split('\'').skip(1).step_by(2));
    let is_command = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    words
        .filter(is_command)
        .filter(|word| !OPTIONS.contains(word) && !STATES.contains(word))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_keeps_its_flags_first_and_leaves_no_include_behind() {
        for (stem, source) in OPERATIONS {
            let code = expanded(source);
            assert!(code.starts_with("#!lua"), "{stem}");
            assert!(!code.contains("--@include"), "{stem}");
        }
    }
}
