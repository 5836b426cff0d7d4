//! Where a command finds its queue, and how it says what it found.

use clap::Args;
use fairlane::{EngineError, Error, Fairlane};
use fairlane_engine::{directory_of, without_user};
use serde::Serialize;

use crate::discovery;
use crate::failure::Failure;
use crate::output;

/// Stands for an address that nobody named.
const NEARBY: &str = "nearby";

/// The options that commands on a queue have in common.
#[derive(Args, Clone)]
pub struct Place {
    /// Where the queue lives: http://host:port (a server), redis://host:port, redis+cluster://host:port,host:port or
    /// dir:path [env: FAIRLANE_ENGINE] [default: as ./fairlane.toml says, else ./fairlane-data if a queue is there, else
    /// a server on this machine, http://127.0.0.1:8080, else redis://127.0.0.1:6379]
    #[arg(
        long,
        value_name = "URL",
        default_value = NEARBY,
        hide_default_value = true,
        value_parser = address
    )]
    pub engine: String,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

impl Place {
    /// Whether a queue can be there, without looking for it.
    pub fn check(&self) -> Result<(), Failure> {
        if is_memory(&self.engine) {
            return Err(Failure::bad_input(
                "a queue in memory begins and ends with this command; name a Redis or a directory with --engine",
            ));
        }
        Ok(fairlane_engine::check_address(&self.engine)?)
    }

    /// The queue that is there, with the settings it has: for those who add nothing. Where none is, none is made.
    pub async fn attach(&self) -> Result<Fairlane, Failure> {
        self.check()?;
        Fairlane::attach(&self.engine).await.map_err(|error| self.failed(error))
    }

    /// The same, but a queue in a directory that has none is made.
    pub async fn attach_or_make(&self) -> Result<Fairlane, Failure> {
        self.check()?;
        self.open_or_make().await.map_err(|error| self.failed(error))
    }

    /// The same for those who wait until it answers; what can never be one is found by [`check`](Self::check).
    pub async fn open_or_make(&self) -> Result<Fairlane, Error> {
        Ok(Fairlane::from_engine(fairlane_engine::attach_or_make(&self.engine).await?))
    }

    /// Refuses to wait for others where there can be none: a directory that nobody serves belongs to this command until
    /// it ends.
    pub fn refuse_to_wait(&self, fairlane: &Fairlane, instead: &str) -> Result<(), Failure> {
        if !self.is_ours_alone(fairlane) {
            return Ok(());
        }
        Err(Failure::bad_input(format!(
            "nobody serves {}, and while this command waits nobody else can use it; {}, or {instead}",
            self.address(),
            self.serve_it()
        )))
    }

    /// Whether nobody else can use the queue until this command ends.
    pub fn is_ours_alone(&self, fairlane: &Fairlane) -> bool {
        directory_of(&self.engine).is_some() && fairlane.engine().name() != "http"
    }

    /// How a directory is shared.
    pub fn serve_it(&self) -> String {
        format!("let a server have it first (fairlane serve --engine {})", quoted(&self.engine))
    }

    /// A queue that did not answer is named, with what can be done.
    pub fn failed(&self, error: Error) -> Failure {
        match error {
            Error::Engine(EngineError::Unavailable { engine, reason }) => self.unavailable(engine, &reason),
            other => other.into(),
        }
    }

    fn unavailable(&self, engine: &str, reason: &str) -> Failure {
        match discovery::tried_before(&self.engine) {
            Some(tried) => Failure::broken(format!(
                "no queue was found: {tried}, and {engine} at {} cannot be reached: {reason}\nstart a server here \
                 (fairlane serve), or name a queue with --engine, such as --engine ./data",
                self.address()
            )),
            None => Failure::broken(format!(
                "{engine} at {} cannot be reached: {reason}\n{}, or name another queue with --engine, such as \
                 --engine ./data",
                self.address(),
                self.way_back(reason)
            )),
        }
    }

