//! How `fairlane work` begins: what it refuses, what it waits for, and what it tells of the store.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use fairlane::Fairlane;
use fairlane_core::queue::{BulkRef, Inspect, Inspected, OpenBulk, SealBulk};
use fairlane_core::{BulkId, GroupId, TypeId};
use fairlane_engine::EmbeddedEngine;
use fairlane_server::{Server, ServerSettings};
use fairlane_worker::{BulkPlan, CallbackPlan};

use super::redis_server::{RedisServer, free_port};
use super::running::fairlane;
use super::work::{Place, Started, at, lines, until};

const MAIL: &str = "[types.mail]\ncommand = [\"cat\"]\nrate = \"7/s\"\nmax_retry_count = 3";

/// What `--check` and a real run say of the same words, which must both refuse them.
fn refused(place: &Place, config: &str, engine: &str, words: &[&str]) {
    let config = place.config(config);
    for last in ["--check", "--drain"] {
        fairlane(&["work", "--config", &config, "--engine", engine, last]).failed(2, words);
    }
}

#[test]
fn a_check_refuses_what_a_run_would() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    let file = place.path("file").display().to_string();
    refused(&place, MAIL, "memory:", &["in memory", "--engine"]);
    refused(&place, MAIL, "postgres://localhost", &["is not the address of an engine"]);
    refused(
        &place,
        MAIL,
        "redis://:hunter2@127.0.0.1:99999",
        &["redis://127.0.0.1:99999", "not a Redis address"],
    );
    refused(&place, MAIL, &format!("dir:{file}"), &["is a file", "names a directory"]);
    let engine = place.engine();
    let command = |rest: &str| format!("[types.mail]\ncommand = {rest}");
    for (config, words) in [
        (command("[\"no-such-program\"]"), "there is no program no-such-program in any folder of PATH"),
        (command("[\"./no-such-program\"]"), "there is no program ./no-such-program"),
        (command(&format!("[{file:?}]")), "is not executable"),
        (command("[\"cat\"]\ndirectory = \"/no/such/folder\""), "there is no directory /no/such/folder"),
    ] {
        refused(&place, &config, &engine, &["work.toml, [types.mail]: ", words]);
    }
    assert!(!place.path("queue").exists(), "nothing was made");
    let ended = fairlane(&["work", "--config", &place.config(MAIL), "--engine", &engine, "--check"]);
    assert!(
        ended.code == 0 && ended.stdout.contains(&format!("the queue is at {engine}")),
        "{}",
        ended.stderr
    );
    assert!(!place.path("queue").exists(), "a check makes nothing");
}

#[test]
fn a_directory_that_is_not_there_is_made() {
    let place = Place::new();
    let ended = fairlane(&["work", "--config", &place.config(MAIL), "--engine", &place.engine(), "--drain"]);
    assert_eq!(
        (ended.code, ended.stdout.starts_with("drained: in all 0 done")),
        (0, true),
        "{}",
        ended.stderr
    );
    assert!(place.path("queue").join("fairlane.db").exists());
}

/// Answers whatever it is sent as a web server answers what it does not understand.
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
fn a_server_that_cannot_be_a_queue_is_refused_in_one_line() {
    let place = Place::new();
    let closed = RedisServer::start_with(&["--requirepass", "hunter2"]);
    for (engine, words) in [
        (closed.url(), "redis://:password@host:port"),
        (closed.url().replace("redis://", "redis://:wrong@"), "did not accept the password"),
        (format!("redis://127.0.0.1:{}", port_of_a_web_server()), "does not speak as Redis does"),
    ] {
        let ended = fairlane(&["work", "--config", &place.config(MAIL), "--engine", &engine, "--drain"]);
        ended.failed(2, &[words]);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn read_only_replica_is_waited_for_until_it_is_promoted() {
    let place = Place::new();
    let primary = RedisServer::start();
    let address = primary.address();
    let (host, port) = address.split_once(':').expect("an address has a port");
    let replica = RedisServer::start_with(&["--replicaof", host, port]);
    let config = place.config(MAIL);
    let words = ["work", "--config", &config, "--engine", &replica.url(), "--patience", "0s"];
    fairlane(&words).failed(1, &["is a read-only replica; name its primary"]);
    let started = Started::at(&replica.url(), &place, MAIL);
    started.says("is a read-only replica");
    replica.ask("REPLICAOF NO ONE");
    started.says("works at redis://127.0.0.1");
    started.terminate();
    assert_eq!(started.ended().code, 0);
}

#[test]
fn a_store_that_is_not_there_yet_is_waited_for() {
    let place = Place::new();
    let port = free_port();
    let engine = format!("redis://127.0.0.1:{port}");
    let started = Started::at(&engine, &place, MAIL);
    started.says("the engine does not answer (connecting)");
    let _redis = RedisServer::start_at(port, &[]);
    started.says("the engine answers again");
    started.says("works at redis://127.0.0.1");
    started.terminate();
    assert_eq!(started.ended().code, 0);
}

#[test]
fn waiting_for_a_store_ends_when_told_or_when_patience_does() {
    let place = Place::new();
    let engine = format!("redis://127.0.0.1:{}", free_port());
    let started = Started::at(&engine, &place, MAIL);
    started.says("the engine does not answer (connecting)");
    started.terminate();
    assert_eq!(started.ended().code, 0);
    let config = place.config(MAIL);
    let ended = fairlane(&["work", "--config", &config, "--engine", &engine, "--patience", "0s"]);
    ended.failed(1, &["cannot be reached"]);
    let ended = fairlane(&["work", "--config", &config, "--engine", &engine, "--patience", "-5s"]);
    ended.failed(2, &["\"-5s\" is not a length of time"]);
}

#[test]
fn a_directory_whose_owner_may_be_about_to_serve_it_is_waited_for_with_patience() {
    let place = Place::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let owner = Arc::new(EmbeddedEngine::open(&place.path("queue"), Default::default()).unwrap());
    let config = place.config(MAIL);
    for patience in [&["--patience", "0s"][..], &[]] {
        let words = ["work", "--config", &config, "--engine", &place.engine()];
        fairlane(&[&words[..], patience].concat()).failed(2, &["belongs to process"]);
    }
    let started = Started::with(&["--engine", &place.engine(), "--patience", "60s"], &place, MAIL);
    started.says("belongs to process");
    runtime.block_on(async {
        let fairlane = Fairlane::from_engine(owner.clone());
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let server = Server::start(fairlane, address, None, ServerSettings::default()).await.unwrap();
        owner.announce(format!("http://{}", server.address())).await.unwrap();
        tokio::task::block_in_place(|| started.says("works at"));
        started.terminate();
        tokio::task::block_in_place(|| assert_eq!(started.ended().code, 0));
        server.stop().await;
    });
}

#[test]
fn what_is_no_server_ends_it_at_once() {
    let place = Place::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n");
            let _ = stream.read(&mut [0; 512]);
        }
    });
    let engine = format!("http://127.0.0.1:{port}");
    let ended = fairlane(&["work", "--config", &place.config(MAIL), "--engine", &engine]);
    ended.failed(2, &["does not speak HTTP"]);
}

