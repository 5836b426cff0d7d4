//! The steps of a purchase: join, hold, pay, cancel.

use std::time::Duration;

use fairlane::{Fairlane, LockError, LockGuard, PlaceStatus, PlaceView, UserId};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::identity::{Identity, QueueToken};
use crate::provider::{Charge, Provider, ProviderError};
use crate::store::{Attempt, Payable, Released, ReservationView, SaleError, Store, StoreError};
use crate::{ROOM, now_ms};

/// How long the waiting room may take to answer.
const ROOM_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to try for the lock of a seat before the database decides alone.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How much later than the timeout of a payment its recovery begins.
const RECOVERY_MARGIN: Duration = Duration::from_secs(2);

/// Times of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long a seat is held.
    pub hold: Duration,
    /// How long a payment waits for the provider.
    pub payment: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { hold: Duration::from_secs(300), payment: Duration::from_secs(10) }
    }
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum ShopError {
    /// The database refused the step.
    #[error(transparent)]
    Sale(#[from] SaleError),
    /// Another buyer is taking the seat at this moment.
    #[error("another buyer is taking this seat")]
    SeatBusy,
    /// The account has too few points.
    #[error("the account has too few points")]
    TooFewPoints,
    /// The provider did not charge; the seat is still held.
    #[error("the payment did not go through, and nothing was charged")]
    PaymentFailed,
    /// The provider does not answer.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The waiting room refused the request.
    #[error(transparent)]
    Room(fairlane::RoomError),
    /// A name that the waiting room does not take.
    #[error(transparent)]
    Name(#[from] fairlane::InvalidName),
    /// The engine does not answer.
    #[error("the waiting room does not answer: {0}")]
    Engine(String),
}

impl From<StoreError> for ShopError {
    fn from(error: StoreError) -> Self {
        Self::Sale(error.into())
    }
}

impl From<fairlane::Error> for ShopError {
    fn from(error: fairlane::Error) -> Self {
        match error {
            fairlane::Error::Room(error) => Self::Room(error),
            fairlane::Error::Name(error) => Self::Name(error),
            error => Self::Engine(error.to_string()),
        }
    }
}

/// How a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payment {
    /// The seat is bought.
    Confirmed,
    /// The provider does not answer; a job finds out what it did.
    Pending,
}

/// A user's place in the waiting room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// The queue token, which the user keeps.
    pub token: String,
    /// WAITING, ACTIVE or EXPIRED.
    pub status: &'static str,
    /// 1 for the next user, 0 for an active one.
    pub position: u64,
    /// Users who wait.
    pub waiting: u64,
    /// The least time until admission, in seconds; none while it cannot be estimated.
    pub least_wait_sec: Option<u64>,
    /// The most time until admission, in seconds.
    pub most_wait_sec: Option<u64>,
    /// Why no user is admitted now.
    pub paused: Option<String>,
    /// How long the place is active, in seconds.
    pub active_for_sec: u64,
    /// The pass of an active place, which reserves seats.
    pub pass: Option<String>,
    /// When to ask again, in milliseconds.
    pub poll_after_ms: u64,
}

/// A seat that a user holds, with what is needed to pay for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldSeat {
    /// The reservation.
    #[serde(flatten)]
    pub reservation: ReservationView,
    /// What pays for it, also after the user's place has ended.
    pub payment_token: String,
}

/// The shop.
pub struct Shop {
    /// The database.
    pub store: Store,
    /// The payment provider.
    pub provider: Provider,
    /// The engine.
    pub fairlane: Fairlane,
    /// The keys of the shop.
    pub identity: Identity,
    /// Times of a sale.
    pub times: Times,
    /// Wakes the relay after a commit.
    pub(crate) committed: watch::Sender<()>,
}

impl Shop {
    /// A shop on these parts.
    pub fn new(
        store: Store,
        provider: Provider,
        fairlane: Fairlane,
        identity: Identity,
        times: Times,
    ) -> Self {
        Self { store, provider, fairlane, identity, times, committed: watch::Sender::new(()) }
    }

