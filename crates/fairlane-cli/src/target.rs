//! The options that select a queue, and how a command opens it and prints its result.

use clap::Args;
use fairlane::{EngineError, Error, Fairlane, LOCAL_ACTOR};
use fairlane_engine::{directory_of, without_user};
use serde::Serialize;

use crate::discovery;
use crate::failure::Failure;
use crate::output;

/// Stands for an `--engine` that was not given.
const DISCOVER: &str = "discover";

/// The options that all commands on a queue share.
#[derive(Args, Clone)]
pub struct QueueTarget {
    /// Address of the queue: http://host:port (a server), redis://host:port,
    /// redis+cluster://host:port,host:port or dir:path [env: FAIRLANE_ENGINE] [default: engine in
    /// ./fairlane.toml, else ./fairlane-data if it contains a queue, else a server at
    /// http://127.0.0.1:8080, else redis://127.0.0.1:6379]
    #[arg(
        long,
        value_name = "URL",
        default_value = DISCOVER,
        hide_default_value = true,
        value_parser = address
    )]
    pub engine: String,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

impl QueueTarget {
    /// Checks the form of the address without contacting the queue.
    pub fn check(&self) -> Result<(), Failure> {
        if is_memory(&self.engine) {
            return Err(Failure::bad_input(
                "a queue in memory exists only while this command runs; use --engine with a Redis or a directory",
            ));
        }
        Ok(fairlane_engine::check_address(&self.engine)?)
    }

    /// Opens an existing queue with its own settings. Never creates one. Changes are recorded in its
    /// activity log.
    pub async fn attach(&self) -> Result<Fairlane, Failure> {
        self.check()?;
        let fairlane = Fairlane::attach(&self.engine).await.map_err(|error| self.failure(error))?;
        Ok(fairlane.recording(LOCAL_ACTOR))
    }

    /// Opens a queue, and creates one in a directory that has none. Changes are recorded in its
    /// activity log.
    pub async fn attach_or_make(&self) -> Result<Fairlane, Failure> {
        self.check()?;
        let fairlane = self.open_or_make().await.map_err(|error| self.failure(error))?;
        Ok(fairlane.recording(LOCAL_ACTOR))
    }

    /// Like [`attach_or_make`](Self::attach_or_make), for callers that have called
    /// [`check`](Self::check) and retry until the queue responds.
    pub async fn open_or_make(&self) -> Result<Fairlane, Error> {
        Ok(Fairlane::from_engine(fairlane_engine::attach_or_make(&self.engine).await?))
    }

    /// Refuses to wait for other processes if the queue is in a directory without a server: no
    /// other process can use it until this command exits.
    pub fn refuse_to_block(&self, fairlane: &Fairlane, alternative: &str) -> Result<(), Failure> {
        if !self.is_exclusive(fairlane) {
            return Ok(());
        }
        Err(Failure::bad_input(format!(
            "{} has no server, and no other process can use it while this command waits; {}, or {alternative}",
            self.address(),
            self.serve_hint()
        )))
    }

    /// Whether no other process can use the queue until this command exits.
    pub fn is_exclusive(&self, fairlane: &Fairlane) -> bool {
        directory_of(&self.engine).is_some() && fairlane.engine().name() != "http"
    }

    /// How to share a directory.
    pub fn serve_hint(&self) -> String {
        format!("start a server first (fairlane serve --engine {})", quoted(&self.engine))
    }

    /// Converts an error. If the queue did not respond, the message names it and says what to do.
    pub fn failure(&self, error: Error) -> Failure {
        match error {
            Error::Engine(EngineError::Unavailable { engine, reason }) => self.unavailable(engine, &reason),
            other => other.into(),
        }
    }

    fn unavailable(&self, engine: &str, reason: &str) -> Failure {
        match discovery::attempts_before(&self.engine) {
            Some(attempts) => Failure::broken(format!(
                "no queue was found: {attempts}, and {engine} at {} cannot be reached: {reason}\nstart a server here \
                 (fairlane serve), or select a queue with --engine, such as --engine ./data",
                self.address()
            )),
            None => Failure::broken(format!(
                "{engine} at {} cannot be reached: {reason}\n{}, or select another queue with --engine, such as \
                 --engine ./data",
                self.address(),
                self.recovery_hint(reason)
            )),
        }
    }

