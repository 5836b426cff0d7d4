//! The Lua of the engine: one function library, and one script per operation with the same code.
//!
//! Each file of `lua/<module>/` adds functions to the table of its module; private functions and
//! constants are locals of the file. `lua/<module>/ops/<operation>.lua` defines the function
//! `<module>.ops.<operation>`, and its first line has the flags of the operation. `<module>.begin`
//! makes the table `cx` with the state of one call. A function that takes `(cx, command)` gets the
//! command and returns the reply as tables with core's names; one that takes `(cx)` reads
//! `cx.arguments` and returns a flat reply; one that takes `(keys, arguments)` does without `cx`.
//! `lua/prelude.lua` has the names that all files use. The name of a limit is replaced by core's
//! constant.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use fairlane_core::Trace;
use fairlane_core::limits as l;
use fairlane_core::queue::{CALLBACK_TYPE, Settings};
use fairlane_core::room::RoomSettings;
use sha2::{Digest, Sha256};

use super::ScriptEdit;
use super::keys::DEFAULT_PREFIX;
use super::startup::{self, LAYOUT_VERSION};

/// The path of each Lua file without its extension, and its contents.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/lua.rs"));
const PRELUDE: &str = "prelude";
/// Digits of the digest in the name of the library.
const DIGEST_DIGITS: usize = 12;

/// Lanes that a lease takes out of their order at a time.
const LEASE_LANES_POPPED: usize = 16;
/// Smaller numbers are not formatted but looked up.
const SMALL_NUMBERS_END: usize = 256;
/// Average payload up to which a lease reads the jobs of a single lane in larger steps, in bytes.
const SMALL_PAYLOAD_BYTES: usize = 4096;
/// Lanes from which on an order is a skip list …
const ORDER_WIDE_LANES: usize = 16;
/// … because it had a member longer than this, the default of `zset-max-listpack-value`.
const LISTPACK_BYTES_MAX: usize = 64;

/// Entries of the activity log that are read at a time.
const ACTIVITY_PAGE: usize = 100;

/// The beginning of the names of all libraries of Fairlane; the layout's version follows.
const FAMILY: &str = "fairlane_";

/// All Lua code, ready to be sent.
pub(super) struct Library {
    /// The library. Its name, `fairlane_<layout>_<digest>`, differs for each code, so that libraries
    /// of several versions exist side by side.
    pub code: String,
    operations: HashMap<&'static str, Operation>,
    files: Vec<File>,
}

struct File {
    path: &'static str,
    code: String,
}

struct Operation {
    /// The name of its function in the library.
    function: String,
    /// The index of its file.
    file: usize,
    script: OnceLock<Script>,
}

/// The code of one operation, and the digest by which the server knows it.
pub(super) struct Script {
    pub code: String,
    pub digest: String,
}

impl Library {
    /// A pattern that matches the names of all libraries of Fairlane.
    pub const PATTERN: &str = "fairlane_*";

    /// Whether this is the name of a library for an older layout.
    pub fn is_of_older_layout(name: &str) -> bool {
        let parts = name.strip_prefix(FAMILY).and_then(|rest| rest.split_once('_'));
        parts.is_some_and(|(layout, digest)| digest.len() == DIGEST_DIGITS && startup::is_older(layout))
    }

