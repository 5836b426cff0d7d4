//! Keys of a running server.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::sync::Arc;
use std::time::Duration;

use fairlane::Fairlane;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use fairlane_server::{Server, ServerError, ServerSettings};
use fairlane_testkit::wait::until_async as until;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::floods::upload;
use crate::logs::Log;
use crate::running::{Running, json as with_json, send};

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The ids of the user and the group `nobody`.
const NOBODY: u32 = 65_534;

/// Adds a key to the file of keys in a folder, and returns the file, the id and the key.
pub fn one_key(folder: &std::path::Path, name: &str) -> (KeyFile, String, String) {
    let file = KeyFile::at(folder.join("keys.json"));
    let new = NewKey { name: name.into(), role: Role::Admin, groups: None, rate: None, expires_in: None };
    let (record, token) = file.create(new).unwrap();
    (file, record.id, token.reveal().to_owned())
}

pub async fn start(file: &KeyFile, settings: ServerSettings) -> Running {
    let keys = Arc::new(Keys::open(file.path()).unwrap());
    Running::start_with(Fairlane::open("memory:").await.unwrap(), Some(keys), settings).await
}

async fn status(running: &Running, token: &str) -> StatusCode {
    running.request(Method::GET, "/api/status").bearer_auth(token).send().await.unwrap().status()
}

/// Sends requests until the status is this one.
async fn becomes(running: &Running, token: &str, expected: StatusCode) {
    for _ in 0..600 {
        if status(running, token).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the status has not become {expected}");
}

#[tokio::test]
async fn a_running_server_applies_changes_of_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (file, id, first) = one_key(folder.path(), "first");
    let running = start(&file, ServerSettings::default()).await;
    assert_eq!(status(&running, &first).await, StatusCode::OK);
    let (_, _, second) = one_key(folder.path(), "second");
    becomes(&running, &second, StatusCode::OK).await;
    let (_, rotated) = file.rotate(&id, Duration::ZERO).unwrap();
    becomes(&running, rotated.reveal(), StatusCode::OK).await;
    assert_eq!(status(&running, &first).await, StatusCode::UNAUTHORIZED);
    for key in file.list().unwrap() {
        file.revoke(&key.id).unwrap();
    }
    becomes(&running, &second, StatusCode::UNAUTHORIZED).await;
    assert_eq!(status(&running, rotated.reveal()).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_server_without_keys_requires_them_once_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let keys = Arc::new(Keys::expect(&path).unwrap());
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let running = Running::start_with(fairlane, Some(keys), ServerSettings::default()).await;
    let anonymous = || async { running.request(Method::GET, "/api/status").send().await.unwrap().status() };
    assert_eq!(anonymous().await, StatusCode::OK);
    let mut events = running.request(Method::GET, "/api/events").send().await.unwrap();
    events.chunk().await.unwrap().unwrap();
    let (file, id, key) = one_key(folder.path(), "first");
    until("keys are required", || async { anonymous().await == StatusCode::UNAUTHORIZED }).await;
    assert_eq!(status(&running, &key).await, StatusCode::OK);
    let ended = async { while let Ok(Some(_)) = events.chunk().await {} };
    timeout(TIMEOUT, ended).await.expect("a stream that was opened without a key ends");
    file.revoke(&id).unwrap();
    std::fs::remove_file(&path).unwrap();
    becomes(&running, &key, StatusCode::OK).await;
    assert_eq!(anonymous().await, StatusCode::UNAUTHORIZED, "keys stay required");
}

#[tokio::test]
async fn long_polls_and_streams_end_when_their_key_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let (file, id, key) = one_key(folder.path(), "k");
    let mut running = start(&file, ServerSettings::default()).await;
    running.set_token(key.clone());
    let mut events = running.request(Method::GET, "/api/events").send().await.unwrap();
    events.chunk().await.unwrap().unwrap();
    let body = json!({"worker": "w", "types": ["mail"], "wait_ms": 60_000});
    let poll = tokio::spawn(send(with_json(running.request(Method::POST, "/api/leases"), &body)));
    let (mut upload, _) = upload(&running, &key).await;
    file.revoke(&id).unwrap();
    let ended = async { while let Ok(Some(_)) = events.chunk().await {} };
    timeout(TIMEOUT, ended).await.expect("the events end");
    let (status, body) = timeout(TIMEOUT, poll).await.expect("the poll ends").unwrap();
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{body}");
    let mut response = Vec::new();
    timeout(TIMEOUT, upload.read_to_end(&mut response)).await.expect("the upload ends").unwrap();
    let response = String::from_utf8_lossy(&response);
    assert!(response.contains("HTTP/1.1 401"), "{response}");
}

