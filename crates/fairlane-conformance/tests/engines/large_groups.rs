//! The index of large groups in a Redis: what it costs, and how data that has none gets it.

use std::sync::Arc;

use fairlane_conformance::subject::*;
use fairlane_core::limits::{INDEX_GROUPS_MAX, SWEEP_JOBS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, Engine};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

struct Filled {
    server: RedisServer,
    queue: Subject,
}

impl Filled {
    /// A queue in which each of these groups has so many jobs.
    async fn with(groups: usize, jobs_each: usize) -> Self {
        let server = RedisServer::start(ServerOptions::default());
        let options = RedisOptions { clock: Clock::System, ..RedisOptions::default() };
        let engine = RedisEngine::connect(&server.url(), options).await.expect("Redis is there");
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let queue = Subject::new(engine, Arc::default());
        for group in 0..groups {
            queue.add(jobs(&format!("g{group:05}"), jobs_each)).await;
        }
        Self { server, queue }
    }

    fn key(name: &str) -> String {
        format!("bulk-action:{name}")
    }

    fn raw(&self, words: &[&str]) -> String {
        self.server.command(words)
    }

    /// Calls of the commands that only the index uses.
    fn index_calls(&self) -> u64 {
        let stats = self.raw(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_zmscore:calls="));
        line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().expect("a count"))
    }

    fn all_calls(&self) -> u64 {
        let stats = self.raw(&["INFO", "commandstats"]);
        let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        let inner = lines.filter(|(name, _)| !name.starts_with("info") && !name.starts_with("client"));
        inner.map(|(_, line)| line.split(',').next().map_or(0, |calls| calls.parse().unwrap_or(0))).sum()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steady_backlog_costs_the_index_no_call() {
    let filled = Filled::with(1, 1000).await;
    let before = filled.index_calls();
    for round in 0..20 {
        filled.queue.add((0..10).map(|number| job("g00000", &format!("{round}-{number}")))).await;
        let leased = filled.queue.lease(10).await;
        assert_eq!(leased.len(), 10);
        filled.queue.succeed(&leased).await;
    }
    assert_eq!(filled.index_calls(), before, "the backlog stays between 512 and 1023");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_with_a_job_now_and_then_costs_the_index_no_call() {
    let filled = Filled::with(1, 1).await;
    let before = filled.index_calls();
    let leased = filled.queue.lease(1).await;
    filled.queue.succeed(&leased).await;
    for round in 0..10 {
        filled.queue.add([job("g00000", &format!("again {round}"))]).await;
        let leased = filled.queue.lease(1).await;
        filled.queue.succeed(&leased).await;
    }
    assert_eq!(filled.index_calls(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_takes_as_many_commands_among_many_groups_as_among_few() {
    let mut costs = Vec::new();
    for groups in [50, 800] {
        let filled = Filled::with(groups, 9).await;
        let first = filled.queue.largest(None, 10).await;
        let before = filled.all_calls();
        let page = filled.queue.largest(first.next, 10).await;
        costs.push(filled.all_calls() - before);
        assert_eq!(page.groups.len(), 10);
    }
    // The position of the page is searched in the order of sixteen times as many groups.
    assert!(costs[1] <= costs[0] + 4, "{costs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_without_an_index_gets_it_from_sweeps() {
    let groups = INDEX_GROUPS_MAX + 5;
    let filled = Filled::with(groups, 9).await;
    filled.raw(&["DEL", &Filled::key("large-groups")]);
    filled.raw(&["HDEL", &Filled::key("partition"), "indexed"]);
    let report = filled.queue.engine.audit_all(false, |_| {}).await.expect("audit is answered");
    assert_eq!(report.findings, [], "an index that is not complete yet is no fault");
    assert_eq!(filled.queue.largest(None, 100).await.groups.len(), 100, "every group is listed by name");
    let size = || filled.raw(&["ZCARD", &Filled::key("large-groups")]).trim().to_owned();
    let sweep = || filled.queue.engine.call(Sweep { jobs_max: SWEEP_JOBS_MAX });
    sweep().await.expect("sweep is answered");
    assert_eq!(size(), INDEX_GROUPS_MAX.to_string(), "one sweep adds a bounded number");
    sweep().await.expect("sweep is answered");
    assert_eq!(size(), groups.to_string());
    let before = filled.all_calls();
    sweep().await.expect("sweep is answered");
    let idle = filled.all_calls() - before;
    filled.queue.add(jobs("another", 1)).await;
    let before = filled.all_calls();
    sweep().await.expect("sweep is answered");
    assert_eq!(filled.all_calls() - before, idle, "a complete index is not looked at");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_missing_in_a_complete_index_is_found_and_added() {
    let filled = Filled::with(3, 9).await;
    filled.queue.engine.call(Sweep { jobs_max: 1 }).await.expect("sweep is answered");
    filled.raw(&["ZREM", &Filled::key("large-groups"), "g00001"]);
    let audit = |repair| filled.queue.engine.audit_all(repair, |_| {});
    let found = audit(false).await.expect("audit is answered").findings;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].fault, found[0].stored, found[0].counted), (Fault::Magnitude, 0, 4));
    audit(true).await.expect("audit is answered");
    assert_eq!(audit(false).await.expect("audit is answered").findings, []);
    assert_eq!(filled.raw(&["ZSCORE", &Filled::key("large-groups"), "g00001"]).trim(), "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_entries_of_the_index_are_found_and_corrected() {
    let filled = Filled::with(1, 9).await;
    for (magnitude, group) in [("9", "g00000"), ("7", "no such group")] {
        filled.raw(&["ZADD", &Filled::key("large-groups"), magnitude, group]);
    }
    let audit = |repair| filled.queue.engine.audit_all(repair, |_| {});
    let found = audit(true).await.expect("audit is answered").findings;
    let mut magnitudes: Vec<(i64, i64)> = found.iter().map(|one| (one.stored, one.counted)).collect();
    magnitudes.sort();
    assert!(found.iter().all(|one| one.fault == Fault::Magnitude), "{found:?}");
    assert_eq!(magnitudes, [(7, 0), (9, 4)]);
    assert_eq!(audit(false).await.expect("audit is answered").findings, []);
    assert_eq!(filled.raw(&["ZCARD", &Filled::key("large-groups")]).trim(), "1");
}
