//! What the user has chosen with the keyboard: the order, a filter and a group.

use std::cmp::Reverse;

use fairlane::GroupId;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::overview::GroupOverview;

/// The longest filter in characters.
const FILTER_MAX: usize = 40;

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
}

impl Default for Choice {
    fn default() -> Self {
        Self { sort: Sort::Backlog, filter: String::new(), is_typing: false, selected: None }
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

    /// Takes a key.
    pub fn press(&mut self, key: KeyEvent, groups: &[GroupOverview]) -> Pressed {
        // The terminal sends no signal for it while keys are read one by one.
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Pressed::Quit;
        }
        match key.code {
            KeyCode::Down => self.select(1, groups),
            KeyCode::Up => self.select(-1, groups),
            code if self.is_typing => self.type_filter(code),
            KeyCode::Char('q' | 'Q') => return Pressed::Quit,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('j') => self.select(1, groups),
            KeyCode::Char('k') => self.select(-1, groups),
            KeyCode::Char(act @ ('p' | 'w')) => return self.act(act, groups),
            _ => {}
        }
        Pressed::Nothing
    }

    fn act(&self, key: char, groups: &[GroupOverview]) -> Pressed {
        let Some(one) = groups.iter().find(|one| self.is_selected(&one.line.group)) else {
            return Pressed::Nothing;
        };
        let group = one.line.group.clone();
        if key == 'p' { Pressed::Pause(group, !one.line.settings.paused) } else { Pressed::Why(group) }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(typed) if self.filter.chars().count() < FILTER_MAX => self.filter.push(typed),
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
