//! Keys at rest: a JSON file that only its owner can write.
//!
//! Invariant: edits are atomic for readers, and concurrent edits are serialized, so that none is
//! lost.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fairlane::{InvalidRate, InvalidTime, Rate, parse_rate, parse_time, rate_text, time_text};
use fairlane_core::GroupId;
use serde::{Deserialize, Serialize};

use super::token::{SecretHash, Token};
use crate::access::Role;

/// The version of the file format.
const VERSION: u32 = 1;
/// The content of the marker file, which explains its purpose to an operator.
const MARKER_TEXT: &[u8] =
    b"Keys are required here. While this file exists, a server does not start without its keys.\n";
/// The longest name of a key, in characters.
const NAME_LENGTH_MAX: usize = 128;

/// Why keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The file does not exist.
    #[error(
        "there are no keys at {0}; create one first: fairlane key create --name NAME --role ROLE --keys {0}"
    )]
    Missing(PathBuf),
    /// The file is gone, although keys were required before.
    #[error(
        "{path} is gone, and this server required keys: restore it from a backup, or create a key (fairlane key create \
         --name NAME --role ROLE --keys {path}); to serve without keys again, remove {marker} as well",
        path = .0.display(), marker = marker(.0).display()
    )]
    Lost(PathBuf),
    /// Another user owns the file and could add a key.
    #[error("{path} belongs to user {owner}, who could add keys; check them, and then: chown {user} {path}")]
    Foreign {
        /// The path of the file.
        path: PathBuf,
        /// The user id of the owner of the file.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// The file cannot be read.
    #[error("the keys at {path} cannot be read: {reason}")]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// Other users could add a key.
    #[error("others can write {0}, so its keys cannot be trusted; check them, and then: chmod 600 {0}")]
    Writable(PathBuf),
    /// The content is not a valid file of keys.
    #[error("{path} is not a valid file of keys: {reason}; repair it or restore a copy")]
    Broken {
        /// The path of the file.
        path: PathBuf,
        /// What is invalid in it.
        reason: String,
    },
    /// The file cannot be written.
    #[error("the keys at {path} cannot be written: {reason}")]
    Unwritable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// The system provides no random bytes.
    #[error("no secret can be generated: {0}")]
    NoRandomness(getrandom::Error),
    /// The key does not exist.
    #[error("there is no key {0}; fairlane key list shows the existing ones")]
    NoSuchKey(String),
    /// The arguments are invalid.
    #[error("{0}")]
    Refused(String),
}

/// A key as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// The public id, shown in lists and logs.
    pub id: String,
    /// The name that people use for the key.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The groups the key is bound to; `None` if it is not bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeSet<GroupId>>,
    /// The rate of requests of this key; `None` for the server's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateText>,
    /// The hash of the current secret.
    pub secret_sha256: SecretHash,
    /// The previous secret, while its grace period lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousSecret>,
    /// When the key was created.
    pub created_at: Time,
    /// When the key expires; `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When the key was revoked; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
}

impl KeyRecord {
    /// Whether the key is neither revoked nor expired.
    pub fn is_valid(&self, now: SystemTime) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires| now < expires.0)
    }
}

/// A secret that was replaced by a rotation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviousSecret {
    /// The hash of the secret.
    pub secret_sha256: SecretHash,
    /// The end of its grace period.
    pub valid_until: Time,
}

/// An instant, serialized as RFC 3339 text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(pub SystemTime);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        f.write_str(&time_text(since.as_millis() as u64))
    }
}

impl From<Time> for String {
    fn from(time: Time) -> Self {
        time.to_string()
    }
}

impl TryFrom<String> for Time {
    type Error = InvalidTime;

    fn try_from(text: String) -> Result<Self, InvalidTime> {
        parse_time(&text).map(Self)
    }
}

/// A rate, serialized as text such as `100/s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RateText(pub Rate);

impl From<RateText> for String {
    fn from(rate: RateText) -> Self {
        rate_text(rate.0)
    }
}

impl TryFrom<String> for RateText {
    type Error = InvalidRate;

    fn try_from(text: String) -> Result<Self, InvalidRate> {
        parse_rate(&text).map(Self)
    }
}