#[tokio::test]
async fn without_a_valid_key_a_server_listens_on_loopback_only() {
    let everywhere = ([0, 0, 0, 0], 0).into();
    let folder = tempfile::tempdir().unwrap();
    let (file, id, _) = one_key(folder.path(), "revoked");
    file.revoke(&id).unwrap();
    for keys in [None, Some(Arc::new(Keys::open(file.path()).unwrap()))] {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        let started = Server::start(fairlane, everywhere, keys, ServerSettings::default()).await;
        let Err(error @ ServerError::Open(_)) = started else { panic!("every client has access") };
        assert!(error.to_string().contains("fairlane key create"), "{error}");
    }
    one_key(folder.path(), "valid");
    let keys = Some(Arc::new(Keys::open(file.path()).unwrap()));
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let started = Server::start(fairlane, everywhere, keys, ServerSettings::default()).await;
    started.unwrap_or_else(|error| panic!("{error}")).stop().await;
}

#[test]
fn an_edited_file_keeps_its_owner_and_mode() {
    let folder = tempfile::tempdir().unwrap();
    let (file, id, _) = one_key(folder.path(), "first");
    std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o640)).unwrap();
    // Only root can change the owner, and only root could lock the owner out.
    let is_root = chown(file.path(), Some(NOBODY), Some(NOBODY)).is_ok();
    file.revoke(&id).unwrap();
    let found = std::fs::metadata(file.path()).unwrap();
    assert_eq!(found.mode() & 0o777, 0o640);
    if is_root {
        assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY));
        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        chown(&other, Some(NOBODY), Some(NOBODY)).unwrap();
        one_key(&other, "first");
        for name in ["keys.json", "keys.json.lock"] {
            let found = std::fs::metadata(other.join(name)).unwrap();
            assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (NOBODY, NOBODY, 0o600), "{name}");
        }
    }
}

#[test]
fn concurrent_edits_are_not_lost_and_readers_see_complete_files() {
    let folder = tempfile::tempdir().unwrap();
    one_key(folder.path(), "first");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let folder = folder.path();
            scope.spawn(move || {
                for number in 0..10 {
                    one_key(folder, &format!("{writer}-{number}"));
                }
            });
        }
        for _ in 0..50 {
            Keys::open(folder.path().join("keys.json")).unwrap_or_else(|error| panic!("{error}"));
        }
    });
    assert_eq!(KeyFile::at(folder.path().join("keys.json")).list().unwrap().len(), 41);
}

/// On one thread, so that the log of the test is that of the server.
#[tokio::test]
async fn an_invalid_key_appears_in_no_response_and_no_log() {
    let log = Log::up_to(tracing::Level::TRACE);
    let _guard = tracing::subscriber::set_default(log.clone());
    let folder = tempfile::tempdir().unwrap();
    let (file, id, good) = one_key(folder.path(), "k");
    let running = start(&file, ServerSettings::default()).await;
    assert_eq!(status(&running, &good).await, StatusCode::OK);
    let unknown = "flk_ffffffff_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U";
    let altered = format!("{}AAAA", &good[..good.len() - 4]);
    let path_of_it = format!("/api/{altered}");
    for wrong in [unknown, &altered, "hunter2-hunter2", &good[13..]] {
        let request = running.request(Method::GET, "/api/status").bearer_auth(wrong);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        let head = format!("{:?}", response.headers());
        let text = head + &response.text().await.unwrap();
        assert!(!text.contains(wrong) && !text.contains(&good[13..]), "{text}");
    }
    let response = running.request(Method::GET, &path_of_it).send().await.unwrap();
    assert!(!response.text().await.unwrap().contains(&altered));
    for pasted in [format!("{{\"{good}\": 1}}"), format!("{{\"version\": \"{good}\"}}")] {
        std::fs::write(file.path(), pasted).unwrap();
        let error = Keys::open(file.path()).err().map(|error| format!("{error} {error:?}")).unwrap();
        assert!(error.contains("line 1") && !error.contains(&good[13..]), "{error}");
    }
    running.server.stop().await;
    let logged = log.text();
    assert!(logged.contains("no valid key"), "{logged}");
    for secret in [unknown, &altered, "hunter2-hunter2", &good[13..]] {
        let lines: Vec<&str> = logged.split(" message=").filter(|line| line.contains(secret)).collect();
        assert!(lines.is_empty(), "{id}: {lines:?}");
    }
}

#[tokio::test]
async fn repeated_invalid_keys_are_refused_late_and_lock_no_client_out() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, good) = one_key(folder.path(), "k");
    let running = start(&file, ServerSettings::default()).await;
    for _ in 0..16 {
        assert_eq!(status(&running, "flk_00000000_guess").await, StatusCode::UNAUTHORIZED);
    }
    let start = tokio::time::Instant::now();
    assert_eq!(status(&running, "flk_00000000_guess").await, StatusCode::UNAUTHORIZED);
    assert!(start.elapsed() >= Duration::from_secs(1), "the refusal was not delayed");
    assert_eq!(status(&running, &good).await, StatusCode::OK);
}
