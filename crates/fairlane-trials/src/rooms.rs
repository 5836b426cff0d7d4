//! A waiting room under a crowd: many schedulers, and users who arrive, leave, fall silent and stay
//! until their time is over, all at once. And what its operations cost with very many waiters.
//!
//! No reply may show more active places than the limit, no place may be free while a user waits, a
//! user may not have two tokens, and in the end every place that was given has ended once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane_core::limits::ROOM_TTL_MS_MIN;
use fairlane_core::room::*;
use fairlane_core::{PlaceToken, RoomName, UserId};
use fairlane_engine::Engine;
use fairlane_testkit::redis::RedisServer;

const ROOM: &str = "default";
/// Joins that are sent at the same time while a room is filled.
const FILLERS: u64 = 64;
/// Calls of each operation that are measured.
const MEASURED: u64 = 2000;
/// Longest time that the end of a trial may take.
const SILENCE: Duration = Duration::from_secs(120);

/// The size of the crowd.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Tasks that bring the room up to date as fast as they can.
    pub schedulers: usize,
    /// Users at the same time.
    pub users: usize,
    /// How often each of them joins.
    pub rounds: u64,
    /// Active places.
    pub max_active: u32,
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Replies that were checked.
    pub replies: u64,
    /// The most active places in any reply.
    pub active_max: u64,
    /// Places that became active.
    pub admitted: u64,
    /// Seconds that the trial took.
    pub seconds: f64,
    /// What must hold and did not.
    pub violations: Vec<String>,
}

struct Trial {
    engine: Arc<dyn Engine>,
    plan: Plan,
    replies: AtomicU64,
    active_max: AtomicU64,
    is_over: AtomicBool,
    violations: std::sync::Mutex<Vec<String>>,
}

fn room() -> RoomName {
    RoomName::new(ROOM).expect("the name is valid")
}

fn token(text: String) -> PlaceToken {
    PlaceToken::new(text).expect("the token is valid")
}

fn joining(user: &str, token: PlaceToken) -> JoinRoom {
    JoinRoom {
        room: room(),
        user: UserId::new(user).expect("the id is valid"),
        token,
        class: 0,
        ticket: None,
    }
}

/// Runs the trial on an engine without rooms.
pub async fn run(plan: Plan, engine: Arc<dyn Engine>) -> Report {
    let settings = RoomSettings {
        max_active: plan.max_active,
        active_ttl_ms: ROOM_TTL_MS_MIN,
        retention_ms: ROOM_TTL_MS_MIN,
        ..RoomSettings::default()
    };
    engine.call(SetRoom { room: room(), settings }).await.expect("set_room is answered");
    let trial = Arc::new(Trial {
        engine,
        plan,
        replies: AtomicU64::new(0),
        active_max: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        violations: std::sync::Mutex::default(),
    });
    let started = Instant::now();
    let schedulers: Vec<_> = (0..plan.schedulers).map(|_| tokio::spawn(trial.clone().schedule())).collect();
    let users: Vec<_> = (0..plan.users).map(|user| tokio::spawn(trial.clone().visit(user))).collect();
    for user in users {
        user.await.expect("a user's task ends");
    }
    trial.drain(started).await;
    trial.is_over.store(true, Ordering::SeqCst);
    for scheduler in schedulers {
        scheduler.await.expect("a scheduler's task ends");
    }
    trial.report(started).await
}

impl Trial {
    fn check_active(&self, active: u64) {
        self.replies.fetch_add(1, Ordering::Relaxed);
        self.active_max.fetch_max(active, Ordering::Relaxed);
        if active > self.plan.max_active.into() {
            self.violate(format!("{active} places are active"));
        }
    }

    fn violate(&self, what: String) {
        self.violations.lock().expect("no test panics with it").push(what);
    }

    async fn schedule(self: Arc<Self>) {
        while !self.is_over.load(Ordering::SeqCst) {
            let reply = self.engine.call(AdmitWaiters { room: room() }).await.expect("it is answered");
            self.check_active(reply.active);
            if reply.waiting > 0 && reply.active < self.plan.max_active.into() {
                self.violate(format!("{} wait, {} are active", reply.waiting, reply.active));
            }
            tokio::task::yield_now().await;
        }
    }

    /// One user, who leaves, falls silent or stays in turn.
    async fn visit(self: Arc<Self>, number: usize) {
        let user = format!("user {number}");
        for round in 0..self.plan.rounds {
            let (own, joined_at) = (token(format!("{number}/{round}")), Instant::now());
            let reply = self.engine.call(joining(&user, own)).await.expect("it is answered");
            let RoomJoined::Joined { token: first, status } = reply else {
                return self.violate(format!("{reply:?}"));
            };
            self.check_active(status.active);
            let again = token(format!("{number}/{round}/again"));
            let reply = self.engine.call(joining(&user, again)).await.expect("it is answered");
            let is_same = matches!(&reply, RoomJoined::Joined { token, .. } if *token == first);
            // A place may end between two calls of a busy machine.
            if !is_same && joined_at.elapsed() < Duration::from_millis(ROOM_TTL_MS_MIN) {
                self.violate(format!("{user} has two tokens: {first:?} and {reply:?}"));
            }
            if (number as u64 + round).is_multiple_of(3) {
                continue;
            }
            let left = self.engine.call(LeaveRoom { room: room(), token: first }).await;
            self.check_active(left.expect("it is answered").active);
        }
    }

