//! What is shown of the database. A hold whose time is over counts as free, also before its job runs.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::{Effect, SEATS_PER_ROW, Store, StoreError};

/// Whether a seat can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SeatStatus {
    /// It can be taken.
    Free,
    /// A buyer holds it or pays for it.
    Held,
    /// It is sold.
    Sold,
}

/// A seat of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeatView {
    /// The number of the seat within its schedule, from 1.
    pub number: u32,
    /// The letter of its row.
    pub row: char,
    /// The number of the seat within its row, from 1.
    pub place: u32,
    /// Whether it can be taken.
    pub status: SeatStatus,
}

/// A concert with its schedules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConcertView {
    /// The concert.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The place where it is given.
    pub venue: String,
    /// Its dates.
    pub schedules: Vec<ScheduleView>,
}

/// One date of a concert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView {
    /// The schedule.
    pub id: String,
    /// Its date, such as `2027-01-01`.
    pub date: String,
    /// Its number of seats.
    pub capacity: u32,
    /// Seats that can be taken.
    pub free: u32,
    /// Seats that are sold; the others are held.
    pub sold: u32,
    /// The price of a seat in points.
    pub price: u64,
}

/// The title and the date of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleTitle {
    /// The title of its concert.
    pub title: String,
    /// Its date.
    pub date: String,
}

/// A user's reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservationView {
    /// The reservation.
    pub reservation_id: String,
    /// The schedule of its seat.
    pub schedule_id: String,
    /// The number of its seat.
    pub seat: u32,
    /// HELD, PAYING, CONFIRMED, EXPIRED or CANCELLED.
    pub status: String,
    /// The price in points.
    pub price: u64,
    /// How long the hold lasts, in seconds; 0 if it is over or the seat is not held.
    pub held_for_sec: u64,
}

/// What an audit compares with the provider and the boards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Confirmed reservations of each schedule that has any.
    pub confirmed: BTreeMap<String, u64>,
    /// The prices of all confirmed reservations, in points.
    pub points: u64,
    /// Seats with more than one confirmed reservation.
    pub sold_twice: u64,
    /// Reservations that are being paid.
    pub paying: u64,
    /// Reservations that are held.
    pub held: u64,
    /// Milliseconds that each sold-out schedule took.
    pub sold_out_ms: BTreeMap<String, u64>,
}

/// The status of a seat from that of its live reservation.
const STATUS: &str = "CASE WHEN status = 'CONFIRMED' THEN 2
    WHEN status = 'PAYING' OR status = 'HELD' AND held_until > ?1 THEN 1 ELSE 0 END";
const LIVE: &str = "LEFT JOIN reservation ON reservation.seat = seat.id
    AND status IN ('HELD', 'PAYING', 'CONFIRMED')";

impl Store {
    /// All concerts with their schedules, by date.
    pub async fn concerts(&self, now: u64) -> Result<Vec<ConcertView>, StoreError> {
        self.read(move |connection| {
            let query = format!(
                "SELECT concert.id, title, venue, schedule.id, date, capacity, schedule.price,
                    (SELECT count(*) FROM seat {LIVE} WHERE seat.schedule = schedule.id AND {STATUS} = 0),
                    (SELECT count(*) FROM seat {LIVE} WHERE seat.schedule = schedule.id AND {STATUS} = 2)
                 FROM concert JOIN schedule ON schedule.concert = concert.id ORDER BY concert.id, date"
            );
            let mut query = connection.prepare_cached(&query)?;
            let mut rows = query.query([now])?;
            let mut concerts: Vec<ConcertView> = Vec::new();
            while let Some(row) = rows.next()? {
                let id: String = row.get(0)?;
                if concerts.last().is_none_or(|last| last.id != id) {
                    let (title, venue) = (row.get(1)?, row.get(2)?);
                    concerts.push(ConcertView { id, title, venue, schedules: Vec::new() });
                }
                let (id, date, capacity) = (row.get(3)?, row.get(4)?, row.get(5)?);
                let (price, free, sold) = (row.get(6)?, row.get(7)?, row.get(8)?);
                let schedule = ScheduleView { id, date, capacity, free, sold, price };
                concerts.last_mut().expect("one was added").schedules.push(schedule);
            }
            Ok(concerts)
        })
        .await
    }

    /// The seats of a schedule; none if there is no such schedule.
    pub async fn seats(&self, schedule: String, now: u64) -> Result<Vec<SeatView>, StoreError> {
        Ok(self.seat_maps(Some(schedule), now).await?.into_values().next().unwrap_or_default())
    }

