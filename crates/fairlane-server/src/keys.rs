//! The keys of a running server, read from their file and again whenever it changes.
//!
//! - `keys/file.rs`: keys at rest. `keys/token.rs`: a key as its owner has it.
//!
//! Invariant: key lookup takes constant time whether or not the key exists. A file that cannot be
//! read changes nothing: valid keys stay valid, and the server reads it again until it succeeds.
//! Long polls and streams opened with a key end with it. Once keys are required, they stay
//! required.

mod file;
mod token;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fairlane_core::GroupId;
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

pub use file::{KeyFile, KeyRecord, KeysError, NewKey, PreviousSecret, RateText, Time};
pub use token::{SecretHash, Token};

use crate::access::Caller;
use crate::guard::KeyLimits;

/// How often the file is checked for changes.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The keys of a server.
pub struct Keys {
    path: PathBuf,
    known: RwLock<KeysById>,
    last_read: Mutex<LastRead>,
    /// Whether requests without a key are refused.
    are_required: AtomicBool,
    /// Cancelled when keys become required.
    required: CancellationToken,
}

/// The file as it was read last.
struct LastRead {
    /// `None` if the file did not exist.
    stamp: Option<file::Stamp>,
    /// Why reading it has failed since, so that the error is logged once.
    error: Option<String>,
}

type KeysById = HashMap<Box<str>, Arc<Key>>;

/// A key of the server.
pub(crate) struct Key {
    record: KeyRecord,
    /// The name for people.
    name: Arc<str>,
    /// The caller that the key identifies.
    pub caller: Caller,
    /// The limits of the key. They outlive a change of the key, so that a change does not reset
    /// what it has used.
    pub limits: Arc<OnceLock<KeyLimits>>,
    /// Cancelled when the key is changed, revoked or removed.
    ended: CancellationToken,
}

/// A valid key that a request was sent with.
pub(crate) struct Presented {
    /// The key.
    pub key: Arc<Key>,
    /// When the key expires, or the grace period of the secret that was sent ends.
    until: Option<SystemTime>,
}

impl Presented {
    /// Waits until the key is no longer valid, or was changed and has to be presented again.
    pub async fn ended(self) {
        let until = self.until.map(|until| until.duration_since(SystemTime::now()).unwrap_or_default());
        let ended = self.key.ended.cancelled();
        match until {
            Some(left) => {
                // The key has ended whether the timeout passed or not.
                let _ = tokio::time::timeout(left, ended).await;
            }
            None => ended.await,
        }
    }
}

