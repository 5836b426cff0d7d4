//! Rankings: boards of members in the order of their scores.
//!
//! - `ranking/rebuild.rs`: counting a board again from a source, and comparing it with one.
//! - `ranking/lines.rs`: a source as lines of JSON.
//!
//! An event counts once under its id, however often and in whatever order it arrives, so a board
//! can be fed from an outbox. A refused or failed update is logged and is an error: it is never
//! lost silently.

mod lines;
mod rebuild;

pub use lines::{EventTime, LineError, RankingLine, RankingLines};
pub use rebuild::{RankingAudit, RankingDifference, Rebuild};

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fairlane_core::limits::{RECORD_EVENTS_MAX, SHOW_RANKS_MAX};
use fairlane_core::ranking::{
    BoardDetail, BoardSet, BoardSettings, BoardWindows, CancelEvents, Cancellation, CloseSeason,
    EventsRecorded, InspectBoard, ListRanks, NewEvent, NewScore, Outcome, PageStart, RankEntry, RankPage,
    RecordEvents, RemoveBoard, SeasonClosed, SetBoard, SetScores, ShowRanks, Standing, WindowKind,
};
use fairlane_core::{BoardName, EventId, MemberId, Micros};
use fairlane_engine::observe::TARGET;
use fairlane_engine::{Engine, EngineError};
use serde::Serialize;

use crate::error::Error;
use crate::fairlane::{Fairlane, broken};
use crate::job::Job;
use crate::views::RankEntryView;

/// The number of members in the payload of the job about a closed season.
const SEASON_MEMBERS: usize = 100;

/// Why a board refused a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RankingError {
    /// There is no such board.
    #[error("there is no board {0:?}; create it first")]
    UnknownBoard(String),
    /// The rule of the board does not allow the operation.
    #[error("boards by count and sum take events; boards by maximum and latest value take scores")]
    WrongRule,
    /// The board exists with other settings.
    #[error("the board exists with other settings, which are fixed; remove it, or use another name")]
    Different(Box<BoardSettings>),
    /// There are too many boards.
    #[error("there are too many boards; remove one")]
    TooManyBoards,
    /// An event, a cancellation or a value was refused.
    #[error("{id} was refused: {}", reason(*.outcome))]
    Refused {
        /// The id of the event, or the member of the value.
        id: String,
        /// What the board refused, such as an event that is too old.
        outcome: Outcome,
    },
    /// The board does not have windows of this length.
    #[error("board {board:?} has no window {}; {}", .window.as_str(), windows_text(*.windows))]
    NoWindow {
        /// The name of the board.
        board: String,
        /// The window that was requested.
        window: WindowKind,
        /// The windows that the board has.
        windows: BoardWindows,
    },
    /// The season has not begun.
    #[error("season {0} has not begun")]
    NotBegun(u64),
    /// The season was closed too long ago; its standing is no longer kept.
    #[error("season {0} was closed too long ago; its standing is not kept any more")]
    Forgotten(u64),
    /// Another rebuild, or the close of a season, has dropped the rebuild.
    #[error("the rebuild was dropped by another one or by the close of a season; begin again")]
    RebuildDropped,
    /// Rows of a rebuild are missing, so another process sends rows under the same id.
    #[error("the rebuild has {0} rows, not those that were sent; use an id of its own for each rebuild")]
    OutOfStep(u64),
    /// The source of an audit has too many members.
    #[error(
        "the source has more than {0} members, more than an audit here keeps in memory; audit with the \
             program or the library"
    )]
    TooManyMembers(usize),
}

/// The windows of a board, and what to do without the one that is missing.
fn windows_text(windows: BoardWindows) -> String {
    let kinds: Vec<_> = windows.kinds().map(WindowKind::as_str).collect();
    match kinds.as_slice() {
        [] => "it has none besides its seasons; leave the window out, or make a board with it".to_owned(),
        [one] => format!("its only window is {one}"),
        [others @ .., last] => format!("its windows are {} and {last}", others.join(", ")),
    }
}

/// Why a board refused this, and what to do.
pub(crate) const fn reason(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::TooOld => "it is older than the board's horizon; rebuild the board to count it",
        Outcome::Ahead => "its time is ahead of the store's clock; check the clock of the sender",
        Outcome::OutOfRange => {
            "the score would be out of range, or a board that counts got another delta than 1"
        }
        Outcome::TooManyEvents => "the board remembers as many events as it may; raise its events_max",
        Outcome::TooManyMembers => "the board has as many members as it may",
        _ => "it was taken",
    }
}

/// The rank of one member.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberRank {
    /// The member with its score, position and rank.
    pub entry: RankEntry,
    /// The number of members in the standing.
    pub members: u64,
    /// The share of the members that are not in front, in percent: 100 for the first.
    pub percentile: f64,
    /// Decimal places of the score.
    pub decimals: u32,
}

