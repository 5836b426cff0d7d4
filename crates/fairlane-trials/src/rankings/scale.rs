//! Measures the cost of operations on Redis on boards of very many members, whether ranks are
//! exact, and how long expiry and removal block the server.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use fairlane_core::limits::{BOARD_EVENTS_LIMIT, RECORD_EVENTS_MAX, SWEEP_BOARDS_MAX};
use fairlane_core::queue::Settings;
use fairlane_core::ranking::*;
use fairlane_core::{BoardName, EventId, MemberId};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, Engine};
use fairlane_testkit::redis::RedisServer;
use redis::aio::MultiplexedConnection;

/// Updates of each kind that are measured; fewer on smaller boards.
const MEASURED: u64 = 5000;
/// Number of ranks that are compared with the list.
const COMPARED: u64 = 200;
/// Commands that are sent at the same time while a board is filled.
const FILLERS: u64 = 8;
/// The sorted set that the bare commands use.
const BARE: &str = "bare";
/// The boards: one that has only its season, one with windows of an hour, a day and a week besides, and
/// one by value, which remembers no events.
const BOARDS: [&str; 3] = ["one", "four", "values"];
/// Longer than the retention of every window and every event.
const LATER: Duration = Duration::from_secs(500 * 24 * 3600);

/// The cost with this many members. Client times are medians in microseconds; server times are
/// means in microseconds.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Members of each board.
    pub members: u64,
    /// ZINCRBY and then ZREVRANK, two round trips.
    pub bare_us: f64,
    /// ZINCRBY and ZREVRANK in one round trip, as a pipeline.
    pub bare_pipelined_us: f64,
    /// An event with the rank of its member, on a board with one window and on one with four.
    pub record_us: [f64; 2],
    /// The server's time of ZINCRBY and ZREVRANK together.
    pub bare_server_us: f64,
    /// The server's time of an event with the rank of its member, with one window and with four.
    pub record_server_us: [f64; 2],
    /// Memory for each member of a board, in bytes.
    pub bytes_per_member: f64,
    /// Memory for each event that is remembered, in bytes.
    pub bytes_per_event: f64,
    /// Number of compared ranks that differed from the list.
    pub wrong_ranks: u64,
}

impl Cost {
    /// The time of an update with its rank, relative to the two bare commands.
    pub fn ratios(&self) -> [f64; 2] {
        self.record_us.map(|record_us| record_us / self.bare_us)
    }
}

/// The cost of expiry and removal for the server.
#[derive(Debug, Clone)]
pub struct Removal {
    /// Events and windows that were removed by the sweep.
    pub swept: u64,
    /// The longest command.
    pub longest: String,
    /// The time of the longest command, in microseconds.
    pub longest_us: f64,
    /// Number of keys of the boards that are left at the end.
    pub keys_left: u64,
}

/// Fills boards of a server to each size in turn and measures them; then lets windows and events
/// expire, and removes the boards.
pub async fn measure(server: &RedisServer, sizes: &[u64]) -> (Vec<Cost>, Removal) {
    let engine = fairlane_engine::open(&server.url(), Settings::default()).await.expect("Redis is there");
    for name in BOARDS {
        let has = name == "four";
        let windows = BoardWindows { hour: has, day: has, week: has };
        let rule = if name == "values" { BoardRule::Maximum } else { BoardRule::Count };
        let settings =
            BoardSettings { rule, windows, events_max: BOARD_EVENTS_LIMIT, ..BoardSettings::default() };
        engine.call(SetBoard { board: board(name), settings }).await.expect("set_board is answered");
    }
    let client = redis::Client::open(server.url()).expect("the address is valid");
    let mut bare = client.get_multiplexed_async_connection().await.expect("Redis is there");
    let (mut filled, mut costs, mut memory) = (0, Vec::new(), Memory::default());
    for size in sizes {
        memory.fill(server, &engine, &mut bare, filled..*size).await;
        filled = *size;
        costs.push(measure_size(server, &engine, &mut bare, &memory, filled).await);
    }
    let later = Clock::System.now().plus_us(LATER.as_micros() as u64);
    let clock = Clock::Given(Arc::new(AtomicU64::new(later.0)));
    let options = RedisOptions { clock, ..RedisOptions::default() };
    let engine: Arc<dyn Engine> =
        Arc::new(RedisEngine::connect(&server.url(), options).await.expect("Redis is there"));
    (costs, remove(server, &*engine, &mut bare).await)
}

