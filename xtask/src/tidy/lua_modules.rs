//! The form of the Lua modules: a function library stays loaded, so a file keeps nothing between
//! two calls. The top level of a file has only functions and constants, every function of a module
//! is defined once and used, and only the prelude uses the server's own names.

use super::{Finding, tree::Tree};
use std::collections::BTreeMap;

const RULE: &str = "lua-modules";
const FOLDER: &str = "crates/fairlane-engine/src/redis/lua/";
const PRELUDE: &str = "crates/fairlane-engine/src/redis/lua/prelude.lua";
/// Names of the server; other files get them from the prelude and from `cx`.
const SERVER_NAMES: [&str; 3] = ["redis", "KEYS", "ARGV"];
/// The entry of each module: the engine calls it.
const ENTRY: &str = "begin";

/// Finds state at the top of a file, and functions that are missing, dead or defined twice.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let files: Vec<(&str, &str)> = tree.ending(".lua").filter(|(path, _)| path.starts_with(FOLDER)).collect();
    let mut findings = functions(&files);
    for (path, text) in files.iter().filter(|(path, _)| *path != PRELUDE) {
        let lines = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, fault(line, text)?)));
        findings.extend(lines.map(|(line, advice)| Finding::new(RULE, path, line, advice)));
    }
    findings
}

/// The fault of a single line, if it has one.
fn fault(line: &str, text: &str) -> Option<String> {
    let code = line.split("--").next().unwrap_or_default();
    if let Some(name) = words(code).find(|word| SERVER_NAMES.contains(word)) {
        return Some(format!("`{name}`: use `call` and the table of the call"));
    }
    let at_top = code.starts_with(|c: char| !c.is_whitespace() && !"#}".contains(c));
    if let Some(name) = code.strip_prefix("local function ").and_then(|rest| rest.split('(').next()) {
        let uses = words(text).filter(|word| *word == name).count();
        return (uses < 2).then(|| format!("nothing uses `{name}`"));
    }
    if let Some(name) = changed_constant(code) {
        return Some(format!("`{name}` is a constant: keep what changes in the table of the call"));
    }
    let names = code.strip_prefix("local ").and_then(|rest| rest.split('=').next());
    let is_constant = names.is_some_and(|names| words(names).all(is_upper));
    let is_form = code.starts_with("function ") || code.trim_end() == "end" || is_constant;
    (at_top && !is_form).then(|| "only functions and constants stand at the top of a file".to_owned())
}

/// The constant that an assignment changes, such as `LIMITS.most = 1`.
fn changed_constant(code: &str) -> Option<&str> {
    let target = code.trim_start().split(" = ").next().filter(|target| *target != code.trim_start())?;
    let name = words(target).next()?;
    (is_upper(name) && target.starts_with(name)).then_some(name)
}

/// Functions of modules that are missing, dead or defined twice.
fn functions(files: &[(&str, &str)]) -> Vec<Finding> {
    let mut defined: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in files {
        for (at, line) in text.lines().enumerate() {
            let Some(name) = line.strip_prefix("function ").and_then(|rest| rest.split('(').next()) else {
                continue;
            };
            if let Some((other, _)) = defined.insert(name, (path, at + 1)) {
                findings.push(Finding::new(RULE, path, at + 1, format!("`{name}` is also in {other}")));
            }
        }
    }
    let modules: Vec<&str> = files.iter().filter_map(|(path, _)| module(path)).collect();
    let mut used: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (path, text) in files {
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with("function ")) {
            let code = line.split("--").next().unwrap_or_default();
            let names =
                dotted(code).filter(|name| name.split('.').next().is_some_and(|m| modules.contains(&m)));
            used.extend(names.map(|name| (name, (*path, at + 1))));
        }
    }
    for (name, (path, line)) in &used {
        if !defined.contains_key(name) {
            findings.push(Finding::new(RULE, path, *line, format!("`{name}` is not defined")));
        }
    }
    let entered = |name: &str| name.contains(".ops.") || name.ends_with(&format!(".{ENTRY}"));
    for (name, (path, line)) in &defined {
        let is_of_a_module = name.split('.').next().is_some_and(|first| modules.contains(&first));
        if is_of_a_module && !entered(name) && !used.contains_key(name) {
            findings.push(Finding::new(RULE, path, *line, format!("nothing uses `{name}`")));
        }
    }
    findings
}

fn module(path: &str) -> Option<&str> {
    path.strip_prefix(FOLDER)?.split_once('/').map(|(module, _)| module)
}

fn is_upper(name: &str) -> bool {
    name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

fn dotted(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_word(c) && c != '.').filter(|word| word.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = files.iter().map(|(path, _)| format!("{FOLDER}{path}.lua")).collect();
        let texts = files.iter().map(|(_, text)| *text);
        let files: Vec<(&str, &str)> = paths.iter().map(String::as_str).zip(texts).collect();
        check(&Tree::of(&files)).into_iter().map(|finding| finding.advice).collect()
    }

    #[test]
    fn functions_and_constants_at_the_top_are_in_order() {
        let gate = "-- Gates.\nlocal FIELDS = {\n  'rate',\n}\n\nlocal function open(cx)\n  return FIELDS\nend\n\n\
                    function queue.gate(cx)\n  return open(cx)\nend\n";
        let lease = "#!lua flags=allow-oom\nfunction queue.ops.lease(cx)\n  return queue.gate(cx)\nend\n";
        assert_eq!(found(&[("queue/gate", gate), ("queue/ops/lease", lease)]), [""; 0]);
    }

    #[test]
    fn state_at_the_top_of_a_file_is_found() {
        for line in ["local cache = {}", "count = 0", "if true then", "local LIMITS, seen = {}, {}"] {
            assert_eq!(found(&[("queue/gate", line)]).len(), 1, "{line}");
        }
    }

    #[test]
    fn a_constant_that_a_function_changes_is_found() {
        let gate = "local SEEN = {}\nfunction queue.begin(cx)\n  SEEN[cx] = true\nend\n";
        assert_eq!(found(&[("queue/gate", gate)]).len(), 1);
    }

    #[test]
    fn names_of_the_server_belong_to_the_prelude() {
        let gate = "function queue.begin(cx)\n  return redis.call('TIME')\nend\n";
        assert_eq!(found(&[("queue/gate", gate)]).len(), 1);
        assert_eq!(
            found(&[("prelude", "local call\nlocal function bind()\n  call = redis.call\nend\n")]),
            [""; 0]
        );
    }

    #[test]
    fn a_function_that_is_missing_dead_or_defined_twice_is_found() {
        let twice = "function queue.begin(cx)\nend\n";
        assert_eq!(found(&[("queue/gate", twice), ("queue/lane", twice)]).len(), 1);
        assert_eq!(found(&[("queue/gate", "function queue.gate(cx)\nend\n")]), ["nothing uses `queue.gate`"]);
        assert_eq!(found(&[("queue/gate", "local function gate(cx)\nend\n")]), ["nothing uses `gate`"]);
        let missing = "function queue.begin(cx)\n  queue.gone(cx)\nend\n";
        assert_eq!(found(&[("queue/gate", missing)]), ["`queue.gone` is not defined"]);
    }
}
