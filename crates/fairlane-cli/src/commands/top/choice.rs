//! What the user has chosen with the keyboard: the order, a filter and a group.

use std::cmp::Reverse;

use fairlane::GroupId;

use crate::overview::GroupOverview;

/// The longest filter in characters.
const FILTER_MAX: usize = 40;
const ESCAPE: u8 = 0x1b;
const BACKSPACE: [u8; 2] = [0x7f, 0x08];

/// The order of the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Backlog,
    InFlight,
    Name,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Backlog => Self::InFlight,
            Self::InFlight => Self::Name,
            Self::Name => Self::Backlog,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::InFlight => "in flight",
            Self::Name => "name",
        }
    }
}

/// What a key asks for, beside a change of the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pressed {
    /// No more than the display has changed.
    Nothing,
    /// To end the program.
    Quit,
    /// To pause the group, or to resume it.
    Pause(GroupId, bool),
    /// Why the next job of the group is not running.
    Why(GroupId),
}

/// The order, the filter and the selected group.
pub struct Choice {
    sort: Sort,
    filter: String,
    is_typing: bool,
    selected: Option<GroupId>,
    /// Bytes of an escape sequence, such as that of an arrow key.
    sequence: Vec<u8>,
}

impl Default for Choice {
    fn default() -> Self {
        let (filter, sequence) = (String::new(), Vec::new());
        Self { sort: Sort::Backlog, filter, is_typing: false, selected: None, sequence }
    }
}

impl Choice {
    /// The groups to show, in order.
    pub fn of<'a>(&self, groups: &'a [GroupOverview]) -> Vec<&'a GroupOverview> {
        let matches = |one: &&GroupOverview| one.line.group.unescaped().contains(&self.filter);
        let mut shown: Vec<&GroupOverview> = groups.iter().filter(matches).collect();
        match self.sort {
            // They come in this order.
            Sort::Backlog => {}
            Sort::InFlight => shown.sort_by_key(|one| Reverse(one.line.in_flight)),
            Sort::Name => shown.sort_by(|one, other| one.line.group.cmp(&other.line.group)),
        }
        shown
    }

    /// Whether the group is selected.
    pub fn is_selected(&self, group: &GroupId) -> bool {
        self.selected.as_ref() == Some(group)
    }

    /// The line that says which keys do what.
    pub fn text(&self) -> String {
        if self.is_typing {
            return format!("filter: {}_  (Enter keeps it, Esc clears it)", self.filter);
        }
        let filter =
            if self.filter.is_empty() { String::new() } else { format!("  filter {:?}", self.filter) };
        format!("q quit  s sort: {}  / filter  j k select  p pause  w why{filter}", self.sort.as_str())
    }

    /// Takes a byte from the keyboard.
    pub fn press(&mut self, key: u8, groups: &[GroupOverview]) -> Pressed {
        if let Some(arrow) = self.arrow(key) {
            if let Some(step) = arrow {
                self.select(step, groups);
            }
            return Pressed::Nothing;
        }
        if self.is_typing {
            self.type_filter(key);
            return Pressed::Nothing;
        }
        match key {
            b'q' | b'Q' => return Pressed::Quit,
            b's' => self.sort = self.sort.next(),
            b'/' => self.is_typing = true,
            b'j' => self.select(1, groups),
            b'k' => self.select(-1, groups),
            b'p' | b'w' => return self.act(key, groups),
            _ => {}
        }
        Pressed::Nothing
    }

    fn act(&self, key: u8, groups: &[GroupOverview]) -> Pressed {
        let Some(one) = groups.iter().find(|one| self.is_selected(&one.line.group)) else {
            return Pressed::Nothing;
        };
        let group = one.line.group.clone();
        if key == b'p' { Pressed::Pause(group, !one.line.settings.paused) } else { Pressed::Why(group) }
    }

    /// A byte of an escape sequence: `Some(Some(step))` at the end of an arrow key, `Some(None)` if it
    /// belongs to a sequence.
    fn arrow(&mut self, key: u8) -> Option<Option<isize>> {
        match (self.sequence.as_slice(), key) {
            // A filter that is being typed ends with Esc alone.
            ([], ESCAPE) if !self.is_typing => self.sequence.push(key),
            ([ESCAPE], b'[' | b'O') => self.sequence.push(key),
            ([ESCAPE, _], _) => {
                self.sequence.clear();
                return Some(match key {
                    b'A' => Some(-1),
                    b'B' => Some(1),
                    _ => None,
                });
            }
            _ => {
                self.sequence.clear();
                return None;
            }
        }
        Some(None)
    }

    fn type_filter(&mut self, key: u8) {
        match key {
            b'\r' | b'\n' => self.is_typing = false,
            ESCAPE => {
                self.filter.clear();
                self.is_typing = false;
            }
            key if BACKSPACE.contains(&key) => {
                self.filter.pop();
            }
            b' '..=b'~' if self.filter.len() < FILTER_MAX => self.filter.push(char::from(key)),
            _ => {}
        }
    }

    fn select(&mut self, step: isize, groups: &[GroupOverview]) {
        let shown = self.of(groups);
        let at = shown.iter().position(|one| self.is_selected(&one.line.group));
        let next = match at {
            Some(at) => at.saturating_add_signed(step).min(shown.len().saturating_sub(1)),
            None => 0,
        };
        self.selected = shown.get(next).map(|one| one.line.group.clone());
    }
}
