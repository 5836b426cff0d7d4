//! The start of `fairlane work`: what it rejects, what it waits for, and what it reports about the
//! store.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use fairlane::Fairlane;
use fairlane_core::queue::{BulkRef, InspectType, OpenBulk, SealBulk};
use fairlane_core::{BulkId, GroupId, TypeId};
use fairlane_engine::{EmbeddedEngine, Engine};
use fairlane_server::{Server, ServerSettings};
use fairlane_testkit::redis::{RedisServer, ServerOptions, free_port};
use fairlane_worker::{BulkPlan, CallbackPlan};

use super::running::fairlane;
use super::work::{Started, WorkFolder, at, lines, until};

const MAIL: &str = "[types.mail]\ncommand = [\"cat\"]\nrate = \"7/s\"\nmax_retry_count = 3";

/// Asserts that both `--check` and a real run reject the configuration with these words.
fn rejected(folder: &WorkFolder, config: &str, engine: &str, words: &[&str]) {
    let config = folder.config(config);
    for last in ["--check", "--drain"] {
        fairlane(&["work", "--config", &config, "--engine", engine, last]).failed(2, words);
    }
}

#[test]
fn check_rejects_what_a_run_rejects() {
    let folder = WorkFolder::new();
    std::fs::write(folder.path("file"), "").unwrap();
    let file = folder.path("file").display().to_string();
    rejected(&folder, MAIL, "memory:", &["in memory", "--engine"]);
    rejected(&folder, MAIL, "postgres://localhost", &["is not the address of an engine"]);
    rejected(
        &folder,
        MAIL,
        "redis://:hunter2@127.0.0.1:99999",
        &["redis://127.0.0.1:99999", "not a Redis address"],
    );
    rejected(&folder, MAIL, &format!("dir:{file}"), &["is a file", "names a directory"]);
    let engine = folder.engine();
    let command = |rest: &str| format!("[types.mail]\ncommand = {rest}");
    for (config, words) in [
        (command("[\"no-such-program\"]"), "there is no program no-such-program in any folder of PATH"),
        (command("[\"./no-such-program\"]"), "there is no program ./no-such-program"),
        (command(&format!("[{file:?}]")), "is not executable"),
        (command("[\"cat\"]\ndirectory = \"/no/such/folder\""), "there is no directory /no/such/folder"),
    ] {
        rejected(&folder, &config, &engine, &["work.toml, [types.mail]: ", words]);
    }
    assert!(!folder.path("queue").exists(), "nothing was created");
    let ended = fairlane(&["work", "--config", &folder.config(MAIL), "--engine", &engine, "--check"]);
    assert!(
        ended.code == 0 && ended.stdout.contains(&format!("the queue is at {engine}")),
        "{}",
        ended.stderr
    );
    assert!(!folder.path("queue").exists(), "a check creates nothing");
}

#[test]
fn a_missing_directory_is_created() {
    let folder = WorkFolder::new();
    let ended =
        fairlane(&["work", "--config", &folder.config(MAIL), "--engine", &folder.engine(), "--drain"]);
    assert_eq!((ended.code, ended.stdout.starts_with("drained: 0 done")), (0, true), "{}", ended.stderr);
    assert!(folder.path("queue").join("fairlane.db").exists());
}

/// Starts a server that responds to everything like a web server to an invalid request.
fn port_of_a_web_server() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    port
}

