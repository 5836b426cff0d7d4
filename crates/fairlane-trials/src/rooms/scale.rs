//! What the operations cost on Redis with very many waiters, and whether positions are exact.

use std::sync::Arc;
use std::time::Instant;

use fairlane_core::room::*;
use fairlane_engine::Engine;
use fairlane_testkit::redis::RedisServer;

use super::{fill, joining, room, token};

/// Calls of each operation that are measured.
const MEASURED: u64 = 5000;
/// Positions that are compared with the list.
const POSITIONS: u64 = 200;

/// The cost with this many waiters. Times are those of the server, in microseconds, unless said
/// otherwise.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Waiters in the room.
    pub waiters: u64,
    /// One more user joins.
    pub join_us: f64,
    /// A place is shown.
    pub show_us: f64,
    /// A waiter polls.
    pub keep_us: f64,
    /// An active user leaves, and the next one is admitted.
    pub leave_us: f64,
    /// 99.9 percent of all these calls take at most this long.
    pub most_us: f64,
    /// The median of a round trip that shows a place, in microseconds of the client.
    pub show_trip_us: f64,
    /// The median of a bare round trip (PING) on a connection of the same kind in the same run.
    pub bare_trip_us: f64,
    /// Memory for each waiter, in bytes.
    pub bytes_per_waiter: f64,
    /// Positions that were compared with the list, and differed.
    pub wrong_positions: u64,
}

impl Cost {
    /// Polls that one core of the server answers in a second.
    pub fn polls_per_second(&self) -> f64 {
        1e6 / self.keep_us
    }
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
        let stride = filled / MEASURED + 1;
        let waiter = |number: u64| token(format!("token {}", (number * stride) % filled));
        let mut most = Most::default();
        let (mut shows, mut pings) = (Vec::new(), Vec::new());
        server.command(&["CONFIG", "RESETSTAT"]);
        for number in 0..MEASURED {
            let started = Instant::now();
            let () = redis::cmd("PING").query_async(&mut bare).await.expect("PING is answered");
            pings.push(started.elapsed());
            let started = Instant::now();
            let show = ShowPlace { room: room(), token: waiter(number) };
            engine.call(show).await.expect("it is answered");
            shows.push(started.elapsed());
        }
        let show_us = most.read(server);
        server.command(&["CONFIG", "RESETSTAT"]);
        for number in 0..MEASURED {
            let keep = KeepPlace { room: room(), token: waiter(number) };
            engine.call(keep).await.expect("it is answered");
        }
        let keep_us = most.read(server);
        server.command(&["CONFIG", "RESETSTAT"]);
        for number in 0..MEASURED {
            let name = format!("late {size} {number}");
            engine.call(joining(&name, token(name.clone()))).await.expect("it is answered");
        }
        let join_us = most.read(server);
        server.command(&["CONFIG", "RESETSTAT"]);
        let mut left = 0;
        while left < MEASURED.min(filled / 4) {
            left += leave_active(&*engine).await;
        }
        let leave_us = most.read(server);
        costs.push(Cost {
            waiters: filled,
            join_us,
            show_us,
            keep_us,
            leave_us,
            most_us: most.0,
            show_trip_us: median(shows),
            bare_trip_us: median(pings),
            bytes_per_waiter,
            wrong_positions,
        });
    }
    costs
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

fn median(mut times: Vec<std::time::Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// The largest of the 99.9th percentiles that were read.
#[derive(Default)]
struct Most(f64);

impl Most {
    /// The time of the server for each function call since its statistics were reset.
    fn read(&mut self, server: &RedisServer) -> f64 {
        let field = |text: &str, line: &str, name: &str| {
            let lines = text.lines().filter(|found| found.starts_with(line));
            let values =
                lines.flat_map(|found| found.split([',', ':'])).filter_map(|part| part.strip_prefix(name));
            values.filter_map(|number| number.trim().parse::<f64>().ok()).fold(0.0, f64::max)
        };
        let latency = server.command(&["INFO", "latencystats"]);
        self.0 = self.0.max(field(&latency, "latency_percentiles_usec_fcall", "p99.9="));
        field(&server.command(&["INFO", "commandstats"]), "cmdstat_fcall", "usec_per_call=")
    }
}

fn used_bytes(server: &RedisServer) -> f64 {
    let info = server.command(&["INFO", "memory"]);
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it is reported");
    line.trim().parse().expect("a number")
}
