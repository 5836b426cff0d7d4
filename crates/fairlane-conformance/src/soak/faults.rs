//! The faults that hit the clients, drawn from the seed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dice::Dice;
use fairlane_testkit::proxy::Proxy;
use fairlane_testkit::redis::RedisServer;

/// Longest pause between two faults.
const PAUSE_MS_MAX: u64 = 150;

/// Counts the faults, and keeps the server alive.
pub(super) struct Faults {
    server: RedisServer,
    pub flushes: u64,
    pub kills: u64,
}

impl Faults {
    /// Injects faults until `end`; afterwards every connection is open and Redis runs.
    pub async fn inject(
        server: RedisServer,
        proxy: Arc<Proxy>,
        dice: &mut Dice,
        kill_every: Duration,
        end: Instant,
    ) -> Self {
        let mut faults = Self { server, flushes: 0, kills: 0 };
        let mut next_kill = Instant::now() + kill_every;
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(1 + dice.below(PAUSE_MS_MAX))).await;
            if Instant::now() >= next_kill {
                next_kill += kill_every;
                faults = faults.kill(Duration::from_millis(dice.below(200))).await;
            }
            match dice.below(10) {
                0 => proxy.cut_all(),
                1 => faults = faults.flush_scripts().await,
                _ => proxy.cut_before_reply(dice.below(8)),
            }
        }
        faults
    }

    /// Kills Redis, leaves it down for a while, and restarts it from its files.
    async fn kill(mut self, down: Duration) -> Self {
        self.kills += 1;
        self.server.kill();
        tokio::time::sleep(down).await;
        self.blocking(RedisServer::restart).await
    }

    async fn flush_scripts(mut self) -> Self {
        self.flushes += 1;
        self.blocking(|server| {
            server.command(&["FUNCTION", "FLUSH"]);
            server.command(&["SCRIPT", "FLUSH"]);
        })
        .await
    }

    /// Runs a blocking call to the server without delaying the clients.
    async fn blocking(mut self, call: fn(&mut RedisServer)) -> Self {
        let calling = tokio::task::spawn_blocking(move || {
            call(&mut self.server);
            self
        });
        calling.await.expect("the server accepts commands")
    }
}