#[test]
fn an_unusable_redis_is_rejected_in_one_line() {
    let folder = WorkFolder::new();
    let closed = RedisServer::start_with(&["--requirepass", "hunter2"]);
    let cluster = |user: &str| closed.url().replace("redis://", &format!("redis+cluster://{user}"));
    for (engine, words) in [
        (closed.url(), "redis://:password@host:port"),
        (closed.url().replace("redis://", "redis://:wrong@"), "did not accept the password"),
        (format!("redis://127.0.0.1:{}", port_of_a_web_server()), "is not Redis"),
        (cluster(":wrong@"), "did not accept the password"),
        (cluster(":hunter2@"), "is not a node of a cluster; write redis://"),
    ] {
        let ended = fairlane(&["work", "--config", &folder.config(MAIL), "--engine", &engine, "--drain"]);
        ended.failed(2, &[words]);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn work_waits_until_a_read_only_replica_is_promoted() {
    let folder = WorkFolder::new();
    let primary = RedisServer::start(ServerOptions::default());
    let address = primary.address();
    let (host, port) = address.split_once(':').expect("an address has a port");
    let replica = RedisServer::start_with(&["--replicaof", host, port]);
    let config = folder.config(MAIL);
    let words = ["work", "--config", &config, "--engine", &replica.url(), "--patience", "0s"];
    fairlane(&words).failed(1, &["is a read-only replica; name its primary"]);
    let started = Started::at(&replica.url(), &folder, MAIL);
    started.prints("is a read-only replica");
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    started.prints("is connected to redis://127.0.0.1");
    started.terminate();
    assert_eq!(started.ended().code, 0);
}

#[test]
fn work_waits_for_an_unreachable_store() {
    let folder = WorkFolder::new();
    let port = free_port();
    let engine = format!("redis://127.0.0.1:{port}");
    let started = Started::at(&engine, &folder, MAIL);
    started.prints("the engine does not respond (connecting)");
    let _redis = RedisServer::start_at(port, &[]);
    started.prints("the engine responds again");
    started.prints("is connected to redis://127.0.0.1");
    started.terminate();
    assert_eq!(started.ended().code, 0);
}

#[test]
fn waiting_for_a_store_ends_with_a_signal_or_after_the_patience() {
    let folder = WorkFolder::new();
    let engine = format!("redis://127.0.0.1:{}", free_port());
    let started = Started::at(&engine, &folder, MAIL);
    started.prints("the engine does not respond (connecting)");
    started.terminate();
    assert_eq!(started.ended().code, 0);
    let config = folder.config(MAIL);
    let ended = fairlane(&["work", "--config", &config, "--engine", &engine, "--patience", "0s"]);
    ended.failed(1, &["cannot be reached"]);
    let ended = fairlane(&["work", "--config", &config, "--engine", &engine, "--patience", "-5s"]);
    ended.failed(2, &["\"-5s\" is not a length of time"]);
}

#[test]
fn with_patience_work_waits_until_the_owner_serves_the_directory() {
    let folder = WorkFolder::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let owner = Arc::new(EmbeddedEngine::open(&folder.path("queue"), Default::default()).unwrap());
    let config = folder.config(MAIL);
    for patience in [&["--patience", "0s"][..], &[]] {
        let words = ["work", "--config", &config, "--engine", &folder.engine()];
        fairlane(&[&words[..], patience].concat()).failed(2, &["belongs to process"]);
    }
    let started = Started::with(&["--engine", &folder.engine(), "--patience", "60s"], &folder, MAIL);
    started.prints("belongs to process");
    runtime.block_on(async {
        let fairlane = Fairlane::from_engine(owner.clone());
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let server = Server::start(fairlane, address, None, ServerSettings::default()).await.unwrap();
        owner.admin().announce(format!("http://{}", server.address())).await.unwrap();
        tokio::task::block_in_place(|| started.prints("is connected to"));
        started.terminate();
        tokio::task::block_in_place(|| assert_eq!(started.ended().code, 0));
        server.stop().await;
    });
}

#[test]
fn an_address_without_an_http_server_fails_at_once() {
    let folder = WorkFolder::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n");
            let _ = stream.read(&mut [0; 512]);
        }
    });
    let engine = format!("http://127.0.0.1:{port}");
    let ended = fairlane(&["work", "--config", &folder.config(MAIL), "--engine", &engine]);
    ended.failed(2, &["does not speak HTTP"]);
}

#[test]
fn unsafe_redis_settings_cause_warnings() {
    let folder = WorkFolder::new();
    let redis = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let events = lines(&folder.drain(&redis.url(), MAIL));
    let warnings: Vec<&str> = events
        .iter()
        .filter(|line| line["event"] == "engine_warning")
        .map(|line| line["warning"].as_str().unwrap())
        .collect();
    assert!(warnings[0].starts_with("maxmemory-policy is allkeys-lru"), "{warnings:?}");
    assert!(warnings[1].starts_with("appendonly is off"), "{warnings:?}");
    let ended = fairlane(&["work", "--config", &folder.config(MAIL), "--engine", &redis.url(), "--drain"]);
    assert!(ended.stderr.contains("warning: maxmemory-policy is allkeys-lru"), "{}", ended.stderr);
}

