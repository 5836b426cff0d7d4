//! `fairlane key`: the API keys of a server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use fairlane::{GroupId, Rate, parse_duration, parse_rate, rate_text};
use fairlane_engine::directory_of;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, KeyRecord, KeysError, NewKey, Token};
use serde::Serialize;

use crate::config::{self, DATA};
use crate::failure::Failure;
use crate::{discovery, output, tables};

const EXAMPLES: &str = "\
Examples:
  fairlane key create --name nightly-import --role producer --group customer-7 --rate 100/s
  fairlane key create --name mail-workers --role worker --expires 90d
  fairlane key list
  fairlane key rotate 0a1b2c3d --grace 24h
  fairlane key revoke 0a1b2c3d

A key is printed once; its file stores only a hash. A running server applies a change within about \
a second.
Roles: admin may do everything; producer enqueues, cancels and requeues; worker leases and settles; \
viewer reads.
Exit codes: 0 success; 1 failure; 2 unknown key or bad input.";

/// Creates, lists, rotates and revokes the API keys of a server
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Creates a key and prints it once
    #[command(
        after_help = "Example:\n  fairlane key create --name nightly-import --role producer --group customer-7\n\n\
                      From the first key on, every client needs one, also on the same machine."
    )]
    Create(CreateArguments),
    /// Lists all keys, including revoked ones
    #[command(after_help = "Example:\n  fairlane key list --json")]
    List {
        #[command(flatten)]
        target: KeyFileTarget,
    },
    /// Replaces the secret of a key; the old secret stays valid for a grace period
    #[command(after_help = "Example:\n  fairlane key rotate 0a1b2c3d --grace 24h")]
    Rotate {
        /// Id of the key: the 8 characters after flk_
        id: String,
        /// How long the old secret stays valid; 0s revokes it at once
        #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "24h", allow_hyphen_values = true)]
        grace: Duration,
        #[command(flatten)]
        target: KeyFileTarget,
    },
    /// Revokes a key immediately and permanently
    #[command(after_help = "Example:\n  fairlane key revoke 0a1b2c3d")]
    Revoke {
        /// Id of the key: the 8 characters after flk_
        id: String,
        #[command(flatten)]
        target: KeyFileTarget,
    },
}

#[derive(Args)]
struct CreateArguments {
    /// Name of the key
    #[arg(long)]
    name: String,
    /// Role of the key: admin, producer, worker or viewer
    #[arg(long)]
    role: Role,
    /// Bind the key to this group; may be repeated. Only for the roles producer and viewer
    #[arg(long = "group", value_name = "GROUP", value_parser = group)]
    groups: Vec<GroupId>,
    /// Limit of requests: 100/s, or '100/s burst 500' [default: key_rate of the server]
    #[arg(long, value_parser = parse_rate, allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// Time until the key expires, such as 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    expires: Option<Duration>,
    #[command(flatten)]
    target: KeyFileTarget,
}

/// The name of the file with the keys in a data directory.
pub const KEYS: &str = "keys.json";

