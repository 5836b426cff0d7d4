//! Measures an acquisition with its release, and a hand-off to a waiter, in turns with the minimum
//! for the same on Redis. Also measures how soon the lock of a killed holder passes on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane::{Fairlane, LockOptions};
use fairlane_engine::Engine;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_testkit::process::Process;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use redis::aio::MultiplexedConnection;

use super::crowd::wait_for;
use super::{Times, acquire, process, release};

const NAME: &str = "coupon:issue:42";
const TOKEN: &str = "0199a5b27d3c7a1e9f00c0ffee123456";

/// The size of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Rounds of all measurements.
    pub rounds: usize,
    /// Repetitions of each measurement in a round.
    pub repetitions: usize,
}

/// Medians in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// SET NX PX and DEL, one after the other.
    pub set_del_us: f64,
    /// Acquire and release as commands of the engine.
    pub engine_us: f64,
    /// Acquire and release with a guard of the library, whose locks have a thread of their own.
    pub guard_us: f64,
    /// Acquire and release with the crate `rslock`.
    pub rslock_us: f64,
    /// One message from a publisher to a subscriber, and one round trip.
    pub hop_us: f64,
    /// From the release of a guard until a waiter has its guard.
    pub hand_off_us: f64,
    /// From the release of a guard until a fair waiter has its guard.
    pub fair_hand_off_us: f64,
}

/// Starts a server and measures. All code but the library's own thread runs on one thread.
pub async fn run(plan: &Plan) -> Report {
    let server = RedisServer::start(ServerOptions::default());
    let engine = RedisEngine::connect(&server.url(), RedisOptions::default()).await;
    let engine: Arc<dyn Engine> = Arc::new(engine.expect("the server runs"));
    let mut connection = connect(&server).await;
    let rslock = rslock::LockManager::new(vec![server.url()]);
    let (a, b) = (open(&server).await, open(&server).await);
    let [mut set_del, mut engines, mut guards, mut rslocks, mut hops, mut hand_offs, mut fair_hand_offs] =
        std::array::from_fn(|_| Times::new());
    // The first turn opens connections and loads the library, and is not counted.
    for round in 0..=plan.rounds {
        if round == 1 {
            [&mut set_del, &mut engines, &mut guards, &mut rslocks, &mut hops, &mut hand_offs]
                .into_iter()
                .chain([&mut fair_hand_offs])
                .for_each(|times| *times = Times::new());
        }
        for _ in 0..plan.repetitions {
            set_del.add(set_and_del(&mut connection).await);
        }
        for _ in 0..plan.repetitions {
            engines.add(acquire_and_release(&*engine).await);
        }
        for _ in 0..plan.repetitions {
            guards.add(lock_and_release(&a).await);
        }
        for _ in 0..plan.repetitions {
            rslocks.add(lock_and_unlock(&rslock).await);
        }
        let repetitions = plan.repetitions / 4 + 1;
        hop(&server, &mut connection, repetitions, &mut hops).await;
        hand_off(&a, &b, false, repetitions, &mut hand_offs).await;
        hand_off(&a, &b, true, repetitions, &mut fair_hand_offs).await;
    }
    let [set_del_us, engine_us, guard_us, rslock_us, hop_us, hand_off_us, fair_hand_off_us] =
        [set_del, engines, guards, rslocks, hops, hand_offs, fair_hand_offs].map(|times| times.p50_us());
    Report { set_del_us, engine_us, guard_us, rslock_us, hop_us, hand_off_us, fair_hand_off_us }
}

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).expect("a valid address");
    client.get_multiplexed_async_connection().await.expect("the server runs")
}

async fn open(server: &RedisServer) -> Fairlane {
    Fairlane::open(&server.url()).await.expect("the server runs")
}

async fn set_and_del(connection: &mut MultiplexedConnection) -> Duration {
    let began = Instant::now();
    let mut set = redis::cmd("SET");
    set.arg("plain").arg(TOKEN).arg("NX").arg("PX").arg(5000);
    let () = set.query_async(connection).await.expect("the server replies");
    let () = redis::cmd("DEL").arg("plain").query_async(connection).await.expect("the server replies");
    began.elapsed()
}

async fn acquire_and_release(engine: &dyn Engine) -> Duration {
    let (command, process) = ((NAME, TOKEN), process("speed"));
    let began = Instant::now();
    engine.call(acquire(command.0, command.1, &process)).await.expect("the server replies");
    engine.call(release(command.0, command.1)).await.expect("the server replies");
    began.elapsed()
}