impl Keys {
    /// The keys of a file.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, KeysError> {
        let path = path.into();
        let (stamp, records) = file::read(&path)?;
        let keys = Self::empty(path, Some(stamp));
        file::require(&keys.path);
        *keys.known.write().unwrap_or_else(PoisonError::into_inner) = by_id(records, &KeysById::new());
        keys.require();
        Ok(keys)
    }

    /// The keys of a file that need not exist: keys are not required until it contains one. A file
    /// that existed before must exist.
    pub fn expect(path: impl Into<PathBuf>) -> Result<Self, KeysError> {
        let path = path.into();
        match Self::open(&path) {
            Err(KeysError::Missing(_)) if file::marker(&path).exists() => Err(KeysError::Lost(path)),
            Err(KeysError::Missing(_)) => Ok(Self::empty(path, None)),
            opened => opened,
        }
    }

    fn empty(path: PathBuf, stamp: Option<file::Stamp>) -> Self {
        Self {
            path,
            known: RwLock::default(),
            last_read: Mutex::new(LastRead { stamp, error: None }),
            are_required: AtomicBool::new(false),
            required: CancellationToken::new(),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether requests without a key are refused.
    pub fn are_required(&self) -> bool {
        self.are_required.load(Ordering::Acquire)
    }

    /// Waits until requests without a key are refused.
    pub(crate) async fn required(&self) {
        self.required.cancelled().await;
    }

    fn require(&self) {
        self.are_required.store(true, Ordering::Release);
        self.required.cancel();
    }

    /// Whether at least one key is valid.
    pub fn any_valid(&self) -> bool {
        let now = SystemTime::now();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().any(|key| key.record.is_valid(now))
    }

    /// The groups that valid keys are bound to.
    pub fn bound_groups(&self) -> BTreeSet<GroupId> {
        let now = SystemTime::now();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let valid = known.values().filter(|key| key.record.is_valid(now));
        valid.flat_map(|key| key.record.groups.iter().flatten().cloned()).collect()
    }

    /// The key with this text, if it is valid.
    ///
    /// The id is public, so its lookup may leak timing. The secret is compared in constant time,
    /// with a dummy hash if the id is unknown.
    pub(crate) fn find(&self, text: &str) -> Option<Presented> {
        let (id, secret) = Token::parts(text).unwrap_or_default();
        let hash = SecretHash::of(secret);
        let key = self.known.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let dummy = SecretHash::default();
        let record = key.as_ref().map(|key| &key.record);
        let current = record.map_or(&dummy, |record| &record.secret_sha256);
        let previous = record.and_then(|record| record.previous.as_ref());
        let is_current = hash.ct_eq(current);
        let is_previous = hash.ct_eq(previous.map_or(&dummy, |previous| &previous.secret_sha256));
        let now = SystemTime::now();
        let in_grace = previous.is_some_and(|previous| now < previous.valid_until.0);
        let matches = bool::from(is_current) | (bool::from(is_previous) & in_grace);
        let key = key.filter(|key| matches && key.record.is_valid(now))?;
        let secret_until = key.record.previous.as_ref().filter(|_| !bool::from(is_current));
        let ends = [secret_until.map(|previous| previous.valid_until), key.record.expires_at];
        let until = ends.into_iter().flatten().map(|time| time.0).min();
        Some(Presented { key, until })
    }

    /// The key with this id, if it is valid: for a session, which was opened with its secret.
    pub(crate) fn find_opened(&self, id: &str, session_until: SystemTime) -> Option<Presented> {
        let key = self.known.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()?;
        let until = key.record.expires_at.map_or(session_until, |time| time.0.min(session_until));
        let now = SystemTime::now();
        (key.record.is_valid(now) && now < until).then_some(Presented { key, until: Some(until) })
    }

    /// Reads the file again if it has changed or the last attempt failed.
    pub(crate) fn refresh(&self) {
        let mut last_read = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        if last_read.error.is_none() && file::stamp(&self.path) == last_read.stamp {
            return;
        }
        match file::read(&self.path) {
            Ok((stamp, records)) => {
                *last_read = LastRead { stamp: Some(stamp), error: None };
                let mut current = self.known.write().unwrap_or_else(PoisonError::into_inner);
                let before = std::mem::take(&mut *current);
                *current = by_id(records, &before);
                let keys = current.len();
                if !self.are_required() && keys > 0 {
                    self.require();
                    tracing::info!(target: "fairlane", keys, "keys are required from now on");
                } else {
                    tracing::info!(target: "fairlane", keys, "the keys have changed");
                }
                for (id, key) in before {
                    if !current.get(&id).is_some_and(|kept| Arc::ptr_eq(&key, kept)) {
                        key.ended.cancel();
                    }
                }
            }
            Err(error) => {
                let message = Some(error.to_string());
                if last_read.error != message {
                    tracing::error!(
                        target: "fairlane", %error,
                        "the keys cannot be read and stay as they were; to end one, restore the file and revoke it"
                    );
                    last_read.error = message;
                }
            }
        }
    }

    /// Refreshes the keys until the server stops.
    pub(crate) async fn watch(self: Arc<Self>, stopping: CancellationToken) {
        while stopping.run_until_cancelled(tokio::time::sleep(CHECK_EVERY)).await.is_some() {
            let keys = self.clone();
            // A disk that hangs must not block requests. The runtime has reported a panic already.
            let _ = tokio::task::spawn_blocking(move || keys.refresh()).await;
        }
    }
}

/// The keys of these records. A record that has not changed keeps its key.
fn by_id(records: Vec<KeyRecord>, before: &KeysById) -> KeysById {
    let key = |record: KeyRecord| {
        let before = before.get(record.id.as_str());
        if let Some(same) = before.filter(|before| before.record == record) {
            return (record.id.into_boxed_str(), same.clone());
        }
        let same_rate = before.filter(|before| before.record.rate == record.rate);
        let caller = Caller {
            name: record.id.as_str().into(),
            role: record.role,
            groups: record.groups.clone().map(Arc::new),
        };
        let limits = same_rate.map_or_else(Arc::default, |before| before.limits.clone());
        (
            record.id.clone().into_boxed_str(),
            Arc::new(Key {
                name: record.name.as_str().into(),
                record,
                caller,
                limits,
                ended: CancellationToken::new(),
            }),
        )
    };
    records.into_iter().map(key).collect()
}

impl Key {
    /// The name that an operator has given it.
    pub fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// The hash of its current secret.
    pub fn secret_hash(&self) -> &SecretHash {
        &self.record.secret_sha256
    }

    /// The rate set for this key, in requests; `None` if it has the server's default.
    pub fn rate(&self) -> Option<fairlane_core::Rate> {
        self.record.rate.map(|rate| rate.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    fn create_key(file: &KeyFile) -> (KeyRecord, Token) {
        file.create(NewKey {
            name: "n".into(),
            role: Role::Viewer,
            groups: None,
            rate: None,
            expires_in: None,
        })
        .unwrap()
    }

    #[test]
    fn a_key_is_found_by_its_exact_secret_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let ((record, token), (other, _)) = (create_key(&file), create_key(&file));
        let keys = Keys::open(file.path()).unwrap();
        let text = token.reveal();
        assert_eq!(*keys.find(text).unwrap().key.caller.name, *record.id);
        let foreign = text.replace(&record.id, &other.id);
        let cut = &text[..text.len() - 1];
        let longer = format!("{text}A");
        for wrong in ["", "flk_", "flk__", "é", cut, &longer, &foreign, &text[4..], &text.to_uppercase()] {
            assert!(keys.find(wrong).is_none(), "{wrong}");
        }
        assert!(!format!("{token:?}{record:?}").contains(&text[13..]));
    }

    #[test]
    fn a_rotated_secret_is_valid_until_its_grace_period_ends_and_a_revoked_key_never() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, first) = create_key(&file);
        let keys = Keys::open(file.path()).unwrap();
        let (_, second) = file.rotate(&record.id, Duration::from_secs(3600)).unwrap();
        keys.refresh();
        assert!(keys.find(first.reveal()).is_some() && keys.find(second.reveal()).is_some());
        let (_, third) = file.rotate(&record.id, Duration::ZERO).unwrap();
        keys.refresh();
        assert!(keys.find(first.reveal()).is_none() && keys.find(second.reveal()).is_none());
        assert!(keys.find(third.reveal()).is_some() && keys.any_valid());
        file.revoke(&record.id).unwrap();
        keys.refresh();
        assert!(keys.find(third.reveal()).is_none() && !keys.any_valid());
    }

    #[test]
    fn keys_become_required_with_the_first_one_and_stay_required() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let keys = Keys::expect(file.path()).unwrap();
        keys.refresh();
        std::fs::write(file.path(), r#"{"version": 1, "keys": []}"#).unwrap();
        keys.refresh();
        assert!(!keys.are_required() && !keys.any_valid());
        let (record, token) = create_key(&file);
        keys.refresh();
        assert!(keys.are_required() && keys.find(token.reveal()).is_some());
        file.revoke(&record.id).unwrap();
        keys.refresh();
        std::fs::remove_file(file.path()).unwrap();
        keys.refresh();
        assert!(keys.are_required() && keys.find(token.reveal()).is_none());
        assert!(Keys::open(file.path()).is_err(), "a configured file must exist");
        let lost = Keys::expect(file.path()).err().unwrap().to_string();
        assert!(lost.contains("restore it from a backup") && lost.contains("keys.json.required"), "{lost}");
        std::fs::remove_file(folder.path().join("keys.json.required")).unwrap();
        assert!(!Keys::expect(file.path()).unwrap().are_required(), "the operator has removed the marker");
    }

    #[test]
    fn an_invalid_record_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (_, token) = create_key(&file);
        let keys = Keys::open(file.path()).unwrap();
        let good = std::fs::read_to_string(file.path()).unwrap();
        let bound =
            |role: &str| good.replace("\"viewer\"", &format!("\"{role}\",\n      \"groups\": [\"g\"]"));
        let twice = {
            let list = good.find('[').unwrap();
            let (head, rest) = good.split_at(list + 1);
            let one = rest.rsplit_once(']').unwrap().0;
            format!("{head}{one},{rest}")
        };
        for (wrong, why) in [
            (bound("worker"), "a worker cannot be bound"),
            (bound("admin"), "cannot be bound to groups"),
            (good.replace("\"viewer\"", "\"viewer\", \"groups\": []"), "an empty list of groups"),
            (good.replace("\"n\"", "\"\""), "1 to 128 visible characters"),
            (twice, "key number 2 has the same id as an earlier one"),
        ] {
            std::fs::write(file.path(), &wrong).unwrap();
            let message = Keys::open(file.path()).err().map(|error| error.to_string()).unwrap_or(wrong);
            assert!(message.contains("key number") && message.contains(why), "{message}");
            keys.refresh();
            assert!(keys.find(token.reveal()).is_some(), "the keys stay as they were");
        }
        std::fs::write(file.path(), bound("producer")).unwrap();
        keys.refresh();
        assert_eq!(keys.find(token.reveal()).unwrap().key.caller.role, Role::Producer);
    }

    #[test]
    fn an_expired_key_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, token) = create_key(&file);
        let text = std::fs::read_to_string(file.path()).unwrap();
        let created = format!("\"created_at\": \"{}\"", record.created_at);
        let expired = format!("{created},\n      \"expires_at\": \"2020-01-01T00:00:00.000Z\"");
        std::fs::write(file.path(), text.replace(&created, &expired)).unwrap();
        let keys = Keys::open(file.path()).unwrap();
        assert!(keys.find(token.reveal()).is_none() && !keys.any_valid());
    }

    #[test]
    fn an_unreadable_file_leaves_the_keys_unchanged_and_a_repaired_one_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, token) = create_key(&file);
        let keys = Keys::open(file.path()).unwrap();
        let good = std::fs::read_to_string(file.path()).unwrap();
        std::fs::write(file.path(), "{").unwrap();
        keys.refresh();
        assert!(keys.find(token.reveal()).is_some());
        std::fs::remove_file(file.path()).unwrap();
        keys.refresh();
        assert!(keys.find(token.reveal()).is_some());
        std::fs::write(file.path(), good.replace(&record.id, "00000000")).unwrap();
        keys.refresh();
        assert!(keys.find(token.reveal()).is_none());
    }

    #[test]
    fn the_quota_used_by_a_key_survives_a_change_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, token) = create_key(&file);
        let keys = Keys::open(file.path()).unwrap();
        let before = keys.find(token.reveal()).unwrap();
        file.rotate(&record.id, Duration::from_secs(3600)).unwrap();
        keys.refresh();
        let after = keys.find(token.reveal()).unwrap();
        assert!(!Arc::ptr_eq(&before.key, &after.key) && Arc::ptr_eq(&before.key.limits, &after.key.limits));
    }

    fn has_ended(presented: &Presented) -> bool {
        presented.key.ended.is_cancelled()
    }

    #[test]
    fn a_presented_key_ends_when_it_changes_and_not_when_another_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let ((record, token), (other, _)) = (create_key(&file), create_key(&file));
        let keys = Keys::open(file.path()).unwrap();
        let first = keys.find(token.reveal()).unwrap();
        file.revoke(&other.id).unwrap();
        keys.refresh();
        assert!(!has_ended(&first));
        file.rotate(&record.id, Duration::from_secs(3600)).unwrap();
        keys.refresh();
        assert!(has_ended(&first));
        let second = keys.find(token.reveal()).unwrap();
        std::fs::write(file.path(), r#"{"version": 1, "keys": []}"#).unwrap();
        keys.refresh();
        assert!(has_ended(&second) && keys.find(token.reveal()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_presented_key_ends_with_the_grace_period_of_its_secret_and_when_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let hours = |count: u64| Duration::from_secs(count * 3600);
        let new = NewKey {
            name: "n".into(),
            role: Role::Viewer,
            groups: None,
            rate: None,
            expires_in: Some(hours(5)),
        };
        let (record, old) = file.create(new).unwrap();
        let (_, new) = file.rotate(&record.id, hours(2)).unwrap();
        let keys = Keys::open(file.path()).unwrap();
        for (token, length) in [(old, hours(2)), (new, hours(5))] {
            let start = tokio::time::Instant::now();
            let presented = keys.find(token.reveal()).unwrap();
            tokio::time::timeout(hours(24), presented.ended()).await.expect("it ends by itself");
            let took = start.elapsed();
            assert!(took <= length && took > length - hours(1), "{took:?}");
        }
    }

    #[test]
    fn a_file_that_could_not_be_read_is_read_again_until_it_succeeds() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, token) = create_key(&file);
        let keys = Keys::open(file.path()).unwrap();
        file.revoke(&record.id).unwrap();
        let mode = |mode| std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
        mode(0o664);
        keys.refresh();
        assert!(keys.find(token.reveal()).is_some(), "other users could have written the file");
        mode(0o600);
        keys.refresh();
        assert!(keys.find(token.reveal()).is_none());
    }
}
