//! Releases that meet waiters who are just registering. A waiter that has registered gets a signal:
//! nothing else would wake it, because no process attends to it.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::lock::{AcquireLock, LockAcquired};
use fairlane_engine::Engine;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::{acquire, process, release};

/// Number of concurrent races, each for its own lock.
const AT_A_TIME: u64 = 8;
/// Longest time for a signal to arrive.
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);

/// The number of races of each result.
#[derive(Debug, Default, Clone, Copy)]
pub struct Report {
    /// The waiter came after the release and held the lock at once.
    pub held_at_once: u64,
    /// The waiter had registered, and the release woke it.
    pub woken: u64,
    /// The waiter had registered, and no signal arrived, or one without the grant.
    pub lost: u64,
}

/// Runs this many races on a server of its own.
pub async fn run(seed: u64, races: u64) -> Report {
    let server = RedisServer::start(ServerOptions::default());
    let connect = async || RedisEngine::connect(&server.url(), RedisOptions::default()).await;
    let holders: Arc<dyn Engine> = Arc::new(connect().await.expect("the server runs"));
    let waiters: Arc<dyn Engine> = Arc::new(connect().await.expect("the server runs"));
    let mut racing = JoinSet::new();
    for number in 0..AT_A_TIME {
        let races = races / AT_A_TIME + u64::from(number < races % AT_A_TIME);
        racing.spawn(race(seed + number, number, races, holders.clone(), waiters.clone()));
    }
    let mut all = Report::default();
    while let Some(report) = racing.join_next().await {
        let report = report.expect("a race does not panic");
        all.held_at_once += report.held_at_once;
        all.woken += report.woken;
        all.lost += report.lost;
    }
    all
}

async fn race(
    seed: u64,
    number: u64,
    races: u64,
    holder: Arc<dyn Engine>,
    waiter: Arc<dyn Engine>,
) -> Report {
    let mut dice = fastrand::Rng::with_seed(seed);
    let (name, own) = (format!("race:{number}"), process(&format!("race-{number}")));
    let mut signals = waiter.subscribe(&own).await.expect("the server confirms");
    let mut report = Report::default();
    for _ in 0..races {
        let wait = AcquireLock { wait: true, fair: dice.bool(), ..acquire(&name, "waiter", &own) };
        holder.call(acquire(&name, "holder", &own)).await.expect("the server replies");
        let pauses = (dice.u32(..12), dice.u32(..12));
        let registered = async {
            pause(pauses.0).await;
            waiter.call(wait.clone()).await.expect("the server replies")
        };
        let released = async {
            pause(pauses.1).await;
            holder.call(release(&name, "holder")).await.expect("the server replies")
        };
        match tokio::join!(registered, released).0 {
            LockAcquired::Held { .. } => report.held_at_once += 1,
            _ => {
                let signal = timeout(SIGNAL_LIMIT, signals.next()).await.ok().flatten();
                let held = waiter.call(wait.clone()).await.expect("the server replies");
                let is_woken = match (signal, held) {
                    (Some(signal), LockAcquired::Held { fence, .. }) => {
                        signal.grant.is_some_and(|grant| grant.fence == fence)
                    }
                    _ => false,
                };
                match is_woken {
                    true => report.woken += 1,
                    false => report.lost += 1,
                }
            }
        }
        waiter.call(release(&name, "waiter")).await.expect("the server replies");
    }
    report
}

async fn pause(turns: u32) {
    for _ in 0..turns {
        yield_now().await;
    }
}
