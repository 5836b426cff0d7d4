//! Which waiter is next, the position of each waiter, and when it polls again.
//!
//! Classes share admissions by virtual time: an admission from a class raises its tag by an amount
//! inverse to its weight, and the class with the smallest tag is next. A class that was empty starts
//! at the current virtual time, so that it gains nothing by having been empty.

use crate::limits::{ROOM_FRONT_POLLS, ROOM_POLL_MS_MAX, ROOM_POLL_MS_MIN, UNITS};
use crate::numbers::Micros;

use super::state::{Place, PlaceState, Room};
use super::view::Eta;

impl Room {
    /// The class whose first waiter is next.
    pub(super) fn next_class(&self) -> Option<usize> {
        let waiting = self.classes.iter().enumerate().filter(|(_, class)| !class.waiting.is_empty());
        waiting.min_by_key(|(index, class)| (class.tag, *index)).map(|(index, _)| index)
    }

    /// The virtual time between two admissions from a class.
    pub(super) fn stride(&self, class: usize) -> u64 {
        UNITS / u64::from(self.settings.weights[class])
    }

    /// The position of a waiter: 1 for the next, and one more for each waiter that is admitted
    /// before it if no other user joins.
    pub(super) fn position(&self, class: usize, rank: u64) -> u64 {
        let due = self.classes[class].tag + rank * self.stride(class);
        let before = |(index, other): (usize, &super::state::Class)| {
            if index == class || other.waiting.is_empty() || due < other.tag {
                return 0;
            }
            let (distance, stride) = (due - other.tag, self.stride(index));
            // Of two classes that are due at the same time, the first is served first.
            let due_then = u64::from(index < class && distance.is_multiple_of(stride));
            (distance.div_ceil(stride) + due_then).min(other.waiting.len() as u64)
        };
        rank + 1 + self.classes.iter().enumerate().map(before).sum::<u64>()
    }

    /// The position of a waiting place; `None` before the room has opened.
    pub(super) fn position_of(&self, token: &crate::PlaceToken, place: &Place) -> Option<u64> {
        let PlaceState::Waiting { number, .. } = place.state else { return None };
        if self.phase.is_before_opening() {
            return None;
        }
        let rank = self.classes[place.class].waiting.rank(&(number, token.clone()))?;
        Some(self.position(place.class, rank as u64))
    }

    /// The time until a waiter at this position is admitted, estimated from recent admissions.
    pub(super) fn eta(&self, position: Option<u64>, now: Micros) -> Option<Eta> {
        let position = position.filter(|_| self.paused.is_none())?;
        let (admitted, ms) = self.window.measured(now);
        if admitted == 0 {
            return None;
        }
        // About two standard deviations of a count.
        let spread = ((4 * admitted) as f64).sqrt() as u64;
        let least_ms = position * ms / (admitted + spread);
        let most_ms = (position * ms).div_ceil(admitted.saturating_sub(spread).max(1));
        Some(Eta { least_ms, most_ms })
    }

    /// The time until a waiter at this position polls again, in milliseconds. Waiters at the front
    /// poll often, and the others share the remaining polls. A waiter that may be admitted earlier
    /// polls earlier.
    pub(super) fn next_poll_ms(&self, position: Option<u64>, eta: Option<Eta>) -> u64 {
        let polls = u64::from(self.settings.polls_per_second);
        if position.is_some_and(|position| position <= (polls / ROOM_FRONT_POLLS).max(1)) {
            return ROOM_POLL_MS_MIN;
        }
        let shared = (self.waiting() * 1000 * ROOM_FRONT_POLLS).div_ceil(polls * (ROOM_FRONT_POLLS - 1));
        let shared = shared.clamp(ROOM_POLL_MS_MIN, ROOM_POLL_MS_MAX);
        eta.map_or(shared, |eta| eta.least_ms.clamp(ROOM_POLL_MS_MIN, shared))
    }
}