async fn lock_and_release(fairlane: &Fairlane) -> Duration {
    let lock = fairlane.lock(NAME);
    let began = Instant::now();
    let guard = lock.try_lock().await.expect("the lock is free");
    guard.release().await.expect("the server replies");
    began.elapsed()
}

async fn lock_and_unlock(manager: &rslock::LockManager) -> Duration {
    let began = Instant::now();
    let lock = manager.lock("rslock", Duration::from_secs(5)).await.expect("the lock is free");
    manager.unlock(&lock).await;
    began.elapsed()
}

/// Publishes a message, and sends a command when it has arrived.
async fn hop(
    server: &RedisServer,
    connection: &mut MultiplexedConnection,
    repetitions: usize,
    times: &mut Times,
) {
    let (sender, mut messages) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(sender);
    let client = redis::Client::open(format!("{}?protocol=resp3", server.url())).expect("a valid address");
    let subscriber = client.get_multiplexed_async_connection_with_config(&config).await;
    let mut subscriber = subscriber.expect("the server runs");
    subscriber.subscribe("hop").await.expect("the server confirms");
    messages.recv().await.expect("the confirmation arrives");
    let mut publisher = connect(server).await;
    for _ in 0..repetitions {
        let began = Instant::now();
        let publish = async {
            let publish = redis::cmd("PUBLISH").arg("hop").arg(TOKEN).to_owned();
            let () = publish.query_async(&mut publisher).await.expect("the server replies");
        };
        let arrive = async {
            messages.recv().await.expect("the message arrives");
            let () = redis::cmd("GET").arg("plain").query_async(connection).await.expect("it replies");
            began.elapsed()
        };
        times.add(tokio::join!(publish, arrive).1);
    }
}

/// Releases a lock for which another process waits.
async fn hand_off(a: &Fairlane, b: &Fairlane, fair: bool, repetitions: usize, times: &mut Times) {
    let options = LockOptions { wait: Duration::from_secs(60), fair, ..LockOptions::default() };
    let (mut holder, mut waiter) = (a, b);
    let mut guard = holder.lock(NAME).options(options.clone()).lock().await.expect("the lock is free");
    for _ in 0..repetitions {
        let waiting = tokio::spawn({
            let lock = waiter.lock(NAME).options(options.clone());
            async move {
                let guard = lock.lock().await.expect("the lock is handed over");
                (guard, Instant::now())
            }
        });
        let lock = holder.lock(NAME);
        while lock.view().await.expect("the server replies").is_none_or(|lock| lock.waiters == 0) {}
        let began = Instant::now();
        guard.release().await.expect("the server replies");
        let (next, at) = waiting.await.expect("the waiter does not panic");
        times.add(at - began);
        guard = next;
        std::mem::swap(&mut holder, &mut waiter);
    }
    guard.release().await.expect("the server replies");
}

/// How much later than the end of its lease the lock of a killed holder passes on, and the time of a
/// round trip to a server that has been idle for as long: the median, and the longest of the first.
pub async fn killed_holder(program: &Path, rounds: usize, ttl: Duration) -> (Duration, Duration, Duration) {
    let server = RedisServer::start(ServerOptions::default());
    let fairlane = open(&server).await;
    let (mut late, mut round_trips) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let arguments = [server.url(), NAME.to_owned(), ttl.as_millis().to_string()];
        let mut command = Command::new(program);
        let mut holder = Process::start(command.arg("lock-hold").args(arguments).stdout(Stdio::piped()));
        let output = BufReader::new(holder.stdout.take().expect("it is piped"));
        assert_eq!(output.lines().next().and_then(Result::ok).as_deref(), Some("held"));
        let lock = fairlane.lock(NAME);
        let waiting = tokio::spawn(async move {
            let guard = lock.lock().await;
            (guard, Instant::now())
        });
        wait_for(&fairlane, NAME, 1).await;
        holder.kill();
        let asked = Instant::now();
        let view = fairlane.lock(NAME).view().await.expect("the server replies").expect("it is held");
        let ends = asked + asked.elapsed() / 2 + Duration::from_micros(view.held_by[0].remaining_us);
        let (guard, at) = waiting.await.expect("the waiter does not panic");
        late.push(at.saturating_duration_since(ends));
        guard.expect("the lock passes on").release().await.expect("the server replies");
        tokio::time::sleep(ttl).await;
        let asked = Instant::now();
        fairlane.lock(NAME).view().await.expect("the server replies");
        round_trips.push(asked.elapsed());
    }
    late.sort_unstable();
    round_trips.sort_unstable();
    (late[rounds / 2], late[rounds - 1], round_trips[rounds / 2])
}
