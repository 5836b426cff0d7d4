//! Counting a board again from a source, and comparing it with one.

use std::collections::{BTreeMap, HashMap};

use fairlane_core::RebuildId;
use fairlane_core::limits::{BOARD_MEMBERS_MAX, LIST_RANKS_MAX, RECORD_EVENTS_MAX};
use fairlane_core::ranking::{
    BoardOrder, BoardRebuilt, BoardRule, NewEvent, NewScore, RebuildBoard, RebuildStep, Standing,
};
use tokio::io::AsyncBufRead;

use super::{Ranking, RankingError, RankingLine, RankingLines};
use crate::error::Error;

/// Most differences that an audit lists.
const DIFFERENCES_MAX: usize = 100;

/// A rebuild that is under way, made with [`Ranking::rebuild`]. Readers see the old board until
/// [`finish`](Rebuild::finish).
pub struct Rebuild {
    ranking: Ranking,
    id: RebuildId,
    /// Rows that the board has taken so far, including those of an interrupted rebuild with this
    /// id.
    rows: u64,
    skipped: u64,
    events: Vec<NewEvent>,
    scores: Vec<NewScore>,
}

/// The result of comparing a board with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankingAudit {
    /// Number of rows in the source.
    pub rows: u64,
    /// Number of members in the source.
    pub members: u64,
    /// Number of members whose score differs.
    pub differing: u64,
    /// The first 100 of them by name.
    pub differences: Vec<RankingDifference>,
}

/// A member whose score is not that of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankingDifference {
    /// The name of the member.
    pub member: String,
    /// Its score on the board; `None` if it is not there.
    pub board: Option<i64>,
    /// Its score in the source; `None` if it is not there.
    pub source: Option<i64>,
}

/// The number of differences, and the first of them by name.
#[derive(Default)]
struct Differences {
    count: u64,
    first: BTreeMap<String, RankingDifference>,
}

impl Ranking {
    /// Begins a rebuild. A rebuild with this id that was interrupted continues: send all rows again,
    /// and those that were taken are skipped. Begin before the source is read, so that events that
    /// arrive meanwhile are in both.
    pub async fn rebuild(&self, id: &str) -> Result<Rebuild, Error> {
        let id = RebuildId::new(id)?;
        let rows = self.rebuild_step(&id, RebuildStep::Begin).await?;
        let (ranking, events, scores) = (self.clone(), Vec::new(), Vec::new());
        Ok(Rebuild { ranking, id, rows, skipped: rows, events, scores })
    }

    /// Rebuilds the board from lines of JSON, and returns the number of its members.
    pub async fn rebuild_from<R: AsyncBufRead + Unpin>(
        &self,
        id: &str,
        lines: &mut RankingLines<R>,
    ) -> Result<u64, Error> {
        let mut rebuild = self.rebuild(id).await?;
        while let Some(line) = lines.next().await? {
            rebuild.push(line).await?;
        }
        rebuild.finish().await
    }

    /// Performs a step of the rebuild. Returns the rows taken so far, or the number of members
    /// after the last step.
    async fn rebuild_step(&self, id: &RebuildId, step: RebuildStep) -> Result<u64, Error> {
        let command = RebuildBoard { board: self.name()?, rebuild: id.clone(), step };
        match self.engine.call(command).await? {
            BoardRebuilt::Ongoing { rows } => Ok(rows),
            BoardRebuilt::Finished { members } => Ok(members),
            BoardRebuilt::Aborted => Ok(0),
            BoardRebuilt::Refused { rows, outcome } => {
                Err(RankingError::Refused { id: format!("row {}", rows + 1), outcome }.into())
            }
            BoardRebuilt::OutOfStep { rows } => Err(RankingError::OutOfStep(rows).into()),
            BoardRebuilt::UnknownRebuild => Err(RankingError::RebuildDropped.into()),
            BoardRebuilt::WrongRule => Err(RankingError::WrongRule.into()),
            BoardRebuilt::UnknownBoard => Err(self.unknown()),
        }
    }

    /// Compares the scores of the current season with those of a source. Members with the score 0 and
    /// absent members are equal. The members of the source are kept in memory. Members that change
    /// meanwhile may be listed: compare again, or while no events arrive.
    pub async fn audit<R: AsyncBufRead + Unpin>(
        &self,
        lines: &mut RankingLines<R>,
    ) -> Result<RankingAudit, Error> {
        self.audit_up_to(BOARD_MEMBERS_MAX, lines).await
    }

