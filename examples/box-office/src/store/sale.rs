//! The transactions of a purchase. Each one checks the state it starts from, so that a repeated or
//! late call changes nothing.

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::outbox::{self, Effect};
use super::{Store, StoreError};
use crate::jobs;

/// Most seats that a user holds or owns on one schedule.
const SEATS_PER_USER_MAX: u32 = 4;

/// Why a step of a purchase was refused.
#[derive(Debug, thiserror::Error)]
pub enum SaleError {
    /// There is no such seat.
    #[error("there is no seat {number} on {schedule:?}")]
    UnknownSeat {
        /// The schedule.
        schedule: String,
        /// The number of the seat.
        number: u32,
    },
    /// Another buyer has the seat.
    #[error("another buyer has this seat")]
    Taken,
    /// A later holder of the seat's lock was here first.
    #[error("another buyer was faster")]
    StaleFence,
    /// The user has as many seats as one may have.
    #[error("one buyer can have {SEATS_PER_USER_MAX} seats of a schedule")]
    TooManySeats,
    /// The user has no such reservation.
    #[error("there is no such reservation")]
    UnknownReservation,
    /// The time of the hold is over.
    #[error("the hold has ended")]
    HoldEnded,
    /// A payment of the reservation is under way.
    #[error("a payment of this reservation is under way")]
    Paying,
    /// The reservation was cancelled.
    #[error("the reservation was cancelled")]
    Cancelled,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for SaleError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// A seat that was held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The reservation.
    pub reservation: String,
    /// When the hold ends, in milliseconds since the Unix epoch.
    pub held_until: u64,
    /// The price of the seat in points.
    pub price: u64,
}

/// An attempt to pay a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The reservation.
    pub reservation: String,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The buyer, who has an account at the provider under the same name.
    pub user: String,
    /// The price in points.
    pub price: u64,
}

impl Attempt {
    /// The key under which the provider charges this attempt at most once.
    pub fn key(&self) -> String {
        format!("{}:{}", self.reservation, self.number)
    }
}

/// Whether a reservation can be paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payable {
    /// The attempt has begun, and is to be charged.
    Begun(Attempt),
    /// The reservation is paid already.
    Confirmed,
}

/// What became of a reservation that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// It was held, and nothing was paid.
    Hold,
    /// It was confirmed; a job returns the money.
    Confirmed,
}

