//! Waiting rooms and places in them.

use fairlane_core::room::{self, PlaceStatus};
use serde::Serialize;

#[cfg(feature = "openapi")]
use super::schema;
use crate::rate::rate_text;

/// A waiting room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Room))]
pub struct RoomView {
    /// The name of the room.
    #[cfg_attr(feature = "openapi", schema(example = "concert"))]
    pub room: String,
    /// Users join and are admitted (`open`); no user joins (`closed`); users draw tickets until the
    /// room opens (`prequeue`); the tickets are drawn (`frozen`).
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::room_phases))]
    pub phase: &'static str,
    /// Why the room does not admit waiters now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Active places.
    pub active: u64,
    /// Waiters of each priority class.
    pub waiting: Vec<u64>,
    /// Its limits.
    pub limits: RoomLimitsView,
    /// Admissions in a minute, as measured lately.
    pub admitted_per_minute: u64,
    /// The admission rate that refusals of the back end have led to, in thousandths per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_milli: Option<u64>,
    /// For how many milliseconds the back end has asked for a pause.
    pub closed_ms: u64,
    /// Counts since the room was made.
    pub totals: RoomTotalsView,
    /// The draw of a pre-queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw: Option<DrawView>,
}

/// The limits of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RoomLimits))]
pub struct RoomLimitsView {
    /// Most places that are active at once.
    pub max_active: u32,
    /// How many milliseconds a place is active.
    pub active_ttl_ms: u64,
    /// How many milliseconds a waiter keeps its place after the poll that it missed.
    pub retention_ms: u64,
    /// Polls of all waiters in a second.
    pub polls_per_second: u32,
    /// Most admissions over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// The weight of each priority class.
    pub weights: Vec<u32>,
}

/// Counts since a room was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RoomTotals))]
pub struct RoomTotalsView {
    /// Places that were given to users who joined.
    pub joined: u64,
    /// Places that became active.
    pub admitted: u64,
    /// Places that their users left.
    pub left: u64,
    /// Places that an operator took away.
    pub revoked: u64,
    /// Active places whose time ran out.
    pub expired: u64,
    /// Waiters that were dropped because they fell silent.
    pub silent: u64,
}

/// What is published about the draw of a pre-queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RoomDraw))]
pub struct DrawView {
    /// The SHA-256 of the seed, published before the first ticket was drawn.
    pub commitment: String,
    /// The seed, once the room has opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    /// The SHA-256 of the list of tickets, once the room has opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The number of tickets when the room opened.
    pub tickets: u64,
}

/// A place in a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Place))]
pub struct PlaceView {
    /// `waiting`, `active`, or `unknown` for a token without a place.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::place_states))]
    pub state: &'static str,
    /// 1 for the next user, 0 for an active place; absent before the room has opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// All who wait in the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// The time until admission, while it can be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<EtaView>,
    /// After how many milliseconds to poll again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_poll_ms: Option<u64>,
    /// Why the room does not admit waiters now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// How many milliseconds an active place lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// A signed pass, which lets the user of an active place in without a call; only from a server
    /// that has keys for passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// When the pass expires, in seconds since 1970. The next poll renews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_expires_at: Option<u64>,
    /// Active places of the room.
    pub active: u64,
}

/// The time until a waiter is admitted, as a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Eta))]
pub struct EtaView {
    /// At least this many milliseconds.
    pub least_ms: u64,
    /// At most this many milliseconds.
    pub most_ms: u64,
}

impl From<room::RoomView> for RoomView {
    fn from(view: room::RoomView) -> Self {
        Self {
            room: view.room.to_string(),
            phase: view.phase.as_str(),
            paused: view.paused,
            active: view.active,
            waiting: view.waiting,
            limits: (&view.settings).into(),
            admitted_per_minute: view.admitted_lately * 60_000 / view.measured_ms.max(1),
            rate_milli: view.rate_milli,
            closed_ms: view.closed_us.div_ceil(1000),
            totals: view.totals.into(),
            draw: view.draw.map(|draw| DrawView {
                commitment: draw.commitment,
                seed: draw.seed,
                digest: draw.digest,
                tickets: draw.tickets,
            }),
        }
    }
}

impl From<&room::RoomSettings> for RoomLimitsView {
    fn from(settings: &room::RoomSettings) -> Self {
        Self {
            max_active: settings.max_active,
            active_ttl_ms: settings.active_ttl_ms,
            retention_ms: settings.retention_ms,
            polls_per_second: settings.polls_per_second,
            rate: settings.rate.map(rate_text),
            weights: settings.weights.clone(),
        }
    }
}

impl From<room::RoomTotals> for RoomTotalsView {
    fn from(totals: room::RoomTotals) -> Self {
        let room::RoomTotals { joined, admitted, left, revoked, expired, silent } = totals;
        Self { joined, admitted, left, revoked, expired, silent }
    }
}

impl From<PlaceStatus> for PlaceView {
    fn from(status: PlaceStatus) -> Self {
        let unknown = Self {
            state: "unknown",
            position: None,
            waiting: None,
            eta: None,
            next_poll_ms: None,
            paused: None,
            remaining_ms: None,
            pass: None,
            pass_expires_at: None,
            active: status.active,
        };
        match status.place {
            room::PlaceView::Unknown => unknown,
            room::PlaceView::Active { remaining_us, .. } => Self {
                state: "active",
                position: Some(0),
                remaining_ms: Some(remaining_us.div_ceil(1000)),
                ..unknown
            },
            room::PlaceView::Waiting { position, waiting, eta, next_poll_ms, paused } => Self {
                state: "waiting",
                position,
                waiting: Some(waiting),
                eta: eta.map(|eta| EtaView { least_ms: eta.least_ms, most_ms: eta.most_ms }),
                next_poll_ms: Some(next_poll_ms),
                paused,
                ..unknown
            },
        }
    }
}