/// The stored rate and number of retries of the type.
fn stored(url: &str) -> Option<(String, u32)> {
    at(url, async |engine| {
        let view = engine.call(InspectType { type_id: TypeId::new("mail").unwrap() }).await.unwrap();
        let settings = view?.settings;
        Some((fairlane::rate_text(settings.rate?), settings.max_retry_count?))
    })
}

#[test]
fn a_start_reports_each_stored_value_that_the_file_replaces() {
    let folder = WorkFolder::new();
    let config =
        folder.config(&format!("{MAIL}\n[queue]\nmax_retry_count = 5\ncompleted_retention_ms = \"2h\""));
    let start = || {
        let ended = fairlane(&["work", "--config", &config, "--engine", &folder.engine(), "--drain"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let warnings = ended.stderr.lines().filter_map(|line| line.split_once("warning: "));
        let mut warnings: Vec<String> = warnings.map(|(_, warning)| warning.to_owned()).collect();
        warnings.sort();
        warnings
    };
    assert_eq!(start(), [""; 0], "no operator has chosen the values of a new queue");
    assert_eq!(start(), [""; 0], "nothing is replaced");
    let engine = folder.engine();
    let set = |words: &[&str]| fairlane(&[words, &["--engine", &engine, "--json"]].concat()).json();
    set(&["settings", "set", "max_retry_count=9", "completed_retention_ms=30m", "max_loss_count=8"]);
    set(&["type", "set", "mail", "--rate", "10/s", "--max-retry-count", "7"]);
    assert_eq!(
        start(),
        [
            "completed_retention_ms of the queue is now 2h, as in the file; it was 30m",
            "max_retry_count of mail is now 3, as in the file; it was 7",
            "max_retry_count of the queue is now 5, as in the file; it was 9",
            "the rate of mail is now 7/s, as in the file; it was 10/s",
        ]
    );
    let stored = set(&["settings", "show"])["settings"].clone();
    let stored = [&stored["max_retry_count"], &stored["max_loss_count"]];
    assert_eq!(stored, ["5", "8"], "what the file does not name stays");
}

#[test]
fn settings_are_applied_again_to_a_store_that_comes_back_empty() {
    let folder = WorkFolder::new();
    let mut redis = RedisServer::start(ServerOptions::default());
    let started = Started::at(&redis.url(), &folder, MAIL);
    started.prints("is connected to");
    let settings = Some(("7/s".to_owned(), 3));
    assert_eq!(stored(&redis.url()), settings);
    redis.restart();
    started.prints("the engine responds again");
    until("the settings are applied again", || stored(&redis.url()) == settings);
    started.terminate();
    assert_eq!(started.ended().code, 0);
}

#[test]
fn callbacks_without_a_configuration_are_reported_as_remaining() {
    let folder = WorkFolder::new();
    let engine = folder.engine();
    at(&engine, async |engine| {
        let bulk = BulkRef { group: GroupId::new("customer-A").unwrap(), id: BulkId::new("may").unwrap() };
        let callback = Some(CallbackPlan { url: "http://127.0.0.1:1/".into() });
        let payload = BulkPlan { callback, ..BulkPlan::default() }.to_bytes();
        let open = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload };
        engine.call(open).await.unwrap();
        engine.call(SealBulk { bulk, expected: Some(0) }).await.unwrap();
    });
    let ended = fairlane(&["work", "--config", &folder.config(MAIL), "--engine", &engine, "--drain"]);
    assert_eq!((ended.code, ended.stdout.starts_with("drained:")), (0, true), "{}", ended.stderr);
    let words = "left in the queue: 1 job of fairlane-callback (the file has no [callbacks])";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

#[test]
fn the_file_in_the_readme_is_valid() {
    let readme = include_str!("../../../../README.md");
    let (_, file) = readme.split_once("```toml\n").unwrap();
    let (file, _) = file.split_once("```").unwrap();
    let folder = WorkFolder::new();
    std::fs::write(folder.path("thumbnail"), "#!/bin/sh\ncat\n").unwrap();
    std::process::Command::new("chmod").arg("+x").arg(folder.path("thumbnail")).status().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args(["work", "--check", "--config", &folder.config(file)])
        .env("WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        .current_dir(folder.path("."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