/// The properties of a key to be created.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The name that people use for the key.
    pub name: String,
    /// The role of the key.
    pub role: Role,
    /// The groups the key is bound to; `None` if it is not bound.
    pub groups: Option<BTreeSet<GroupId>>,
    /// The rate of requests of this key; `None` for the server's default.
    pub rate: Option<Rate>,
    /// How long the key is valid; `None` until it is revoked.
    pub expires_in: Option<Duration>,
}

impl NewKey {
    fn check(&self) -> Result<(), KeysError> {
        check(&self.name, self.role, self.groups.as_ref()).map_err(KeysError::Refused)?;
        if self.expires_in.is_some_and(|length| length.is_zero()) {
            let why = "a key that ends at once is useless; choose a longer time, such as 90d, or omit it";
            return Err(KeysError::Refused(why.to_owned()));
        }
        Ok(())
    }
}

/// Checks the properties of a key, whether it is new or read from the file.
fn check(name: &str, role: Role, groups: Option<&BTreeSet<GroupId>>) -> Result<(), String> {
    if !(1..=NAME_LENGTH_MAX).contains(&name.chars().count()) || name.chars().any(char::is_control) {
        return Err(format!("a key's name has 1 to {NAME_LENGTH_MAX} visible characters"));
    }
    let why = match (role, groups) {
        (_, Some(groups)) if groups.is_empty() => "a key with an empty list of groups has access to nothing",
        (Role::Worker, Some(_)) => "a lease takes jobs of all groups, so a worker cannot be bound to groups",
        (Role::Admin, Some(_)) => "an admin controls the whole queue, so it cannot be bound to groups",
        _ => return Ok(()),
    };
    Err(format!("{why}; omit the groups, or create a producer or a viewer"))
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    keys: Vec<KeyRecord>,
}

/// The version of a file on disk: time of modification, time of change, size and inode.
pub(super) type Stamp = (SystemTime, (i64, i64), u64, u64);

