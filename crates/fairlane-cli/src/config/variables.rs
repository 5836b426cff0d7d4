//! Environment variables `FAIRLANE_…`.

use fairlane_simulator::with_suggestion;

/// Variables outside the configuration: those of other commands, and of programs that a worker runs,
/// because such a program may run `fairlane`.
const OTHERS: [&str; 8] = ["KEY", "LOG", "GROUP", "JOB", "TYPE", "BULK", "ATTEMPT", "FENCE"];
/// The variable with the address of the queue, and another name of it.
pub const ENGINE: &str = "FAIRLANE_ENGINE";
pub const ENGINE_ALIAS: &str = "FAIRLANE_URL";
/// Variables of Fairlane's own tests, which start this program.
const TESTS: [&str; 5] = ["REWRITE", "WRITE_HELP", "FUZZ_ROUNDS", "FUZZ_SEED", "SCHEMA_EXAMPLES"];

/// The variables that configure one of these keys, as key, value and variable. An unknown
/// `FAIRLANE_…` is an error unless the file uses it as `${VAR}`.
pub fn configured(
    variables: impl Iterator<Item = (String, String)>,
    keys: &[String],
    file: &str,
) -> Result<Vec<(String, String, String)>, String> {
    let mut configured = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix("FAIRLANE_") else { continue };
        let known = if name == ENGINE_ALIAS { ENGINE } else { &name };
        match keys.iter().find(|key| variable(key) == known) {
            // An empty variable counts as not set.
            Some(_) if value.is_empty() => {}
            Some(key) => configured.push((key.clone(), value, name)),
            None if OTHERS.contains(&rest) || TESTS.contains(&rest) || is_of_kubernetes(rest, &value) => {}
            None if file.contains(&format!("${{{name}}}")) => {}
            None => return Err(unknown(rest, keys)),
        }
    }
    // Of two values for one key the last one counts.
    configured.sort_by_key(|(_, _, name)| name != ENGINE_ALIAS);
    Ok(configured)
}

/// `FAIRLANE_WORKER_RETRY_BASE_MS` for `worker.retry.base_ms`. The API keys share the variable of
/// `fairlane key`, and the database that of `fairlane outbox`.
fn variable(key: &str) -> String {
    let key = match key {
        "server.keys" | "server.database" => key.trim_start_matches("server."),
        key => key,
    };
    format!("FAIRLANE_{}", key.replace('.', "_").to_uppercase())
}

/// The error for an unknown variable. Suggests only the most similar one of about a hundred.
fn unknown(rest: &str, keys: &[String]) -> String {
    // The common prefix says nothing about similarity, and users often leave out the table.
    let known: Vec<String> = keys.iter().map(|key| variable(key)["FAIRLANE_".len()..].to_owned()).collect();
    let listed = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let suggested = with_suggestion(&format!("unknown field `{rest}`, expected one of {listed}"));
    let nearest = match known.iter().find(|known| known.ends_with(&format!("_{rest}"))) {
        Some(known) => Some(known.as_str()),
        None => suggested.rsplit_once("did you mean `").map(|(_, near)| near.trim_end_matches("`?")),
    };
    let meant = nearest.map_or(".".to_owned(), |near| format!("; did you mean `FAIRLANE_{near}`?"));
    format!(
        "the environment: `FAIRLANE_{rest}` is unknown{meant} docs/configuration.md lists all variables; your own \
         variables must not begin with FAIRLANE_, unless the file uses them"
    )
}

/// Whether Kubernetes set the variable. It sets variables such as `FAIRLANE_PORT`,
/// `FAIRLANE_PORT_8080_TCP` and `FAIRLANE_SERVER_SERVICE_HOST` for services with such a name.
fn is_of_kubernetes(rest: &str, value: &str) -> bool {
    let words: Vec<&str> = rest.split('_').collect();
    let is_number = |word: &&str| word.parse::<u16>().is_ok();
    let follows = |pair: &[&str]| match pair {
        ["SERVICE", next] => matches!(*next, "HOST" | "PORT"),
        ["PORT", next] => is_number(next),
        _ => false,
    };
    words.windows(2).any(follows) || (words.last() == Some(&"PORT") && value.contains("://"))
}
