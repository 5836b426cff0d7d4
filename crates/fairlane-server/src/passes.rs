//! Passes of waiting rooms: the file of the keys that sign them, and the published set.
//!
//! A pass is issued with every reply that shows an active place. Invariant: secrets stay in their
//! file, which only its owner can read. A file that cannot be read changes nothing: the server signs
//! with the keys it has, and reads the file again until it succeeds.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fairlane::views::PlaceView;
use fairlane::{PassKeys, PassOptions, PlaceStatus, RoomName};
use tokio_util::sync::CancellationToken;

use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};

/// How long verifiers may cache the published keys.
pub const PASS_KEYS_CACHE: Duration = Duration::from_secs(300);
/// The time between the publication of a new key and its first pass.
pub const PASS_KEY_DELAY: Duration = Duration::from_secs(600);
/// How often the file is checked for changes.
const CHECK_EVERY: Duration = Duration::from_secs(1);
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=300");

const _: () = assert!(PASS_KEY_DELAY.as_secs() >= 2 * PASS_KEYS_CACHE.as_secs());

/// Why the keys that sign passes cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassFileError {
    /// The file cannot be read or written.
    #[error("the keys for passes at {path} cannot be used: {reason}")]
    Unusable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// The file does not exist.
    #[error("there are no keys for passes at {0}; create one first: fairlane room key create {0}")]
    Missing(PathBuf),
    /// The file exists already.
    #[error("{0} exists; add a key to it with fairlane room key rotate {0}")]
    Exists(PathBuf),
    /// Other users could read the secrets.
    #[error("others can read or write {0}, so its keys are not secret; create new ones, or: chmod 600 {0}")]
    Shared(PathBuf),
    /// The content is not a valid set of keys.
    #[error("{path}: {reason}")]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// What is invalid in it.
        reason: Box<fairlane::Error>,
    },
}

/// The file of the keys that sign passes.
#[derive(Debug, Clone)]
pub struct PassKeyFile {
    path: PathBuf,
}

impl PassKeyFile {
    /// The file at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Reads the keys.
    pub fn read(&self) -> Result<PassKeys, PassFileError> {
        let found = std::fs::metadata(&self.path).map_err(|reason| self.unusable(reason))?;
        if found.mode() & 0o077 != 0 {
            return Err(PassFileError::Shared(self.path.clone()));
        }
        let text = std::fs::read_to_string(&self.path).map_err(|reason| self.unusable(reason))?;
        PassKeys::from_json(&text).map_err(|reason| self.invalid(reason))
    }

    /// Creates the file with a new key, which signs at once.
    pub fn create(&self) -> Result<PassKeys, PassFileError> {
        let keys = PassKeys::generate().map_err(|reason| self.invalid(reason))?;
        if self.path.exists() {
            return Err(PassFileError::Exists(self.path.clone()));
        }
        self.write(keys)
    }

    /// Adds a new key, which signs after the delay.
    pub fn rotate(&self, delay: Duration) -> Result<PassKeys, PassFileError> {
        let from = now_secs().saturating_add(delay.as_secs());
        let keys = self.read()?.rotate(from).map_err(|reason| self.invalid(reason))?;
        self.write(keys)
    }

    /// Removes a key.
    pub fn remove(&self, kid: &str) -> Result<PassKeys, PassFileError> {
        let keys = self.read()?.remove(kid).map_err(|reason| self.invalid(reason))?;
        self.write(keys)
    }

