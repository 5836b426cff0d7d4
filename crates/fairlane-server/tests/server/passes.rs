//! Passes of waiting rooms over HTTP.

use fairlane::{Fairlane, PassError, PassVerifier};
use fairlane_server::ServerSettings;
use fairlane_server::passes::PassKeyFile;
use fairlane_testkit::wait::eventually;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::running::Running;

/// A server with keys for passes, and their file.
async fn with_keys() -> (Running, PassKeyFile, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pass-keys.json");
    let file = PassKeyFile::at(&path);
    file.create().unwrap();
    let settings = ServerSettings { pass_keys: Some(path), ..ServerSettings::default() };
    let fairlane = Fairlane::open("memory:").await.unwrap();
    (Running::start_with(fairlane, None, settings).await, file, folder)
}

async fn published(running: &Running) -> PassVerifier {
    let response = running.request(Method::GET, "/rooms/jwks.json").send().await.unwrap();
    assert_eq!(response.headers()["cache-control"], "public, max-age=300");
    assert_eq!(response.headers()["content-type"], "application/jwk-set+json");
    let text = response.text().await.unwrap();
    assert!(text.contains("\"kid\"") && !text.contains("\"d\"") && !text.contains("signs_from"), "{text}");
    PassVerifier::from_jwks(&text).unwrap()
}

fn now_secs() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn pass(place: &Value) -> &str {
    place["pass"].as_str().unwrap_or_else(|| panic!("no pass in {place}"))
}

#[tokio::test]
async fn active_place_gets_a_pass_with_every_reply_and_a_waiting_one_none() {
    let (running, _, _folder) = with_keys().await;
    running.patch("/api/rooms/concert", json!({"max_active": 1})).await;
    let (_, ada) = running.post("/api/rooms/concert/join", json!({"user": "ada"})).await;
    let (_, bob) = running.post("/api/rooms/concert/join", json!({"user": "bob"})).await;
    assert_eq!((&bob["state"], &bob["pass"]), (&json!("waiting"), &json!(null)));
    let path = |joined: &Value| format!("/api/rooms/concert/places/{}", joined["token"].as_str().unwrap());
    let (_, kept) = running.post_nothing(format!("{}/keep", path(&ada))).await;
    let (_, shown) = running.get(&path(&ada)).await;
    let events = running.request(Method::GET, &format!("{}/events", path(&ada)));
    let events = events.send().await.unwrap().text().await.unwrap();
    let ended = events.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let ended: Value = serde_json::from_str(ended).unwrap();
    let verifier = published(&running).await;
    for place in [&ada, &kept, &shown, &ended] {
        let claims = verifier.verify(pass(place), "concert", now_secs()).unwrap();
        assert_eq!((&*claims.sub, claims.bypass), ("ada", false));
        assert_eq!(place["pass_expires_at"], claims.exp);
        assert!(claims.exp <= now_secs() + 55, "a minute at most, less the clock skew");
        let refused = verifier.verify(pass(place), "other", now_secs());
        assert_eq!(refused, Err(PassError::OtherRoom("concert".into())));
        assert_eq!(verifier.verify(pass(place), "concert", claims.exp), Err(PassError::Expired));
    }
}

#[tokio::test]
async fn keys_are_rotated_and_removed_while_the_server_runs() {
    let (running, file, _folder) = with_keys().await;
    let (_, ada) = running.post("/api/rooms/concert/join", json!({"user": "ada"})).await;
    let old = pass(&ada).to_owned();
    let keys = file.rotate(std::time::Duration::ZERO).unwrap().views();
    let keep = format!("/api/rooms/concert/places/{}/keep", ada["token"].as_str().unwrap());
    let new = eventually(async || {
        let (_, kept) = running.post_nothing(keep.clone()).await;
        let verifier = published(&running).await;
        let is_old =
            file.read().unwrap().views() != keys || pass(&kept).split('.').next() == old.split('.').next();
        if is_old { Err(kept) } else { Ok((verifier, pass(&kept).to_owned())) }
    });
    let (both, new) = new.await;
    assert!(both.verify(&old, "concert", now_secs()).is_ok(), "verifiers still know the old key");
    assert!(both.verify(&new, "concert", now_secs()).is_ok());
    file.remove(&keys[1].kid).unwrap();
    eventually(async || {
        let newest = published(&running).await;
        assert!(newest.verify(&new, "concert", now_secs()).is_ok());
        match newest.verify(&old, "concert", now_secs()) {
            Err(PassError::UnknownKey) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn bypass_pass_needs_no_place() {
    let (running, _, _folder) = with_keys().await;
    let request = json!({"user": "operator", "ttl_ms": 3_600_000});
    let (_, issued) = running.post("/api/rooms/concert/bypass", request).await;
    let claims = published(&running).await.verify(pass(&issued), "concert", now_secs()).unwrap();
    assert!(claims.bypass && claims.exp > now_secs() + 3500);
    let (status, problem) =
        running.post("/api/rooms/concert/bypass", json!({"user": "a", "ttl_ms": 1})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
}

#[tokio::test]
async fn server_without_keys_says_how_to_create_them() {
    let running = Running::start().await;
    for (status, problem) in [
        running.get("/rooms/jwks.json").await,
        running.post("/api/rooms/concert/bypass", json!({"user": "a", "ttl_ms": 5000})).await,
    ] {
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(problem["detail"].as_str().unwrap().contains("fairlane room key create"), "{problem}");
    }
    let (_, ada) = running.post("/api/rooms/concert/join", json!({"user": "ada"})).await;
    assert_eq!((&ada["state"], &ada["pass"]), (&json!("active"), &json!(null)));
}
