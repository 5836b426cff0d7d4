//! Scores and their order. A sorted set in Redis holds the same: the score is its integer part, and
//! the fraction orders equal scores by the time at which they were reached.

use crate::hashing::{HashSeed, KeyedMap};
use crate::kernel::ranked_set::RankedSet;
use crate::limits::BOARD_TIMED_SCORE_MAX;
use crate::names::MemberId;

use super::settings::{BoardOrder, BoardSettings};
use super::view::RankEntry;

/// The score of a member in one set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Score {
    pub value: i64,
    /// Orders equal scores: the larger tie ranks lower on an ascending board and higher on a
    /// descending one. 0 if the time is not kept.
    pub tie: u32,
    /// The version of a latest value; 0 on other boards.
    pub version: u64,
    /// The number of its row in a store.
    pub row: u64,
}

impl BoardSettings {
    /// The tie of a score that was reached in this second.
    pub(super) fn tie(&self, value: i64, reached_s: u64) -> u32 {
        if reached_s == 0 || self.decimals > 0 || value.unsigned_abs() > BOARD_TIMED_SCORE_MAX {
            return 0;
        }
        match self.order {
            BoardOrder::Descending => u32::MAX - reached_s as u32,
            BoardOrder::Ascending => reached_s as u32,
        }
    }

    /// The second at which a score with this tie was reached; 0 if it is not kept.
    pub(super) fn reached_s(&self, tie: u32) -> u64 {
        match self.order {
            _ if tie == 0 => 0,
            BoardOrder::Descending => u64::from(u32::MAX - tie),
            BoardOrder::Ascending => tie.into(),
        }
    }

    /// Whether one value and tie rank before another.
    pub(super) fn is_better(&self, new: (i64, u32), old: (i64, u32)) -> bool {
        match self.order {
            BoardOrder::Descending => new > old,
            BoardOrder::Ascending => new < old,
        }
    }
}

/// Members in ascending order of value, tie and name, as in Redis.
pub(super) type ScoreOrder = RankedSet<(i64, u32, MemberId)>;

/// The scores of one window.
#[derive(Debug)]
pub(super) struct ScoreSet {
    /// The number of the set in a store.
    pub number: u64,
    scores: KeyedMap<MemberId, Score>,
    order: ScoreOrder,
}

impl ScoreSet {
    pub fn new(number: u64, hash_seed: HashSeed) -> Self {
        Self { number, scores: KeyedMap::with_hasher(hash_seed), order: RankedSet::default() }
    }

    pub fn len(&self) -> usize {
        self.scores.len()
    }

    pub fn get(&self, member: &MemberId) -> Option<Score> {
        self.scores.get(member).copied()
    }

    pub fn put(&mut self, member: &MemberId, score: Score) {
        if let Some(old) = self.scores.insert(member.clone(), score) {
            self.order.remove(&(old.value, old.tie, member.clone()));
        }
        self.order.insert((score.value, score.tie, member.clone()));
    }

    /// The scores in ascending order, as in Redis.
    pub fn iter(&self) -> impl Iterator<Item = (&MemberId, Score)> {
        self.order.iter_from(0).map(|(_, _, member)| (member, self.scores[member]))
    }

    /// The scores by member, and the order, to be dropped in steps.
    pub fn into_parts(self) -> (KeyedMap<MemberId, Score>, ScoreOrder) {
        (self.scores, self.order)
    }

    /// The position of a member, from 0.
    pub fn position(&self, settings: &BoardSettings, member: &MemberId) -> Option<usize> {
        let score = self.get(member)?;
        let rank = self.order.rank(&(score.value, score.tie, member.clone()))?;
        Some(match settings.order {
            BoardOrder::Descending => self.len() - 1 - rank,
            BoardOrder::Ascending => rank,
        })
    }

    /// The number of members with a better score.
    fn better(&self, order: BoardOrder, value: i64) -> usize {
        match order {
            BoardOrder::Descending => self.len() - self.order.count_before(|(other, ..)| *other <= value),
            BoardOrder::Ascending => self.order.count_before(|(other, ..)| *other < value),
        }
    }

    /// The entry at a position, from 0.
    fn entry(&self, settings: &BoardSettings, position: usize) -> Option<RankEntry> {
        let rank = match settings.order {
            BoardOrder::Descending => self.len().checked_sub(position + 1)?,
            BoardOrder::Ascending => position,
        };
        let (value, tie, member) = self.order.nth(rank)?;
        Some(RankEntry {
            member: member.clone(),
            score: *value,
            reached_s: settings.reached_s(*tie),
            position: position as u64 + 1,
            rank: self.better(settings.order, *value) as u64 + 1,
        })
    }

    /// The entry of a member.
    pub fn entry_of(&self, settings: &BoardSettings, member: &MemberId) -> Option<RankEntry> {
        self.entry(settings, self.position(settings, member)?)
    }

    /// The entries from a position on.
    pub fn page(&self, settings: &BoardSettings, from: usize, most: usize) -> Vec<RankEntry> {
        (from..self.len().min(from.saturating_add(most))).filter_map(|at| self.entry(settings, at)).collect()
    }

    /// Whether the order lists exactly the scores.
    pub fn is_consistent(&self) -> bool {
        let listed = |(value, tie, member): &(i64, u32, MemberId)| {
            self.scores.get(member).is_some_and(|score| (score.value, score.tie) == (*value, *tie))
        };
        self.order.len() == self.scores.len() && self.order.iter_from(0).all(listed)
    }
}
