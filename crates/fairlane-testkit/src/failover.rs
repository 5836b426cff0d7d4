//! A primary and its replica behind one address, as behind a DNS name, a load balancer or a
//! service.
//!
//! A failover swaps their roles and sends new connections to the new primary. Open connections stay
//! with the old one, which Redis does not close.

use crate::proxy::Proxy;
use crate::redis::{RedisServer, ServerOptions};
use crate::wait::until;

/// Two servers behind one address.
#[derive(Debug)]
pub struct RedisPair {
    primary: RedisServer,
    replica: RedisServer,
    proxy: Proxy,
}

impl RedisPair {
    /// Starts both servers and waits until the replica follows the primary.
    pub async fn start() -> Self {
        let (primary, replica) =
            (RedisServer::start(ServerOptions::default()), RedisServer::start(ServerOptions::default()));
        let proxy = Proxy::start(primary.port()).await;
        let pair = Self { primary, replica, proxy };
        follow(&pair.replica, &pair.primary);
        pair.wait_until_in_step().await;
        pair
    }

    /// The address of the current primary.
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// The server that is the primary now.
    pub fn primary(&self) -> &RedisServer {
        &self.primary
    }

    /// Promotes the replica and demotes the primary; new connections go to the new one. Writes
    /// pause until the replica has everything, so that no acknowledged write is lost.
    pub async fn fail_over(&mut self) {
        self.primary.command(&["CLIENT", "PAUSE", "30000", "WRITE"]);
        self.wait_until_in_step().await;
        self.replica.command(&["REPLICAOF", "NO", "ONE"]);
        follow(&self.primary, &self.replica);
        self.primary.command(&["CLIENT", "UNPAUSE"]);
        self.proxy.connect_to(self.replica.port());
        std::mem::swap(&mut self.primary, &mut self.replica);
    }

    async fn wait_until_in_step(&self) {
        let offset = |server: &RedisServer, field: &str| {
            let info = server.command(&["INFO", "replication"]);
            let up = info.contains("role:master") || info.contains("master_link_status:up");
            let found = info.lines().find_map(|line| line.strip_prefix(field)?.trim().parse::<u64>().ok());
            found.filter(|_| up)
        };
        until("the replica follows", || {
            let taken = offset(&self.replica, "slave_repl_offset:");
            taken.is_some() && taken == offset(&self.primary, "master_repl_offset:")
        })
        .await;
    }
}

fn follow(server: &RedisServer, primary: &RedisServer) {
    server.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
}
