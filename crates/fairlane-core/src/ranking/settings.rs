//! The settings of a board, which are fixed when it is made, except for the events that it remembers.

use serde::{Deserialize, Serialize};

use crate::kernel::Invalid;
use crate::kernel::row::stored_words;
use crate::limits::{
    BOARD_DECIMALS_MAX, BOARD_EVENTS_LIMIT, BOARD_EVENTS_MAX, BOARD_HORIZON_MS, BOARD_HORIZON_MS_MAX,
    BOARD_HORIZON_MS_MIN,
};
use crate::numbers::within;

use super::window::WindowKind;

/// How the score of a member is computed from events or values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardRule {
    /// The number of events.
    Count,
    /// The sum of the events' deltas.
    Sum,
    /// The best value that was set: the largest, or the smallest on an ascending board.
    Maximum,
    /// The value with the highest version.
    Latest,
}

impl BoardRule {
    /// Every rule.
    pub const ALL: &[Self] = &[Self::Count, Self::Sum, Self::Maximum, Self::Latest];

    /// The lower-case name of the rule.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Maximum => "maximum",
            Self::Latest => "latest",
        }
    }

    /// Whether the score follows from events; otherwise it is set.
    pub const fn takes_events(self) -> bool {
        matches!(self, Self::Count | Self::Sum)
    }
}

stored_words!(BoardRule);

/// Which score ranks first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardOrder {
    /// The largest score is first.
    Descending,
    /// The smallest score is first.
    Ascending,
}

impl BoardOrder {
    /// Both orders.
    pub const ALL: &[Self] = &[Self::Descending, Self::Ascending];

    /// The lower-case name of the order.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Descending => "descending",
            Self::Ascending => "ascending",
        }
    }
}

stored_words!(BoardOrder);

/// The windows that a board has besides its season.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardWindows {
    /// A window for each hour.
    pub hour: bool,
    /// A window for each day, in UTC.
    pub day: bool,
    /// A window for each week, which begins on Monday, in UTC.
    pub week: bool,
}

impl BoardWindows {
    /// The kinds of windows that the board has.
    pub fn kinds(self) -> impl Iterator<Item = WindowKind> {
        let has = [self.hour, self.day, self.week];
        WindowKind::ALL.iter().zip(has).filter(|(_, has)| *has).map(|(kind, _)| *kind)
    }
}

impl FromIterator<WindowKind> for BoardWindows {
    fn from_iter<I: IntoIterator<Item = WindowKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::default(), |windows, kind| match kind {
            WindowKind::Hour => Self { hour: true, ..windows },
            WindowKind::Day => Self { day: true, ..windows },
            WindowKind::Week => Self { week: true, ..windows },
        })
    }
}

/// The settings of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardSettings {
    /// How the score of a member is computed from events or values.
    pub rule: BoardRule,
    /// Which score ranks first.
    pub order: BoardOrder,
    /// Decimal places of the scores: 305 with one decimal place is 30.5.
    pub decimals: u32,
    /// The windows besides the season.
    pub windows: BoardWindows,
    /// How long an event is remembered so that it counts once, in milliseconds. Older events are
    /// refused.
    pub horizon_ms: u64,
    /// Most events that are remembered; further ones are refused. This can be changed later.
    pub events_max: u64,
}

impl Default for BoardSettings {
    fn default() -> Self {
        Self {
            rule: BoardRule::Count,
            order: BoardOrder::Descending,
            decimals: 0,
            windows: BoardWindows::default(),
            horizon_ms: BOARD_HORIZON_MS,
            events_max: BOARD_EVENTS_MAX,
        }
    }
}

impl BoardSettings {
    /// Checks that every setting is within its bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        within("the decimal places of a board", self.decimals.into(), 0, BOARD_DECIMALS_MAX.into())?;
        within("the horizon of a board in ms", self.horizon_ms, BOARD_HORIZON_MS_MIN, BOARD_HORIZON_MS_MAX)?;
        within("the events that a board remembers", self.events_max, 1, BOARD_EVENTS_LIMIT)?;
        // The versions of latest values are kept for the season only, so such a board has no
        // windows.
        let windows = self.windows.kinds().count() as u64;
        if self.rule == BoardRule::Latest {
            within("the windows of a board by the latest value", windows, 0, 0)?;
        }
        Ok(())
    }

    /// Whether a board with these settings may change to others. Only the number of events may
    /// differ, because the existing scores depend on all other settings.
    pub(super) fn allows(&self, other: &Self) -> bool {
        Self { events_max: other.events_max, ..self.clone() } == *other
    }

    /// The form in Redis.
    pub fn text(&self) -> String {
        let Self { rule, order, decimals, windows, horizon_ms, events_max } = self;
        let kinds: Vec<_> = windows.kinds().map(WindowKind::as_str).collect();
        let (rule, order, kinds) = (rule.as_str(), order.as_str(), kinds.join(","));
        format!("{rule}:{order}:{decimals}:{kinds}:{horizon_ms}:{events_max}")
    }
}
