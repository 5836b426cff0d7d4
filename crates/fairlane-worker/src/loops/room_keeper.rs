//! Brings waiting rooms up to date, as a backstop.
//!
//! Every command on a room does the same, and the janitor sweeps rooms when they are due. This loop
//! reads the rooms themselves and needs no deadline: every 5 seconds it admits waiters to free places,
//! every 30 seconds it also ends places and drops waiters whose time is over. One process does it for
//! all, under a lock; a process that cannot have the lock because it fails does it without.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::LIST_ROOMS_MAX;
use fairlane_core::lock::{AcquireLock, HeldLock, LockAcquired, LockMode, LockName, RenewLocks};
use fairlane_core::room::{AdmitWaiters, ListRooms, RoomView};
use fairlane_core::{HolderName, LockToken, ProcessId};
use fairlane_engine::{Engine, EngineError};

use super::{Pace, rounds};
use crate::pool::Shared;

/// The lock of the process that keeps the rooms.
const LOCK: &str = "fairlane:room-keeper";
/// The lock lasts for this many rounds, so that another process takes over soon.
const LOCK_ROUNDS: u32 = 3;

pub(super) async fn run(shared: Arc<Shared>) {
    let (interval, cleanup) =
        (shared.settings.loops.room_admit_interval, shared.settings.loops.room_cleanup_interval);
    let keeper = Keeper::new(interval * LOCK_ROUNDS);
    let (shared, keeper, mut cleaned_at) = (&*shared, &keeper, Instant::now());
    rounds(shared, "room_keeper", interval, || {
        let is_cleanup = cleaned_at.elapsed() >= cleanup;
        if is_cleanup {
            cleaned_at = Instant::now();
        }
        async move {
            keeper.round(&*shared.engine, is_cleanup).await?;
            Ok(Pace::Rest)
        }
    })
    .await;
}

struct Keeper {
    token: LockToken,
    process: ProcessId,
    holder: HolderName,
    ttl_ms: u64,
}

impl Keeper {
    fn new(ttl: Duration) -> Self {
        let random = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        Self {
            token: LockToken::new(&random).expect("digits are a name"),
            process: ProcessId::new(&random).expect("digits are a name"),
            holder: HolderName::new("the keeper of waiting rooms").expect("plain words are a name"),
            ttl_ms: (ttl.as_millis() as u64).max(1000),
        }
    }

    async fn round(&self, engine: &dyn Engine, is_cleanup: bool) -> Result<(), EngineError> {
        let mut page = engine.call(ListRooms { after: None, rooms_max: LIST_ROOMS_MAX }).await?;
        // Without rooms there is no lock either.
        if page.rooms.is_empty() || !self.leads(engine).await {
            return Ok(());
        }
        loop {
            for view in page.rooms.iter().filter(|view| is_due(view, is_cleanup)) {
                engine.call(AdmitWaiters { room: view.room.clone() }).await?;
            }
            let Some(after) = page.next else { return Ok(()) };
            page = engine.call(ListRooms { after: Some(after), rooms_max: LIST_ROOMS_MAX }).await?;
        }
    }

    /// Whether this process keeps the rooms now: it holds the lock, or the lock cannot be had at all.
    async fn leads(&self, engine: &dyn Engine) -> bool {
        let name = LockName::new(LOCK).expect("a plain word is a name");
        let acquire = AcquireLock {
            name: name.clone(),
            token: self.token.clone(),
            process: self.process.clone(),
            holder: self.holder.clone(),
            mode: LockMode::Exclusive,
            ttl_ms: self.ttl_ms,
            wait: false,
            fair: false,
            lock_delay_ms: 0,
            max_hold_ms: None,
        };
        match engine.call(acquire).await {
            Ok(LockAcquired::Held { .. }) => {
                let held = HeldLock { name, token: self.token.clone(), ttl_ms: self.ttl_ms };
                // A lock that cannot be renewed runs out, and the next round acquires it again.
                let _ = engine.call(RenewLocks { locks: vec![held] }).await;
                true
            }
            Ok(LockAcquired::Busy(_) | LockAcquired::Waiting { .. }) => false,
            Ok(LockAcquired::Refused(_)) | Err(_) => true,
        }
    }
}

