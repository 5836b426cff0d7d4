//! What changes while a page is open: seats, boards and the waiting room.
//!
//! One task per instance looks, and only while a page listens. It sees the changes of all instances:
//! those of the database by SQLite's counter of changes, the others by asking the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::boards::Boards;
use crate::shop::Shop;
use crate::store::{SeatStatus, SeatView, StoreError};
use crate::{ROOM, now_ms};

/// How often the database is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Every so many looks, the boards and the room are asked.
const LOOKS_PER_ENGINE_CALL: u32 = 5;
/// Events that a slow page may be behind before it misses some.
const EVENTS_KEPT: usize = 256;
/// How long the engine may take.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(2);
/// Entries of each board.
const BOARD_ENTRIES: usize = 10;

/// An event for all pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEvent {
    /// `seats`, `boards` or `room`.
    pub name: &'static str,
    /// The data as JSON.
    pub data: String,
}

/// Where pages listen.
#[derive(Clone)]
pub struct Live(broadcast::Sender<Arc<LiveEvent>>);

impl Live {
    /// Starts the task that looks.
    pub fn start(shop: Arc<Shop>, boards: Boards) -> Self {
        let live = Self(broadcast::Sender::new(EVENTS_KEPT));
        tokio::spawn(Looker { shop, boards, live: live.clone(), shown: BTreeMap::new() }.run());
        live
    }

    /// Events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<LiveEvent>> {
        self.0.subscribe()
    }
}

/// The seats of a schedule, a letter each: `f`ree, `h`eld or `s`old.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SeatsChanged<'a> {
    schedule_id: &'a str,
    seats: String,
}

struct Looker {
    shop: Arc<Shop>,
    boards: Boards,
    live: Live,
    /// The last event of each name, and of each schedule.
    shown: BTreeMap<String, String>,
}

impl Looker {
    async fn run(mut self) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut looks, mut version) = (0_u32, -1_i64);
        loop {
            ticks.tick().await;
            if self.live.0.receiver_count() == 0 {
                // The next page gets everything anew.
                self.shown.clear();
                version = -1;
                continue;
            }
            match self.shop.store.data_version().await {
                Ok(now) if now == version => {}
                Ok(now) => {
                    if let Err(error) = self.look_at_seats().await {
                        tracing::warn!("no events of seats: {error}");
                    } else {
                        version = now;
                    }
                }
                Err(error) => tracing::warn!("no events of seats: {error}"),
            }
            if looks.is_multiple_of(LOOKS_PER_ENGINE_CALL) {
                self.look_at_engine().await;
            }
            looks = looks.wrapping_add(1);
        }
    }

    async fn look_at_seats(&mut self) -> Result<(), StoreError> {
        for (schedule, seats) in self.shop.store.seat_maps(None, now_ms()).await? {
            let changed = SeatsChanged { schedule_id: &schedule, seats: letters(&seats) };
            let data = serde_json::to_string(&changed).expect("strings are valid JSON");
            self.show(schedule, "seats", data);
        }
        Ok(())
    }

    /// Boards and room; a page keeps what it has while the engine does not answer.
    async fn look_at_engine(&mut self) {
        let boards = async {
            let popular = self.boards.popular(BOARD_ENTRIES).await?;
            let sold_out = self.boards.sold_out(BOARD_ENTRIES).await?;
            Ok::<_, crate::boards::BoardsError>(json!({"popular": popular, "soldOut": sold_out}))
        };
        if let Ok(Ok(boards)) = timeout(ENGINE_TIMEOUT, boards).await {
            self.show("boards".to_owned(), "boards", boards.to_string());
        }
        let room = self.shop.fairlane.room(ROOM);
        if let Ok(Ok(Some(view))) = timeout(ENGINE_TIMEOUT, room.view()).await {
            let room: Value = json!({
                "active": view.active,
                "waiting": view.waiting.iter().sum::<u64>(),
                "maxActive": view.settings.max_active,
            });
            self.show("room".to_owned(), "room", room.to_string());
        }
    }

    fn show(&mut self, key: String, name: &'static str, data: String) {
        if self.shown.get(&key) != Some(&data) {
            self.shown.insert(key, data.clone());
            // Without a listener there is nothing to send.
            let _ = self.live.0.send(Arc::new(LiveEvent { name, data }));
        }
    }
}

fn letters(seats: &[SeatView]) -> String {
    let letter = |seat: &SeatView| match seat.status {
        SeatStatus::Free => 'f',
        SeatStatus::Held => 'h',
        SeatStatus::Sold => 's',
    };
    seats.iter().map(letter).collect()
}
