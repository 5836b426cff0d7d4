//! Many callers that wait at once on one connection to Redis, on one server and on a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_conformance::subject::{job, type_id};
use fairlane_core::queue::JobReceipt;
use fairlane_core::{TypeId, WorkerId};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError, Leaser};
use fairlane_testkit::redis::{RedisCluster, RedisServer, ServerOptions};
use tokio::task::{JoinHandle, JoinSet};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

enum Servers {
    One(RedisServer),
    Cluster(RedisCluster),
}

impl Servers {
    fn of_each_kind() -> [Self; 2] {
        [Self::One(RedisServer::start(ServerOptions::default())), Self::Cluster(RedisCluster::start(3))]
    }

    fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }
}

/// A queue, and direct connections to its servers.
struct Scene {
    engine: Arc<RedisEngine>,
    nodes: Vec<redis::Connection>,
    prefix: &'static str,
}

impl Scene {
    async fn open(servers: &Servers) -> Self {
        let url = servers.url();
        let engine = RedisEngine::connect(&url, RedisOptions::default()).await.expect("Redis is there");
        let (_, addresses) = url.split_once("://").expect("an address has a scheme");
        let connect = |node: &str| {
            let client = redis::Client::open(format!("redis://{node}")).expect("an address");
            client.get_connection().expect("it is there")
        };
        let nodes = addresses.split(',').map(connect).collect();
        let is_cluster = matches!(servers, Servers::Cluster(_));
        let prefix = if is_cluster { "bulk-action:{0}:" } else { "bulk-action:" };
        Self { engine: Arc::new(engine), nodes, prefix }
    }

    fn wait(&self, types: &[TypeId]) -> JoinHandle<Result<bool, EngineError>> {
        let (engine, types) = (self.engine.clone(), types.to_vec());
        tokio::spawn(async move { engine.wait(&types, LONG).await })
    }

    /// Sends a command to the node that has the key of this type's tokens.
    fn send(&mut self, command: &str, type_id: &TypeId, arguments: &[&str]) -> i64 {
        let key = format!("{}wake:{}", self.prefix, type_id.escaped());
        let mut command = redis::cmd(command);
        command.arg(key).arg(arguments);
        // All other nodes reply that the key is elsewhere.
        self.nodes.iter_mut().find_map(|node| command.query(node).ok()).expect("one node has the key")
    }

    fn push(&mut self, type_id: &TypeId) {
        self.send("RPUSH", type_id, &["1"]);
    }

    /// The connections that pop, as node and connection id.
    fn popping(&mut self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (node, connection) in self.nodes.iter_mut().enumerate() {
            let clients: String = redis::cmd("CLIENT").arg("LIST").query(connection).expect("it is answered");
            let popping = clients.lines().filter(|client| field(client, "flags") == "b");
            found.extend(popping.map(|client| (node, field(client, "id").to_owned())));
        }
        found
    }