    /// Waits until every place has ended.
    async fn drain(&self, started: Instant) {
        loop {
            let reply = self.engine.call(AdmitWaiters { room: room() }).await.expect("it is answered");
            if reply.active == 0 && reply.waiting == 0 {
                return;
            }
            if started.elapsed() > SILENCE {
                return self.violate(format!("{reply:?} after {SILENCE:?}"));
            }
            tokio::task::yield_now().await;
        }
    }

    async fn report(&self, started: Instant) -> Report {
        let view = self.engine.call(InspectRoom { room: room() }).await.expect("it is answered").0;
        let totals = view.map(|view| view.totals).unwrap_or_default();
        let ended = totals.left + totals.revoked + totals.expired + totals.silent;
        if totals.joined != ended {
            self.violate(format!("{totals:?} do not add up"));
        }
        Report {
            replies: self.replies.load(Ordering::Relaxed),
            active_max: self.active_max.load(Ordering::Relaxed),
            admitted: totals.admitted,
            seconds: started.elapsed().as_secs_f64(),
            violations: std::mem::take(&mut *self.violations.lock().expect("no test panics with it")),
        }
    }
}

/// What the operations cost on Redis with this many waiters, in microseconds of the server.
#[derive(Debug, Clone, Copy)]
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
    /// Memory for each waiter, in bytes.
    pub bytes_per_waiter: f64,
}

/// Fills a room of a server to each size in turn, and measures.
pub async fn measure(server: &RedisServer, engine: Arc<dyn Engine>, sizes: &[u64]) -> Vec<Cost> {
    let settings = RoomSettings { max_active: 50, retention_ms: 24 * 3600 * 1000, ..RoomSettings::default() };
    engine.call(SetRoom { room: room(), settings }).await.expect("set_room is answered");
    let (empty, mut filled, mut costs) = (used_bytes(server), 0, Vec::new());
    for size in sizes {
        fill(&engine, filled..*size).await;
        filled = *size;
        let bytes_per_waiter = (used_bytes(server) - empty) / filled as f64;
        let stride = filled / MEASURED + 1;
        let waiter = |number: u64| token(format!("token {}", (number * stride) % filled));
        let show_us = timed(server, async |n| {
            let _ = engine.call(ShowPlace { room: room(), token: waiter(n) }).await.expect("it is answered");
        });
        let show_us = show_us.await;
        let keep_us = timed(server, async |n| {
            let _ = engine.call(KeepPlace { room: room(), token: waiter(n) }).await.expect("it is answered");
        });
        let keep_us = keep_us.await;
        let join_us = timed(server, async |n| {
            let command = joining(&format!("late {size} {n}"), token(format!("late {size} {n}")));
            let _ = engine.call(command).await.expect("it is answered");
        });
        let join_us = join_us.await;
        // The first waiters are active, in order.
        let first = filled / 3;
        let leave_us = timed(server, async |n| {
            let command = LeaveRoom { room: room(), token: token(format!("token {}", n % first)) };
            let _ = engine.call(command).await.expect("it is answered");
        });
        let leave_us = leave_us.await;
        costs.push(Cost { waiters: filled, join_us, show_us, keep_us, leave_us, bytes_per_waiter });
    }
    costs
}

async fn fill(engine: &Arc<dyn Engine>, numbers: std::ops::Range<u64>) {
    let fillers = (0..FILLERS).map(|filler| {
        let (engine, numbers) = (engine.clone(), numbers.clone());
        tokio::spawn(async move {
            for number in numbers.filter(|number| number % FILLERS == filler) {
                let command = joining(&format!("user {number}"), token(format!("token {number}")));
                engine.call(command).await.expect("join_room is answered");
            }
        })
    });
    for filler in fillers.collect::<Vec<_>>() {
        filler.await.expect("a filler's task ends");
    }
}

/// The time of the server for each of [`MEASURED`] calls, in microseconds.
async fn timed(server: &RedisServer, mut call: impl AsyncFnMut(u64)) -> f64 {
    server.command(&["CONFIG", "RESETSTAT"]);
    for number in 0..MEASURED {
        call(number).await;
    }
    let stats = server.command(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_fcall")).expect("functions were called");
    let field = line.split(',').find_map(|field| field.strip_prefix("usec_per_call="));
    field.and_then(|number| number.parse().ok()).expect("a number")
}

fn used_bytes(server: &RedisServer) -> f64 {
    let info = server.command(&["INFO", "memory"]);
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it is reported");
    line.trim().parse().expect("a number")
}
