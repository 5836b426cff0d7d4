//! Keys in use: who has which, and what each may; read from their file, and again whenever that changes.
//!
//! - `keys/file.rs`: keys at rest. `keys/token.rs`: a key as its owner has it.
//!
//! Invariant: whether a key is known takes as long to find out as that it is not. A file that cannot be read changes
//! nothing: the keys that were good stay good, and it is read again until it can be. What was opened with a key ends
//! with it. Once a key is asked for, one always is.

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
use crate::guard::Allowance;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The keys that are known.
pub struct Keys {
    path: PathBuf,
    known: RwLock<Known>,
    seen: Mutex<Seen>,
    /// Whether nobody comes in without one.
    are_asked_for: AtomicBool,
    /// Cancelled when that begins.
    asked_for: CancellationToken,
}

/// The file as it was read last.
struct Seen {
    /// None: it was not there.
    stamp: Option<file::Stamp>,
    /// Why it could not be read since, so that it is told once.
    trouble: Option<String>,
}

type Known = HashMap<Box<str>, Arc<Key>>;

/// A key in use.
pub(crate) struct Key {
    record: KeyRecord,
    /// Who comes with it.
    pub caller: Caller,
    /// What it may take of the server. Outlives a change of the key, so that nobody gets more by being changed.
    pub allowance: Arc<OnceLock<Allowance>>,
    /// Cancelled when it is changed, revoked or gone.
    ended: CancellationToken,
}

/// A key that somebody came with.
pub(crate) struct Presented {
    /// Which.
    pub key: Arc<Key>,
    /// When it ends by itself, or the secret that came does.
    until: Option<SystemTime>,
}