/// The options that select the file with the keys.
#[derive(Args)]
struct KeyFileTarget {
    /// File with the API keys [env: FAIRLANE_KEYS] [default: keys in ./fairlane.toml, else
    /// keys.json in the data directory]
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    keys: Option<PathBuf>,
    /// Data directory of the server, with its keys.json [default: the engine in the environment or
    /// in ./fairlane.toml if it is a directory, else ./fairlane-data]
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// A key as it is printed.
#[derive(Serialize)]
struct KeyDetails {
    id: String,
    name: String,
    role: &'static str,
    groups: Option<BTreeSet<GroupId>>,
    rate: Option<String>,
    state: &'static str,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    /// When the previous secret becomes invalid.
    previous_valid_until: Option<String>,
    /// The key itself, after it was created or rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Serialize)]
struct KeyList {
    keys: Vec<KeyDetails>,
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Create(arguments) => create(arguments),
        Action::List { target } => list(&target),
        Action::Rotate { id, grace, target } => {
            let (record, token) = target.file()?.rotate(&id, grace).map_err(failure)?;
            let details = KeyDetails::new(&record, Some(&token));
            let previous = match &details.previous_valid_until {
                Some(until) => format!("The previous secret is valid until {until}."),
                None => "The previous secret is no longer valid.".to_owned(),
            };
            target.print_secret(&details, &previous)
        }
        Action::Revoke { id, target } => {
            let details = KeyDetails::new(&target.file()?.revoke(&id).map_err(failure)?, None);
            let text = || {
                format!(
                    "{} ({}) is revoked; a running server rejects it within about a second.",
                    details.id, details.name
                )
            };
            target.print(&details, text)
        }
    }
}

const PRINTED_ONCE: &str = "The key is printed once and not stored: save it where only its user can read it.";

fn create(arguments: CreateArguments) -> Result<(), Failure> {
    let CreateArguments { name, role, groups, rate, expires, target } = arguments;
    let groups = (!groups.is_empty()).then(|| groups.into_iter().collect());
    let file = target.file()?;
    let is_first = !file.path().exists();
    let new = NewKey { name, role, groups, rate, expires_in: expires };
    let (record, token) = file.create(new).map_err(failure)?;
    let details = KeyDetails::new(&record, Some(&token));
    let first = match is_first {
        true => format!(
            "It is the first key in {}; a running server without keys requires a key within a second.",
            file.path().display()
        ),
        false => String::new(),
    };
    target.print_secret(&details, &first)
}

fn list(target: &KeyFileTarget) -> Result<(), Failure> {
    let records = target.file()?.list().map_err(failure)?;
    let list = KeyList { keys: records.iter().map(|record| KeyDetails::new(record, None)).collect() };
    target.print(&list, || list.text())
}

fn group(text: &str) -> Result<GroupId, String> {
    GroupId::new(text).map_err(|error| error.to_string())
}

fn failure(error: KeysError) -> Failure {
    match error {
        KeysError::Missing(_) | KeysError::NoSuchKey(_) | KeysError::Refused(_) => {
            Failure::bad_input(error.to_string())
        }
        _ => Failure::broken(error.to_string()),
    }
}

impl KeyFileTarget {
    /// The file that a server started here, with the same variables, would use.
    fn file(&self) -> Result<KeyFile, Failure> {
        let in_folder = |folder: &Path| folder.join(KEYS);
        let configured = self.keys.clone().or_else(|| self.data.as_deref().map(in_folder));
        let configured = configured.or_else(|| config::variable("FAIRLANE_KEYS").map(PathBuf::from));
        if let Some(path) = configured {
            return Ok(KeyFile::at(path));
        }
        let nearby = config::nearby().map_err(Failure::bad_input)?;
        let engine = discovery::configured_or_local().map_err(Failure::bad_input)?;
        let folder = || directory_of(&engine).unwrap_or_else(|| DATA.into());
        Ok(KeyFile::at(nearby.keys().unwrap_or_else(|| in_folder(&folder()))))
    }

    fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { output::print_json(value) } else { output::print(&text()) }
    }

    /// Prints only the key on standard output, for scripts: `KEY=$(fairlane key create …)`.
    fn print_secret(&self, details: &KeyDetails, note: &str) -> Result<(), Failure> {
        self.print(details, || details.secret().to_owned())?;
        if !self.json {
            [PRINTED_ONCE, note].into_iter().filter(|line| !line.is_empty()).for_each(output::print_message);
        }
        Ok(())
    }
}

impl KeyDetails {
    fn new(record: &KeyRecord, token: Option<&Token>) -> Self {
        let state = match (record.revoked_at, record.is_valid(SystemTime::now())) {
            (Some(_), _) => "revoked",
            (None, false) => "expired",
            (None, true) => "valid",
        };
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            role: record.role.as_str(),
            groups: record.groups.clone(),
            rate: record.rate.map(|rate| rate_text(rate.0)),
            state,
            created_at: record.created_at.to_string(),
            expires_at: record.expires_at.map(String::from),
            revoked_at: record.revoked_at.map(String::from),
            previous_valid_until: record.previous.as_ref().map(|previous| previous.valid_until.to_string()),
            key: token.map(|token| token.reveal().to_owned()),
        }
    }

    fn secret(&self) -> &str {
        self.key.as_deref().unwrap_or("")
    }

    fn row(&self) -> Vec<String> {
        let groups = self.groups.as_ref().map_or("all".to_owned(), |groups| {
            groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        });
        let rate = self.rate.as_deref().unwrap_or("default");
        let expires = self.expires_at.as_deref().unwrap_or("never");
        [&self.id, &self.name, self.role, &groups, rate, self.state, &self.created_at, expires]
            .map(str::to_owned)
            .to_vec()
    }
}

impl KeyList {
    fn text(&self) -> String {
        let header = ["id", "name", "role", "groups", "rate", "state", "created", "expires"];
        tables::texts(&header, self.keys.iter().map(KeyDetails::row))
    }
}
