//! The process that is killed, stopped and cut off: it acquires locks and writes to a resource that
//! checks fences.

use std::io::Write;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use fairlane::{Fairlane, Fence, LockGuard, LockOptions};
use fairlane_core::limits::LOCK_SLICE_MS;
use redis::aio::MultiplexedConnection;

/// How long a lock stays held after its holder has died. With less, a lock is not granted to a waiter.
pub const TTL: Duration = Duration::from_millis(LOCK_SLICE_MS);
/// A holder that did not run for this long was stopped for longer than its lease.
const STOPPED: Duration = TTL;
/// Locks that all processes compete for.
const NAMES: u64 = 4;
/// Acquisitions that are reported at once.
const REPORTED: u64 = 20;

/// Writes under a fence: 0 if a later holder has written, 2 if another holder had the same fence.
const WRITE: &str = "
local fence, owner = unpack(redis.call('HMGET', KEYS[1], 'fence', 'owner'))
local last, own = tonumber(fence or 0), tonumber(ARGV[1])
if own < last then return 0 end
if own == last and owner ~= ARGV[2] then return 2 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'owner', ARGV[2])
return 1";

/// Acquires locks until it is killed, and prints `acquired N` and a line for each event.
pub async fn run_holder(address: &str, resource: &str, seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let fairlane = loop {
        match Fairlane::open(address).await {
            Ok(fairlane) => break fairlane,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let connection = fairlane_testkit::redis::connect(resource).await;
    let mut holder = Holder { connection, owner: format!("{}-{seed}", std::process::id()), writes: 0 };
    let mut acquired = 0;
    loop {
        let name = format!("fire:{}", dice.u64(..NAMES));
        let options = LockOptions { ttl: TTL, fair: dice.bool(), ..LockOptions::default() };
        let Ok(guard) = fairlane.lock(&name).options(options).lock().await else { continue };
        // Most holds are short, so that there are many; some take long enough to be interrupted by
        // a stop.
        let pause = if dice.u32(..40) == 0 { dice.u64(5..60) } else { 0 };
        holder.work(&name, &guard, Duration::from_millis(pause)).await;
        acquired += 1;
        if acquired % REPORTED == 0 {
            print_line(&format!("acquired {REPORTED}"));
        }
        let _ = guard.release().await;
    }
}

struct Holder {
    connection: MultiplexedConnection,
    owner: String,
    writes: u64,
}

impl Holder {
    /// Writes at the beginning and the end of a hold.
    async fn work(&mut self, name: &str, guard: &LockGuard, pause: Duration) {
        self.writes += 1;
        let owner = format!("{}-{}", self.owner, self.writes);
        let begun = Instant::now();
        let first = self.write(name, guard.fence(), &owner).await;
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if begun.elapsed() < STOPPED {
            return self.check_live(first, guard, begun);
        }
        // The process was stopped: the first poll must report the loss, and the resource refuses what
        // it writes now if another holder has written.
        print_line(if reports_loss(guard) { "lost" } else { "unaware" });
        match self.write(name, guard.fence(), &owner).await {
            0 => print_line("refused"),
            1 => print_line("alone"),
            _ => print_line("violated two holders have one fence"),
        }
    }

    fn check_live(&self, written: u64, guard: &LockGuard, begun: Instant) {
        // A holder that learns of its loss now may have lost the lock before it wrote.
        let is_live = !guard.hold().is_lost() && begun.elapsed() < STOPPED;
        match written {
            1 => {}
            0 if is_live => print_line("violated the fence of a live holder is not the largest"),
            0 => print_line("refused"),
            _ => print_line("violated two holders have one fence"),
        }
    }

    async fn write(&mut self, name: &str, fence: Fence, owner: &str) -> u64 {
        let script = redis::Script::new(WRITE);
        let mut call = script.key(name);
        let call = call.arg(fence.0).arg(owner);
        call.invoke_async(&mut self.connection).await.expect("the resource replies")
    }
}

/// Waits for a lock with many waiters until it is killed.
pub async fn run_waiters(address: &str, name: &str, waiters: u64) {
    let fairlane = Fairlane::open(address).await.expect("the server runs");
    let long = Duration::from_secs(600);
    let options = LockOptions { max_wait: long, fair: true, ..LockOptions::default() };
    for _ in 0..waiters {
        let lock = fairlane.lock(name).options(options.clone());
        tokio::spawn(async move { lock.lock().await.map(std::mem::forget) });
    }
    tokio::time::sleep(long).await;
}

/// Holds a lock until it is killed or the lock is lost; prints `held`. After it was stopped it prints
/// whether the first poll reports the loss: `lost` or `unaware`.
pub async fn run_hold(address: &str, name: &str, ttl_ms: u64) {
    let fairlane = Fairlane::open(address).await.expect("the server runs");
    let ttl = Duration::from_millis(ttl_ms);
    let guard = fairlane.lock(name).ttl(ttl).lock().await.expect("the lock is granted");
    let mut last = Instant::now();
    print_line("held");
    loop {
        std::thread::sleep(Duration::from_millis(5));
        let (reports_loss, since) = (reports_loss(&guard), last.elapsed());
        last = Instant::now();
        if since >= ttl / 2 {
            return print_line(if reports_loss { "lost" } else { "unaware" });
        }
        if reports_loss {
            return print_line("lost");
        }
    }
}

/// Whether the first poll reports that the lock is lost.
fn reports_loss(guard: &LockGuard) -> bool {
    Box::pin(guard.lost()).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn print_line(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).expect("the parent reads the output");
}