async fn measure_size(
    server: &RedisServer,
    engine: &Arc<dyn Engine>,
    bare: &mut MultiplexedConnection,
    memory: &Memory,
    members: u64,
) -> Cost {
    let (measured, stride) = (MEASURED.min(members), members / MEASURED + 1);
    let one = |number: u64| (number * stride) % members;
    let [mut bares, mut pipelined] = [Vec::new(), Vec::new()];
    let mut records = [Vec::new(), Vec::new()];
    for number in 0..measured {
        let member = format!("member {}", one(number));
        let started = Instant::now();
        let () = increment(&member).query_async(bare).await.expect("it is answered");
        let () = rank_of(&member).query_async(bare).await.expect("it is answered");
        bares.push(started.elapsed());
        let started = Instant::now();
        let mut pipe = redis::pipe();
        pipe.add_command(increment(&member)).add_command(rank_of(&member));
        let () = pipe.query_async(bare).await.expect("it is answered");
        pipelined.push(started.elapsed());
        for (times, name) in records.iter_mut().zip(BOARDS) {
            let command = update(name, &format!("{members} {number}"), one(number));
            let started = Instant::now();
            engine.call(command).await.expect("it is answered");
            times.push(started.elapsed());
        }
    }
    server.command(&["CONFIG", "RESETSTAT"]);
    for number in 0..measured {
        let member = format!("member {}", one(number));
        let () = increment(&member).query_async(bare).await.expect("it is answered");
        let () = rank_of(&member).query_async(bare).await.expect("it is answered");
    }
    let bare_server_us = server_us(server, "zincrby") + server_us(server, "zrevrank");
    let mut record_server_us = [0.0; 2];
    for (server_time, name) in record_server_us.iter_mut().zip(BOARDS) {
        server.command(&["CONFIG", "RESETSTAT"]);
        for number in 0..measured {
            let command = update(name, &format!("{members} again {number}"), one(number));
            engine.call(command).await.expect("it is answered");
        }
        *server_time = server_us(server, "fcall");
    }
    Cost {
        members,
        bare_us: median(bares),
        bare_pipelined_us: median(pipelined),
        record_us: records.map(median),
        bare_server_us,
        record_server_us,
        bytes_per_member: memory.members / members as f64,
        bytes_per_event: (memory.counted - memory.members).max(0.0) / members as f64,
        wrong_ranks: wrong_ranks(&**engine, members).await,
    }
}

fn increment(member: &str) -> redis::Cmd {
    redis::cmd("ZINCRBY").arg(BARE).arg(1).arg(member).to_owned()
}

fn rank_of(member: &str) -> redis::Cmd {
    redis::cmd("ZREVRANK").arg(BARE).arg(member).to_owned()
}

fn board(name: &str) -> BoardName {
    BoardName::new(name).expect("the name is valid")
}

fn member(number: u64) -> MemberId {
    MemberId::new(format!("member {number}")).expect("the id is valid")
}

fn event(id: &str, number: u64) -> NewEvent {
    let id = EventId::new(id).expect("the id is valid");
    NewEvent { id, member: member(number), delta: 1, at_ms: now_ms() }
}

fn update(name: &str, id: &str, number: u64) -> RecordEvents {
    RecordEvents { board: board(name), events: vec![event(id, number)], ranks: true }
}

fn now_ms() -> u64 {
    Clock::System.now().as_millis()
}

/// The memory of the members of a board by value and of a board by count, without that of other
/// updates.
#[derive(Default)]
struct Memory {
    members: f64,
    counted: f64,
}

impl Memory {
    /// Adds members to all boards and to the bare set.
    async fn fill(
        &mut self,
        server: &RedisServer,
        engine: &Arc<dyn Engine>,
        bare: &mut MultiplexedConnection,
        numbers: std::ops::Range<u64>,
    ) {
        let batch = RECORD_EVENTS_MAX as u64;
        let starts: Vec<u64> = numbers.clone().step_by(batch as usize).collect();
        for start in &starts {
            let mut pipe = redis::pipe();
            for number in *start..(start + batch).min(numbers.end) {
                pipe.add_command(increment(&format!("member {number}")));
            }
            let () = pipe.query_async(bare).await.expect("it is answered");
        }
        for name in ["four", "values", "one"] {
            let before = used_bytes(server);
            let fillers = (0..FILLERS).map(|filler| {
                let (engine, starts, end) = (engine.clone(), starts.clone(), numbers.end);
                tokio::spawn(async move {
                    let own = starts.into_iter().enumerate().filter(|(at, _)| *at as u64 % FILLERS == filler);
                    for (_, start) in own {
                        add(&*engine, name, start..(start + batch).min(end)).await;
                    }
                })
            });
            for filler in fillers.collect::<Vec<_>>() {
                filler.await.expect("a filler's task ends");
            }
            let added = used_bytes(server) - before;
            match name {
                "values" => self.members += added,
                "one" => self.counted += added,
                _ => {}
            }
        }
    }
}

