//! Measures the cost of operations on Redis with very many waiters, and whether positions are
//! exact.
//!
//! The time of the server is measured over a stream of calls, as the polls of many waiters arrive: a
//! few calls are always in flight, each for another waiter in no order. Round trips are measured one
//! call at a time, in turns with a bare one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::kernel::Registered;
use fairlane_core::room::*;
use fairlane_engine::Engine;
use fairlane_testkit::redis::RedisServer;
use redis::aio::MultiplexedConnection;

use super::{fill, joining, room, token};

/// Calls of each operation that are measured.
const MEASURED: u64 = 5000;
/// Calls of a stream that are in flight at the same time.
const STREAMS: u64 = 16;
/// Waiters are shown in steps of this prime, modulo their number: in no order, and each once.
const STEP: u64 = 2_654_435_761;
/// Number of positions that are compared with the list.
const POSITIONS: u64 = 200;

/// The cost with this many waiters. Times are server times in microseconds, unless stated
/// otherwise.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Waiters in the room.
    pub waiters: u64,
    /// The time to join one more user.
    pub join_us: f64,
    /// The time to show a place.
    pub show_us: f64,
    /// The time of a poll of a waiter.
    pub keep_us: f64,
    /// The time until an active user has left and the next one is admitted.
    pub leave_us: f64,
    /// The 99.9th percentile of all these calls.
    pub most_us: f64,
    /// Polls of waiters per second of the server's CPU time, including reading requests and writing
    /// replies.
    pub polls_per_core: f64,
    /// Places shown per second of the server's CPU time.
    pub shows_per_core: f64,
    /// The time of the server for showing a place when calls come one at a time.
    pub single_show_us: f64,
    /// The median of a round trip that shows a place, in microseconds of the client.
    pub show_trip_us: f64,
    /// The median of a bare round trip (PING) on a connection of the same kind in the same run.
    pub bare_trip_us: f64,
    /// Memory for each waiter, in bytes.
    pub bytes_per_waiter: f64,
    /// Number of compared positions that differed from the list.
    pub wrong_positions: u64,
}

/// Fills a room of a server to each size in turn, and measures.
pub async fn measure(server: &RedisServer, engine: Arc<dyn Engine>, sizes: &[u64]) -> Vec<Cost> {
    let settings = RoomSettings { max_active: 50, retention_ms: 24 * 3600 * 1000, ..RoomSettings::default() };
    engine.call(SetRoom { room: room(), settings }).await.expect("set_room is answered");
    server.command(&["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 99.9"]);
    let client = redis::Client::open(server.url()).expect("the address is valid");
    let mut bare = client.get_multiplexed_async_connection().await.expect("Redis is there");
    let (empty, mut filled, mut costs) = (used_bytes(server), 0, Vec::new());
    for size in sizes {
        fill(&engine, filled..*size, |_| None).await;
        filled = *size;
        let bytes_per_waiter = (used_bytes(server) - empty) / filled as f64;
        let wrong_positions = check_positions(&*engine).await;
        let waiter = move |number: u64| token(format!("token {}", number.wrapping_mul(STEP) % filled));
        let show = move |number| ShowPlace { room: room(), token: waiter(number) };
        let keep = move |number| KeepPlace { room: room(), token: waiter(number) };
        let late = format!("late {size}");
        let join = move |number| {
            let name = format!("{late} {number}");
            joining(&name, token(name.clone()))
        };
        let meter = Meter::start(server);
        let (show_trip_us, bare_trip_us) = trips(&*engine, &mut bare, show).await;
        let single = meter.end();
        let shown = stream(server, &engine, show).await;
        let kept = stream(server, &engine, keep).await;
        let joined = stream(server, &engine, join).await;
        let meter = Meter::start(server);
        let mut gone = 0;
        while gone < MEASURED.min(filled / 4) {
            gone += leave_active(&*engine).await;
        }
        let left = meter.end();
        let all = [&single, &shown, &kept, &joined, &left];
        costs.push(Cost {
            waiters: filled,
            join_us: joined.each_us,
            show_us: shown.each_us,
            keep_us: kept.each_us,
            leave_us: left.each_us,
            most_us: all.iter().map(|load| load.most_us).fold(0.0, f64::max),
            polls_per_core: kept.per_core,
            shows_per_core: shown.per_core,
            single_show_us: single.each_us,
            show_trip_us,
            bare_trip_us,
            bytes_per_waiter,
            wrong_positions,
        });
    }
    costs
}

