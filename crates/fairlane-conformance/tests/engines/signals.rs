//! Signals to waiters through Redis, on one server and on a cluster.

use std::time::Duration;

use fairlane_conformance::subject::{process_id, signalled};
use fairlane_engine::Engine;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_testkit::redis::{RedisCluster, RedisServer, ServerOptions};
use fairlane_testkit::wait::{eventually, until};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

struct Scene {
    engine: RedisEngine,
    nodes: Vec<redis::Connection>,
    publish: &'static str,
}

impl Scene {
    async fn open(url: &str) -> Self {
        let engine = RedisEngine::connect(url, RedisOptions::default()).await.expect("Redis is there");
        let (scheme, addresses) = url.split_once("://").expect("an address has a scheme");
        let connect = |node: &str| {
            let client = redis::Client::open(format!("redis://{node}")).expect("an address");
            client.get_connection().expect("it is there")
        };
        let publish = if scheme == "redis+cluster" { "SPUBLISH" } else { "PUBLISH" };
        Self { engine, nodes: addresses.split(',').map(connect).collect(), publish }
    }

    /// Publishes a signal; returns the number of connections that received it.
    fn publish(&mut self, process: &str, waiter: &str) -> u64 {
        let channel = format!("lock:release:{{0}}:{}", process_id(process).escaped());
        let mut publish = redis::cmd(self.publish);
        publish.arg(channel).arg(waiter);
        // All other nodes of a cluster reply that the channel is elsewhere.
        self.nodes.iter_mut().find_map(|node| publish.query(node).ok()).expect("one node has the channel")
    }

    /// Ids of connections with a subscription, with the node of each.
    fn subscribed(&mut self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (node, connection) in self.nodes.iter_mut().enumerate() {
            let clients: String = redis::cmd("CLIENT").arg("LIST").query(connection).expect("it is answered");
            let has_some = |client: &&str| field(client, "sub") != "0" || field(client, "ssub") != "0";
            found.extend(
                clients.lines().filter(has_some).map(|client| (node, field(client, "id").to_owned())),
            );
        }
        found
    }

    async fn until_subscribed(&mut self, count: usize) {
        eventually(async || match self.subscribed() {
            found if found.len() == count => Ok(()),
            found => Err(found),
        })
        .await
    }
}

fn field<'a>(client: &'a str, name: &str) -> &'a str {
    let mut fields = client.split(' ').filter_map(|field| field.split_once('='));
    fields.find(|(key, _)| *key == name).map_or("0", |(_, value)| value)
}

async fn signals_reach_their_process_on_one_connection_that_ends_with_the_last(url: &str) {
    let mut scene = Scene::open(url).await;
    assert_eq!((scene.publish("p:1", "lost"), scene.subscribed().len()), (0, 0));
    let mut first = scene.engine.subscribe(&process_id("p:1")).await.expect("it is confirmed");
    let mut second = scene.engine.subscribe(&process_id("p2")).await.expect("it is confirmed");
    assert_eq!(scene.subscribed().len(), 1);
    assert_eq!((scene.publish("p:1", "t%3A1"), scene.publish("p2", "t2")), (1, 1));
    scene.publish("p2", "%");
    scene.publish("p2", "t3");
    assert_eq!(signalled(&mut first, 1).await, ["t:1"]);
    assert_eq!(signalled(&mut second, 2).await, ["t2", "t3"], "a message that is no token is ignored");
    let mut again = scene.engine.subscribe(&process_id("p2")).await.expect("it is confirmed");
    assert_eq!(second.next().await, None);
    drop((first, second));
    until("the first subscription has ended", || scene.publish("p:1", "x") == 0).await;
    scene.publish("p2", "t4");
    assert_eq!(signalled(&mut again, 1).await, ["t4"]);
    drop(again);
    scene.until_subscribed(0).await;
}

async fn subscriptions_end_with_their_connection_and_can_be_made_again(url: &str) {
    let mut scene = Scene::open(url).await;
    for _ in 0..3 {
        let mut signals = scene.engine.subscribe(&process_id("p")).await.expect("it is confirmed");
        scene.publish("p", "t");
        assert_eq!(signalled(&mut signals, 1).await, ["t"]);
        for (node, number) in scene.subscribed() {
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("ID").arg(number);
            kill.exec(&mut scene.nodes[node]).expect("it is there to be killed");
        }
        let ended = tokio::time::timeout(LONG, signals.next()).await;
        assert_eq!(ended.expect("the subscription ends"), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_sends_signals_to_subscribers_only() {
    let server = RedisServer::start(ServerOptions::default());
    signals_reach_their_process_on_one_connection_that_ends_with_the_last(&server.url()).await;
    subscriptions_end_with_their_connection_and_can_be_made_again(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_sends_signals_to_subscribers_only() {
    let cluster = RedisCluster::start(3);
    signals_reach_their_process_on_one_connection_that_ends_with_the_last(&cluster.url()).await;
    subscriptions_end_with_their_connection_and_can_be_made_again(&cluster.url()).await;
}
