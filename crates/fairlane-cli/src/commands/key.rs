//! `fairlane key`: keys of a server.

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

A key is shown once; its file keeps only a hash. A running server notices a change within about a second.
Roles: admin may do everything; producer enqueues, cancels and repeats; worker leases and settles; viewer looks.
Exit codes: 0 done; 1 it failed; 2 there is no such key, or bad input.";

/// Creates, lists, rotates and revokes the keys of a server
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Subcommand)]
enum Deed {
    /// Makes a key and shows it, this once
    #[command(
        after_help = "Example:\n  fairlane key create --name nightly-import --role producer --group customer-7"
    )]
    Create(Create),
    /// Lists keys, revoked ones too
    #[command(after_help = "Example:\n  fairlane key list --json")]
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Gives a key a new secret; the old one counts for a while
    #[command(after_help = "Example:\n  fairlane key rotate 0a1b2c3d --grace 24h")]
    Rotate {
        /// Which: its id, the 8 signs after flk_
        id: String,
        /// How long the old secret still counts; 0s ends it at once
        #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "24h", allow_hyphen_values = true)]
        grace: Duration,
        #[command(flatten)]
        place: Place,
    },
    /// Ends a key at once and for good
    #[command(after_help = "Example:\n  fairlane key revoke 0a1b2c3d")]
    Revoke {
        /// Which: its id, the 8 signs after flk_
        id: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args)]
struct Create {
    /// What people call it
    #[arg(long)]
    name: String,
    /// What it is for: admin, producer, worker or viewer
    #[arg(long)]
    role: Role,
    /// Bind it to a group, or to several; only a producer or a viewer can be
    #[arg(long = "group", value_name = "GROUP", value_parser = group)]
    groups: Vec<GroupId>,
    /// Its requests: 100/s, or '100/s burst 500' [default: as the server is set]
    #[arg(long, value_parser = parse_rate, allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// When it ends by itself, from now on, such as 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    expires: Option<Duration>,
    #[command(flatten)]
    place: Place,
}

/// The file of keys in a data directory.
pub const KEYS: &str = "keys.json";

/// Where the keys are.
#[derive(Args)]
struct Place {
    /// The file of keys [env: FAIRLANE_KEYS] [default: as ./fairlane.toml says, else keys.json in the data directory]
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    keys: Option<PathBuf>,
    /// The data directory of the server, whose keys.json is meant [default: the engine of the environment or
    /// ./fairlane.toml if that is a directory, else ./fairlane-data]
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    id: String,
    name: String,
    role: &'static str,
    groups: Option<BTreeSet<GroupId>>,
    rate: Option<String>,
    state: &'static str,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    /// Until when the secret before this one still counts.
    previous_valid_until: Option<String>,
    /// The key itself, where it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Serialize)]
struct Listed {
    keys: Vec<Shown>,
}

/// Does what was asked.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.deed {
        Deed::Create(create) => run_create(create),
        Deed::List { place } => list(&place),
        Deed::Rotate { id, grace, place } => {
            let (record, token) = place.file()?.rotate(&id, grace).map_err(failed)?;
            let shown = Shown::new(&record, Some(&token));
            let before = match &shown.previous_valid_until {
                Some(until) => format!("The secret before it counts until {until}."),
                None => "The secret before it counts no more.".to_owned(),
            };
            place.tell_secret(&shown, &before)
        }
        Deed::Revoke { id, place } => {
            let shown = Shown::new(&place.file()?.revoke(&id).map_err(failed)?, None);
            let text = || {
                format!(
                    "{} ({}) is revoked; a running server refuses it within about a second.",
                    shown.id, shown.name
                )
            };
            place.tell(&shown, text)
        }
    }
}

const ONCE: &str = "This is shown once and kept nowhere: put it where its user can read it, and nobody else.";

fn run_create(create: Create) -> Result<(), Failure> {
    let Create { name, role, groups, rate, expires, place } = create;
    let groups = (!groups.is_empty()).then(|| groups.into_iter().collect());
    let file = place.file()?;
    let is_first = !file.path().exists();
    let new = NewKey { name, role, groups, rate, expires_in: expires };
    let (record, token) = file.create(new).map_err(failed)?;
    let shown = Shown::new(&record, Some(&token));
    let first = match is_first {
        true => format!(
            "It is the first in {}; a server that runs without keys asks for them within a second.",
            file.path().display()
        ),
        false => String::new(),
    };
    place.tell_secret(&shown, &first)
}

fn list(place: &Place) -> Result<(), Failure> {
    let records = place.file()?.list().map_err(failed)?;
    let listed = Listed { keys: records.iter().map(|record| Shown::new(record, None)).collect() };
    place.tell(&listed, || listed.text())
}

fn group(text: &str) -> Result<GroupId, String> {
    GroupId::new(text).map_err(|error| error.to_string())
}

fn failed(error: KeysError) -> Failure {
    match error {
        KeysError::Missing(_) | KeysError::NoSuchKey(_) | KeysError::Refused(_) => {
            Failure::bad_input(error.to_string())
        }
        _ => Failure::broken(error.to_string()),
    }
}

impl Place {
    /// The file a server would use that is started here with the same variables.
    fn file(&self) -> Result<KeyFile, Failure> {
        let in_folder = |folder: &Path| folder.join(KEYS);
        let said = self.keys.clone().or_else(|| self.data.as_deref().map(in_folder));
        let said = said.or_else(|| config::variable("FAIRLANE_KEYS").map(PathBuf::from));
        if let Some(path) = said {
            return Ok(KeyFile::at(path));
        }
        let nearby = config::nearby().map_err(Failure::bad_input)?;
        let engine = discovery::expected().map_err(Failure::bad_input)?;
        let folder = || directory_of(&engine).unwrap_or_else(|| DATA.into());
        Ok(KeyFile::at(nearby.keys.unwrap_or_else(|| in_folder(&folder()))))
    }

    fn tell(&self, answer: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { output::print_json(answer) } else { output::print(&text()) }
    }

    /// The secret alone goes to standard output, so that a script can take it: `KEY=$(fairlane key create …)`.
    fn tell_secret(&self, shown: &Shown, besides: &str) -> Result<(), Failure> {
        self.tell(shown, || shown.secret().to_owned())?;
        if !self.json {
            [ONCE, besides].into_iter().filter(|line| !line.is_empty()).for_each(output::say);
        }
        Ok(())
    }
}

impl Shown {
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
        let rate = self.rate.as_deref().unwrap_or("the server's");
        let ends = self.expires_at.as_deref().unwrap_or("never");
        [&self.id, &self.name, self.role, &groups, rate, self.state, &self.created_at, ends]
            .map(str::to_owned)
            .to_vec()
    }
}

impl Listed {
    fn text(&self) -> String {
        let header = ["id", "name", "role", "groups", "rate", "state", "created", "ends"];
        tables::texts(&header, self.keys.iter().map(Shown::row))
    }
}