    /// Replaces the file atomically: readers see either the old or the new content.
    fn write(&self, keys: PassKeys) -> Result<PassKeys, PassFileError> {
        let written = || {
            let mut new = self.path.as_os_str().to_owned();
            new.push(".new");
            match std::fs::remove_file(&new) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(keys.to_json().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        written().map_err(|reason| self.unusable(reason))?;
        Ok(keys)
    }

    fn unusable(&self, reason: std::io::Error) -> PassFileError {
        match reason.kind() {
            ErrorKind::NotFound => PassFileError::Missing(self.path.clone()),
            _ => PassFileError::Unusable { path: self.path.clone(), reason },
        }
    }

    fn invalid(&self, reason: fairlane::Error) -> PassFileError {
        PassFileError::Invalid { path: self.path.clone(), reason: Box::new(reason) }
    }
}

/// The keys of a running server, read again whenever their file changes.
pub(crate) struct Passes {
    file: PassKeyFile,
    options: PassOptions,
    keys: RwLock<Arc<PassKeys>>,
    stamp: Mutex<Option<Stamp>>,
}

type Stamp = (i64, i64, u64, u64);

impl Passes {
    /// Reads the file.
    pub fn open(path: &Path, ttl: Duration) -> Result<Self, PassFileError> {
        let file = PassKeyFile::at(path);
        let (stamp, keys) = (stamp(path), RwLock::new(Arc::new(file.read()?)));
        let options = PassOptions { ttl, ..PassOptions::default() };
        Ok(Self { file, options, keys, stamp: Mutex::new(stamp) })
    }

    pub fn keys(&self) -> Arc<PassKeys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again if it has changed.
    fn refresh(&self) {
        let mut last = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.file.path);
        if *last == now {
            return;
        }
        match self.file.read() {
            Ok(keys) => *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys),
            Err(error) => tracing::error!(
                target: "fairlane", %error,
                "the keys for passes have changed and cannot be read; the server signs with those it has"
            ),
        }
        *last = now;
    }

    /// Reads changes of the file until the server stops.
    pub async fn watch(self: Arc<Self>, stopping: CancellationToken) {
        while stopping.run_until_cancelled(tokio::time::sleep(CHECK_EVERY)).await.is_some() {
            let passes = self.clone();
            // A disk that hangs must not block requests. The runtime has reported a panic already.
            let _ = tokio::task::spawn_blocking(move || passes.refresh()).await;
        }
    }

    /// The view of a place, with a pass if it is active.
    pub fn view(passes: Option<&Arc<Self>>, room: &RoomName, status: PlaceStatus) -> PlaceView {
        let pass = passes.and_then(|passes| passes.keys().issue(room, &status.place, passes.options));
        let mut view = PlaceView::from(status);
        if let Some(pass) = pass {
            (view.pass, view.pass_expires_at) = (Some(pass.jwt), Some(pass.expires_at));
        }
        view
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ctime(), found.ctime_nsec(), found.len(), found.ino()))
}

/// The seconds since 1970 by the clock of this machine.
pub(crate) fn now_secs() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The route of the published keys, which requires no API key.
pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/rooms/jwks.json", get(show_keys))
}

async fn show_keys(State(app): State<Shared>) -> Result<Response, Problem> {
    let passes = app.passes.as_ref().ok_or_else(no_keys)?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json")),
        (header::CACHE_CONTROL, CACHED),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // Public keys: pages of other sites may verify passes too.
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
    ];
    Ok((headers, passes.keys().public_set()).into_response())
}

/// The problem of a server without keys for passes.
pub(crate) fn no_keys() -> Problem {
    ProblemKind::NotFound.because(
        "this server issues no passes; create keys with fairlane room key create, and set their file in \
         pass_keys of [server]",
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_created_rotated_and_removed_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = PassKeyFile::at(folder.path().join("pass-keys.json"));
        assert!(file.read().unwrap_err().to_string().contains("fairlane room key create"));
        let first = file.create().unwrap().views();
        assert!(file.create().unwrap_err().to_string().contains("rotate"));
        let both = file.rotate(PASS_KEY_DELAY).unwrap();
        assert_eq!(both.signing_key(now_secs()), first[0].kid, "verifiers read the new key first");
        assert_eq!(both.signing_key(now_secs() + 600), both.views()[0].kid);
        assert_eq!(file.remove(&first[0].kid).unwrap().views(), both.views()[..1]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&file.path), 0o600);
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(file.read().unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn server_signs_with_the_keys_that_it_read_last() {
        let folder = tempfile::tempdir().unwrap();
        let file = PassKeyFile::at(folder.path().join("pass-keys.json"));
        let first = file.create().unwrap().views();
        let passes = Passes::open(&file.path, Duration::from_secs(60)).unwrap();
        let next = file.rotate(Duration::ZERO).unwrap().views();
        passes.refresh();
        assert_eq!(passes.keys().views(), next);
        std::fs::write(&file.path, "{").unwrap();
        passes.refresh();
        assert_eq!(passes.keys().views(), next, "a broken file changes nothing");
        file.write(PassKeys::from_json(&PassKeys::generate().unwrap().to_json()).unwrap()).unwrap();
        passes.refresh();
        assert!(passes.keys().views() != next && passes.keys().views() != first);
    }
}
