//! Views of rooms and places for users and operators.

use serde::{Deserialize, Serialize};

use crate::names::{PlaceToken, RoomName, UserId};
use crate::numbers::Micros;

use super::settings::RoomSettings;
use super::state::{PlaceState, Room, RoomPhase, RoomTotals};

/// The time until a waiter is admitted, as a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eta {
    /// At least this long, in milliseconds.
    pub least_ms: u64,
    /// At most this long, in milliseconds.
    pub most_ms: u64,
}

/// A user's place in a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaceView {
    /// The user waits.
    Waiting {
        /// 1 for the next user; `None` before the room has opened.
        position: Option<u64>,
        /// The number of waiters in the room.
        waiting: u64,
        /// The time until admission; `None` while it cannot be estimated.
        eta: Option<Eta>,
        /// The time until the next poll, in milliseconds. A waiter that misses it is dropped after
        /// the room's retention.
        next_poll_ms: u64,
        /// Why the room does not admit waiters now.
        paused: Option<String>,
    },
    /// The user may use the resource.
    Active {
        /// The user, for passes that others check.
        user: UserId,
        /// How long the place lasts, in microseconds.
        remaining_us: u64,
        /// The end of the place by the clock of the store.
        until: Micros,
    },
    /// The token has no place: it never had one, or its place has ended.
    Unknown,
}

/// The state of a place and of its room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceStatus {
    /// The place.
    pub place: PlaceView,
    /// Active places of the room.
    pub active: u64,
}

/// An entry of a list of places. Tokens are secret, because a token is all that is needed to use a
/// place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceEntry {
    /// The user of the place.
    pub user: UserId,
    /// The number that orders a waiter in its class, or its ticket; 0 for an active place.
    pub number: u64,
    /// How long an active place lasts, in microseconds; 0 for a waiter.
    pub remaining_us: u64,
}

/// The published facts about the draw of a pre-queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// The hash of the seed, published before the first ticket was drawn.
    pub commitment: String,
    /// The seed, published when the room opens.
    pub seed: Option<String>,
    /// The digest of the list of tickets, published when the room opens.
    pub digest: Option<String>,
    /// The number of tickets when the room opened.
    pub tickets: u64,
}

/// The state of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomView {
    /// The name of the room.
    pub room: RoomName,
    /// Its limits.
    pub settings: RoomSettings,
    /// Whether users may join and are admitted.
    pub phase: RoomPhase,
    /// Why the room does not admit waiters now.
    pub paused: Option<String>,
    /// Active places.
    pub active: u64,
    /// Waiters of each class.
    pub waiting: Vec<u64>,
    /// The number of recent admissions.
    pub admitted_lately: u64,
    /// The time in which they were measured, in milliseconds.
    pub measured_ms: u64,
    /// The admission rate that refusals of the back end have led to, in thousandths per second;
    /// `None` means unlimited.
    pub rate_milli: Option<u64>,
    /// The remaining pause that the back end has asked for, in microseconds.
    pub closed_us: u64,
    /// Counts since the room was made.
    pub totals: RoomTotals,
    /// The draw of a pre-queue.
    pub draw: Option<Draw>,
}

impl Room {
    /// Places that are active now. Some may have ended although no command has removed them yet.
    pub(super) fn active_now(&self, now: Micros) -> u64 {
        (self.active.len() - self.ended(now)) as u64
    }

    /// Active places whose time is over.
    pub(super) fn ended(&self, now: Micros) -> usize {
        self.active.count_before(|(until, _)| *until <= now)
    }

    pub(super) fn place_view(&self, token: &PlaceToken, now: Micros) -> PlaceView {
        let Some(place) = self.places.get(token) else { return PlaceView::Unknown };
        match place.state {
            PlaceState::Active { until } if until <= now => PlaceView::Unknown,
            PlaceState::Active { until } => {
                PlaceView::Active { user: place.user.clone(), remaining_us: until.since(now), until }
            }
            PlaceState::Waiting { .. } => {
                let position = self.position_of(token, place);
                let eta = self.eta(position, now);
                PlaceView::Waiting {
                    position,
                    waiting: self.waiting(),
                    eta,
                    next_poll_ms: self.next_poll_ms(position, eta),
                    paused: self.paused.clone(),
                }
            }
        }
    }

    pub(super) fn status(&self, token: &PlaceToken, now: Micros) -> PlaceStatus {
        PlaceStatus { place: self.place_view(token, now), active: self.active_now(now) }
    }

    /// When a waiter that is asked to poll now is dropped unless it polls.
    pub(super) fn silent_at(&self, token: &PlaceToken, now: Micros) -> Option<Micros> {
        let PlaceView::Waiting { next_poll_ms, .. } = self.place_view(token, now) else { return None };
        Some(now.plus_ms(next_poll_ms + self.settings.retention_ms))
    }

    pub(super) fn view(&self, name: &RoomName, now: Micros) -> RoomView {
        let (admitted_lately, measured_ms) = self.window.measured(now);
        let is_revealed = !self.phase.is_before_opening();
        let shown = |text: &String| Some(text.clone()).filter(|text| is_revealed && !text.is_empty());
        let draw = (!self.draw.commitment.is_empty()).then(|| Draw {
            commitment: self.draw.commitment.clone(),
            seed: shown(&self.draw.seed),
            digest: shown(&self.draw.digest),
            tickets: self.draw.tickets,
        });
        RoomView {
            room: name.clone(),
            settings: self.settings.clone(),
            phase: self.phase,
            paused: self.paused.clone(),
            active: self.active_now(now),
            waiting: self.classes.iter().map(|class| class.waiting.len() as u64).collect(),
            admitted_lately,
            measured_ms,
            rate_milli: self.downstream.clone().rate_milli(self.settings.rate, now),
            closed_us: self.downstream.closed_until.since(now),
            totals: self.totals,
            draw,
        }
    }
}
