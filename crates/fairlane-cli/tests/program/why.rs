//! `fairlane why`.

use fairlane_core::queue::{Enqueue, GroupPatch, JobRef, NewJob, SetGroup, Settings};
use fairlane_core::{GroupId, JobId, TypeId};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::running::{fairlane, has_keys};
use super::served::Served;

/// Enqueues three jobs of a paused customer at an address.
fn pause_customer(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = fairlane_engine::open(url, Settings::default()).await.unwrap();
        let group = GroupId::new("customer-A").unwrap();
        let new = |number: u32| {
            NewJob::new(
                JobRef { group: group.clone(), id: JobId::new(format!("job-{number}")).unwrap() },
                TypeId::new("mail").unwrap(),
                b"secret".as_slice().into(),
            )
        };
        engine.call(Enqueue { jobs: (1..=3).map(new).collect() }).await.unwrap();
        let patch = GroupPatch { paused: Some(true), ..GroupPatch::default() };
        engine.call(SetGroup { group, patch, reset_congestion: false }).await.unwrap();
    });
}

fn paused_customer() -> RedisServer {
    let server = RedisServer::start(ServerOptions::default());
    pause_customer(&server.url());
    server
}

#[test]
fn the_explanation_is_a_sentence_followed_by_facts() {
    let server = paused_customer();
    let ended = fairlane(&["why", "customer-A", "job-3", "--engine", &server.url()]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    let mut lines = ended.stdout.lines();
    assert_eq!(lines.next(), Some("customer-A is paused; 2 jobs ahead"));
    for words in ["state ", "pending", "customer-A: paused", "none has ever asked", "cannot be estimated"] {
        assert!(ended.stdout.contains(words), "{words:?} is missing in: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("secret"), "an explanation contains no payload");
}

#[test]
fn json_is_one_object_with_a_reason_code() {
    let server = paused_customer();
    let view = fairlane(&["why", "customer-A", "job-1", "--engine", &server.url(), "--json"]).json();
    has_keys(&view, &["group", "id", "state", "reason", "sentence", "facts"]);
    assert_eq!((&view["state"], &view["reason"]), (&"pending".into(), &"group-paused".into()));
    assert!(view["facts"].as_array().unwrap().iter().all(|fact| fact["text"].is_string()));
}

#[test]
fn unknown_jobs_and_unusable_addresses_have_different_messages() {
    let server = paused_customer();
    let engine = server.url();
    fairlane(&["why", "customer-A", "job-4", "--engine", &engine]).failed(2, &["no job job-4", "retention"]);
    fairlane(&["why", "customer-B", "job-1", "--engine", &engine]).failed(2, &["customer-B has no job"]);
    fairlane(&["why", "a", "1", "--engine", "nowhere"]).failed(2, &["nowhere", "redis://host:port"]);
    fairlane(&["why", "a", "1", "--engine", "redis://127.0.0.1:1"]).failed(1, &["cannot be reached"]);
    fairlane(&["why", "a"]).failed(2, &["<JOB>"]);
}

#[test]
fn a_worker_is_shown_by_its_given_name_and_an_empty_error_is_omitted() {
    let served = Served::start();
    let job = "{\"group\":\"customer-7\",\"id\":\"a\",\"type\":\"mail\",\"payload\":1}";
    assert_eq!(served.ask("POST", "/api/jobs", job).unwrap().0, 201);
    let ask = "{\"worker\":\"w9\",\"types\":[\"mail\"],\"lease_ms\":60000}";
    let (_, leased) = served.ask("POST", "/api/leases", ask).unwrap();
    let leased: serde_json::Value = serde_json::from_str(&leased).unwrap();
    let run = |words: &[&str]| {
        fairlane(&[words, &["customer-7", "a", "--engine", &served.address]].concat()).stdout
    };
    assert!(run(&["why"]).starts_with("worker w9 has been running it"), "{}", run(&["why"]));
    assert!(
        !run(&["why"]).contains('~') && !run(&["job", "show"]).contains('~'),
        "{}",
        run(&["job", "show"])
    );
    assert!(run(&["job", "show"]).contains(" w9\n"), "{}", run(&["job", "show"]));
    let fence = &leased["jobs"][0]["fence"];
    let settled = format!(
        "{{\"settlements\":[{{\"group\":\"customer-7\",\"id\":\"a\",\"fence\":{fence},\"outcome\":\"retry\",\"delay_ms\":60000}}]}}"
    );
    let (status, body) = served.ask("POST", "/api/leases/settle", &settled).unwrap();
    assert_eq!(status, 200, "{body}");
    let sentence = run(&["why"]).lines().next().unwrap().to_owned();
    assert!(sentence.contains("(retry 1 of ") && !sentence.ends_with([':', ' ']), "{sentence:?}");
}

#[test]
fn why_reads_a_data_directory_and_creates_none() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("queue");
    let engine = format!("dir:{}", path.display());
    fairlane(&["why", "customer-A", "job-1", "--engine", &engine]).failed(2, &["there is no directory"]);
    assert!(!path.exists());
    pause_customer(&engine);
    let ended = fairlane(&["why", "customer-A", "job-1", "--engine", &engine]);
    assert!(
        ended.stdout.starts_with("customer-A is paused; it is the next of its lane\n"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_password_of_an_address_is_not_printed() {
    let server = RedisServer::start_with(&["--requirepass", "hush"]);
    let url = format!("redis://:hush@{}", server.address());
    let ended = fairlane(&["why", "customer-7", "unknown", "--engine", &url]);
    ended.failed(2, &["has no job unknown", &server.address()]);
    assert!(!ended.stderr.contains("hush"), "{}", ended.stderr);
}
