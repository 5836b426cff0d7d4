//! `fairlane room key`: the keys that sign passes. No command shows a secret.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use fairlane::{PassKeyView, PassKeys, time_text};
use fairlane_server::passes::{PASS_KEY_DELAY, PassFileError, PassKeyFile};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::tables;

const EXAMPLES: &str = "\
Examples:
  fairlane room key create pass-keys.json
  fairlane room key rotate pass-keys.json
  fairlane room key list pass-keys.json
  fairlane room key remove pass-keys.json KID

A server with pass_keys = \"pass-keys.json\" in [server] reads the file again when it changes. It \
publishes the public keys at /rooms/jwks.json. Secrets stay in the file.
Exit codes: 0 success; 1 failure; 2 bad input.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Creates a file with one key, which signs at once
    #[command(after_help = "Example:\n  fairlane room key create pass-keys.json")]
    Create(OneFile),
    /// Adds a key; it is published at once and signs later, so that verifiers know it by then
    #[command(after_help = "Example:\n  fairlane room key rotate pass-keys.json")]
    Rotate {
        #[command(flatten)]
        file: OneFile,
        /// Time until the new key signs; 0s if the old key is not secret any more
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = fairlane::parse_duration)]
        delay: Duration,
    },
    /// Lists the keys, without their secrets
    #[command(after_help = "Example:\n  fairlane room key list pass-keys.json --json")]
    List(OneFile),
    /// Removes a key; passes that it has signed are refused from then on
    #[command(after_help = "Example:\n  fairlane room key remove pass-keys.json KID")]
    Remove {
        #[command(flatten)]
        file: OneFile,
        /// Id of the key
        #[arg(value_name = "KID", allow_hyphen_values = true)]
        kid: String,
    },
}

#[derive(Args)]
struct OneFile {
    /// File with the keys
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl OneFile {
    fn keys(&self) -> PassKeyFile {
        PassKeyFile::at(&self.path)
    }
}

/// The JSON form of the keys.
#[derive(Serialize)]
struct KeyList {
    keys: Vec<PassKeyView>,
    signing: String,
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    const { assert!(PASS_KEY_DELAY.as_secs() == 600) };
    let (json, keys) = match arguments.action {
        Action::Create(file) => (file.json, file.keys().create()),
        Action::Rotate { file, delay } => (file.json, file.keys().rotate(delay)),
        Action::List(file) => (file.json, file.keys().read()),
        Action::Remove { file, kid } => (file.json, file.keys().remove(&kid)),
    };
    if json {
        output::report_failures_as_json();
    }
    print(&keys.map_err(failure)?, json)
}

fn failure(error: PassFileError) -> Failure {
    match error {
        PassFileError::Unusable { .. } => Failure::broken(error.to_string()),
        _ => Failure::bad_input(error.to_string()),
    }
}

fn print(keys: &PassKeys, json: bool) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let list = KeyList { keys: keys.views(), signing: keys.signing_key(now).to_owned() };
    if json { output::print_json(&list) } else { output::print(&list.text()) }
}

impl KeyList {
    fn text(&self) -> String {
        let rows = self.keys.iter().map(|key| {
            let from = match key.signs_from {
                0 => "the beginning".to_owned(),
                secs => time_text(secs.saturating_mul(1000)),
            };
            let signs = if key.kid == self.signing { "yes" } else { "no" };
            vec![key.kid.clone(), from, signs.to_owned()]
        });
        tables::texts(&["key", "signs from", "signs now"], rows)
    }
}
