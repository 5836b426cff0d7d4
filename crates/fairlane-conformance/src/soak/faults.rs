//! What happens to the parties, drawn from the seed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::proxy::Proxy;
use crate::servers::RedisServer;

/// Longest pause between two faults.
const PAUSE_MS_MAX: u64 = 150;

/// How often what happened. Keeps the server alive.
pub(super) struct Faults {
    server: RedisServer,
    pub flushes: u64,
    pub kills: u64,
}

impl Faults {
    /// Makes trouble until `end`; afterwards all ways are open and Redis runs.
    pub async fn play(
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

    /// Kills Redis, leaves it down for a while, and starts it on what it has on disk.
    async fn kill(mut self, down: Duration) -> Self {
        self.kills += 1;
        self.server.kill();
        tokio::time::sleep(down).await;
        self.blocking(RedisServer::restart).await
    }

    async fn flush_scripts(mut self) -> Self {
        self.flushes += 1;
        self.blocking(|server| {
            server.command(&["SCRIPT", "FLUSH"]);
        })
        .await
    }

    /// Talking to the server blocks, which must not hold up the parties.
    async fn blocking(mut self, act: fn(&mut RedisServer)) -> Self {
        let acting = tokio::task::spawn_blocking(move || {
            act(&mut self.server);
            self
        });
        acting.await.expect("a server can be talked to")
    }
}