    pub fn new(edit: Option<ScriptEdit>) -> Self {
        let limits = limits();
        let file =
            |(path, source): &(&'static str, &str)| File::new(path, with_limits(source, &limits), edit);
        let files: Vec<File> = FILES.iter().map(file).collect();
        let all: Vec<usize> = (0..files.len()).collect();
        let body = joined(&files, &all);
        let operations =
            files.iter().enumerate().filter_map(|(at, file)| Some((at, file, file.operation()?)));
        let registrations: String =
            operations.clone().map(|(_, file, stem)| file.registration(stem)).collect();
        let digest = Sha256::digest(format!("{body}{registrations}"));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{FAMILY}{LAYOUT_VERSION}_{}", &digest[..DIGEST_DIGITS]);
        let code = format!("#!lua name={name}\nlocal LIBRARY = '{name}'\n{body}{registrations}");
        let operation = |(file, _, stem)| {
            (stem, Operation { function: format!("{name}_{stem}"), file, script: OnceLock::new() })
        };
        let operations = operations.map(operation).collect();
        Self { code, operations, files }
    }

    fn operation(&self, stem: &str) -> &Operation {
        self.operations.get(stem).expect("every operation has a Lua file")
    }

    /// The name of the function of an operation.
    pub fn function(&self, stem: &str) -> &str {
        &self.operation(stem).function
    }

    /// The same operation as a script, with the files that it needs.
    pub fn script(&self, stem: &str) -> &Script {
        let operation = self.operation(stem);
        operation.script.get_or_init(|| {
            let file = &self.files[operation.file];
            let body = joined(&self.files, &self.needed_by(operation.file));
            let (flags, call) = (file.flags().join(","), file.call(stem, "KEYS, ARGV"));
            let code = format!("#!lua flags={flags}\n{body}return {call}\n");
            let digest = ::redis::Script::new(&code).get_hash().to_owned();
            Script { code, digest }
        })
    }

    /// The files with the functions that a file uses, itself included.
    fn needed_by(&self, file: usize) -> Vec<usize> {
        let all = self.files.iter().enumerate();
        let definitions: HashMap<&str, usize> =
            all.flat_map(|(at, file)| file.defines().map(move |name| (name, at))).collect();
        let begin = format!("{}.begin", self.files[file].module());
        let (mut needed, mut names) = (BTreeSet::from([file]), vec![begin.as_str()]);
        names.extend(self.files[file].uses());
        while let Some(name) = names.pop() {
            if let Some(found) = definitions.get(name).filter(|found| needed.insert(**found)) {
                names.extend(self.files[*found].uses());
            }
        }
        needed.into_iter().collect()
    }
}

impl File {
    fn new(path: &'static str, code: String, edit: Option<ScriptEdit>) -> Self {
        let stem = path.rsplit('/').next().unwrap_or(path);
        let code = match edit {
            Some(edit) => edit(stem, &code),
            None => code,
        };
        Self { path, code }
    }

    fn module(&self) -> &'static str {
        self.path.split('/').next().unwrap_or(self.path)
    }

    /// The stem of the operation that this file defines.
    fn operation(&self) -> Option<&'static str> {
        self.path.split_once("/ops/").map(|(_, stem)| stem)
    }

    /// The flags in the first line, such as `#!lua flags=allow-oom`.
    fn flags(&self) -> Vec<&str> {
        let first = self.code.lines().next().and_then(|line| line.strip_prefix("#!lua flags="));
        first.map_or_else(Vec::new, |flags| flags.split(',').collect())
    }

    /// The code without the line of the flags.
    fn body(&self) -> &str {
        match self.code.split_once('\n') {
            Some((first, rest)) if first.starts_with("#!") => rest,
            _ => &self.code,
        }
    }

    fn registration(&self, stem: &str) -> String {
        let flags: Vec<String> = self.flags().iter().map(|flag| format!("'{flag}'")).collect();
        let (flags, call) = (flags.join(", "), self.call(stem, "keys, arguments"));
        format!(
            "redis.register_function{{\n  function_name = LIBRARY .. '_{stem}', flags = {{{flags}}},\n  \
             callback = function(keys, arguments) return {call} end,\n}}\n"
        )
    }

    /// Calls the operation. One that takes `(cx, command)` gets its command unpacked, and one that takes
    /// `(keys, arguments)` begins its call itself.
    fn call(&self, stem: &str, arguments: &str) -> String {
        let module = self.module();
        let (operation, begin) = (format!("{module}.ops.{stem}"), format!("{module}.begin({arguments})"));
        let takes = |parameters: &str| self.code.contains(&format!("function {operation}({parameters})"));
        if takes("cx, command") {
            format!("kernel.run_packed({operation}, {begin})")
        } else if takes("keys, arguments") {
            format!("{operation}({arguments})")
        } else {
            format!("{operation}({begin})")
        }
    }

    /// The functions that this file adds to modules, such as `queue.write_all`.
    fn defines(&self) -> impl Iterator<Item = &str> {
        self.code.lines().filter_map(|line| line.strip_prefix("function ")?.split('(').next())
    }

    /// The names with a dot in this file, among them the functions of modules.
    fn uses(&self) -> impl Iterator<Item = &str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        self.code.split(move |c| !is_part(c)).filter(|word| word.contains('.'))
    }
}

