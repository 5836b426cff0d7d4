//! The limits of a room.

use serde::{Deserialize, Serialize};

use crate::encoding::list;
use crate::kernel::Invalid;
use crate::limits::{
    ROOM_ACTIVE_LIMIT, ROOM_ACTIVE_TTL_MS, ROOM_CLASSES_MAX, ROOM_MAX_ACTIVE, ROOM_POLLS_PER_SECOND,
    ROOM_POLLS_PER_SECOND_MAX, ROOM_RETENTION_MS, ROOM_TTL_MS_MAX, ROOM_TTL_MS_MIN, WEIGHT_MAX,
};
use crate::numbers::within;
use crate::rate::Rate;

/// The limits of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomSettings {
    /// Most places that are active at once.
    pub max_active: u32,
    /// How long a place is active after its admission, in milliseconds.
    pub active_ttl_ms: u64,
    /// How long a waiter keeps its place after a missed poll, in milliseconds.
    pub retention_ms: u64,
    /// The polls per second of all waiters together.
    pub polls_per_second: u32,
    /// The admission rate; `None` admits as many waiters as there are free places.
    pub rate: Option<Rate>,
    /// The weight of each priority class: its share of the admissions while several classes wait.
    #[serde(deserialize_with = "list::<ROOM_CLASSES_MAX, _, _>")]
    pub weights: Vec<u32>,
}

impl Default for RoomSettings {
    fn default() -> Self {
        Self {
            max_active: ROOM_MAX_ACTIVE,
            active_ttl_ms: ROOM_ACTIVE_TTL_MS,
            retention_ms: ROOM_RETENTION_MS,
            polls_per_second: ROOM_POLLS_PER_SECOND,
            rate: None,
            weights: vec![1],
        }
    }
}

impl RoomSettings {
    /// Checks that every limit is within its bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        within("the active places of a room", self.max_active.into(), 0, ROOM_ACTIVE_LIMIT.into())?;
        within("the time of an active place in ms", self.active_ttl_ms, ROOM_TTL_MS_MIN, ROOM_TTL_MS_MAX)?;
        within("the retention of a place in ms", self.retention_ms, ROOM_TTL_MS_MIN, ROOM_TTL_MS_MAX)?;
        let polls = u64::from(self.polls_per_second);
        within("the polls of a room in a second", polls, 1, ROOM_POLLS_PER_SECOND_MAX.into())?;
        within("the classes of a room", self.weights.len() as u64, 1, ROOM_CLASSES_MAX as u64)?;
        for weight in &self.weights {
            within("the weight of a class", (*weight).into(), 1, WEIGHT_MAX.into())?;
        }
        Ok(())
    }
}
