//! The Lua of the engine: one script per operation, from files that operations share.
//!
//! Each file of `lua/<module>/` adds functions to the table of its module; private functions and
//! constants are locals of the file. `lua/<module>/ops/<operation>.lua` defines the function
//! `<module>.ops.<operation>`, and its first line has the flags of the operation. `<module>.begin`
//! makes the table `cx` with the state of one call. `lua/prelude.lua` has the names that all files
//! use. The name of a limit is replaced by core's constant.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use fairlane_core::Trace;
use fairlane_core::limits as l;
use fairlane_core::queue::Settings;

use super::ScriptEdit;
use super::startup::LAYOUT_VERSION;

/// The path of each Lua file without its extension, and its contents.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/lua.rs"));
const PRELUDE: &str = "prelude";

/// All Lua code.
pub(super) struct Library {
    operations: HashMap<&'static str, Operation>,
    files: Vec<File>,
}

struct File {
    path: &'static str,
    code: String,
}

struct Operation {
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
    pub fn new(edit: Option<ScriptEdit>) -> Self {
        let limits = limits();
        let file =
            |(path, source): &(&'static str, &str)| File::new(path, with_limits(source, &limits), edit);
        let files: Vec<File> = FILES.iter().map(file).collect();
        let operation = |(file, stem)| (stem, Operation { file, script: OnceLock::new() });
        let stems = files.iter().enumerate().filter_map(|(at, file)| Some((at, file.operation()?)));
        Self { operations: stems.map(operation).collect(), files }
    }

    fn operation(&self, stem: &str) -> &Operation {
        self.operations.get(stem).expect("every operation has a Lua file")
    }

    /// The script of an operation, with the files that it needs.
    pub fn script(&self, stem: &str) -> &Script {
        let operation = self.operation(stem);
        operation.script.get_or_init(|| {
            let file = &self.files[operation.file];
            let body = joined(&self.files, &self.needed_by(operation.file));
            let module = file.module();
            let flags = file.flags().join(",");
            let entry = format!("return {module}.ops.{stem}({module}.begin(KEYS, ARGV))\n");
            let code = format!("#!lua flags={flags}\n{body}{entry}");
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
    let mut defaults =
        vec!["bucket = '0:0'".to_owned(), "cursor = ''".to_owned(), "window = '0:0'".to_owned()];
    for (field, value) in Settings::default().fields() {
        let number = value.bytes().all(|byte| byte.is_ascii_digit());
        defaults.push(if number { format!("{field} = {value}") } else { format!("{field} = '{value}'") });
    }
    let defaults = defaults.join(", ");
    HashMap::from([
        ("MILLI", number(l::MILLI)),
        ("UNITS", number(l::UNITS)),
        ("QUANTUM", number(l::QUANTUM)),
        ("CREDIT", number(l::CREDIT)),
        ("POOL_SERVED", number(l::POOL_SERVED)),
        ("POOL_FULL", number(l::POOL * l::POOL_SERVED)),
        ("HIGH_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[0])),
        ("NORMAL_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[1])),
        ("LOW_UNITS", number(l::UNITS / l::LEVEL_WEIGHTS[2])),
        ("SETTING_DEFAULTS", format!("{{{defaults}}}")),
        ("LAYOUT_VERSION", LAYOUT_VERSION.to_owned()),
        ("TYPES_MAX", count(l::TYPES_MAX)),
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
    ])
}

/// The names of all commands in the sources: quoted words in capitals, wherever they are, because
/// some are passed as arguments. Words that are not commands are in one of the two lists.
#[cfg(test)]
pub(super) fn commands_of_all_scripts() -> BTreeSet<String> {
    const OPTIONS: &[&str] = &["COUNT", "MATCH", "WITHSCORES", "BYSCORE", "BYLEX", "LIMIT", "REV", "RANK"];
    const STATES: &[&str] =
        &["AGGREGATING", "CANCELLED", "COMPLETED", "CREATED", "DISPATCHED", "FAILED", "RUNNING", "RSP"];
    let sources = FILES.iter().flat_map(|(_, source)| source.lines());
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
    fn every_operation_of_the_queue_has_a_script_with_its_flags() {
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