/// The code of some files: the prelude, a table for each module, and each file as a block.
fn joined(files: &[File], chosen: &[usize]) -> String {
    let prelude = files.iter().find(|file| file.path == PRELUDE).expect("the prelude exists");
    let mut code = prelude.code.clone();
    let others = || chosen.iter().map(|at| &files[*at]).filter(|file| file.path != PRELUDE);
    for module in others().map(File::module).collect::<BTreeSet<_>>() {
        code.push_str(&format!("local {module} = {{ops = {{}}}}\n"));
    }
    for file in others() {
        code.push_str(&format!("do -- {}\n{}end\n", file.path, file.body()));
    }
    code
}

/// Replaces the name of each limit by core's constant, so that both engines share one set. Lua allows
/// a library 200 locals, and a local would be slower: the functions of a script capture it each time.
fn with_limits(code: &str, limits: &HashMap<&str, String>) -> String {
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

fn limits() -> HashMap<&'static str, String> {
    let number = |value: u64| value.to_string();
    let count = |value: usize| value.to_string();
    // Fields of the partition with a default other than 0; text values are never numbers.
    let (mut texts, mut numbers) =
        ("bucket = '0:0', cursor = '', indexed = '', window = '0:0'".to_owned(), String::new());
    for (field, value) in Settings::default().fields() {
        match value.bytes().all(|byte| byte.is_ascii_digit()) {
            true => numbers.push_str(&format!("{field} = {value}, ")),
            false => texts.push_str(&format!(", {field} = '{value}'")),
        }
    }
    let queue = [
        ("MILLI", number(l::MILLI)),
        ("UNITS", number(l::UNITS)),
        ("QUANTUM", number(l::QUANTUM)),
        ("CREDIT", number(l::CREDIT)),
        ("POOL_SERVED", number(l::POOL_SERVED)),
        ("POOL_FULL", number(l::POOL * l::POOL_SERVED)),
        ("HIGH_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[0])),
        ("NORMAL_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[1])),
        ("LOW_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[2])),
        ("TEXT_SETTINGS", format!("{{{texts}}}")),
        ("NUMBER_SETTINGS", format!("{{{numbers}}}")),
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
        ("LEASE_LANES_MAX", count(l::LEASE_LANES_MAX)),
        ("LIST_STEP_JOBS", count(l::LIST_STEP_JOBS)),
        ("LONG_NAME", format!("'{}'", "-".repeat(LISTPACK_BYTES_MAX + 1))),
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
        ("REFUSAL_RETRY_MS", number(l::REFUSAL_RETRY_MS)),
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
    ];
    let others = lock_limits().chain(room_limits()).chain(ranking_limits()).chain(activity_limits());
    queue.into_iter().chain(index_limits()).chain(redis_limits()).chain(others).collect()
}

/// What only the Lua code has.
fn redis_limits() -> impl Iterator<Item = (&'static str, String)> {
    [
        ("LEASE_LANES_POPPED", LEASE_LANES_POPPED.to_string()),
        ("SMALL_PAYLOAD_BYTES", SMALL_PAYLOAD_BYTES.to_string()),
        ("ORDER_WIDE_LANES", ORDER_WIDE_LANES.to_string()),
        ("SMALL_NUMBERS", small_numbers()),
    ]
    .into_iter()
}

/// The numbers below [`SMALL_NUMBERS_END`] as texts.
fn small_numbers() -> String {
    let texts: Vec<String> = (1..SMALL_NUMBERS_END).map(|number| format!("'{number}'")).collect();
    format!("{{[0] = '0', {}}}", texts.join(", "))
}

fn room_limits() -> impl Iterator<Item = (&'static str, String)> {
    [
        ("ROOM_DEFAULT_SETTINGS", RoomSettings::default().text()),
        ("ROOMS_MAX", l::ROOMS_MAX.to_string()),
        ("ROOM_PLACES_MAX", l::ROOM_PLACES_MAX.to_string()),
        ("ROOM_STEP_PLACES_MAX", l::ROOM_STEP_PLACES_MAX.to_string()),
        ("ROOM_FRONT_POLLS", l::ROOM_FRONT_POLLS.to_string()),
        ("ROOM_POLL_MS_MIN", l::ROOM_POLL_MS_MIN.to_string()),
        ("ROOM_POLL_MS_MAX", l::ROOM_POLL_MS_MAX.to_string()),
        ("ROOM_WINDOW_MS", l::ROOM_WINDOW_MS.to_string()),
        ("ROOM_IDLE_US", (l::ROOM_IDLE_MS * 1000).to_string()),
        ("ROOM_FLIGHT_US", (l::ROOM_FLIGHT_MS * 1000).to_string()),
        ("ROOM_TICKETS", l::ROOM_TICKETS.to_string()),
    ]
    .into_iter()
}

fn ranking_limits() -> impl Iterator<Item = (&'static str, String)> {
    [
        ("BOARDS_MAX", l::BOARDS_MAX.to_string()),
        ("BOARD_MEMBERS_MAX", l::BOARD_MEMBERS_MAX.to_string()),
        ("BOARD_SCORE_MAX", l::BOARD_SCORE_MAX.to_string()),
        ("BOARD_TIMED_SCORE_MAX", l::BOARD_TIMED_SCORE_MAX.to_string()),
        ("BOARD_AHEAD_MS", l::BOARD_AHEAD_MS.to_string()),
        ("BOARD_SEAL_US", (l::BOARD_SEAL_MS * 1000).to_string()),
        ("BOARD_HOURS_KEPT", l::BOARD_HOURS_KEPT.to_string()),
        ("BOARD_DAYS_KEPT", l::BOARD_DAYS_KEPT.to_string()),
        ("BOARD_WEEKS_KEPT", l::BOARD_WEEKS_KEPT.to_string()),
        ("BOARD_SEASONS_KEPT", l::BOARD_SEASONS_KEPT.to_string()),
        ("BOARD_STEP_EVENTS_MAX", l::BOARD_STEP_EVENTS_MAX.to_string()),
    ]
    .into_iter()
}

fn index_limits() -> impl Iterator<Item = (&'static str, String)> {
    [
        ("LARGE_MAGNITUDE", l::LARGE_MAGNITUDE.to_string()),
        ("INDEX_GROUPS_MAX", l::INDEX_GROUPS_MAX.to_string()),
    ]
    .into_iter()
}

fn activity_limits() -> impl Iterator<Item = (&'static str, String)> {
    [("ACTIVITY_MAX", l::ACTIVITY_MAX.to_string()), ("ACTIVITY_PAGE", ACTIVITY_PAGE.to_string())].into_iter()
}

fn lock_limits() -> impl Iterator<Item = (&'static str, String)> {
    [
        ("DEFAULT_PREFIX", DEFAULT_PREFIX.to_owned()),
        ("LOCK_SLICE_US", (l::LOCK_SLICE_MS * 1000).to_string()),
        ("LOCK_GRANT_ALIVE_US", (l::LOCK_GRANT_ALIVE_MS * 1000).to_string()),
        ("LOCK_STEP_WAITERS_MAX", l::LOCK_STEP_WAITERS_MAX.to_string()),
        ("LOCK_LOSSES_MAX", l::LOCK_LOSSES_MAX.to_string()),
        ("LOCK_WAITERS_MAX", l::LOCK_WAITERS_MAX.to_string()),
        ("LOCK_HOLDERS_SHOWN_MAX", l::LOCK_HOLDERS_SHOWN_MAX.to_string()),
        ("LOCKS_MAX", l::LOCKS_MAX.to_string()),
        ("ATTEND_CLAIMS_MAX", l::ATTEND_CLAIMS_MAX.to_string()),
    ]
    .into_iter()
}

/// The names of all commands in the sources: quoted words in capitals, wherever they are, because
/// some are passed as arguments. Words that are not commands are in one of the two lists.
#[cfg(test)]
pub(super) fn commands_of_all_scripts() -> BTreeSet<String> {
    const OPTIONS: &[&str] = &["COUNT", "MATCH", "WITHSCORES", "BYSCORE", "BYLEX", "LIMIT", "REV", "RANK"];
    const STATES: &[&str] =
        &["AGGREGATING", "CANCELLED", "COMPLETED", "CREATED", "DISPATCHED", "FAILED", "RUNNING", "RSP"];
    // A message that the user may not publish is lost, which waiters allow for.
    const UNPROBED: &[&str] = &["PUBLISH", "SPUBLISH"];
    let sources = FILES.iter().flat_map(|(_, source)| source.lines());
    let code = sources.filter(|line| !line.trim_start().starts_with("--"));
    let words = code.flat_map(|line| line.split('\'').skip(1).step_by(2));
    let is_command = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    words
        .filter(is_command)
        .filter(|word| ![OPTIONS, STATES, UNPROBED].iter().any(|list| list.contains(word)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_is_named_by_its_content() {
        let edit: ScriptEdit = |stem, code| match stem {
            "lease" => format!("{code}-- changed\n"),
            _ => code.to_owned(),
        };
        let (one, other) = (Library::new(None), Library::new(Some(edit)));
        let name = |library: &Library| library.function("lease").trim_end_matches("_lease").to_owned();
        assert_eq!(name(&one), name(&Library::new(None)));
        assert_ne!(name(&one), name(&other));
        assert!(name(&one).starts_with(&format!("{FAMILY}{LAYOUT_VERSION}_")), "{}", name(&one));
        assert!(one.code.starts_with(&format!("#!lua name={}\n", name(&one))));
    }

    #[test]
    fn only_libraries_of_older_layouts_are_older() {
        for name in ["fairlane_5_0123456789ab", "fairlane_0_0123456789ab"] {
            assert!(Library::is_of_older_layout(name), "{name}");
        }
        let own = format!("fairlane_{LAYOUT_VERSION}_0123456789ab");
        for name in
            [&*own, "fairlane_999_0123456789ab", "fairlane_5_mine", "fairlane_5", "fairlane_x_0123456789ab"]
        {
            assert!(!Library::is_of_older_layout(name), "{name}");
        }
    }

    #[test]
    fn every_operation_of_the_queue_has_a_function_with_its_flags() {
        let library = Library::new(None);
        for stem in fairlane_core::Command::stems() {
            let file = &library.files[library.operation(stem).file];
            assert!(file.code.starts_with("#!lua"), "{stem}");
            assert_eq!(file.operation(), Some(stem));
        }
        assert_eq!(library.operations.len(), fairlane_core::Command::stems().count());
        let flags = |stem| library.files[library.operation(stem).file].flags();
        assert_eq!(flags("enqueue"), [""; 0]);
        assert_eq!(flags("lease"), ["allow-oom"]);
        assert_eq!(flags("inspect_job"), ["allow-oom", "no-writes"]);
    }

    #[test]
    fn a_script_has_the_files_that_its_operation_needs() {
        let library = Library::new(None);
        let paths = |stem| {
            let needed = library.needed_by(library.operation(stem).file);
            needed.iter().map(|at| library.files[*at].path).collect::<Vec<_>>()
        };
        assert_eq!(paths("list_snapshots"), ["kernel/context", "queue/context", "queue/ops/list_snapshots"]);
        assert!(paths("lease").contains(&"queue/serve"));
        assert!(!paths("settle").contains(&"queue/serve"));
    }
}