/// A closed season.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedSeason {
    /// When it was closed, by the clock of the store.
    pub closed_at: Micros,
    /// The number of members in its standing.
    pub members: u64,
    /// The first members of its standing.
    pub entries: Vec<RankEntry>,
    /// Decimal places of the scores.
    pub decimals: u32,
    /// Whether this call has enqueued the job that announces it.
    pub is_announced_now: bool,
}

/// The payload of the job about a closed season.
#[derive(Serialize)]
struct SeasonPayload<'a> {
    board: &'a str,
    season: u64,
    members: u64,
    entries: Vec<RankEntryView>,
}

/// A handle to a board, made with [`Fairlane::ranking`](crate::Fairlane::ranking).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// use std::time::SystemTime;
///
/// use fairlane::{BoardSettings, Fairlane};
///
/// let fairlane = Fairlane::open("memory:").await?;
/// let popular = fairlane.ranking("popular");
/// popular.create(BoardSettings::default()).await?;
/// popular.record("reservation-1", "concert-7", SystemTime::now()).await?;
/// popular.record("reservation-1", "concert-7", SystemTime::now()).await?;
/// let top = popular.top(10).await?;
/// assert_eq!((top[0].member.to_string(), top[0].score), ("concert-7".to_owned(), 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Ranking {
    engine: Arc<dyn Engine>,
    name: String,
}

