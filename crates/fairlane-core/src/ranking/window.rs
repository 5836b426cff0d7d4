//! Windows of time: an event belongs to the hour, the day and the week of its own time.

use serde::{Deserialize, Serialize};

use crate::limits::{BOARD_AHEAD_MS, BOARD_DAYS_KEPT, BOARD_HOURS_KEPT, BOARD_SEAL_MS, BOARD_WEEKS_KEPT};
use crate::numbers::Micros;

use super::rows::SetKind;

const HOUR_S: u64 = 60 * 60;
const DAY_S: u64 = 24 * HOUR_S;
const WEEK_S: u64 = 7 * DAY_S;
/// The epoch was a Thursday, three days after the beginning of its week.
const WEEK_OFFSET_S: u64 = 3 * DAY_S;

/// The length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WindowKind {
    /// One hour.
    Hour,
    /// One day, in UTC.
    Day,
    /// One week, which begins on Monday, in UTC.
    Week,
}

impl WindowKind {
    /// Every kind, the shortest first.
    pub const ALL: &[Self] = &[Self::Hour, Self::Day, Self::Week];

    /// The lower-case name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    const fn length_s(self) -> u64 {
        match self {
            Self::Hour => HOUR_S,
            Self::Day => DAY_S,
            Self::Week => WEEK_S,
        }
    }

    const fn kept(self) -> u64 {
        match self {
            Self::Hour => BOARD_HOURS_KEPT,
            Self::Day => BOARD_DAYS_KEPT,
            Self::Week => BOARD_WEEKS_KEPT,
        }
    }

    /// The window of this kind that an event at this time belongs to.
    pub(super) const fn slot(self, at_ms: u64) -> Slot {
        let at_s = at_ms / 1000;
        match self {
            Self::Hour => Slot::Hour(at_s - at_s % HOUR_S),
            Self::Day => Slot::Day(at_s - at_s % DAY_S),
            Self::Week => Slot::Week(at_s - (at_s + WEEK_OFFSET_S) % WEEK_S),
        }
    }
}

/// A part of a generation that is removed at a given time, by the second at which it begins.
/// Variants are in the order of their names in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Slot {
    Day(u64),
    Hour(u64),
    /// The ids of events that arrived in an hour.
    Ids(u64),
    Week(u64),
}

impl Slot {
    /// The ids of events that arrive now.
    pub const fn ids(now: Micros) -> Self {
        let now_s = now.as_millis() / 1000;
        Self::Ids(now_s - now_s % HOUR_S)
    }

    /// The kind of the window, and the second at which it begins; no kind for ids.
    pub const fn parts(self) -> (Option<WindowKind>, u64) {
        match self {
            Self::Day(start) => (Some(WindowKind::Day), start),
            Self::Hour(start) => (Some(WindowKind::Hour), start),
            Self::Ids(start) => (None, start),
            Self::Week(start) => (Some(WindowKind::Week), start),
        }
    }

    /// The kind of its set in a store, and the second at which it begins.
    pub const fn set_kind(self) -> (SetKind, u64) {
        match self {
            Self::Hour(start) => (SetKind::Hour, start),
            Self::Week(start) => (SetKind::Week, start),
            Self::Day(start) | Self::Ids(start) => (SetKind::Day, start),
        }
    }

    /// The name of the slot in Redis.
    pub fn text(self) -> String {
        let (kind, start) = self.parts();
        format!("{}:{start}", kind.map_or("ids", WindowKind::as_str))
    }

    const fn end_ms(self) -> u64 {
        let (kind, start) = self.parts();
        let length_s = match kind {
            Some(kind) => kind.length_s(),
            None => HOUR_S,
        };
        (start + length_s) * 1000
    }

    /// Whether the window takes no further events.
    pub const fn is_sealed(self, now: Micros) -> bool {
        now.0 >= (self.end_ms() + BOARD_SEAL_MS) * 1000
    }

    /// When the slot is removed. Ids are remembered for as long as their events can arrive again.
    pub const fn removed_at(self, horizon_ms: u64) -> Micros {
        let kept_ms = match self.parts().0 {
            Some(kind) => kind.length_s() * 1000 * kind.kept(),
            None => horizon_ms + BOARD_AHEAD_MS,
        };
        Micros::from_millis(self.end_ms() + kept_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_at_full_hours_days_and_mondays() {
        // Wednesday, 15 November 2023, 22:13:20 UTC.
        let at_ms = 1_700_086_400_000;
        assert_eq!(WindowKind::Hour.slot(at_ms), Slot::Hour(1_700_085_600));
        assert_eq!(WindowKind::Day.slot(at_ms), Slot::Day(1_700_006_400));
        assert_eq!(WindowKind::Week.slot(at_ms), Slot::Week(1_699_833_600));
        assert_eq!(WindowKind::Week.slot(1_699_833_599_999), Slot::Week(1_699_228_800));
    }

    #[test]
    fn window_seals_an_hour_after_its_end() {
        let slot = WindowKind::Hour.slot(1_700_085_600_000);
        assert!(!slot.is_sealed(Micros((1_700_089_200 + 3600) * 1_000_000 - 1)));
        assert!(slot.is_sealed(Micros((1_700_089_200 + 3600) * 1_000_000)));
        assert_eq!(slot.removed_at(0), Micros((1_700_089_200 + 48 * 3600) * 1_000_000));
    }
}