    /// The seats of one schedule or of all.
    pub async fn seat_maps(
        &self,
        schedule: Option<String>,
        now: u64,
    ) -> Result<BTreeMap<String, Vec<SeatView>>, StoreError> {
        self.read(move |connection| {
            let query = format!(
                "SELECT schedule, number, {STATUS} FROM seat {LIVE}
                 WHERE ?2 IS NULL OR schedule = ?2 ORDER BY schedule, number"
            );
            let mut query = connection.prepare_cached(&query)?;
            let mut rows = query.query(params![now, schedule])?;
            let mut maps: BTreeMap<String, Vec<SeatView>> = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let seat = seat_view(row.get(1)?, row.get(2)?);
                maps.entry(row.get(0)?).or_default().push(seat);
            }
            Ok(maps)
        })
        .await
    }

    /// A user's reservation; none if the user has no such reservation.
    pub async fn reservation(
        &self,
        reservation: String,
        user: String,
        now: u64,
    ) -> Result<Option<ReservationView>, StoreError> {
        self.read(move |connection| {
            let query = "SELECT reservation.id, schedule, number, status, price, held_until FROM reservation
                JOIN seat ON seat.id = seat WHERE reservation.id = ?1 AND user = ?2";
            let mut query = connection.prepare_cached(query)?;
            let view = query.query_row(params![reservation, user], |row| {
                let (status, held_until): (String, u64) = (row.get(3)?, row.get(5)?);
                let is_held = status == "HELD";
                Ok(ReservationView {
                    reservation_id: row.get(0)?,
                    schedule_id: row.get(1)?,
                    seat: row.get(2)?,
                    price: row.get(4)?,
                    held_for_sec: if is_held { held_until.saturating_sub(now) / 1000 } else { 0 },
                    status: if is_held && held_until <= now { "EXPIRED".to_owned() } else { status },
                })
            });
            Ok(view.optional()?)
        })
        .await
    }

    /// The titles of these schedules, with one query.
    pub async fn titles(
        &self,
        schedules: Vec<String>,
    ) -> Result<BTreeMap<String, ScheduleTitle>, StoreError> {
        self.0.title_queries.fetch_add(1, Ordering::Relaxed);
        self.read(move |connection| {
            let query = "SELECT schedule.id, title, date FROM schedule
                JOIN concert ON concert.id = schedule.concert
                WHERE schedule.id IN (SELECT value FROM json_each(?1))";
            let ids = serde_json::to_string(&schedules).expect("a list of strings is valid JSON");
            let mut query = connection.prepare_cached(query)?;
            let rows = query.query_map([ids], |row| {
                Ok((row.get(0)?, ScheduleTitle { title: row.get(1)?, date: row.get(2)? }))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// What an audit compares with the provider and the boards, from one snapshot.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        self.read(|connection| {
            let confirmed = "SELECT schedule, count(*) FROM reservation JOIN seat ON seat.id = seat
                WHERE status = 'CONFIRMED' GROUP BY schedule";
            let sold_out = "SELECT id, max(0, sold_out_at - first_confirmed_at) FROM schedule
                WHERE sold_out_at IS NOT NULL";
            let pairs = |query: &str| -> Result<BTreeMap<String, u64>, StoreError> {
                let mut query = connection.prepare_cached(query)?;
                let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(rows.collect::<Result<_, _>>()?)
            };
            let number = |query: &str| connection.query_row(query, [], |row| row.get(0));
            Ok(Counts {
                confirmed: pairs(confirmed)?,
                sold_out_ms: pairs(sold_out)?,
                points: number("SELECT coalesce(sum(price), 0) FROM reservation WHERE status = 'CONFIRMED'")?,
                sold_twice: number(
                    "SELECT count(*) FROM (SELECT 1 FROM reservation WHERE status = 'CONFIRMED'
                     GROUP BY seat HAVING count(*) > 1)",
                )?,
                paying: number("SELECT count(*) FROM reservation WHERE status = 'PAYING'")?,
                held: number("SELECT count(*) FROM reservation WHERE status = 'HELD'")?,
            })
        })
        .await
    }

    /// What the boards would have to know if they were empty: every confirmed reservation, and every
    /// schedule that sold out.
    pub async fn confirmations(&self) -> Result<Vec<Effect>, StoreError> {
        self.read(|connection| {
            let confirmed = "SELECT reservation.id, schedule, confirmed_at FROM reservation
                JOIN seat ON seat.id = seat WHERE status = 'CONFIRMED' ORDER BY confirmed_at";
            let sold_out = "SELECT id, max(0, sold_out_at - first_confirmed_at), sold_out_at FROM schedule
                WHERE sold_out_at IS NOT NULL";
            let mut confirmed = connection.prepare_cached(confirmed)?;
            let confirmed = confirmed.query_map([], |row| {
                Ok(Effect::Confirmed { reservation: row.get(0)?, schedule: row.get(1)?, at: row.get(2)? })
            })?;
            let mut sold_out = connection.prepare_cached(sold_out)?;
            let sold_out = sold_out.query_map([], |row| {
                Ok(Effect::SoldOut { schedule: row.get(0)?, duration_ms: row.get(1)?, at: row.get(2)? })
            })?;
            Ok(confirmed.chain(sold_out).collect::<Result<_, _>>()?)
        })
        .await
    }

    /// A text that all instances share: the one in the database, or this one if there is none yet.
    pub async fn secret(&self, name: &'static str, new: String) -> Result<String, StoreError> {
        self.write(move |connection| {
            connection.execute("INSERT OR IGNORE INTO secret VALUES (?1, ?2)", params![name, new])?;
            let kept = "SELECT value FROM secret WHERE name = ?1";
            Ok(connection.query_row(kept, [name], |row| row.get(0))?)
        })
        .await
    }
}

fn seat_view(number: u32, status: u32) -> SeatView {
    let index = number.saturating_sub(1);
    let row = char::from(b'A' + u8::try_from(index / SEATS_PER_ROW).unwrap_or(u8::MAX - b'A').min(25));
    let status = [SeatStatus::Free, SeatStatus::Held, SeatStatus::Sold][status.min(2) as usize];
    SeatView { number, row, place: index % SEATS_PER_ROW + 1, status }
}