impl Ranking {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: String) -> Self {
        Self { engine, name }
    }

    fn name(&self) -> Result<BoardName, Error> {
        Ok(BoardName::new(&self.name)?)
    }

    fn unknown(&self) -> Error {
        RankingError::UnknownBoard(self.name.clone()).into()
    }

    /// Makes the board, and returns whether it is new. A board with these settings stays as it is; only
    /// `events_max` can be changed later.
    pub async fn create(&self, settings: BoardSettings) -> Result<bool, Error> {
        match self.engine.call(SetBoard { board: self.name()?, settings }).await? {
            BoardSet::Set { is_new } => Ok(is_new),
            BoardSet::Different { settings } => Err(RankingError::Different(Box::new(settings)).into()),
            BoardSet::TooManyBoards => Err(RankingError::TooManyBoards.into()),
        }
    }

    /// Makes the board with some settings, or changes how many events it remembers; returns all
    /// settings, and whether the board is new. Settings that are not changed stay as they are.
    pub async fn update(
        &self,
        change: impl FnOnce(&mut BoardSettings),
    ) -> Result<(BoardSettings, bool), Error> {
        let mut settings = self.view().await?.map(|detail| detail.board.settings).unwrap_or_default();
        change(&mut settings);
        let is_new = self.create(settings.clone()).await?;
        Ok((settings, is_new))
    }

    /// Removes the board; returns whether there was one.
    pub async fn remove(&self) -> Result<bool, Error> {
        Ok(self.engine.call(RemoveBoard { board: self.name()? }).await?.was_there)
    }

    /// Counts an event once. `at` is when it happened, not when it was processed.
    pub async fn record(&self, id: &str, member: &str, at: SystemTime) -> Result<Outcome, Error> {
        self.add(id, member, 1, at).await
    }

    /// Adds the delta of an event once, to a board by sum.
    pub async fn add(&self, id: &str, member: &str, delta: i64, at: SystemTime) -> Result<Outcome, Error> {
        let (id, member) = (EventId::new(id)?, MemberId::new(member)?);
        self.record_event(NewEvent { id, member, delta, at_ms: millis(at) }).await
    }

    /// Records an event; a refusal is an error.
    pub async fn record_event(&self, event: NewEvent) -> Result<Outcome, Error> {
        let id = event.id.to_string();
        let outcomes = self.record_all(vec![event]).await?;
        self.taken(&id, &outcomes)
    }

    /// Records any number of events in steps, and returns the outcome of each. After an error all of
    /// them may be sent again. Refused events are logged.
    pub async fn record_all(&self, events: Vec<NewEvent>) -> Result<Vec<Outcome>, Error> {
        let (board, mut outcomes) = (self.name()?, Vec::with_capacity(events.len()));
        for chunk in events.chunks(RECORD_EVENTS_MAX) {
            let command = RecordEvents { board: board.clone(), events: chunk.to_vec(), ranks: false };
            let reply = self.engine.call(command).await;
            outcomes.extend(self.recorded(chunk.iter().map(|event| &event.id), reply)?.0);
        }
        Ok(outcomes)
    }

    /// Records an event and returns the rank of its member afterwards, in one call.
    pub async fn record_and_rank(&self, event: NewEvent) -> Result<(Outcome, Option<RankEntry>), Error> {
        let id = event.id.clone();
        let command = RecordEvents { board: self.name()?, events: vec![event], ranks: true };
        let reply = self.engine.call(command).await;
        let (outcomes, mut ranks) = self.recorded([&id].into_iter(), reply)?;
        Ok((self.taken(&id.to_string(), &outcomes)?, ranks.pop()))
    }

    /// Cancels an event of this time, which may arrive after its cancellation.
    pub async fn cancel(&self, id: &str, at: SystemTime) -> Result<Outcome, Error> {
        let outcomes =
            self.cancel_all(vec![Cancellation { id: EventId::new(id)?, at_ms: millis(at) }]).await?;
        self.taken(id, &outcomes)
    }

    /// Cancels any number of events in steps, and returns the outcome of each.
    pub async fn cancel_all(&self, events: Vec<Cancellation>) -> Result<Vec<Outcome>, Error> {
        let (board, mut outcomes) = (self.name()?, Vec::with_capacity(events.len()));
        for chunk in events.chunks(RECORD_EVENTS_MAX) {
            let command = CancelEvents { board: board.clone(), events: chunk.to_vec() };
            let reply = self.engine.call(command).await;
            outcomes.extend(self.recorded(chunk.iter().map(|event| &event.id), reply)?.0);
        }
        Ok(outcomes)
    }

    /// Sets the value of a member on a board by the latest value (the highest version counts) or by
    /// the maximum (the best value counts, and the version is ignored). The value is in units of the
    /// board's last decimal place: 30.5 is 305 with one decimal place.
    pub async fn set(
        &self,
        member: &str,
        version: u64,
        value: i64,
        at: SystemTime,
    ) -> Result<Outcome, Error> {
        let score = NewScore { member: MemberId::new(member)?, value, version, at_ms: millis(at) };
        let outcomes = self.set_all(vec![score]).await?;
        self.taken(member, &outcomes)
    }

    /// Sets any number of values in steps, and returns the outcome of each.
    pub async fn set_all(&self, scores: Vec<NewScore>) -> Result<Vec<Outcome>, Error> {
        let (board, mut outcomes) = (self.name()?, Vec::with_capacity(scores.len()));
        for chunk in scores.chunks(RECORD_EVENTS_MAX) {
            let command = SetScores { board: board.clone(), scores: chunk.to_vec(), ranks: false };
            let reply = self.engine.call(command).await;
            outcomes.extend(self.recorded(chunk.iter().map(|score| &score.member), reply)?.0);
        }
        Ok(outcomes)
    }

    /// The first members of the current season.
    pub async fn top(&self, members_max: usize) -> Result<Vec<RankEntry>, Error> {
        Ok(self.page(Standing::All, 0, members_max).await?.entries)
    }

    /// A page of a window, of a closed season or of the current one, behind some members. A window that
    /// the board does not have is an error, here and in the other reads.
    pub async fn page(&self, standing: Standing, behind: u64, members_max: usize) -> Result<RankPage, Error> {
        self.list(standing, PageStart::Behind(behind), members_max).await
    }

    /// A member with its neighbours; empty if it is not in the standing.
    pub async fn around(
        &self,
        standing: Standing,
        member: &str,
        before: u64,
        members_max: usize,
    ) -> Result<RankPage, Error> {
        let start = PageStart::Around { member: MemberId::new(member)?, before };
        self.list(standing, start, members_max).await
    }

    async fn list(
        &self,
        standing: Standing,
        start: PageStart,
        members_max: usize,
    ) -> Result<RankPage, Error> {
        let command = ListRanks { board: self.name()?, standing: standing.clone(), start, members_max };
        let page = self.engine.call(command).await?.0.ok_or_else(|| self.unknown())?;
        self.with_window(&standing, page).await
    }

    /// Refuses a window that the board does not have. The engine replies as if it had no events, so the
    /// settings are read only if the reply has no members.
    async fn with_window(&self, standing: &Standing, page: RankPage) -> Result<RankPage, Error> {
        let Standing::Window { kind, .. } = standing else { return Ok(page) };
        if page.members > 0 {
            return Ok(page);
        }
        let windows = self.view().await?.ok_or_else(|| self.unknown())?.board.settings.windows;
        match windows.kinds().any(|one| one == *kind) {
            true => Ok(page),
            false => {
                let board = self.name.clone();
                Err(RankingError::NoWindow { board, window: *kind, windows }.into())
            }
        }
    }

    /// The rank and percentile of one member, or `None` if it is not in the standing.
    pub async fn rank(&self, standing: Standing, member: &str) -> Result<Option<MemberRank>, Error> {
        let page = self.ranks(standing, &[member]).await?;
        let (members, decimals) = (page.members, page.decimals);
        Ok(page.entries.into_iter().next().map(|entry| {
            let percentile = 100.0 * (members - (entry.rank - 1)) as f64 / members as f64;
            MemberRank { entry, members, percentile, decimals }
        }))
    }

    /// The ranks of some members, such as a user and the user's friends, in their order. Members that
    /// are not in the standing are left out.
    pub async fn ranks(&self, standing: Standing, members: &[&str]) -> Result<RankPage, Error> {
        let (board, mut page) = (self.name()?, RankPage { entries: vec![], members: 0, decimals: 0 });
        let names: Result<Vec<_>, _> = members.iter().map(MemberId::new).collect();
        for chunk in names?.chunks(SHOW_RANKS_MAX) {
            let (standing, members) = (standing.clone(), chunk.to_vec());
            let step = self.engine.call(ShowRanks { board: board.clone(), standing, members }).await?;
            let step = step.0.ok_or_else(|| self.unknown())?;
            (page.members, page.decimals) = (step.members, step.decimals);
            page.entries.extend(step.entries);
        }
        self.with_window(&standing, page).await
    }

    /// The board with its windows and closed seasons, or `None` if it does not exist.
    pub async fn view(&self) -> Result<Option<BoardDetail>, Error> {
        Ok(self.engine.call(InspectBoard { board: self.name()? }).await?.0)
    }

    /// Closes a season by its number, and returns its standing: the same one however often it is
    /// closed.
    pub async fn close_season(&self, season: u64) -> Result<ClosedSeason, Error> {
        Ok(self.close(season, false).await?.0)
    }

    /// Closes a season and enqueues one job with its standing, under the id `season-<board>-<season>`.
    /// If the process dies midway, the next call continues; a season is announced once.
    pub async fn close_season_with_job(
        &self,
        season: u64,
        group: &str,
        job_type: &str,
    ) -> Result<ClosedSeason, Error> {
        let (mut closed, announced) = self.close(season, false).await?;
        if announced {
            return Ok(closed);
        }
        let decimals = closed.decimals;
        let payload = SeasonPayload {
            board: &self.name,
            season,
            members: closed.members,
            entries: closed.entries.iter().map(|entry| RankEntryView::new(entry, decimals)).collect(),
        };
        let job = Job::new(group, job_type, &payload).id(format!("season-{}-{season}", self.name));
        Fairlane::from_engine(self.engine.clone()).enqueue(job).await?.accepted()?;
        self.close(season, true).await?;
        closed.is_announced_now = true;
        Ok(closed)
    }

    async fn close(&self, season: u64, announced: bool) -> Result<(ClosedSeason, bool), Error> {
        let command = CloseSeason { board: self.name()?, season, members_max: SEASON_MEMBERS, announced };
        match self.engine.call(command).await? {
            SeasonClosed::Closed { closed_at, members, entries, decimals, announced } => {
                let is_announced_now = false;
                Ok((ClosedSeason { closed_at, members, entries, decimals, is_announced_now }, announced))
            }
            SeasonClosed::NotBegun { .. } => Err(RankingError::NotBegun(season).into()),
            SeasonClosed::Forgotten => Err(RankingError::Forgotten(season).into()),
            SeasonClosed::UnknownBoard => Err(self.unknown()),
        }
    }

    /// The outcomes and ranks of a reply. Logs refusals and failures, so that none is lost silently: a
    /// line for each step, whatever the number of events in it.
    fn recorded<'a, T: std::fmt::Display + 'a>(
        &self,
        ids: impl Iterator<Item = &'a T>,
        reply: Result<EventsRecorded, EngineError>,
    ) -> Result<(Vec<Outcome>, Vec<RankEntry>), Error> {
        let engine = self.engine.info().name;
        let error = match reply {
            Ok(EventsRecorded::Recorded { outcomes, ranks }) => {
                let refused = |(_, outcome): &(&T, &Outcome)| !outcome.is_taken();
                let mut refused = ids.zip(&outcomes).filter(refused);
                if let Some((id, outcome)) = refused.next() {
                    let (reason, refused) = (reason(*outcome), 1 + refused.count());
                    tracing::warn!(
                        target: TARGET, engine, board = %self.name, %id, reason, refused, "board updates refused"
                    );
                }
                return Ok((outcomes, ranks));
            }
            Ok(EventsRecorded::UnknownBoard) => self.unknown(),
            Ok(EventsRecorded::WrongRule) => RankingError::WrongRule.into(),
            Err(error) => error.into(),
        };
        tracing::warn!(target: TARGET, engine, board = %self.name, %error, "board update failed");
        Err(error)
    }

    /// The only outcome, or an error if it is a refusal.
    fn taken(&self, id: &str, outcomes: &[Outcome]) -> Result<Outcome, Error> {
        match outcomes {
            [outcome] if outcome.is_taken() => Ok(*outcome),
            [outcome] => Err(RankingError::Refused { id: id.to_owned(), outcome: *outcome }.into()),
            _ => Err(broken("a board answered with another number of outcomes")),
        }
    }
}

/// The time of an event in milliseconds since the Unix epoch.
fn millis(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
