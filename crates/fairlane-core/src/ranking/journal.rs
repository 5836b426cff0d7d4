//! Row numbers, rows that have changed, and removed data that is deleted in steps.
//!
//! Removing a window or a board of a million members is one small step: it moves to the trash, and
//! every later command deletes a bounded number of its rows.

use std::collections::hash_map::IntoIter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::limits::BOARD_STEP_ROWS_MAX;
use crate::names::{BoardName, EventId, MemberId};

use super::rows::{EventRow, ScoreRow, SetKind, SetRow};
use super::score::{Score, ScoreOrder, ScoreSet};
use super::state::{Event, Generation, Season};

/// Changes of rows since a store last took them; `None` is a row to be removed.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub boards: BTreeSet<BoardName>,
    pub sets: BTreeMap<u64, Option<SetRow>>,
    pub scores: BTreeMap<u64, Option<ScoreRow>>,
    pub events: BTreeMap<u64, Option<EventRow>>,
}

/// Parts of removed boards and windows.
#[derive(Debug)]
enum Trash {
    Scores(IntoIter<MemberId, Score>),
    Order(ScoreOrder),
    Events(IntoIter<EventId, Event>),
    /// Rows of scores that belong to no set.
    ScoreRows(Vec<u64>),
    EventRows(Vec<u64>),
}

#[derive(Debug)]
pub(super) struct Journal {
    /// The number of the next row, set or generation.
    pub next: u64,
    /// The rows that a store has to write; `None` before recording is enabled.
    pub touched: Option<Touched>,
    trash: VecDeque<Trash>,
}

impl Journal {
    pub const fn new() -> Self {
        Self { next: 1, touched: None, trash: VecDeque::new() }
    }

    /// A number that was not used before.
    pub const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub fn touch_board(&mut self, name: &BoardName) {
        if let Some(touched) = &mut self.touched {
            touched.boards.insert(name.clone());
        }
    }

    pub fn touch_set(&mut self, number: u64, board: &BoardName, generation: u64, kind: SetKind, start: u64) {
        if let Some(touched) = &mut self.touched {
            touched.sets.insert(number, Some(SetRow::new(number, board, generation, kind, start)));
        }
    }

    pub fn touch_season(&mut self, board: &BoardName, number: u64, season: &Season) {
        if let Some(touched) = &mut self.touched {
            touched.sets.insert(season.set.number, Some(SetRow::of_season(board, number, season)));
        }
    }

    /// Marks every score of a set as changed.
    pub fn touch_scores(&mut self, set: &ScoreSet) {
        for (member, score) in set.iter() {
            self.touch_score(set.number, member, score);
        }
    }

    /// Marks every set, score and event of a generation as changed.
    pub fn touch_generation(&mut self, board: &BoardName, generation: &Generation) {
        let all = std::iter::once((SetKind::All, 0, &generation.all));
        let windows = generation.windows.iter().map(|(slot, set)| {
            let (kind, start) = slot.set_kind();
            (kind, start, set)
        });
        for (kind, start, set) in all.chain(windows) {
            self.touch_set(set.number, board, generation.number, kind, start);
            self.touch_scores(set);
        }
        for (id, event) in &generation.events {
            self.touch_event(generation.number, id, event);
        }
    }

    pub fn touch_score(&mut self, set: u64, member: &MemberId, score: Score) {
        if let Some(touched) = &mut self.touched {
            touched.scores.insert(score.row, Some(ScoreRow::of(set, member, score)));
        }
    }

    pub fn touch_event(&mut self, generation: u64, id: &EventId, event: &Event) {
        if let Some(touched) = &mut self.touched {
            touched.events.insert(event.row, Some(EventRow::of(generation, id, event)));
        }
    }

    pub fn forget_event(&mut self, row: u64) {
        if let Some(touched) = &mut self.touched {
            touched.events.insert(row, None);
        }
    }

    /// Drops a set in steps.
    pub fn discard_set(&mut self, set: ScoreSet) {
        if let Some(touched) = &mut self.touched {
            touched.sets.insert(set.number, None);
        }
        let (scores, order) = set.into_parts();
        self.trash.push_back(Trash::Scores(scores.into_iter()));
        self.trash.push_back(Trash::Order(order));
    }

    /// Drops a generation in steps.
    pub fn discard(&mut self, generation: Generation) {
        let Generation { all, windows, events, .. } = generation;
        self.discard_set(all);
        for set in windows.into_values() {
            self.discard_set(set);
        }
        self.trash.push_back(Trash::Events(events.into_iter()));
    }

    /// Removes rows that belong to no set and no generation, in steps.
    pub fn discard_rows(&mut self, scores: Vec<u64>, events: Vec<u64>) {
        self.trash.extend([Trash::ScoreRows(scores), Trash::EventRows(events)]);
    }

    /// Deletes a bounded number of rows of removed boards and windows.
    pub fn drop_some(&mut self) {
        let mut left = BOARD_STEP_ROWS_MAX;
        while left > 0
            && let Some(trash) = self.trash.front_mut()
        {
            let (scores, events) = trash.take(left);
            let dropped = scores.len().max(events.len());
            if let Some(touched) = &mut self.touched {
                touched.scores.extend(scores.into_iter().map(|row| (row, None)));
                touched.events.extend(events.into_iter().map(|row| (row, None)));
            }
            if dropped < left && trash.is_empty() {
                self.trash.pop_front();
            }
            left = left.saturating_sub(dropped.max(1));
        }
    }
}

impl Trash {
    /// Drops up to `most` items; returns the rows of scores and of events that go with them.
    fn take(&mut self, most: usize) -> (Vec<u64>, Vec<u64>) {
        match self {
            Self::Scores(scores) => {
                (scores.by_ref().take(most).map(|(_, score)| score.row).collect(), vec![])
            }
            Self::Order(order) => {
                order.drop_some(most);
                (vec![], vec![])
            }
            Self::Events(events) => {
                (vec![], events.by_ref().take(most).map(|(_, event)| event.row).collect())
            }
            Self::ScoreRows(rows) => (rows.split_off(rows.len().saturating_sub(most)), vec![]),
            Self::EventRows(rows) => (vec![], rows.split_off(rows.len().saturating_sub(most))),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Scores(scores) => scores.len() == 0,
            Self::Order(order) => order.is_dropped(),
            Self::Events(events) => events.len() == 0,
            Self::ScoreRows(rows) | Self::EventRows(rows) => rows.is_empty(),
        }
    }
}