/// Adds members to a board with one command.
async fn add(engine: &dyn Engine, name: &str, numbers: std::ops::Range<u64>) {
    let reply = if name == "values" {
        let score = |number| NewScore { member: member(number), value: 1, version: 0, at_ms: now_ms() };
        engine
            .call(SetScores { board: board(name), scores: numbers.map(score).collect(), ranks: false })
            .await
    } else {
        let events = numbers.map(|number| event(&format!("first {number}"), number)).collect();
        engine.call(RecordEvents { board: board(name), events, ranks: false }).await
    };
    match reply.expect("it is answered") {
        EventsRecorded::Recorded { outcomes, .. } if outcomes.iter().all(|one| one.is_taken()) => {}
        refused => panic!("members were refused: {refused:?}"),
    }
}

/// Compares the ranks of members with their places in the list; returns how many differ.
async fn wrong_ranks(engine: &dyn Engine, members: u64) -> u64 {
    let mut wrong = 0;
    for sample in 0..COMPARED {
        let behind = sample * members / COMPARED;
        let start = PageStart::Behind(behind);
        let list = ListRanks { board: board("four"), standing: Standing::All, start, members_max: 1 };
        let listed = engine.call(list).await.expect("it is answered").0.expect("the board exists").entries;
        let show = ShowRanks {
            board: board("four"),
            standing: Standing::All,
            members: vec![listed[0].member.clone()],
        };
        let shown = engine.call(show).await.expect("it is answered").0.expect("the board exists").entries;
        wrong += u64::from(shown != listed || shown[0].position != behind + 1);
    }
    wrong
}

/// Lets all windows and events expire, removes the boards, and returns the longest command meanwhile.
async fn remove(server: &RedisServer, engine: &dyn Engine, bare: &mut MultiplexedConnection) -> Removal {
    // The first command of an engine also checks its permissions, which takes longer than any other.
    engine.call(InspectBoard { board: board(BOARDS[0]) }).await.expect("inspect_board is answered");
    server.command(&["CONFIG", "SET", "slowlog-log-slower-than", "500"]);
    server.command(&["CONFIG", "SET", "slowlog-max-len", "1000"]);
    server.command(&["SLOWLOG", "RESET"]);
    let mut swept = 0;
    loop {
        let command = SweepBoards { boards_max: SWEEP_BOARDS_MAX };
        let step = engine.call(command).await.expect("sweep_boards is answered");
        swept += step.removed as u64;
        if step.boards == 0 {
            break;
        }
    }
    for name in BOARDS {
        engine.call(RemoveBoard { board: board(name) }).await.expect("remove_board is answered");
    }
    let slow: Vec<Vec<redis::Value>> =
        redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(bare).await.expect("it is answered");
    let (longest_us, longest) = slow.iter().map(|entry| slow_command(entry)).fold(
        (0.0, "no command".to_owned()),
        |longest, entry| if entry.0 > longest.0 { entry } else { longest },
    );
    let left: Vec<String> =
        redis::cmd("KEYS").arg("ranking*").query_async(bare).await.expect("it is answered");
    Removal { swept, longest, longest_us, keys_left: left.len() as u64 }
}

/// The time of an entry of the slow log in microseconds, and the first words of its command.
fn slow_command(entry: &[redis::Value]) -> (f64, String) {
    let time = entry.get(2).and_then(|time| redis::from_redis_value_ref::<u64>(time).ok()).unwrap_or(0);
    let words = entry.get(3).and_then(|words| redis::from_redis_value_ref::<Vec<Vec<u8>>>(words).ok());
    let words = words.unwrap_or_default();
    let words: Vec<_> = words.iter().take(2).map(|word| String::from_utf8_lossy(word)).collect();
    (time as f64, words.join(" "))
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// The server's time for each call of a command since its statistics were reset.
fn server_us(server: &RedisServer, command: &str) -> f64 {
    let (statistics, prefix) = (server.command(&["INFO", "commandstats"]), format!("cmdstat_{command}:"));
    let line = statistics.lines().find(|line| line.starts_with(&prefix)).expect("it was called");
    let field = line.split(',').find_map(|field| field.strip_prefix("usec_per_call="));
    field.and_then(|number| number.trim().parse().ok()).expect("it is reported")
}

fn used_bytes(server: &RedisServer) -> f64 {
    let info = server.command(&["INFO", "memory"]);
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it is reported");
    line.trim().parse().expect("a number")
}