    /// What helps a queue that did not answer.
    fn way_back(&self, reason: &str) -> &'static str {
        if directory_of(&self.engine).is_some() {
            // Whoever has the directory is just stopping, or starts.
            return "try again in a moment, or start its server again (fairlane serve)";
        }
        match is_server(&self.engine) {
            true if reason.contains("certificate") => {
                "if it has a certificate authority of its own, name a file of its certificates in SSL_CERT_FILE"
            }
            true => "start it (fairlane serve)",
            false => "start it (redis-server)",
        }
    }

    /// The address without a user and a password.
    pub fn address(&self) -> String {
        without_user(&self.engine)
    }

    /// A command for the same queue, as it is typed. An address with a password is left to whoever knows it.
    pub fn command(&self, words: &[&str]) -> String {
        let mut words = [&["fairlane"], words].concat();
        if !discovery::is_found(&self.engine) && self.address() == self.engine {
            words.extend(["--engine", &self.engine]);
        }
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Prints what a program or a person wants.
    pub fn tell(&self, answer: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { output::print_json(answer) } else { output::print(&text()) }
    }
}

/// Whether an address is that of a queue in memory.
pub fn is_memory(url: &str) -> bool {
    matches!(url, "" | "memory" | "memory:")
}

/// Reads an address; without one, the queue that is nearest.
fn address(text: &str) -> Result<String, String> {
    if text == NEARBY { discovery::found() } else { Ok(text.to_owned()) }
}

/// Whether the address is that of a server.
pub fn is_server(url: &str) -> bool {
    matches!(url.split_once(':'), Some(("http" | "https", _)))
}

/// Reads how many a list may have. None at all would look like an empty queue.
pub fn list_length(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a list of 0 shows nothing; say 1 or more".to_owned()),
        Ok(length) => Ok(length),
        Err(_) => Err(format!("{text:?} is no whole number; say 1 or more")),
    }
}

/// What a shell passes on as it is.
fn is_plain(word: &str) -> bool {
    let plain = |sign: char| sign.is_alphanumeric() || "-_./:=,+@%".contains(sign);
    !word.is_empty() && word.chars().all(plain)
}

fn quoted(word: &str) -> String {
    if is_plain(word) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(engine: &str) -> Place {
        Place { engine: engine.to_owned(), json: false }
    }

    #[test]
    fn a_command_can_be_copied_into_a_shell_and_has_no_password() {
        let words = ["bulk", "seal", "customer 7", "it's"];
        let local = place("redis://127.0.0.1:6379").command(&words);
        let engine = "--engine redis://127.0.0.1:6379";
        assert_eq!(local, format!(r"fairlane bulk seal 'customer 7' 'it'\''s' {engine}"));
        assert_eq!(place("./data").command(&words[..2]), "fairlane bulk seal --engine ./data");
        let secret = place("redis://me:hunter2@host:6379");
        assert_eq!(secret.command(&words[..2]), "fairlane bulk seal");
        assert_eq!(secret.address(), "redis://host:6379");
    }

    #[test]
    fn what_helps_a_queue_that_does_not_answer_depends_on_what_it_is() {
        let away =
            |engine| Error::Engine(EngineError::Unavailable { engine, reason: "no connection".into() });
        for (url, engine, advice) in [
            (discovery::REDIS, "redis", "start it (redis-server), or name another"),
            ("redis+cluster://a:1,b:2", "redis", "start it (redis-server), or name another"),
            ("http://queue.example:7070", "the server", "start it (fairlane serve), or name another"),
            ("dir:./data", "the server", "try again in a moment, or start its server again (fairlane serve)"),
        ] {
            let said = place(url).failed(away(engine)).to_string();
            assert!(said.contains(advice), "{said}");
        }
        let reason = "no connection: invalid peer certificate: UnknownIssuer".to_owned();
        let unknown = Error::Engine(EngineError::Unavailable { engine: "the server", reason });
        let said = place("https://queue.example").failed(unknown).to_string();
        assert!(said.contains("SSL_CERT_FILE") && !said.contains("start it"), "{said}");
    }

    #[test]
    fn a_password_in_an_address_is_not_said() {
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
