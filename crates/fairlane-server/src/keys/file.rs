//! Keys at rest: a file of JSON that only its owner can write.
//!
//! Invariant: a reader sees the file before or after an edit, never in between; of two edits at once none is lost.

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

/// The form of the file.
const VERSION: u32 = 1;
/// What the marker says to a person who finds it.
const MARKER_TEXT: &[u8] =
    b"Keys are required here. While this file exists, a server does not start without its keys.\n";
/// Most signs in a key's name.
const NAME_LENGTH_MAX: usize = 128;

/// What is wrong with keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// No file.
    #[error(
        "there are no keys at {0}; create one first: fairlane key create --name NAME --role ROLE --keys {0}"
    )]
    Missing(PathBuf),
    /// The file is gone, and keys were required.
    #[error(
        "{path} is gone, and this server required keys: restore it from a backup, or create a key (fairlane key create \
         --name NAME --role ROLE --keys {path}); to serve without keys again, remove {marker} as well",
        path = .0.display(), marker = marker(.0).display()
    )]
    Lost(PathBuf),
    /// Another user owns it and could add a key.
    #[error("{path} belongs to user {owner}, who could add keys; check them, and then: chown {user} {path}")]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// The system does not give it.
    #[error("the keys at {path} cannot be read: {reason}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// Anybody could add a key.
    #[error("others can write {0}, so its keys mean nothing; check them, and then: chmod 600 {0}")]
    Writable(PathBuf),
    /// It has another form.
    #[error("{path} is no file of keys: {reason}; repair it or take a copy back")]
    Broken {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The system does not take it.
    #[error("the keys at {path} cannot be written: {reason}")]
    Unwritable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// The system gives no random bytes.
    #[error("no secret can be made: {0}")]
    NoChance(getrandom::Error),
    /// No such key.
    #[error("there is no key {0}; fairlane key list shows those there are")]
    NoSuchKey(String),
    /// It cannot be as asked.
    #[error("{0}")]
    Refused(String),
}

/// A key as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// Its public part, in lists and logs.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The groups it is bound to; none: not bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeSet<GroupId>>,
    /// Its own rate of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateText>,
    /// What its secret is checked against.
    pub secret_sha256: SecretHash,
    /// The secret before this one, while it still counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousSecret>,
    /// When it was made.
    pub created_at: Time,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
}

impl KeyRecord {
    /// Whether it opens anything.
    pub fn is_valid(&self, now: SystemTime) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires| now < expires.0)
    }
}

/// A secret that was replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviousSecret {
    /// What it is checked against.
    pub secret_sha256: SecretHash,
    /// Until when it counts.
    pub valid_until: Time,
}

/// A point in time, as text in RFC 3339.
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

/// A rate, as text such as `100/s`.
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

/// What is asked for when a key is made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The groups it is bound to; none: not bound.
    pub groups: Option<BTreeSet<GroupId>>,
    /// Its own rate of requests.
    pub rate: Option<Rate>,
    /// How long it is good for; none: until it is revoked.
    pub expires_in: Option<Duration>,
}

impl NewKey {
    fn check(&self) -> Result<(), KeysError> {
        check(&self.name, self.role, self.groups.as_ref()).map_err(KeysError::Refused)?;
        if self.expires_in.is_some_and(|length| length.is_zero()) {
            let why =
                "a key that ends at once opens nothing; let it last longer, such as 90d, or leave that out";
            return Err(KeysError::Refused(why.to_owned()));
        }
        Ok(())
    }
}

/// What every key must be, however it got into the file.
fn check(name: &str, role: Role, groups: Option<&BTreeSet<GroupId>>) -> Result<(), String> {
    if !(1..=NAME_LENGTH_MAX).contains(&name.chars().count()) || name.chars().any(char::is_control) {
        return Err(format!("a key's name has 1 to {NAME_LENGTH_MAX} signs, all of which can be seen"));
    }
    let why = match (role, groups) {
        (_, Some(groups)) if groups.is_empty() => "a key bound to no group at all could do nothing",
        (Role::Worker, Some(_)) => {
            "a lease hands out jobs of all groups, so a worker cannot be bound to some"
        }
        (Role::Admin, Some(_)) => "an admin decides about the whole queue, so it cannot be bound to groups",
        _ => return Ok(()),
    };
    Err(format!("{why}; leave the groups out, or make a producer or a viewer"))
}

/// What the file has in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    keys: Vec<KeyRecord>,
}

/// What a file is known again by.
pub(super) type Stamp = (SystemTime, (i64, i64), u64, u64);

