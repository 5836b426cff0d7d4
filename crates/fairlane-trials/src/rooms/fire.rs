//! Processes that join and leave, and are killed at any moment, on a Redis that writes everything to
//! disk before it replies and is killed and started again. The wall clock of the processes jumps.
//!
//! Each process prints what was acknowledged. In the end, a user whose last acknowledged step was to
//! join has the token that it was given; one that left has no place; and the room has no other places.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::Settings;
use fairlane_core::room::*;
use fairlane_engine::Engine;
use fairlane_testkit::clock::JumpingClock;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::{joining, room, token};

/// Active places of the room.
const MAX_ACTIVE: u32 = 20;
/// The server is killed after this many kills of processes.
const SERVER_EVERY: u64 = 5;
/// The largest jump of the wall clock of the processes, and the least difference that counts as a
/// jump, in seconds.
const JUMP_SECS_MAX: i64 = 30 * 24 * 3600;
const JUMP_SECS_MIN: i64 = 3600;
/// The longest time for which a process repeats a step.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Steps that were acknowledged.
    pub steps: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Restarts of the server.
    pub restarts: u64,
    /// Jumps of their wall clock that processes have seen.
    pub jumps: u64,
    /// Users whose token and place were compared.
    pub users: usize,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

/// The last acknowledged state of a user.
#[derive(Debug, Clone, PartialEq)]
enum Known {
    Has(String),
    Left,
}

/// Runs the trial: `program rooms-victim URL NUMBER SEED` is a process that is killed.
pub async fn run(program: &Path, seed: u64, kills: u64, processes: usize) -> Report {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut server = RedisServer::start(ServerOptions { durable: true, ..ServerOptions::default() });
    let engine = open(&server.url()).await;
    let day = 24 * 3600 * 1000;
    let settings = RoomSettings {
        max_active: MAX_ACTIVE,
        active_ttl_ms: day,
        retention_ms: day,
        ..RoomSettings::default()
    };
    engine.call(SetRoom { room: room(), settings }).await.expect("set_room is answered");
    let (mut report, mut known, mut next) = (Report::default(), HashMap::new(), 0);
    let (url, clock) = (server.url(), JumpingClock::new());
    let mut start = |random: &mut fastrand::Rng| {
        next += 1;
        victim(program, &clock, &url, next, random.u64(..))
    };
    let mut running: Vec<Child> = (0..processes).map(|_| start(&mut random)).collect();
    let mut ended = Vec::new();
    while report.kills < kills {
        tokio::time::sleep(Duration::from_millis(random.u64(20..300))).await;
        let chosen = random.usize(..running.len());
        let mut one = std::mem::replace(&mut running[chosen], start(&mut random));
        clock.jump_to(random.i64(-JUMP_SECS_MAX..=JUMP_SECS_MAX));
        one.kill().expect("it runs");
        ended.push(one);
        report.kills += 1;
        if report.kills.is_multiple_of(SERVER_EVERY) {
            server.restart();
            report.restarts += 1;
        }
    }
    for mut one in running {
        one.kill().expect("it runs");
        ended.push(one);
    }
    for mut one in ended {
        read(&mut one, &mut known, &mut report);
    }
    check(&*open(&server.url()).await, &known, &mut report).await;
    report
}

async fn open(url: &str) -> Arc<dyn Engine> {
    fairlane_engine::open(url, Settings::default()).await.expect("Redis is there")
}

fn victim(program: &Path, clock: &JumpingClock, url: &str, number: u64, seed: u64) -> Child {
    let mut command = Command::new(program);
    clock.set_for(&mut command);
    command.arg("rooms-victim").args([url, &number.to_string(), &seed.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("the trial can start itself")
}

/// Reads the acknowledgements. The last line of a process that was killed may be incomplete.
fn read(child: &mut Child, known: &mut HashMap<String, Known>, report: &mut Report) {
    let output = child.stdout.take().expect("it is piped");
    let mut last_time: Option<i64> = None;
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut parts = line.split('\t');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("begin"), Some(user), ..) => drop(known.remove(user)),
            (Some("joined"), Some(user), Some(token), Some(".")) => {
                report.steps += 1;
                if let Some(before) = known.insert(user.to_owned(), Known::Has(token.to_owned()))
                    && before != Known::Has(token.to_owned())
                {
                    report.violations.push(format!("{user} had {before:?} and got {token}"));
                }
            }
            (Some("left"), Some(user), Some("."), _) => {
                report.steps += 1;
                known.insert(user.to_owned(), Known::Left);
            }
            (Some("time"), Some(now), Some("."), _) => {
                let now = now.parse().expect("a number");
                let before = last_time.replace(now);
                report.jumps += u64::from(before.is_some_and(|before| (now - before).abs() > JUMP_SECS_MIN));
            }
            _ => {}
        }
    }
    // The process was killed, or is about to be.
    let _ = child.wait();
}

async fn check(engine: &dyn Engine, known: &HashMap<String, Known>, report: &mut Report) {
    let view = engine.call(InspectRoom { room: room() }).await.expect("it is answered").0;
    let view = view.expect("the room exists");
    let waiting: u64 = view.waiting.iter().sum();
    let places = view.totals.joined - view.totals.left;
    if view.active > u64::from(MAX_ACTIVE) || places != view.active + waiting {
        report.violations.push(format!("{view:?} does not add up"));
    }
    if waiting > 0 && view.active < u64::from(MAX_ACTIVE) {
        report.violations.push(format!("{waiting} wait, {} are active", view.active));
    }
    report.users = known.len();
    for (user, known) in known {
        let has = match known {
            Known::Has(text) => text.clone(),
            Known::Left => format!("{user} again"),
        };
        let joined =
            engine.call(joining(user, token(format!("{user} again")))).await.expect("it is answered");
        match joined {
            RoomJoined::Joined { token, .. } if token.to_string() == has => {}
            other => report.violations.push(format!("{user} is known as {known:?}, and got {other:?}")),
        }
    }
}

/// The process that is killed: its users join, poll, and some leave, each step until it is
/// acknowledged.
pub async fn run_victim(url: &str, number: u64, seed: u64) {
    let (engine, mut random) = (open(url).await, fastrand::Rng::with_seed(seed));
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        // If the line cannot be written, the parent is gone.
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    };
    for count in 0_u64.. {
        let time = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs();
        say(format!("time\t{time}\t."));
        let name = format!("{number}-{count}");
        let own = token(format!("{name}-{:x}", random.u64(..)));
        let joined = persist(|| engine.call(joining(&name, own.clone()))).await;
        let RoomJoined::Joined { token: given, .. } = joined else { panic!("not joined: {joined:?}") };
        say(format!("joined\t{name}\t{given}\t."));
        let again = persist(|| engine.call(joining(&name, token(format!("{name}-second"))))).await;
        if let RoomJoined::Joined { token, .. } = again {
            say(format!("joined\t{name}\t{token}\t."));
        }
        if random.u8(..10) < 8 {
            say(format!("begin\t{name}"));
            persist(|| engine.call(LeaveRoom { room: room(), token: given.clone() })).await;
            say(format!("left\t{name}\t."));
        }
    }
}

async fn persist<T, F: Future<Output = Result<T, fairlane_engine::EngineError>>>(step: impl Fn() -> F) -> T {
    let started = std::time::Instant::now();
    loop {
        match step().await {
            Ok(reply) => return reply,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
