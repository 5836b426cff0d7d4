//! The function library in Redis: loaded where it is missing, replaced by scripts where it is refused,
//! and without a memory between two calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlane_conformance::subject::{START, bulk_ref, bytes, job, job_ref, jobs, succeeded};
use fairlane_core::kernel::Dump;
use fairlane_core::queue::{
    CancelJob, Enqueue, Extend, InspectQueue, Leased, OpenBulk, Outcome, Settle, Settlement, Sweep,
};
use fairlane_core::{Command, Micros};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, Engine, EngineError};
use fairlane_testkit::redis::{RedisCluster, RedisServer, ServerOptions};
use fairlane_testkit::wait::until;
use redis::{Value, from_redis_value_ref};

use super::redis_faults::{lease, leased};

async fn connect(url: &str) -> Arc<dyn Engine> {
    Arc::new(RedisEngine::connect(url, RedisOptions::default()).await.expect("Redis is there"))
}

/// The libraries of a server, with the names of their functions.
fn libraries(server: &RedisServer) -> BTreeMap<String, Vec<String>> {
    let mut connection =
        redis::Client::open(server.url()).and_then(|client| client.get_connection()).expect("Redis is there");
    let listed: Vec<HashMap<String, Value>> =
        redis::cmd("FUNCTION").arg("LIST").query(&mut connection).expect("a list of libraries");
    let text = |value: &Value| from_redis_value_ref::<String>(value).expect("a name");
    let functions = |value: &Value| {
        let functions: Vec<HashMap<String, Value>> = from_redis_value_ref(value).expect("functions");
        functions.iter().map(|function| text(&function["name"])).collect()
    };
    listed.iter().map(|one| (text(&one["library_name"]), functions(&one["functions"]))).collect()
}

/// The number of calls of a command since the server started.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().expect("a count"))
}

#[tokio::test]
async fn operations_are_functions_of_one_library_and_need_no_script() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server.url()).await;
    engine.enqueue_all(jobs("a", 5)).await.unwrap();
    assert_eq!(leased(&*engine, 1).await, 5);
    assert_eq!(engine.call(InspectQueue).await.unwrap().in_flight, 5);
    assert_eq!(calls(&server, "evalsha"), 0);
    assert_eq!(calls(&server, "function|load"), 1);
    let libraries = libraries(&server);
    let (name, functions) = libraries.first_key_value().expect("a library");
    assert!(libraries.len() == 1 && name.starts_with("fairlane_6_"), "{libraries:?}");
    let mut expected: Vec<String> = Command::stems().map(|stem| format!("{name}_{stem}")).collect();
    expected.sort();
    let mut functions = functions.clone();
    functions.sort();
    assert_eq!(functions, expected);
}

fn library(name: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function('{name}_f', function() return 1 end)\n\
         redis.register_function('{name}_g', function() return 1 end)\n"
    )
}

#[tokio::test]
async fn libraries_of_older_layouts_are_removed_and_others_stay() {
    let server = RedisServer::start(ServerOptions::default());
    let others = ["fairlane_6_0123456789ab", "fairlane_7_0123456789ab", "fairlane_other", "mine"];
    for name in others.into_iter().chain(["fairlane_5_0123456789ab", "fairlane_0_0123456789ab"]) {
        assert_eq!(server.command(&["FUNCTION", "LOAD", &library(name)]), name);
    }
    let engine = connect(&server.url()).await;
    engine.enqueue_all([job("a", "1")]).await.unwrap();
    let listed = libraries(&server);
    assert!(others.iter().all(|name| listed.contains_key(*name)), "{listed:?}");
    assert_eq!(listed.len(), others.len() + 1, "{listed:?}");
}