impl Store {
    /// Holds a seat; a user who holds it already keeps that hold. With a fence, a holder of the seat's lock that a later one has overtaken is
    /// refused; without one, the unique index alone decides.
    pub async fn hold(
        &self,
        (schedule, number): (String, u32),
        user: String,
        fence: Option<u64>,
        (now, held_until): (u64, u64),
    ) -> Result<Held, SaleError> {
        let reservation = uuid::Uuid::now_v7().to_string();
        self.write(move |connection| {
            let seat = "SELECT seat.id, schedule.price FROM seat JOIN schedule ON schedule.id = seat.schedule
                WHERE schedule = ?1 AND number = ?2";
            let mut seat = connection.prepare_cached(seat)?;
            let (seat, price) = seat
                .query_row(params![schedule, number], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))
                .optional()?
                .ok_or_else(|| SaleError::UnknownSeat { schedule: schedule.clone(), number })?;
            if let Some(fence) = fence {
                let update = "UPDATE seat SET fence = ?1 WHERE id = ?2 AND fence <= ?1";
                if connection.prepare_cached(update)?.execute(params![fence, seat])? == 0 {
                    return Err(SaleError::StaleFence);
                }
            }
            let expire = "UPDATE reservation SET status = 'EXPIRED'
                WHERE seat = ?1 AND status = 'HELD' AND held_until <= ?2";
            connection.prepare_cached(expire)?.execute(params![seat, now])?;
            // A repeated request has the hold that it has made.
            if let Some(held) = own_hold(connection, seat, &user)? {
                return Ok(held);
            }
            check_limit(connection, &schedule, &user)?;
            let insert = "INSERT INTO reservation (id, seat, user, status, price, held_until)
                VALUES (?1, ?2, ?3, 'HELD', ?4, ?5)";
            let values = params![reservation, seat, user, price, held_until];
            connection.prepare_cached(insert)?.execute(values).map_err(taken)?;
            outbox::add(connection, &jobs::expiry(&reservation, held_until))?;
            Ok(Held { reservation, held_until, price })
        })
        .await
    }

    /// Begins a payment: from now on the hold does not end by time, and a job looks after the payment
    /// if this process does not.
    pub async fn begin_payment(
        &self,
        reservation: String,
        user: String,
        (now, recover_at): (u64, u64),
    ) -> Result<Payable, SaleError> {
        self.write(move |connection| {
            let state = state_of(connection, &reservation)?;
            if state.user != user {
                return Err(SaleError::UnknownReservation);
            }
            match state.status.as_str() {
                "CONFIRMED" => return Ok(Payable::Confirmed),
                "PAYING" => return Err(SaleError::Paying),
                "CANCELLED" => return Err(SaleError::Cancelled),
                "HELD" if state.held_until > now => {}
                _ => return Err(SaleError::HoldEnded),
            }
            let number = state.attempt + 1;
            let update =
                "UPDATE reservation SET status = 'PAYING', attempt = ?2, paying_since = ?3 WHERE id = ?1";
            connection.prepare_cached(update)?.execute(params![reservation, number, now])?;
            let attempt = Attempt { reservation, number, user, price: state.price };
            outbox::add(connection, &jobs::recovery(&attempt, recover_at))?;
            Ok(Payable::Begun(attempt))
        })
        .await
    }

    /// Confirms a reservation whose attempt was charged; true if it is confirmed, now or before. False
    /// means that the money is to be returned, which only happens to a caller that is wrong.
    pub async fn confirm(&self, attempt: Attempt, now: u64) -> Result<bool, SaleError> {
        self.write(move |connection| {
            let update = "UPDATE reservation SET status = 'CONFIRMED', confirmed_at = ?3
                WHERE id = ?1 AND attempt = ?2 AND status = 'PAYING'";
            let values = params![attempt.reservation, attempt.number, now];
            if connection.prepare_cached(update)?.execute(values)? == 0 {
                let state = state_of(connection, &attempt.reservation)?;
                return Ok(state.status == "CONFIRMED" && state.attempt == attempt.number);
            }
            record_confirmation(connection, &attempt.reservation, now)?;
            Ok(true)
        })
        .await
    }

    /// Ends an attempt that was not charged: the seat is held again until its time is over.
    pub async fn abandon_payment(&self, attempt: Attempt, now: u64) -> Result<(), SaleError> {
        self.write(move |connection| {
            let update = "UPDATE reservation SET paying_since = NULL,
                    status = CASE WHEN held_until > ?3 THEN 'HELD' ELSE 'EXPIRED' END
                WHERE id = ?1 AND attempt = ?2 AND status = 'PAYING'";
            let values = params![attempt.reservation, attempt.number, now];
            connection.prepare_cached(update)?.execute(values)?;
            Ok(())
        })
        .await
    }

    /// Ends a hold whose time is over.
    pub async fn expire(&self, reservation: String, now: u64) -> Result<bool, SaleError> {
        self.write(move |connection| {
            let update = "UPDATE reservation SET status = 'EXPIRED'
                WHERE id = ?1 AND status = 'HELD' AND held_until <= ?2";
            Ok(connection.prepare_cached(update)?.execute(params![reservation, now])? == 1)
        })
        .await
    }

    /// Gives up a reservation. The money of a confirmed one is returned by a job, and the boards count
    /// it no longer.
    pub async fn cancel(&self, reservation: String, user: String, now: u64) -> Result<Released, SaleError> {
        self.write(move |connection| {
            let state = state_of(connection, &reservation)?;
            if state.user != user {
                return Err(SaleError::UnknownReservation);
            }
            match state.status.as_str() {
                "HELD" | "CONFIRMED" => {}
                "PAYING" => return Err(SaleError::Paying),
                "CANCELLED" => return Err(SaleError::Cancelled),
                _ => return Err(SaleError::HoldEnded),
            }
            let update = "UPDATE reservation SET status = 'CANCELLED' WHERE id = ?1";
            connection.prepare_cached(update)?.execute([&reservation])?;
            let Some(at) = state.confirmed_at else { return Ok(Released::Hold) };
            outbox::add(connection, &jobs::refund(&reservation, state.attempt, now))?;
            outbox::add(connection, &Effect::Cancelled { reservation, at })?;
            Ok(Released::Confirmed)
        })
        .await
    }

    /// An attempt to pay, if it is the last one of its reservation and the reservation has this
    /// status.
    pub async fn attempt(
        &self,
        (reservation, number): (String, u32),
        status: &'static str,
    ) -> Result<Option<Attempt>, SaleError> {
        let read = self.read(move |connection| {
            let query = "SELECT user, price FROM reservation WHERE id = ?1 AND attempt = ?2 AND status = ?3";
            let mut query = connection.prepare_cached(query)?;
            let found = query.query_row(params![reservation, number, status], |row| {
                Ok(Attempt {
                    reservation: reservation.clone(),
                    number,
                    user: row.get(0)?,
                    price: row.get(1)?,
                })
            });
            Ok(found.optional()?)
        });
        Ok(read.await?)
    }

    /// Jobs that should have run: for holds whose time was over before `before`, and for payments
    /// that began before it. Only a queue that lost its jobs leaves any.
    pub async fn overdue(&self, before: u64) -> Result<Vec<Effect>, SaleError> {
        let read = self.read(move |connection| {
            let query = "SELECT id, attempt, user, price, status = 'PAYING' FROM reservation
                WHERE status IN ('HELD', 'PAYING', 'CONFIRMED')
                AND (status = 'HELD' AND held_until < ?1 OR status = 'PAYING' AND paying_since < ?1) LIMIT 1000";
            let mut query = connection.prepare_cached(query)?;
            let rows = query.query_map([before], |row| {
                let (reservation, number) = (row.get(0)?, row.get(1)?);
                let attempt = Attempt { reservation, number, user: row.get(2)?, price: row.get(3)? };
                let is_paying: bool = row.get(4)?;
                let expiry = || jobs::expiry(&attempt.reservation, before);
                Ok(if is_paying { jobs::recovery(&attempt, before) } else { expiry() })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        });
        Ok(read.await?)
    }
}

struct State {
    user: String,
    status: String,
    held_until: u64,
    price: u64,
    attempt: u32,
    confirmed_at: Option<u64>,
}

fn state_of(connection: &Connection, reservation: &str) -> Result<State, SaleError> {
    let query =
        "SELECT user, status, held_until, price, attempt, confirmed_at FROM reservation WHERE id = ?1";
    let state = connection.prepare_cached(query)?.query_row([reservation], |row| {
        Ok(State {
            user: row.get(0)?,
            status: row.get(1)?,
            held_until: row.get(2)?,
            price: row.get(3)?,
            attempt: row.get(4)?,
            confirmed_at: row.get(5)?,
        })
    });
    state.optional()?.ok_or(SaleError::UnknownReservation)
}

fn own_hold(connection: &Connection, seat: i64, user: &str) -> Result<Option<Held>, SaleError> {
    let query =
        "SELECT id, held_until, price FROM reservation WHERE seat = ?1 AND user = ?2 AND status = 'HELD'";
    let held = connection.prepare_cached(query)?.query_row(params![seat, user], |row| {
        Ok(Held { reservation: row.get(0)?, held_until: row.get(1)?, price: row.get(2)? })
    });
    Ok(held.optional()?)
}

fn check_limit(connection: &Connection, schedule: &str, user: &str) -> Result<(), SaleError> {
    let query = "SELECT count(*) FROM reservation JOIN seat ON seat.id = reservation.seat
        WHERE user = ?1 AND schedule = ?2 AND status IN ('HELD', 'PAYING', 'CONFIRMED')";
    let seats: u32 =
        connection.prepare_cached(query)?.query_row(params![user, schedule], |row| row.get(0))?;
    if seats < SEATS_PER_USER_MAX { Ok(()) } else { Err(SaleError::TooManySeats) }
}

/// The constraint is violated if and only if the seat has a live reservation.
fn taken(error: rusqlite::Error) -> SaleError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => SaleError::Taken,
        _ => error.into(),
    }
}