/// A file of keys that can be edited.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at this path, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // A symbolic link stays: an edit replaces its target.
        Self { path: path.canonicalize().unwrap_or(path) }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys, including revoked ones, in order of creation.
    pub fn list(&self) -> Result<Vec<KeyRecord>, KeysError> {
        read(&self.path).map(|(_, records)| records)
    }

    /// Creates a key, and the file if it does not exist.
    pub fn create(&self, new: NewKey) -> Result<(KeyRecord, Token), KeysError> {
        new.check()?;
        self.edit(|keys| {
            let mut id = Token::new_id().map_err(KeysError::NoRandomness)?;
            while keys.iter().any(|key| key.id == id) {
                id = Token::new_id().map_err(KeysError::NoRandomness)?;
            }
            let token = Token::new(&id).map_err(KeysError::NoRandomness)?;
            let now = SystemTime::now();
            let record = KeyRecord {
                id,
                name: new.name,
                role: new.role,
                groups: new.groups,
                rate: new.rate.map(with_burst).map(RateText),
                secret_sha256: token.hash(),
                previous: None,
                created_at: Time(now),
                expires_at: new.expires_in.map(|length| later(now, length)),
                revoked_at: None,
            };
            keys.push(record.clone());
            Ok((record, token))
        })
    }

    /// Gives a key a new secret. The replaced secret stays valid for the grace period; an older one
    /// ends at once.
    pub fn rotate(&self, id: &str, grace_period: Duration) -> Result<(KeyRecord, Token), KeysError> {
        self.edit(|keys| {
            let key = find(keys, id)?;
            let now = SystemTime::now();
            if !key.is_valid(now) {
                return Err(KeysError::Refused(format!(
                    "{id} is revoked or expired, and a new secret would not change that; create another key"
                )));
            }
            let token = Token::new(id).map_err(KeysError::NoRandomness)?;
            let replaced = std::mem::replace(&mut key.secret_sha256, token.hash());
            key.previous = (!grace_period.is_zero())
                .then(|| PreviousSecret { secret_sha256: replaced, valid_until: later(now, grace_period) });
            Ok((key.clone(), token))
        })
    }

    /// Revokes a key. It stays in the list, so that its id in old logs can be looked up.
    pub fn revoke(&self, id: &str) -> Result<KeyRecord, KeysError> {
        self.edit(|keys| {
            let key = find(keys, id)?;
            key.previous = None;
            key.revoked_at.get_or_insert(Time(SystemTime::now()));
            Ok(key.clone())
        })
    }

    fn edit<T>(
        &self,
        change: impl FnOnce(&mut Vec<KeyRecord>) -> Result<T, KeysError>,
    ) -> Result<T, KeysError> {
        let unwritable = |reason| KeysError::Unwritable { path: self.path.clone(), reason };
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unwritable)?;
        // The lock is a file of its own that is never replaced: a lock on the keys would end with
        // the old file.
        let lock = self.open_lock(folder).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut keys = match read(&self.path) {
            Ok((_, keys)) => keys,
            Err(KeysError::Missing(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let done = change(&mut keys)?;
        // The marker is written first, so that keys cannot exist without being required.
        self.require(folder).map_err(unwritable)?;
        self.write(folder, keys).map_err(unwritable)?;
        Ok(done)
    }

    /// Creates the marker that keys are required.
    fn require(&self, folder: &Path) -> std::io::Result<()> {
        match private().create_new(true).open(marker(&self.path)) {
            Ok(mut new) => {
                self.hand_over(&new, folder)?;
                new.write_all(MARKER_TEXT)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn open_lock(&self, folder: &Path) -> std::io::Result<File> {
        let path = self.beside("lock");
        match private().create_new(true).open(&path) {
            Ok(lock) => self.hand_over(&lock, folder).map(|()| lock),
            // The owner of an existing file is not changed: it could be a link to any file.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => private().truncate(false).open(path),
            Err(error) => Err(error),
        }
    }

    /// Gives a new file to the owner of the keys, so that an edit by root does not lock a server
    /// out of them. The first file that root creates belongs to the owner of the folder.
    fn hand_over(&self, file: &File, folder: &Path) -> std::io::Result<()> {
        let new = file.metadata()?;
        let (model, mode) = match std::fs::metadata(&self.path) {
            Ok(old) => (old.clone(), old.mode()),
            Err(error) if error.kind() == ErrorKind::NotFound && new.uid() == 0 => {
                (std::fs::metadata(folder)?, new.mode())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.set_permissions(Permissions::from_mode(mode & 0o777))?;
        match (model.uid(), model.gid()) {
            same if same == (new.uid(), new.gid()) => Ok(()),
            (uid, gid) => fchown(file, Some(uid), Some(gid)),
        }
    }

    fn write(&self, folder: &Path, keys: Vec<KeyRecord>) -> std::io::Result<()> {
        let mut text = serde_json::to_vec_pretty(&Content { version: VERSION, keys })?;
        text.push(b'\n');
        let new = self.beside("new");
        // An interrupted edit may have left a file with another mode.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = private().create_new(true).open(&new)?;
        self.hand_over(&file, folder)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        File::open(folder)?.sync_all()
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

/// The path of the marker that keys are required: if it exists, a missing file of keys is an error.
pub(super) fn marker(path: &Path) -> PathBuf {
    KeyFile { path: path.to_owned() }.beside("required")
}

/// Creates the marker for a file of keys that has none, where that is possible.
pub(super) fn require(path: &Path) {
    if marker(path).exists() {
        return;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Err(error) = (KeyFile { path: path.to_owned() }).require(folder) {
        // The folder may be mounted read-only. Then a missing file of keys fails when it is
        // mounted.
        tracing::debug!(target: "fairlane", path = %path.display(), %error, "keys are required, and no marker can be created");
    }
}

/// Whether this process may trust files of a user: its own files, those of root, and, as root,
/// those of any user.
fn is_trusted(owner: u32, user: u32) -> bool {
    owner == user || owner == 0 || user == 0
}

/// Whether other users can replace a file in a directory of this mode.
fn is_open(mode: u32) -> bool {
    const STICKY: u32 = 0o1000;
    mode & 0o022 != 0 && mode & STICKY == 0
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

fn find<'a>(keys: &'a mut [KeyRecord], id: &str) -> Result<&'a mut KeyRecord, KeysError> {
    keys.iter_mut().find(|key| key.id == id).ok_or_else(|| KeysError::NoSuchKey(id.to_owned()))
}

fn later(now: SystemTime, length: Duration) -> Time {
    // A longer validity is cut to a century, so that the end can be represented as a date.
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    Time(now + length.min(CENTURY))
}

/// Requests come in bursts: a rate without an explicit burst allows the requests of one period at
/// once.
fn with_burst(rate: Rate) -> Rate {
    let plain = Rate::new(rate.count(), rate.period_ms(), None);
    let bursting = Rate::new(rate.count(), rate.period_ms(), Some(rate.count().max(rate.burst())));
    if plain == Ok(rate) { bursting.unwrap_or(rate) } else { rate }
}

/// The stamp of the file now; `None` if it does not exist.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    std::fs::metadata(path).and_then(|found| stamp_of(&found)).ok()
}

fn stamp_of(found: &std::fs::Metadata) -> std::io::Result<Stamp> {
    // A change of the mode alone is visible only in the time of change.
    Ok((found.modified()?, (found.ctime(), found.ctime_nsec()), found.len(), found.ino()))
}

/// Warns if other users can write the folder. A file that they create is refused because of its
/// owner, but they could restore an old file or remove it.
fn warn_of_folder(path: &Path, user: u32) {
    let folder = path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    let Some((folder, found)) = folder.and_then(|folder| Some((folder.clone(), folder.metadata().ok()?)))
    else {
        return;
    };
    if is_open(found.mode()) || !is_trusted(found.uid(), user) {
        tracing::warn!(
            target: "fairlane", folder = %folder.display(),
            "others can replace or remove the file of keys, as they can write its directory; chmod go-w it, or move the file"
        );
    }
}

/// Reads a file of keys that no other user can write.
pub(super) fn read(path: &Path) -> Result<(Stamp, Vec<KeyRecord>), KeysError> {
    let unreadable = |reason: std::io::Error| match reason.kind() {
        ErrorKind::NotFound => KeysError::Missing(path.to_owned()),
        _ => KeysError::Unreadable { path: path.to_owned(), reason },
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if found.mode() & 0o022 != 0 {
        return Err(KeysError::Writable(path.to_owned()));
    }
    let user = rustix::process::geteuid().as_raw();
    if !is_trusted(found.uid(), user) {
        return Err(KeysError::Foreign { path: path.to_owned(), owner: found.uid(), user });
    }
    warn_of_folder(path, user);
    let stamp = stamp_of(&found).map_err(unreadable)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(unreadable)?;
    let broken = |reason: String| KeysError::Broken { path: path.to_owned(), reason };
    // The message does not repeat the content: it could be a key that was pasted by mistake.
    let content: Content = serde_json::from_slice(&text).map_err(|error| {
        broken(format!("invalid content at line {}, column {}", error.line(), error.column()))
    })?;
    if content.version != VERSION {
        return Err(broken(format!(
            "it has version {}, and this program reads version {VERSION}",
            content.version
        )));
    }
    let mut ids = BTreeSet::new();
    for (at, KeyRecord { id, name, role, groups, .. }) in content.keys.iter().enumerate() {
        let number = at + 1;
        check(name, *role, groups.as_ref()).map_err(|why| broken(format!("key number {number}: {why}")))?;
        if !ids.insert(id) {
            return Err(broken(format!("key number {number} has the same id as an earlier one")));
        }
    }
    if found.mode() & 0o044 != 0 {
        tracing::warn!(target: "fairlane", path = %path.display(), "others can read the names and hashes of the keys; chmod 600");
    }
    Ok((stamp, content.keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_user_are_not_trusted() {
        assert!(is_trusted(1000, 1000) && is_trusted(0, 1000) && is_trusted(1000, 0));
        assert!(!is_trusted(1001, 1000));
    }

    #[test]
    fn a_directory_is_open_when_other_users_can_replace_its_files() {
        for (mode, expected) in
            [(0o700, false), (0o755, false), (0o775, true), (0o777, true), (0o1777, false), (0o2770, true)]
        {
            assert_eq!(is_open(mode), expected, "{mode:o}");
        }
    }
}