/// The medians of round trips that show a place, and of bare ones, in turns.
async fn trips(
    engine: &dyn Engine,
    bare: &mut MultiplexedConnection,
    show: impl Fn(u64) -> ShowPlace,
) -> (f64, f64) {
    let (mut shows, mut pings) = (Vec::new(), Vec::new());
    for number in 0..MEASURED {
        let started = Instant::now();
        let () = redis::cmd("PING").query_async(bare).await.expect("PING is answered");
        pings.push(started.elapsed());
        let started = Instant::now();
        engine.call(show(number)).await.expect("it is answered");
        shows.push(started.elapsed());
    }
    (median(shows), median(pings))
}

/// Sends commands, a few of them at the same time, and measures the server.
async fn stream<O: Registered>(
    server: &RedisServer,
    engine: &Arc<dyn Engine>,
    command: impl Fn(u64) -> O + Clone + Send + 'static,
) -> Load {
    let meter = Meter::start(server);
    let callers = (0..STREAMS).map(|caller| {
        let (engine, command) = (engine.clone(), command.clone());
        tokio::spawn(async move {
            for number in (0..MEASURED).filter(|number| number % STREAMS == caller) {
                engine.call(command(number)).await.expect("it is answered");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("a caller's task ends");
    }
    meter.end()
}

/// Takes away the places of a page of active users; returns how many.
async fn leave_active(engine: &dyn Engine) -> u64 {
    let command = ListPlaces { room: room(), listing: PlaceListing::Active, from: 0, places_max: 50 };
    let listed = engine.call(command).await.expect("it is answered").places;
    for place in &listed {
        let command = RevokePlace { room: room(), user: place.user.clone() };
        engine.call(command).await.expect("it is answered");
    }
    listed.len() as u64
}

/// Compares the positions of random waiters with their ranks in the list; returns how many differ.
async fn check_positions(engine: &dyn Engine) -> u64 {
    let view = engine.call(InspectRoom { room: room() }).await.expect("it is answered").0;
    let waiting: u64 = view.expect("the room exists").waiting.iter().sum();
    let mut wrong = 0;
    for sample in 0..POSITIONS {
        let from = sample * waiting / POSITIONS;
        let listing = PlaceListing::Waiting { class: 0 };
        let command = ListPlaces { room: room(), listing, from, places_max: 1 };
        let listed = engine.call(command).await.expect("it is answered").places;
        let Some(number) = listed[0].user.to_string().strip_prefix("user ").map(str::to_owned) else {
            continue;
        };
        let show = ShowPlace { room: room(), token: token(format!("token {number}")) };
        let place = engine.call(show).await.expect("it is answered").place;
        let is_exact = matches!(place, PlaceView::Waiting { position: Some(at), .. } if at == from + 1);
        wrong += u64::from(!is_exact);
    }
    wrong
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// The load of function calls on the server, measured by the server.
struct Load {
    /// The time of a call, in microseconds.
    each_us: f64,
    /// The 99.9th percentile of the calls, in microseconds.
    most_us: f64,
    /// Calls per second of CPU time.
    per_core: f64,
}

/// Measures from its start to its end.
struct Meter<'a> {
    server: &'a RedisServer,
    cpu_secs: f64,
}

impl<'a> Meter<'a> {
    fn start(server: &'a RedisServer) -> Self {
        server.command(&["CONFIG", "RESETSTAT"]);
        Self { server, cpu_secs: cpu_secs(server) }
    }

    fn end(self) -> Load {
        let cpu_secs = cpu_secs(self.server) - self.cpu_secs;
        let statistics = self.server.command(&["INFO", "commandstats"]);
        let latency = self.server.command(&["INFO", "latencystats"]);
        let calls = figure(&statistics, "cmdstat_fcall", "calls=");
        Load {
            each_us: figure(&statistics, "cmdstat_fcall", "usec_per_call="),
            most_us: figure(&latency, "latency_percentiles_usec_fcall", "p99.9="),
            per_core: calls / cpu_secs.max(f64::MIN_POSITIVE),
        }
    }
}

/// The CPU time that a server has used.
fn cpu_secs(server: &RedisServer) -> f64 {
    let cpu = server.command(&["INFO", "cpu"]);
    figure(&cpu, "used_cpu_user:", "") + figure(&cpu, "used_cpu_sys:", "")
}

/// The largest number after `name` in the lines of a report that begin with `line`.
fn figure(report: &str, line: &str, name: &str) -> f64 {
    let lines = report.lines().filter(|found| found.starts_with(line));
    let values = lines.flat_map(|found| found.split([',', ':'])).filter_map(|part| part.strip_prefix(name));
    values.filter_map(|number| number.trim().parse::<f64>().ok()).fold(0.0, f64::max)
}

fn used_bytes(server: &RedisServer) -> f64 {
    figure(&server.command(&["INFO", "memory"]), "used_memory:", "")
}