/// Adds what the boards have to know, and when the schedule began to sell and was sold out.
fn record_confirmation(connection: &Connection, reservation: &str, now: u64) -> Result<(), SaleError> {
    let schedule: String = connection
        .prepare_cached(
            "SELECT schedule FROM seat JOIN reservation ON seat.id = seat WHERE reservation.id = ?1",
        )?
        .query_row([reservation], |row| row.get(0))?;
    let first = "UPDATE schedule SET first_confirmed_at = coalesce(first_confirmed_at, ?2) WHERE id = ?1
        RETURNING first_confirmed_at";
    let first: u64 = connection.prepare_cached(first)?.query_row(params![schedule, now], |row| row.get(0))?;
    let confirmed =
        Effect::Confirmed { reservation: reservation.to_owned(), schedule: schedule.clone(), at: now };
    outbox::add(connection, &confirmed)?;
    let sold_out = "UPDATE schedule SET sold_out_at = ?2 WHERE id = ?1 AND sold_out_at IS NULL AND capacity =
        (SELECT count(*) FROM seat JOIN reservation ON seat.id = seat WHERE schedule = ?1 AND status = 'CONFIRMED')";
    if connection.prepare_cached(sold_out)?.execute(params![schedule, now])? == 1 {
        // Instances have clocks of their own.
        let duration_ms = now.saturating_sub(first);
        outbox::add(connection, &Effect::SoldOut { schedule, duration_ms, at: now })?;
    }
    Ok(())
}