#[test]
fn settings_of_the_server_that_weaken_the_promises_are_told() {
    let place = Place::new();
    let redis = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let said = lines(&place.drain(&redis.url(), MAIL));
    let warnings: Vec<&str> = said
        .iter()
        .filter(|line| line["event"] == "engine_warning")
        .map(|line| line["warning"].as_str().unwrap())
        .collect();
    assert!(warnings[0].starts_with("maxmemory-policy is allkeys-lru"), "{warnings:?}");
    assert!(warnings[1].starts_with("appendonly is off"), "{warnings:?}");
    let ended = fairlane(&["work", "--config", &place.config(MAIL), "--engine", &redis.url(), "--drain"]);
    assert!(ended.stderr.contains("warning: maxmemory-policy is allkeys-lru"), "{}", ended.stderr);
}

/// The rate of the type and its retries, as the store has them.
fn stored(url: &str) -> Option<(String, u32)> {
    at(url, async |engine| match engine.inspect(Inspect::Type(TypeId::new("mail").unwrap())).await.unwrap() {
        Inspected::Type(view) => {
            let settings = view?.settings;
            Some((fairlane::rate_text(settings.rate?), settings.max_retry_count?))
        }
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_store_that_comes_back_empty_is_told_of_types_again() {
    let place = Place::new();
    let mut redis = RedisServer::start();
    let started = Started::at(&redis.url(), &place, MAIL);
    started.says("works at");
    let settings = Some(("7/s".to_owned(), 3));
    assert_eq!(stored(&redis.url()), settings);
    redis.replace_by_an_empty_one();
    started.says("the engine answers again");
    until("the settings are there again", || stored(&redis.url()) == settings);
    started.terminate();
    assert_eq!(started.ended().code, 0);
}

#[test]
fn callbacks_that_nobody_delivers_are_told_when_all_else_is_done() {
    let place = Place::new();
    let engine = place.engine();
    at(&engine, async |engine| {
        let bulk = BulkRef { group: GroupId::new("customer-A").unwrap(), id: BulkId::new("may").unwrap() };
        let callback = Some(CallbackPlan { url: "http://127.0.0.1:1/".into() });
        let payload = BulkPlan { callback, ..BulkPlan::default() }.to_bytes();
        let open = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload };
        engine.open_bulk(open).await.unwrap();
        engine.seal_bulk(SealBulk { bulk, expected: Some(0) }).await.unwrap();
    });
    let ended = fairlane(&["work", "--config", &place.config(MAIL), "--engine", &engine, "--drain"]);
    assert_eq!((ended.code, ended.stdout.starts_with("drained:")), (0, true), "{}", ended.stderr);
    let words = "left in the queue: 1 job of fairlane-callback (the file has no [callbacks])";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

#[test]
fn the_file_in_the_readme_can_be_used() {
    let readme = include_str!("../../../../README.md");
    let (_, file) = readme.split_once("```toml\n").unwrap();
    let (file, _) = file.split_once("```").unwrap();
    let place = Place::new();
    std::fs::write(place.path("thumbnail"), "#!/bin/sh\ncat\n").unwrap();
    std::process::Command::new("chmod").arg("+x").arg(place.path("thumbnail")).status().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args(["work", "--check", "--config", &place.config(file)])
        .env("WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        .current_dir(place.path("."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
