//! A waiting room under a crowd: many schedulers, and users who arrive, leave, fall silent and stay
//! until their time is over, all at once.
//!
//! No reply may show more active places than the limit, no place may be free while a user waits, a
//! user may not have two tokens, and in the end every place that was given has ended once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane_core::limits::ROOM_TTL_MS_MIN;
use fairlane_core::room::*;
use fairlane_engine::Engine;

use super::{joining, room, token};

/// The longest time until all places have ended.
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
    /// Places that ended because their time was over.
    pub expired: u64,
    /// Waiters that were dropped because they fell silent.
    pub silent: u64,
    /// Seconds that the trial took.
    pub seconds: f64,
    /// The invariants that were violated; empty if all held.
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
            expired: totals.expired,
            silent: totals.silent,
            seconds: started.elapsed().as_secs_f64(),
            violations: std::mem::take(&mut *self.violations.lock().expect("no test panics with it")),
        }
    }
}