    /// As [`audit`](Self::audit), with a limit on the members that are kept in memory; a source
    /// with more members is an error.
    pub async fn audit_up_to<R: AsyncBufRead + Unpin>(
        &self,
        members_max: usize,
        lines: &mut RankingLines<R>,
    ) -> Result<RankingAudit, Error> {
        let board = self.view().await?.ok_or_else(|| self.unknown())?.board;
        let (mut rows, mut source) = (0, HashMap::<String, (i64, u64)>::new());
        while let Some(line) = lines.next().await? {
            rows += 1;
            let (member, value, version, at_ms) = match line {
                RankingLine::Event(event) => (event.member, event.delta, 0, event.at_ms),
                RankingLine::Score(score) => (score.member, score.value, score.version, score.at_ms),
            };
            if at_ms < board.since_ms {
                continue;
            }
            let member = member.to_string();
            if source.len() >= members_max && !source.contains_key(&member) {
                return Err(RankingError::TooManyMembers(members_max).into());
            }
            let known = source.entry(member);
            let is_ascending = board.settings.order == BoardOrder::Ascending;
            match board.settings.rule {
                BoardRule::Count | BoardRule::Sum => known.or_default().0 += value,
                BoardRule::Latest => {
                    let kept = known.or_insert((value, version));
                    if version > kept.1 {
                        *kept = (value, version);
                    }
                }
                BoardRule::Maximum => {
                    let kept = known.or_insert((value, 0));
                    kept.0 = if is_ascending { kept.0.min(value) } else { kept.0.max(value) };
                }
            }
        }
        self.compare(rows, source, board.settings.rule.takes_events()).await
    }

    async fn compare(
        &self,
        rows: u64,
        mut source: HashMap<String, (i64, u64)>,
        zero_is_absent: bool,
    ) -> Result<RankingAudit, Error> {
        let (members, mut behind, mut found) = (source.len() as u64, 0, Differences::default());
        loop {
            let page = self.page(Standing::All, behind, LIST_RANKS_MAX).await?;
            behind += page.entries.len() as u64;
            for entry in &page.entries {
                let member = entry.member.to_string();
                let expected = source.remove(&member).map(|(value, _)| value);
                if expected != Some(entry.score) && !(zero_is_absent && expected.unwrap_or(0) == entry.score)
                {
                    found.add(RankingDifference { member, board: Some(entry.score), source: expected });
                }
            }
            if page.entries.is_empty() || behind >= page.members {
                break;
            }
        }
        for (member, (value, _)) in source {
            if !zero_is_absent || value != 0 {
                found.add(RankingDifference { member, board: None, source: Some(value) });
            }
        }
        let Differences { count, first } = found;
        Ok(RankingAudit { rows, members, differing: count, differences: first.into_values().collect() })
    }
}

impl Differences {
    fn add(&mut self, difference: RankingDifference) {
        self.count += 1;
        self.first.insert(difference.member.clone(), difference);
        if self.first.len() > DIFFERENCES_MAX {
            self.first.pop_last();
        }
    }
}

impl Rebuild {
    /// Adds a row of the source.
    pub async fn push(&mut self, line: RankingLine) -> Result<(), Error> {
        if self.skipped > 0 {
            self.skipped -= 1;
            return Ok(());
        }
        match line {
            RankingLine::Event(event) => self.events.push(event),
            RankingLine::Score(score) => self.scores.push(score),
        }
        if self.events.len().max(self.scores.len()) >= RECORD_EVENTS_MAX {
            self.send().await?;
        }
        Ok(())
    }

    /// Replaces the scores of the board by those of the rebuild, and returns the number of its
    /// members.
    pub async fn finish(mut self) -> Result<u64, Error> {
        self.send().await?;
        self.ranking.rebuild_step(&self.id, RebuildStep::Finish { rows: self.rows }).await
    }

    /// Drops the rebuild.
    pub async fn abort(self) -> Result<(), Error> {
        self.ranking.rebuild_step(&self.id, RebuildStep::Abort).await.map(drop)
    }

    async fn send(&mut self) -> Result<(), Error> {
        let (events, scores) = (std::mem::take(&mut self.events), std::mem::take(&mut self.scores));
        if !events.is_empty() {
            let step = RebuildStep::Events { from: self.rows, events };
            self.rows = self.ranking.rebuild_step(&self.id, step).await?;
        }
        if !scores.is_empty() {
            let step = RebuildStep::Scores { from: self.rows, scores };
            self.rows = self.ranking.rebuild_step(&self.id, step).await?;
        }
        Ok(())
    }
}