/// Whether a round brings this room up to date. A view does not count places that have ended and were
/// not removed yet, so a cleanup takes every room.
fn is_due(view: &RoomView, is_cleanup: bool) -> bool {
    let waiting: u64 = view.waiting.iter().sum();
    is_cleanup || (waiting > 0 && view.active < u64::from(view.settings.max_active))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use fairlane_core::queue::Settings;
    use fairlane_core::room::{JoinRoom, KeepPlace, PlaceView, RoomSettings, SetRoom, ShowPlace};
    use fairlane_core::{PlaceToken, RoomName, UserId};
    use fairlane_engine::{Clock, EmbeddedEngine, Hooks, layer};

    use super::*;

    fn keeper() -> Keeper {
        Keeper::new(Duration::from_secs(15))
    }

    /// An engine, and its time in microseconds.
    fn engine() -> (Arc<dyn Engine>, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(1_000_000));
        let engine = EmbeddedEngine::new(Settings::default(), Clock::Given(time.clone())).unwrap();
        (Arc::new(engine), time)
    }

    fn advance(time: &AtomicU64, secs: u64) {
        time.fetch_add(secs * 1_000_000, Ordering::SeqCst);
    }

    #[tokio::test]
    async fn one_process_leads_until_its_lock_runs_out() {
        let (engine, time) = engine();
        let (one, two) = (keeper(), keeper());
        assert!(one.leads(&*engine).await && !two.leads(&*engine).await && one.leads(&*engine).await);
        advance(&time, 14);
        assert!(one.leads(&*engine).await, "it renews");
        advance(&time, 14);
        assert!(!two.leads(&*engine).await);
        advance(&time, 2);
        assert!(two.leads(&*engine).await && !one.leads(&*engine).await, "the first one has died");
    }

    #[tokio::test]
    async fn rooms_are_kept_without_the_lock_when_it_fails() {
        let (inner, _) = engine();
        let hooks = Hooks::default().submit(|inner, command| match command.lock() {
            Some(_) => Box::pin(async { Err(EngineError::Refused { reason: "no permission".into() }) }),
            None => Box::pin(async move { inner.submit(command).await }),
        });
        assert!(keeper().leads(&*layer(inner, hooks)).await);
    }

    #[tokio::test]
    async fn cleanup_admits_a_waiter_when_a_place_has_ended() {
        let (engine, time) = engine();
        let room = RoomName::new("concert").unwrap();
        let settings = RoomSettings { max_active: 1, ..RoomSettings::default() };
        engine.call(SetRoom { room: room.clone(), settings }).await.unwrap();
        let token = |user: &str| PlaceToken::new(user).unwrap();
        for user in ["one", "two"] {
            let (room, user_id) = (room.clone(), UserId::new(user).unwrap());
            let join = JoinRoom { room, user: user_id, token: token(user), class: 0, ticket: None };
            engine.call(join).await.unwrap();
        }
        let is_active = async |user: &str| {
            let show = ShowPlace { room: room.clone(), token: token(user) };
            matches!(engine.call(show).await.unwrap().place, PlaceView::Active { .. })
        };
        keeper().round(&*engine, true).await.unwrap();
        assert!(is_active("one").await && !is_active("two").await);
        let two = KeepPlace { room: room.clone(), token: token("two") };
        for _ in 0..10 {
            advance(&time, 60);
            engine.call(two.clone()).await.unwrap();
        }
        assert!(is_active("two").await, "its own poll admits it");
        advance(&time, 601);
        keeper().round(&*engine, true).await.unwrap();
        let view = engine.call(ListRooms { after: None, rooms_max: 1 }).await.unwrap().rooms.remove(0);
        assert_eq!((view.active, view.totals.expired), (0, 2), "no command but the round has come");
    }
}