    /// Gives a user a place in the waiting room, or returns the one that the user has.
    pub async fn join(&self, user: &str) -> Result<QueueStatus, ShopError> {
        let joined = within(self.fairlane.room(ROOM).join(user)).await?;
        Ok(self.queue_status(QueueToken { place: joined.token, user: UserId::new(user)? }, &joined.status))
    }

    /// A poll of the waiting room, which keeps the place of a waiter.
    pub async fn poll(&self, token: QueueToken) -> Result<QueueStatus, ShopError> {
        let status = within(self.fairlane.room(ROOM).keep(&token.place)).await?;
        Ok(self.queue_status(token, &status))
    }

    /// Gives up a place. A place that has ended already is not an error.
    pub async fn leave(&self, token: QueueToken) -> Result<(), ShopError> {
        match within(self.fairlane.room(ROOM).leave(&token.place)).await {
            Ok(_) | Err(ShopError::Room(fairlane::RoomError::UnknownPlace)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn queue_status(&self, token: QueueToken, status: &PlaceStatus) -> QueueStatus {
        let mut shown = QueueStatus {
            token: self.identity.queue_token(&token),
            status: "EXPIRED",
            position: 0,
            waiting: 0,
            least_wait_sec: None,
            most_wait_sec: None,
            paused: None,
            active_for_sec: 0,
            pass: self.identity.pass(&status.place),
            poll_after_ms: 0,
        };
        match &status.place {
            PlaceView::Waiting { position, waiting, eta, next_poll_ms, paused } => {
                (shown.status, shown.position, shown.waiting) =
                    ("WAITING", position.unwrap_or(*waiting), *waiting);
                shown.least_wait_sec = eta.as_ref().map(|eta| eta.least_ms / 1000);
                shown.most_wait_sec = eta.as_ref().map(|eta| eta.most_ms.div_ceil(1000));
                (shown.paused, shown.poll_after_ms) = (paused.clone(), *next_poll_ms);
            }
            PlaceView::Active { remaining_us, .. } => {
                shown.status = "ACTIVE";
                shown.active_for_sec = remaining_us / 1_000_000;
                // Often enough that the next pass is there before this one expires.
                shown.poll_after_ms = 20_000;
            }
            PlaceView::Unknown => {}
        }
        shown
    }

    /// Holds a seat for a user whose pass was checked.
    pub async fn hold(&self, schedule: String, number: u32, user: String) -> Result<HeldSeat, ShopError> {
        let guard = self.lock_seat(&schedule, number).await?;
        let fence = guard.as_ref().map(|guard| guard.fence().0);
        let now = now_ms();
        let held_until = now + millis(self.times.hold);
        let held = self.store.hold((schedule.clone(), number), user.clone(), fence, (now, held_until)).await;
        if let Some(guard) = guard {
            // The response follows the release, so that a buyer can try again at once. A lock that
            // cannot be released in time ends with its lease.
            let _ = timeout(LOCK_TIMEOUT, guard.release()).await;
        }
        let held = held?;
        self.committed.send_replace(());
        let payment_token = self.identity.payment_token(&held.reservation, &user);
        let reservation = ReservationView {
            reservation_id: held.reservation,
            schedule_id: schedule,
            seat: number,
            status: "HELD".to_owned(),
            price: held.price,
            held_for_sec: held.held_until.saturating_sub(now) / 1000,
        };
        Ok(HeldSeat { reservation, payment_token })
    }

    /// The lock of a seat; `None` if the engine fails. Then the database decides alone.
    async fn lock_seat(&self, schedule: &str, number: u32) -> Result<Option<LockGuard>, ShopError> {
        let lock = self.fairlane.lock(format!("seat:{schedule}:{number}"));
        match timeout(LOCK_TIMEOUT, lock.try_lock()).await {
            Ok(Ok(guard)) => Ok(Some(guard)),
            Ok(Err(fairlane::Error::Lock(LockError::Busy { .. }))) => Err(ShopError::SeatBusy),
            Ok(Err(error)) => {
                tracing::warn!("seat {number} of {schedule} is taken without its lock: {error}");
                Ok(None)
            }
            Err(_) => {
                tracing::warn!("seat {number} of {schedule} is taken without its lock: no reply in time");
                Ok(None)
            }
        }
    }

    /// Pays for a seat that the user holds. It needs the database and the provider, not the engine.
    pub async fn pay(&self, reservation: String, user: String) -> Result<Payment, ShopError> {
        let now = now_ms();
        let recover_at = now + millis(self.times.payment + RECOVERY_MARGIN);
        let attempt = match self.store.begin_payment(reservation, user, (now, recover_at)).await? {
            Payable::Begun(attempt) => attempt,
            Payable::Confirmed => return Ok(Payment::Confirmed),
        };
        self.committed.send_replace(());
        let charge = self.provider.charge(attempt.key(), attempt.user.clone(), attempt.price);
        match timeout(self.times.payment, charge).await {
            Ok(Ok(Charge::TooFewPoints)) => {
                self.store.abandon_payment(attempt, now_ms()).await?;
                Err(ShopError::TooFewPoints)
            }
            Ok(Ok(charge)) => self.end_payment(attempt, charge).await,
            // It may have charged: ask, and close the key if it has not.
            Ok(Err(_)) | Err(_) => match self.settle(attempt).await {
                Err(ShopError::Provider(_)) => Ok(Payment::Pending),
                settled => settled,
            },
        }
    }

    async fn settle(&self, attempt: Attempt) -> Result<Payment, ShopError> {
        let close = timeout(self.times.payment, self.provider.close(attempt.key())).await;
        let charge = close.unwrap_or(Err(ProviderError::NoAnswer))?;
        self.end_payment(attempt, charge).await
    }

    async fn end_payment(&self, attempt: Attempt, charge: Charge) -> Result<Payment, ShopError> {
        if charge != Charge::Charged {
            self.store.abandon_payment(attempt, now_ms()).await?;
            return Err(ShopError::PaymentFailed);
        }
        let is_confirmed = self.store.confirm(attempt.clone(), now_ms()).await?;
        self.committed.send_replace(());
        if is_confirmed {
            return Ok(Payment::Confirmed);
        }
        // The reservation was confirmed and cancelled in the meantime; its refund may have run already.
        self.provider.void(attempt.key()).await?;
        Err(ShopError::PaymentFailed)
    }

    /// Finds out what became of an attempt whose request did not end it.
    pub async fn recover(&self, reservation: String, attempt: u32) -> Result<(), ShopError> {
        let Some(attempt) = self.store.attempt((reservation, attempt), "PAYING").await? else {
            return Ok(());
        };
        match self.settle(attempt).await {
            Ok(_) | Err(ShopError::PaymentFailed) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the money of a cancelled reservation.
    pub async fn refund(&self, reservation: String, attempt: u32) -> Result<(), ShopError> {
        match self.store.attempt((reservation, attempt), "CANCELLED").await? {
            Some(attempt) => Ok(self.provider.void(attempt.key()).await?),
            None => Ok(()),
        }
    }

    /// Ends a hold whose time is over.
    pub async fn expire(&self, reservation: String) -> Result<(), ShopError> {
        self.store.expire(reservation, now_ms()).await?;
        Ok(())
    }

    /// Gives up a reservation, held or confirmed.
    pub async fn cancel(&self, reservation: String, user: String) -> Result<Released, ShopError> {
        let released = self.store.cancel(reservation, user, now_ms()).await?;
        self.committed.send_replace(());
        Ok(released)
    }
}

async fn within<T>(call: impl Future<Output = Result<T, fairlane::Error>>) -> Result<T, ShopError> {
    match timeout(ROOM_TIMEOUT, call).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(ShopError::Engine("no reply in time".to_owned())),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