impl Presented {
    /// Waits until it opens nothing any more, or has to be presented again.
    pub async fn ended(self) {
        let until = self.until.map(|until| until.duration_since(SystemTime::now()).unwrap_or_default());
        let ended = self.key.ended.cancelled();
        match until {
            Some(left) => {
                // In time or not, it has ended.
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
        let keys = Self::none_yet(path, Some(stamp));
        file::require(&keys.path);
        *keys.known.write().unwrap_or_else(PoisonError::into_inner) = known(records, &Known::new());
        keys.ask();
        Ok(keys)
    }

    /// The keys of a file that need not be there: none is asked for until it has one. A file that was there before has to
    /// be.
    pub fn expect(path: impl Into<PathBuf>) -> Result<Self, KeysError> {
        let path = path.into();
        match Self::open(&path) {
            Err(KeysError::Missing(_)) if file::marker(&path).exists() => Err(KeysError::Lost(path)),
            Err(KeysError::Missing(_)) => Ok(Self::none_yet(path, None)),
            opened => opened,
        }
    }

    fn none_yet(path: PathBuf, stamp: Option<file::Stamp>) -> Self {
        Self {
            path,
            known: RwLock::default(),
            seen: Mutex::new(Seen { stamp, trouble: None }),
            are_asked_for: AtomicBool::new(false),
            asked_for: CancellationToken::new(),
        }
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nobody comes in without one.
    pub fn are_asked_for(&self) -> bool {
        self.are_asked_for.load(Ordering::Acquire)
    }

    /// Waits until nobody comes in without one.
    pub(crate) async fn asked_for(&self) {
        self.asked_for.cancelled().await;
    }

    fn ask(&self) {
        self.are_asked_for.store(true, Ordering::Release);
        self.asked_for.cancel();
    }

    /// Whether anybody could come in with one.
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

    /// The key of this text, if it is valid.
    ///
    /// The id is public, so finding it needs no care; the secret is compared in constant time, and with something
    /// even if there is no such id.
    pub(crate) fn find(&self, text: &str) -> Option<Presented> {
        let (id, secret) = Token::parts(text).unwrap_or_default();
        let hash = SecretHash::of(secret);
        let key = self.known.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let nobody = SecretHash::default();
        let record = key.as_ref().map(|key| &key.record);
        let current = record.map_or(&nobody, |record| &record.secret_sha256);
        let previous = record.and_then(|record| record.previous.as_ref());
        let is_current = hash.ct_eq(current);
        let is_previous = hash.ct_eq(previous.map_or(&nobody, |previous| &previous.secret_sha256));
        let now = SystemTime::now();
        let in_grace = previous.is_some_and(|previous| now < previous.valid_until.0);
        let fits = bool::from(is_current) | (bool::from(is_previous) & in_grace);
        let key = key.filter(|key| fits && key.record.is_valid(now))?;
        let secret_until = key.record.previous.as_ref().filter(|_| !bool::from(is_current));
        let ends = [secret_until.map(|previous| previous.valid_until), key.record.expires_at];
        let until = ends.into_iter().flatten().map(|time| time.0).min();
        Some(Presented { key, until })
    }

    /// Reads the file again if it is another than last time.
    pub(crate) fn refresh(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.trouble.is_none() && file::stamp(&self.path) == seen.stamp {
            return;
        }
        match file::read(&self.path) {
            Ok((stamp, records)) => {
                *seen = Seen { stamp: Some(stamp), trouble: None };
                let mut current = self.known.write().unwrap_or_else(PoisonError::into_inner);
                let before = std::mem::take(&mut *current);
                *current = known(records, &before);
                let keys = current.len();
                if !self.are_asked_for() && keys > 0 {
                    self.ask();
                    tracing::info!(target: "fairlane", keys, "keys are asked for from now on");
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
                let trouble = Some(error.to_string());
                if seen.trouble != trouble {
                    tracing::error!(
                        target: "fairlane", %error,
                        "the keys cannot be read and stay as they were; to end one, restore the file and revoke it"
                    );
                    seen.trouble = trouble;
                }
            }
        }
    }

    /// Looks at the file until told to stop.
    pub(crate) async fn watch(self: Arc<Self>, stopping: CancellationToken) {
        while stopping.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            let keys = self.clone();
            // A disk that hangs must not hold up requests. A panic has been told by the runtime already.
            let _ = tokio::task::spawn_blocking(move || keys.refresh()).await;
        }
    }
}

fn known(records: Vec<KeyRecord>, before: &Known) -> Known {
    let key = |record: KeyRecord| {
        let before = before.get(record.id.as_str());
        if let Some(same) = before.filter(|before| before.record == record) {
            return (record.id.into_boxed_str(), same.clone());
        }
        let allowance = before.filter(|before| before.record.rate == record.rate);
        let caller = Caller {
            name: record.id.as_str().into(),
            role: record.role,
            groups: record.groups.clone().map(Arc::new),
        };
        let allowance = allowance.map_or_else(Arc::default, |before| before.allowance.clone());
        (
            record.id.clone().into_boxed_str(),
            Arc::new(Key { record, caller, allowance, ended: CancellationToken::new() }),
        )
    };
    records.into_iter().map(key).collect()
}

impl Key {
    /// Its own rate.
    pub fn rate(&self) -> Option<fairlane_core::Rate> {
        self.record.rate.map(|rate| rate.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    fn made(file: &KeyFile) -> (KeyRecord, Token) {
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
    fn a_key_is_known_by_its_secret_and_by_nothing_less() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let ((record, token), (other, _)) = (made(&file), made(&file));
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
    fn a_rotated_key_is_good_until_the_grace_period_ends_and_a_revoked_one_never() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, first) = made(&file);
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
    fn keys_that_are_expected_are_asked_for_from_the_first_one_on_and_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let keys = Keys::expect(file.path()).unwrap();
        keys.refresh();
        std::fs::write(file.path(), r#"{"version": 1, "keys": []}"#).unwrap();
        keys.refresh();
        assert!(!keys.are_asked_for() && !keys.any_valid());
        let (record, token) = made(&file);
        keys.refresh();
        assert!(keys.are_asked_for() && keys.find(token.reveal()).is_some());
        file.revoke(&record.id).unwrap();
        keys.refresh();
        std::fs::remove_file(file.path()).unwrap();
        keys.refresh();
        assert!(keys.are_asked_for() && keys.find(token.reveal()).is_none());
        assert!(Keys::open(file.path()).is_err(), "a file that is named has to be there");
        let lost = Keys::expect(file.path()).err().unwrap().to_string();
        assert!(lost.contains("restore it from a backup") && lost.contains("keys.json.required"), "{lost}");
        std::fs::remove_file(folder.path().join("keys.json.required")).unwrap();
        assert!(!Keys::expect(file.path()).unwrap().are_asked_for(), "that was asked for in so many words");
    }

    #[test]
    fn a_record_that_could_not_have_been_made_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (_, token) = made(&file);
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
            (good.replace("\"viewer\"", "\"viewer\", \"groups\": []"), "bound to no group at all"),
            (good.replace("\"n\"", "\"\""), "1 to 128 signs"),
            (twice, "key number 2 has the id of one before it"),
        ] {
            std::fs::write(file.path(), &wrong).unwrap();
            let told = Keys::open(file.path()).err().map(|error| error.to_string()).unwrap_or(wrong);
            assert!(told.contains("key number") && told.contains(why), "{told}");
            keys.refresh();
            assert!(keys.find(token.reveal()).is_some(), "the keys stay as they were");
        }
        std::fs::write(file.path(), bound("producer")).unwrap();
        keys.refresh();
        assert_eq!(keys.find(token.reveal()).unwrap().key.caller.role, Role::Producer);
    }

    #[test]
    fn a_key_past_its_time_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, token) = made(&file);
        let text = std::fs::read_to_string(file.path()).unwrap();
        let created = format!("\"created_at\": \"{}\"", record.created_at);
        let expired = format!("{created},\n      \"expires_at\": \"2020-01-01T00:00:00.000Z\"");
        std::fs::write(file.path(), text.replace(&created, &expired)).unwrap();
        let keys = Keys::open(file.path()).unwrap();
        assert!(keys.find(token.reveal()).is_none() && !keys.any_valid());
    }

    #[test]
    fn a_broken_file_leaves_the_keys_as_they_were_and_a_mended_one_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, token) = made(&file);
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
    fn what_a_key_has_used_is_remembered_over_a_change_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, token) = made(&file);
        let keys = Keys::open(file.path()).unwrap();
        let before = keys.find(token.reveal()).unwrap();
        file.rotate(&record.id, Duration::from_secs(3600)).unwrap();
        keys.refresh();
        let after = keys.find(token.reveal()).unwrap();
        assert!(
            !Arc::ptr_eq(&before.key, &after.key) && Arc::ptr_eq(&before.key.allowance, &after.key.allowance)
        );
    }

    fn has_ended(presented: &Presented) -> bool {
        presented.key.ended.is_cancelled()
    }

    #[test]
    fn what_was_opened_with_a_key_ends_when_that_changes_and_not_when_another_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let ((record, token), (other, _)) = (made(&file), made(&file));
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
    async fn what_was_opened_with_a_secret_ends_with_its_grace_period_and_with_the_key() {
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
            let begun = tokio::time::Instant::now();
            let presented = keys.find(token.reveal()).unwrap();
            tokio::time::timeout(hours(24), presented.ended()).await.expect("it ends by itself");
            let took = begun.elapsed();
            assert!(took <= length && took > length - hours(1), "{took:?}");
        }
    }

    #[test]
    fn a_file_that_could_not_be_read_is_read_again_until_it_can_be() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let (record, token) = made(&file);
        let keys = Keys::open(file.path()).unwrap();
        file.revoke(&record.id).unwrap();
        let mode = |mode| std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
        mode(0o664);
        keys.refresh();
        assert!(keys.find(token.reveal()).is_some(), "others could have written it");
        mode(0o600);
        keys.refresh();
        assert!(keys.find(token.reveal()).is_none());
    }
}