/// A file of keys, to be edited.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at this place, whether it is there or not.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // A link stays a link: what it leads to is replaced.
        Self { path: path.canonicalize().unwrap_or(path) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys, revoked ones too, in the order they were made.
    pub fn list(&self) -> Result<Vec<KeyRecord>, KeysError> {
        read(&self.path).map(|(_, records)| records)
    }

    /// Makes a key, and the file if it is not there.
    pub fn create(&self, new: NewKey) -> Result<(KeyRecord, Token), KeysError> {
        new.check()?;
        self.edit(|keys| {
            let mut id = Token::new_id().map_err(KeysError::NoChance)?;
            while keys.iter().any(|key| key.id == id) {
                id = Token::new_id().map_err(KeysError::NoChance)?;
            }
            let token = Token::new(&id).map_err(KeysError::NoChance)?;
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

    /// Gives a key a new secret; the one it had counts for the grace period, and one before that no more.
    pub fn rotate(&self, id: &str, grace_period: Duration) -> Result<(KeyRecord, Token), KeysError> {
        self.edit(|keys| {
            let key = find(keys, id)?;
            let now = SystemTime::now();
            if !key.is_valid(now) {
                return Err(KeysError::Refused(format!(
                    "{id} was revoked or is past its time, and a new secret would not change that; create another key"
                )));
            }
            let token = Token::new(id).map_err(KeysError::NoChance)?;
            let replaced = std::mem::replace(&mut key.secret_sha256, token.hash());
            key.previous = (!grace_period.is_zero())
                .then(|| PreviousSecret { secret_sha256: replaced, valid_until: later(now, grace_period) });
            Ok((key.clone(), token))
        })
    }

    /// Revokes a key. It stays in the list, so that its id means something in old logs.
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
        // A file of its own, which is never replaced: a lock on the keys themselves would go with the old file.
        let lock = self.open_lock(folder).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut keys = match read(&self.path) {
            Ok((_, keys)) => keys,
            Err(KeysError::Missing(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let done = change(&mut keys)?;
        // First: keys that are required from now on must not be forgotten.
        self.require(folder).map_err(unwritable)?;
        self.write(folder, keys).map_err(unwritable)?;
        Ok(done)
    }

    /// Leaves the marker that keys are required.
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
            // Its owner stays: it could be a link to anything.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => private().truncate(false).open(path),
            Err(error) => Err(error),
        }
    }

    /// Gives a new file to the owner of the keys, so that root does not lock a server out of them. The first one root
    /// makes belongs to the owner of the folder.
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
        // What an edit that was cut short has left may have another mode.
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

/// The file beside the keys that says that keys are required: when it is there, a missing file of keys is a loss.
pub(super) fn marker(path: &Path) -> PathBuf {
    KeyFile { path: path.to_owned() }.beside("required")
}

/// Leaves the marker for a file of keys that has none, where that is possible.
pub(super) fn require(path: &Path) {
    if marker(path).exists() {
        return;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Err(error) = (KeyFile { path: path.to_owned() }).require(folder) {
        // Such as a file of keys that is mounted read-only, whose loss is noticed by who mounts it.
        tracing::debug!(target: "fairlane", path = %path.display(), %error, "keys are required, and no marker can be left");
    }
}

/// Whether this process may rely on what a user owns: its own, root's, and for root everybody's, as it could take it over.
fn is_trusted(owner: u32, user: u32) -> bool {
    owner == user || owner == 0 || user == 0
}

/// Whether others can put another file in the place of one in a directory of this mode.
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
    // Past the end of the calendar means never.
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    Time(now + length.min(CENTURY))
}

/// Requests come in bursts: without a burst of its own, a rate allows a period's worth at once.
fn with_burst(rate: Rate) -> Rate {
    let plain = Rate::new(rate.count(), rate.period_ms(), None);
    let bursting = Rate::new(rate.count(), rate.period_ms(), Some(rate.count().max(rate.burst())));
    if plain == Ok(rate) { bursting.unwrap_or(rate) } else { rate }
}

/// The file as it is now; none if it is not there.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    std::fs::metadata(path).and_then(|found| stamp_of(&found)).ok()
}

fn stamp_of(found: &std::fs::Metadata) -> std::io::Result<Stamp> {
    // A change of its mode alone shows in the time of its last change of any kind.
    Ok((found.modified()?, (found.ctime(), found.ctime_nsec()), found.len(), found.ino()))
}

/// A file that others put there has their owner and is refused; they could still bring an old one back, or remove it.
fn warn_of_folder(path: &Path, user: u32) {
    let folder = path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    let Some((folder, found)) = folder.and_then(|folder| Some((folder.clone(), folder.metadata().ok()?)))
    else {
        return;
    };
    if is_open(found.mode()) || !is_trusted(found.uid(), user) {
        tracing::warn!(
            target: "fairlane", folder = %folder.display(),
            "others can replace or remove the file of keys, as they can write its directory; chmod go-w, or move it"
        );
    }
}

/// The keys of a file that nobody else can write.
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
    // Not what stands there: it could be a key that was pasted by mistake.
    let content: Content = serde_json::from_slice(&text).map_err(|error| {
        broken(format!("what stands at line {}, column {} does not fit", error.line(), error.column()))
    })?;
    if content.version != VERSION {
        return Err(broken(format!("it has version {}, and this program reads {VERSION}", content.version)));
    }
    let mut ids = BTreeSet::new();
    for (at, KeyRecord { id, name, role, groups, .. }) in content.keys.iter().enumerate() {
        let number = at + 1;
        check(name, *role, groups.as_ref()).map_err(|why| broken(format!("key number {number}: {why}")))?;
        if !ids.insert(id) {
            return Err(broken(format!("key number {number} has the id of one before it")));
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
    fn keys_of_another_user_are_not_trusted() {
        assert!(is_trusted(1000, 1000) && is_trusted(0, 1000) && is_trusted(1000, 0));
        assert!(!is_trusted(1001, 1000));
    }

    #[test]
    fn a_directory_is_open_when_others_can_replace_its_files() {
        for (mode, expected) in
            [(0o700, false), (0o755, false), (0o775, true), (0o777, true), (0o1777, false), (0o2770, true)]
        {
            assert_eq!(is_open(mode), expected, "{mode:o}");
        }
    }
}