    /// What to do about a queue that did not respond.
    fn recovery_hint(&self, reason: &str) -> &'static str {
        if directory_of(&self.engine).is_some() {
            // The owner of the directory is starting or stopping.
            return "try again in a moment, or restart its server (fairlane serve)";
        }
        match is_server(&self.engine) {
            true if reason.contains("certificate") => {
                "if it uses a private certificate authority, set SSL_CERT_FILE to a file with its certificates"
            }
            true => "start it (fairlane serve)",
            false => "start it (redis-server)",
        }
    }

    /// The address without user and password.
    pub fn address(&self) -> String {
        without_user(&self.engine)
    }

    /// A shell command for the same queue. Leaves the address out if it contains a password.
    pub fn shell_command(&self, arguments: &[&str]) -> String {
        let mut words = [&["fairlane"], arguments].concat();
        if !discovery::is_default(&self.engine) && self.address() == self.engine {
            words.extend(["--engine", &self.engine]);
        }
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Prints a result: the value as JSON with `--json`, else the text.
    pub fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { output::print_json(value) } else { output::print(&text()) }
    }
}

/// Whether an address selects a queue in memory.
pub fn is_memory(url: &str) -> bool {
    matches!(url, "" | "memory" | "memory:")
}

/// Parses `--engine`; without a value, discovers a queue.
fn address(text: &str) -> Result<String, String> {
    if text == DISCOVER { discovery::discover() } else { Ok(text.to_owned()) }
}

/// Whether an address selects a server.
pub fn is_server(url: &str) -> bool {
    matches!(url.split_once(':'), Some(("http" | "https", _)))
}

/// Parses the maximum length of a list. Rejects 0, because an empty list would look like an empty
/// queue.
pub fn list_length(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a list of length 0 shows nothing; use 1 or more".to_owned()),
        Ok(length) => Ok(length),
        Err(_) => Err(format!("{text:?} is not a whole number; use 1 or more")),
    }
}

/// Whether a shell passes the word on unchanged.
fn is_plain(word: &str) -> bool {
    let plain = |character: char| character.is_alphanumeric() || "-_./:=,+@%".contains(character);
    !word.is_empty() && word.chars().all(plain)
}

fn quoted(word: &str) -> String {
    if is_plain(word) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(engine: &str) -> QueueTarget {
        QueueTarget { engine: engine.to_owned(), json: false }
    }

    #[test]
    fn a_shell_command_is_quoted_and_contains_no_password() {
        let words = ["bulk", "seal", "customer 7", "it's"];
        let local = target("redis://127.0.0.1:6379").shell_command(&words);
        let engine = "--engine redis://127.0.0.1:6379";
        assert_eq!(local, format!(r"fairlane bulk seal 'customer 7' 'it'\''s' {engine}"));
        assert_eq!(target("./data").shell_command(&words[..2]), "fairlane bulk seal --engine ./data");
        let secret = target("redis://me:hunter2@host:6379");
        assert_eq!(secret.shell_command(&words[..2]), "fairlane bulk seal");
        assert_eq!(secret.address(), "redis://host:6379");
    }

    #[test]
    fn the_hint_for_an_unreachable_queue_depends_on_its_kind() {
        let unreachable =
            |engine| Error::Engine(EngineError::Unavailable { engine, reason: "no connection".into() });
        for (url, engine, hint) in [
            (discovery::REDIS, "redis", "start it (redis-server), or select another"),
            ("redis+cluster://a:1,b:2", "redis", "start it (redis-server), or select another"),
            ("http://queue.example:7070", "the server", "start it (fairlane serve), or select another"),
            ("dir:./data", "the server", "try again in a moment, or restart its server (fairlane serve)"),
        ] {
            let message = target(url).failure(unreachable(engine)).to_string();
            assert!(message.contains(hint), "{message}");
        }
        let reason = "no connection: invalid peer certificate: UnknownIssuer".to_owned();
        let untrusted = Error::Engine(EngineError::Unavailable { engine: "the server", reason });
        let message = target("https://queue.example").failure(untrusted).to_string();
        assert!(message.contains("SSL_CERT_FILE") && !message.contains("start it"), "{message}");
    }

    #[test]
    fn an_address_is_printed_without_its_password() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://:hunter2@host:6379/0", "redis://host:6379/0"),
            ("redis://:hunter/2@host:6379", "redis://host:6379"),
            ("redis:me:hunter2@host", "host"),
            ("redis+cluster://me:h@nter2@a:1,b:2", "redis+cluster://a:1,b:2"),
            ("./me@home", "./me@home"),
            ("./data", "./data"),
            ("dir:/var/lib/queue", "dir:/var/lib/queue"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }
}
