//! Every case over every engine, each on an empty queue of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::served::Served;
use fairlane_conformance::chapters::CHAPTERS;
use fairlane_conformance::subject::{START, Subject};
use fairlane_core::queue::Settings;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, DirectoryOptions, EmbeddedEngine, Engine};
use fairlane_testkit::redis::{RedisCluster, RedisServer, ServerOptions};
use tempfile::TempDir;

/// The time after which a case counts as hanging.
const CASE_LIMIT: Duration = Duration::from_secs(60);

/// Where the engines of one run keep their state.
enum Store {
    Memory,
    /// A directory of its own for each case, below this one.
    Disk(TempDir),
    Redis(String),
    /// In memory, behind a server of its own for each case.
    Served,
}

impl Store {
    /// A new queue for one case.
    async fn subject(&self, case: &str) -> Subject {
        if let Self::Served = self {
            let served = Served::start().await;
            return Subject::new(served.connect().await, served.us);
        }
        let us = Arc::new(AtomicU64::new(START.0));
        let clock = Clock::Given(us.clone());
        let engine: Arc<dyn Engine> = match self {
            Self::Memory | Self::Served => {
                Arc::new(EmbeddedEngine::new(Settings::default(), clock).expect("a thread"))
            }
            Self::Disk(folder) => {
                let options =
                    DirectoryOptions { clock, synced: false, reserve_bytes: 0, ..Default::default() };
                let folder = folder.path().join(case.replace('/', "-"));
                Arc::new(EmbeddedEngine::open(&folder, options).expect("a directory of its own"))
            }
            Self::Redis(url) => {
                let options = RedisOptions { clock, prefix: format!("{case}:"), ..RedisOptions::default() };
                Arc::new(RedisEngine::connect(url, options).await.expect("Redis is there"))
            }
        };
        Subject::new(engine, us)
    }

    /// Runs every case and returns their number.
    async fn run_all(&self) -> usize {
        let engine = self.subject("name").await.engine.name();
        let (mut count, mut failures) = (0, Vec::new());
        for chapter in CHAPTERS {
            for case in chapter.cases {
                let subject = self.subject(&format!("{}/{}", chapter.name, case.name)).await;
                let run = tokio::spawn(tokio::time::timeout(CASE_LIMIT, (case.run)(subject)));
                let name = format!("{} / {} / {engine}", chapter.name, case.name);
                match run.await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => failures.push(format!("{name}: not done in {CASE_LIMIT:?}")),
                    Err(panic) => failures.push(format!("{name}: {}", message(panic))),
                }
                count += 1;
            }
        }
        println!("{engine}: {count} cases, {} failed", failures.len());
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        count
    }
}

fn message(panic: tokio::task::JoinError) -> String {
    let payload = panic.into_panic();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

fn cases_of_the_suite() -> usize {
    CHAPTERS.iter().map(|chapter| chapter.cases.len()).sum()
}

/// The patterns of the layout document's table: a part in braces is a name or a number. The name of a
/// lock is the rest of its key.
fn documented_keys() -> Vec<Vec<String>> {
    let document = include_str!("../../../../docs/redis-layout.md");
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).expect("a row has cells"));
    let names = cells.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`')));
    names.map(|name| name.split(':').map(str::to_owned).collect()).collect()
}

fn is_documented(key: &str, patterns: &[Vec<String>]) -> bool {
    let parts: Vec<&str> = key.split(':').collect();
    patterns.iter().any(|pattern| {
        let is_lock = pattern.last().is_some_and(|last| last == "{lock}");
        (pattern.len() == parts.len() || is_lock && pattern.len() < parts.len())
            && pattern.iter().zip(&parts).all(|(pattern, part)| pattern.starts_with('{') || pattern == part)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_on_the_embedded_engine() {
    assert_eq!(Store::Memory.run_all().await, cases_of_the_suite());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_on_disk() {
    let store = Store::Disk(tempfile::tempdir().expect("a folder"));
    assert_eq!(store.run_all().await, cases_of_the_suite());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_behind_a_server() {
    assert_eq!(Store::Served.run_all().await, cases_of_the_suite());
}

/// Erratum Q29.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_on_redis_and_every_key_written_is_in_the_layout_document() {
    let server = RedisServer::start(ServerOptions::default());
    assert_eq!(Store::Redis(server.url()).run_all().await, cases_of_the_suite());
    let patterns = documented_keys();
    let mut kinds = BTreeSet::new();
    let all_keys = "return table.concat(redis.call('KEYS', '*'), '\\n')";
    for key in server.command(&["EVAL", all_keys, "0"]).lines() {
        let (_, key) = key.split_once(':').unwrap_or_else(|| panic!("{key:?} has no prefix"));
        assert!(is_documented(key, &patterns), "{key:?} is not in docs/redis-layout.md");
        kinds.insert(key.split(':').next().unwrap_or(key).to_owned());
    }
    let documented: BTreeSet<String> = patterns.iter().map(|pattern| pattern[0].clone()).collect();
    assert_eq!(kinds, documented, "every documented key is written, and every written key is documented");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_on_redis_with_scripts_instead_of_functions() {
    let server = RedisServer::start(ServerOptions::default());
    server.refuse_functions();
    assert_eq!(Store::Redis(server.url()).run_all().await, cases_of_the_suite());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_on_a_redis_cluster() {
    let cluster = RedisCluster::start(3);
    assert_eq!(Store::Redis(cluster.url()).run_all().await, cases_of_the_suite());
}

#[test]
fn no_claim_of_a_chapter_stands_twice() {
    for chapter in CHAPTERS {
        let mut names: Vec<&str> = chapter.cases.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), chapter.cases.len(), "chapter {}", chapter.name);
    }
}