#[tokio::test]
async fn two_prefixes_and_changed_files_share_a_server() {
    let server = RedisServer::start(ServerOptions::default());
    let changed = RedisOptions {
        prefix: "changed:".into(),
        edit_script: Some(|stem, source| match stem {
            "inspect_queue" => source.replace("max(cx.partition.backlog, 0)", "7"),
            _ => source.to_owned(),
        }),
        ..RedisOptions::default()
    };
    let plain = connect(&server.url()).await;
    let changed = RedisEngine::connect(&server.url(), changed).await.expect("Redis is there");
    let backlog =
        async |engine: &dyn Engine| engine.call(InspectQueue).await.expect("it is answered").backlog;
    for _ in 0..2 {
        assert_eq!((backlog(&*plain).await, backlog(&changed).await), (0, 7));
    }
    assert_eq!(calls(&server, "function|load"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_a_cluster_gets_the_library_when_it_is_called_there() {
    let cluster = RedisCluster::start(3);
    let engine = connect(&cluster.url()).await;
    for (round, id) in ["1", "2", "3"].into_iter().enumerate() {
        engine.enqueue_all([job("a", id)]).await.unwrap();
        assert_eq!(leased(&*engine, round as u64 + 1).await, 1);
        let with_library = cluster.nodes().iter().filter(|node| !libraries(node).is_empty());
        assert_eq!(with_library.count(), 1, "the queue has one slot");
        cluster.nodes().iter().for_each(|node| drop(node.command(&["FUNCTION", "FLUSH", "SYNC"])));
    }
    assert!(cluster.nodes().iter().all(|node| calls(node, "evalsha") == 0), "no script was needed");
}

#[tokio::test]
async fn full_redis_without_the_library_is_drained_by_scripts() {
    let server = RedisServer::start(ServerOptions::default());
    connect(&server.url()).await.enqueue_all(jobs("a", 50)).await.unwrap();
    server.command(&["FUNCTION", "FLUSH", "SYNC"]);
    server.command(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let engine = connect(&server.url()).await;
    assert_eq!(leased(&*engine, 1).await, 50);
    assert!(calls(&server, "eval") > 0);
    let refused = engine.call(Enqueue { jobs: vec![job("a", "one-more")] }).await.unwrap_err();
    assert!(refused.to_string().contains("raise maxmemory"), "{refused}");
}

#[tokio::test]
async fn replica_without_the_library_is_read_by_scripts() {
    let primary = RedisServer::start(ServerOptions::default());
    let replica = RedisServer::start(ServerOptions::default());
    connect(&primary.url()).await.enqueue_all(jobs("a", 3)).await.unwrap();
    primary.command(&["FUNCTION", "FLUSH", "SYNC"]);
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let is_linked = || replica.command(&["INFO", "replication"]).contains("master_link_status:up");
    until("the replica follows its primary", is_linked).await;
    let engine = connect(&replica.url()).await;
    for _ in 0..3 {
        assert_eq!(engine.call(InspectQueue).await.unwrap().backlog, 3);
    }
    assert_eq!(libraries(&replica), BTreeMap::new());
}

/// Commands that use every cache of a call: groups, types, bulk actions, ended jobs and leases.
async fn run_a_day(engine: &dyn Engine, clock: &AtomicU64) -> Result<(), EngineError> {
    let bulk = bulk_ref("a", "b");
    let open = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload: bytes("p") };
    engine.call(open).await?;
    let mut new = jobs("a", 6);
    new.iter_mut().skip(3).for_each(|job| job.bulk = Some(bulk.id.clone()));
    engine.call(Enqueue { jobs: new }).await?;
    engine.call(Enqueue { jobs: jobs("c", 4) }).await?;
    let Leased::Jobs { jobs, .. } = engine.call(lease(1)).await? else { panic!("superseded") };
    assert_eq!(jobs.len(), 10);
    clock.fetch_add(1_000_000, Ordering::SeqCst);
    let held = jobs.iter().map(|job| (job.job.clone(), job.fence)).take(2).collect();
    engine.call(Extend { leases: held, lease_ms: 30_000 }).await?;
    let outcomes = [succeeded(), Outcome::Failed { reason: bytes("no") }, Outcome::Released];
    let ended = jobs.iter().zip(outcomes.iter().cycle());
    let settlements = ended.map(|(job, outcome)| Settlement {
        job: job.job.clone(),
        fence: job.fence,
        outcome: outcome.clone(),
    });
    engine.call(Settle { settlements: settlements.skip(1).collect() }).await?;
    engine.call(CancelJob { jobs: vec![job_ref("a", "2"), job_ref("c", "3")] }).await?;
    engine.call(Sweep { jobs_max: 100 }).await?;
    engine.call(lease(2)).await?;
    Ok(())
}

/// What a day leaves on a server.
async fn state_after_a_day(server: &RedisServer) -> Dump {
    let us = Arc::new(AtomicU64::new(START.0));
    let options = RedisOptions { clock: Clock::Given(us.clone()), ..RedisOptions::default() };
    let engine = RedisEngine::connect(&server.url(), options).await.expect("Redis is there");
    run_a_day(&engine, &us).await.expect("every command is answered");
    engine.dump(Micros(us.load(Ordering::SeqCst))).await.expect("a dump")
}

#[tokio::test]
async fn nothing_survives_a_call_not_even_one_that_failed_midway() {
    let (fresh, used) =
        (RedisServer::start(ServerOptions::default()), RedisServer::start(ServerOptions::default()));
    let expected = state_after_a_day(&fresh).await;
    for broken in
        ["group:a:jobs:1:t", "in-flight", "deadlines", "type:t", "group:c:rows", "wake:t", "worker:worker"]
    {
        let engine = connect(&used.url()).await;
        engine.enqueue_all(jobs("a", 3)).await.unwrap();
        let key = format!("bulk-action:{broken}");
        used.command(&["DEL", &key]);
        let _ = match broken {
            "wake:t" | "worker:worker" | "deadlines" => used.command(&["HSET", &key, "x", "x"]),
            _ => used.command(&["SET", &key, "x"]),
        };
        let failures = [
            engine.call(Enqueue { jobs: vec![job("a", "x"), job("c", "x")] }).await.is_err(),
            engine.call(lease(7)).await.is_err(),
            engine.call(CancelJob { jobs: vec![job_ref("a", "1"), job_ref("c", "1")] }).await.is_err(),
        ];
        assert!(failures.contains(&true), "{broken} makes no call fail");
        used.command(&["FLUSHALL"]);
        assert_eq!(state_after_a_day(&used).await, expected, "after {broken}");
        used.command(&["FLUSHALL"]);
    }
    assert_eq!(calls(&used, "function|load"), 1, "the library has stayed");
}