    /// Waits until this many pops are under way.
    async fn until_popping(&mut self, count: usize) -> Vec<(usize, String)> {
        let deadline = Instant::now() + LONG;
        loop {
            let popping = self.popping();
            if popping.len() == count {
                return popping;
            }
            assert!(Instant::now() < deadline, "{popping:?}, and not {count}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// New waiters one after the other, each with a type of its own, while another type is waited
    /// for. Each would take a second if it had to wait for the pop in progress.
    async fn serve_newcomers(&mut self, round: &str) {
        let first = self.wait(&[type_id("first")]);
        self.until_popping(1).await;
        let newcomers = async {
            for number in 0..40 {
                let own = type_id(&format!("{round}-{number}"));
                self.push(&own);
                assert_eq!(self.engine.wait(&[own], LONG).await, Ok(true));
            }
        };
        tokio::time::timeout(Duration::from_secs(20), newcomers).await.expect("a newcomer is served at once");
        self.push(&type_id("first"));
        assert_eq!(first.await.expect("a waiter does not panic"), Ok(true));
    }
}

fn field<'a>(client: &'a str, name: &str) -> &'a str {
    let mut fields = client.split(' ').filter_map(|field| field.split_once('='));
    fields.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_are_each_woken_by_a_token_of_their_own_type() {
    for servers in Servers::of_each_kind() {
        let mut scene = Scene::open(&servers).await;
        let mut waiting = JoinSet::new();
        let types: Vec<TypeId> = (0..10).map(|number| type_id(&format!("t{number}"))).collect();
        for own in types.iter().cycle().take(1000).cloned() {
            let engine = scene.engine.clone();
            waiting.spawn(async move {
                assert_eq!(engine.wait(std::slice::from_ref(&own), LONG).await, Ok(true));
                own
            });
        }
        for (number, own) in types.iter().enumerate() {
            let mut woken = BTreeMap::new();
            let tokens = 7 * (number + 1);
            (0..tokens).for_each(|_| scene.push(own));
            for _ in 0..tokens {
                *woken.entry(waiting.join_next().await.unwrap().unwrap()).or_default() += 1;
            }
            assert_eq!(woken, BTreeMap::from([(own.clone(), tokens)]));
        }
        for (number, own) in types.iter().enumerate() {
            (0..100 - 7 * (number + 1)).for_each(|_| scene.push(own));
        }
        while let Some(woken) = waiting.join_next().await {
            woken.unwrap();
        }
        assert!(types.iter().all(|own| scene.send("LLEN", own, &[]) == 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_woken_by_any_of_its_types_and_once() {
    for servers in Servers::of_each_kind() {
        let mut scene = Scene::open(&servers).await;
        let (a, b) = (type_id("a"), type_id("b:%"));
        for pushed in [&a, &b] {
            let waiting = scene.wait(&[a.clone(), b.clone(), a.clone()]);
            scene.until_popping(1).await;
            scene.push(pushed);
            assert_eq!(waiting.await.unwrap(), Ok(true));
        }
        let waiting = scene.wait(&[b, a.clone()]);
        scene.until_popping(1).await;
        assert!(!waiting.is_finished());
        scene.push(&a);
        assert_eq!(waiting.await.unwrap(), Ok(true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_for_waiters_that_were_dropped_come_to_the_next() {
    for servers in Servers::of_each_kind() {
        let mut scene = Scene::open(&servers).await;
        let own = type_id("t");
        for round in 0..200 {
            let dropped = scene.wait(std::slice::from_ref(&own));
            if round % 3 > 0 {
                scene.until_popping(1).await;
            }
            scene.push(&own);
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            dropped.abort();
            match dropped.await {
                Ok(woken) => assert_eq!(woken, Ok(true)),
                Err(_) => assert_eq!(scene.engine.wait(std::slice::from_ref(&own), LONG).await, Ok(true)),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_with_other_types_does_not_wait_for_the_pop_under_way() {
    for servers in Servers::of_each_kind() {
        Scene::open(&servers).await.serve_newcomers("newcomer").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_is_served_though_the_user_may_not_end_pops() {
    for barred in ["-client|unblock", "-client"] {
        let servers = Servers::One(RedisServer::start(ServerOptions::default()));
        let mut scene = Scene::open(&servers).await;
        let Servers::One(server) = &servers else { panic!("one server") };
        server.command(&["ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all", barred]);
        let url = server.url().replace("://", "://worker:secret@");
        let engine = RedisEngine::connect(&url, RedisOptions::default()).await.expect("Redis is there");
        scene.engine = Arc::new(engine);
        let first = scene.wait(&[type_id("first")]);
        scene.until_popping(1).await;
        let newcomer = scene.wait(&[type_id("newcomer")]);
        scene.push(&type_id("newcomer"));
        assert_eq!(newcomer.await.unwrap(), Ok(true), "without {barred}");
        scene.push(&type_id("first"));
        assert_eq!(first.await.unwrap(), Ok(true), "without {barred}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_whose_connection_is_cut_get_an_error_or_go_on() {
    for servers in Servers::of_each_kind() {
        let mut scene = Scene::open(&servers).await;
        let types: Vec<TypeId> = (0..10).map(|number| type_id(&format!("t{number}"))).collect();
        let waiting: Vec<_> = types.iter().map(|own| scene.wait(std::slice::from_ref(own))).collect();
        for (node, number) in scene.until_popping(1).await {
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("ID").arg(number);
            kill.exec(&mut scene.nodes[node]).expect("it is there to be killed");
        }
        types.iter().for_each(|own| scene.push(own));
        for (own, waiting) in types.iter().zip(waiting) {
            match tokio::time::timeout(LONG / 2, waiting).await.expect("it ends").unwrap() {
                Ok(woken) => assert!(woken, "{own} was woken"),
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
        scene.serve_newcomers("after").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_dropped_pops_no_more() {
    for servers in Servers::of_each_kind() {
        let mut scene = Scene::open(&servers).await;
        let other = Scene::open(&servers).await;
        let waiting = scene.wait(&[type_id("t")]);
        scene.until_popping(1).await;
        waiting.abort();
        assert!(waiting.await.is_err());
        scene.engine = other.engine;
        scene.until_popping(0).await;
        scene.push(&type_id("t"));
        assert_eq!(scene.engine.wait(&[type_id("t")], LONG).await, Ok(true));
    }
}

/// The jobs of one enqueue.
async fn enqueue(engine: &Arc<RedisEngine>, ids: &[&str]) {
    let engine: Arc<dyn Engine> = engine.clone();
    let jobs = ids.iter().map(|id| job("g", id));
    let enqueued = engine.enqueue_all(jobs).await.expect("the engine replies");
    assert!(enqueued.receipts.iter().all(|receipt| *receipt == JobReceipt::Created));
}

/// Leases for a worker with this name when jobs arrive, as a worker does: a wait on Redis ends after
/// a second, with or without jobs, and a request without a reply is repeated.
fn lease_when_woken(scene: &Scene, worker: &str) -> JoinHandle<Vec<String>> {
    let worker = WorkerId::new(worker).expect("a name");
    let mut leaser = Leaser::new(scene.engine.clone(), worker);
    tokio::spawn(async move {
        let deadline = Instant::now() + LONG;
        while Instant::now() < deadline {
            match leaser.lease_when_woken(&[type_id("t")], 2, 30_000, LONG).await {
                Ok(batch) if batch.jobs.is_empty() => {}
                Ok(batch) => return batch.jobs.iter().map(|leased| leased.job.id.to_string()).collect(),
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
        panic!("no job arrived");
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_wait_get_the_jobs_that_arrive() {
    for servers in Servers::of_each_kind() {
        let mut scene = Scene::open(&servers).await;
        // Also when the server has forgotten the functions, before or during a wait.
        for round in 0..4 {
            let first = lease_when_woken(&scene, &format!("first-{round}"));
            let second = lease_when_woken(&scene, &format!("second-{round}"));
            let is_cluster = matches!(servers, Servers::Cluster(_));
            // On one server, the first has a connection of its own; on a cluster they share a pop.
            scene.until_popping(if is_cluster { 1 } else { 2 }).await;
            if round % 2 == 1 {
                for node in &mut scene.nodes {
                    redis::cmd("FUNCTION").arg("FLUSH").exec(node).expect("it is answered");
                }
            }
            let ids = [0, 1, 2, 3].map(|number| format!("{round}-{number}"));
            enqueue(&scene.engine, &ids.each_ref().map(String::as_str)).await;
            let mut leased = [first.await.unwrap(), second.await.unwrap()].concat();
            leased.sort();
            assert_eq!(leased, ids);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_lease_that_is_dropped_leases_nothing_later() {
    let servers = Servers::One(RedisServer::start(ServerOptions::default()));
    let mut scene = Scene::open(&servers).await;
    for round in 0..20 {
        let dropped = lease_when_woken(&scene, "dropped");
        scene.until_popping(1).await;
        dropped.abort();
        assert!(dropped.await.is_err());
        scene.until_popping(0).await;
        let id = round.to_string();
        enqueue(&scene.engine, &[&id]).await;
        assert_eq!(lease_when_woken(&scene, &format!("next-{round}")).await.unwrap(), [id]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_lease_whose_connection_is_cut_loses_no_job() {
    let servers = Servers::One(RedisServer::start(ServerOptions::default()));
    let mut scene = Scene::open(&servers).await;
    for round in 0..20 {
        let waiting = lease_when_woken(&scene, &format!("cut-{round}"));
        let [(node, number)] = &scene.until_popping(1).await[..] else { panic!("one pop") };
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(number);
        let id = round.to_string();
        if round % 2 == 0 {
            enqueue(&scene.engine, &[&id]).await;
            // The pop may have ended, and its connection may be in use no more.
            kill.exec(&mut scene.nodes[*node]).ok();
        } else {
            kill.exec(&mut scene.nodes[*node]).expect("it is there to be killed");
            enqueue(&scene.engine, &[&id]).await;
        }
        assert_eq!(waiting.await.unwrap(), [id]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_waits_though_the_server_accepts_no_further_connection() {
    let servers = Servers::One(RedisServer::start(ServerOptions::default()));
    let mut scene = Scene::open(&servers).await;
    let clients: String =
        redis::cmd("CLIENT").arg("LIST").query(&mut scene.nodes[0]).expect("it is answered");
    let mut limit = redis::cmd("CONFIG");
    limit.arg("SET").arg("maxclients").arg(clients.lines().count());
    limit.exec(&mut scene.nodes[0]).expect("the limit is set");
    let waiting = lease_when_woken(&scene, "late");
    scene.until_popping(1).await;
    enqueue(&scene.engine, &["1"]).await;
    assert_eq!(waiting.await.unwrap(), ["1"]);
    let refused: redis::InfoDict =
        redis::cmd("INFO").arg("stats").query(&mut scene.nodes[0]).expect("it is answered");
    assert!(refused.get::<u64>("rejected_connections").is_some_and(|count| count > 0));
}

/// Starts a wait, whose pop goes on after it was dropped.
async fn leave_a_pop_behind(scene: &mut Scene) {
    let dropped = scene.wait(&[type_id("t")]);
    scene.until_popping(1).await;
    dropped.abort();
    assert!(dropped.await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_popped_for_a_waiter_that_has_gone_reaches_one_of_another_process() {
    for servers in Servers::of_each_kind() {
        let (mut scene, other) = (Scene::open(&servers).await, Scene::open(&servers).await);
        for _ in 0..3 {
            leave_a_pop_behind(&mut scene).await;
            let waiting = other.wait(&[type_id("t")]);
            scene.until_popping(2).await;
            scene.push(&type_id("t"));
            let woken = tokio::time::timeout(LONG / 2, waiting).await.expect("the token arrives");
            assert_eq!(woken.unwrap(), Ok(true));
            assert_eq!(scene.send("LLEN", &type_id("t"), &[]), 0, "it arrived once");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_popped_for_a_waiter_that_has_gone_reaches_a_waiting_lease() {
    let servers = Servers::One(RedisServer::start(ServerOptions::default()));
    let mut scene = Scene::open(&servers).await;
    for id in ["1", "2", "3"] {
        leave_a_pop_behind(&mut scene).await;
        let leased = lease_when_woken(&scene, &format!("worker-{id}"));
        scene.until_popping(2).await;
        enqueue(&scene.engine, &[id]).await;
        assert_eq!(leased.await.unwrap(), [id]);
        let next = scene.engine.wait(&[type_id("t")], Duration::from_millis(10)).await;
        assert_eq!(next, Ok(false), "the lease was begun by the token, not by the end of its wait");
        scene.until_popping(0).await;
    }
}
