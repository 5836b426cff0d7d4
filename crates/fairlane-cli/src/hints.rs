//! Tips for arguments that do not exist: what was probably meant, and how it is written here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What the number parser of the standard library says of a text.
const NOT_A_NUMBER: &str = "invalid digit found in string";

/// Adds a tip to an error of these words, of which the first is the program.
pub fn add(error: &mut clap::Error, words: &[String], mut program: clap::Command) {
    program.build();
    let (path, command) = subcommand(&program, words);
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(argument)) => tip(&path, command, argument, &value_of(words, argument)),
            _ => None,
        },
        ErrorKind::ValueValidation if error.to_string().contains(NOT_A_NUMBER) => {
            Some("write a whole number, such as 200".to_owned())
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// The subcommand that the words select, and its path.
fn subcommand<'a>(program: &'a clap::Command, words: &[String]) -> (String, &'a clap::Command) {
    let (mut path, mut command) = (Vec::new(), program);
    for word in words.iter().skip(1).filter(|word| !word.starts_with('-')) {
        let Some(found) = command.find_subcommand(word) else { break };
        path.push(found.get_name());
        command = found;
    }
    (path.join(" "), command)
}

/// The word after an option, or after its equals sign.
fn value_of(words: &[String], option: &str) -> String {
    let after = words.iter().skip_while(|word| *word != option).nth(1);
    let inside = || words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='));
    after.map(String::as_str).or_else(inside).unwrap_or_default().to_owned()
}

fn tip(path: &str, command: &clap::Command, argument: &str, value: &str) -> Option<String> {
    let has_engine = || command.get_arguments().any(|known| known.get_long() == Some("engine"));
    match (path, argument) {
        ("serve", "--port" | "-p") => {
            let port = if value.parse::<u16>().is_ok() { value } else { "8080" };
            Some(format!("use --listen 127.0.0.1:{port}"))
        }
        ("serve", "--host" | "--bind" | "--address" | "--addr") => {
            Some("use --listen with an address and a port: --listen 127.0.0.1:8080".to_owned())
        }
        ("job list", "--state" | "--status") => Some(
            "the list has jobs of all states, running ones first; fairlane dead list has dead jobs only"
                .to_owned(),
        ),
        ("dead requeue" | "dead discard", word) if !word.starts_with('-') => Some(format!(
            "select dead jobs by options: --group {word}; for a single job use fairlane job requeue GROUP JOB"
        )),
        ("work", "--concurrency" | "--workers") => {
            Some("set worker_count in the table [worker] of the configuration file".to_owned())
        }
        (_, "--url" | "--redis" | "--server" | "--host" | "--data" | "--dir" | "--directory")
            if has_engine() =>
        {
            Some("use --engine, such as --engine ./data, redis://host:6379 or http://host:8080".to_owned())
        }
        (_, option) => positional(command, option.strip_prefix("--")?),
    }
}

/// The tip for a positional argument that is written as an option.
fn positional(command: &clap::Command, name: &str) -> Option<String> {
    let shown = |argument: &clap::Arg| {
        let value = argument.get_value_names().and_then(|names| names.first());
        value.map_or_else(|| argument.get_id().to_string(), ToString::to_string)
    };
    let found = command.get_positionals().find(|argument| shown(argument).eq_ignore_ascii_case(name))?;
    let all: Vec<String> = command.get_positionals().map(|argument| shown(argument).to_uppercase()).collect();
    let program = command.get_bin_name().unwrap_or(command.get_name());
    Some(format!(
        "{} is not an option: write its value in its place, {program} {}",
        shown(found).to_uppercase(),
        all.join(" ")
    ))
}
