//! The boards: `popular` counts confirmed reservations of each schedule, `sold-out` has the time that
//! each took to sell out.
//!
//! Events and times arrive from the outbox, possibly twice and late; the boards count each reservation
//! once. A board that is missing, because the engine lost its data, is filled from the database. The
//! titles of a board come with one query.

use fairlane::{
    BoardOrder, BoardRule, BoardSettings, EventCancellation, EventId, Fairlane, MemberId, NewEvent, NewScore,
    RankEntry, RankingError,
};
use serde::Serialize;

use crate::store::{Effect, Store, StoreError};

const POPULAR: &str = "popular";
const SOLD_OUT: &str = "sold-out";
/// The board of selling out has milliseconds.
const SOLD_OUT_DECIMALS: u32 = 3;

/// Why a board did not answer.
#[derive(Debug, thiserror::Error)]
pub enum BoardsError {
    /// The engine failed, or refused the call.
    #[error(transparent)]
    Engine(#[from] fairlane::Error),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine did not answer in time.
    #[error("no reply in time")]
    Timeout,
}

/// An entry of a board.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranking {
    /// The rank, from 1; equal scores share it.
    pub rank: u64,
    /// The schedule.
    pub schedule_id: String,
    /// The title of its concert.
    pub concert_title: String,
    /// Its date.
    pub concert_date: String,
    /// Seconds from the first confirmation to the last, on the board of selling out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sold_out_duration_sec: Option<f64>,
    /// Confirmed reservations, on the popular board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation_count: Option<u64>,
}

/// The boards of the shop.
#[derive(Clone)]
pub struct Boards {
    fairlane: Fairlane,
    store: Store,
}

/// Effects by the operation that applies them.
#[derive(Default)]
struct Sorted {
    confirmed: Vec<NewEvent>,
    cancelled: Vec<EventCancellation>,
    sold_out: Vec<NewScore>,
}

impl Boards {
    /// The boards on an engine, with the titles of this database.
    pub fn new(fairlane: Fairlane, store: Store) -> Self {
        Self { fairlane, store }
    }

    /// Makes the boards unless they are there, and fills a new one from the database.
    pub async fn prepare(&self) -> Result<(), BoardsError> {
        let times = BoardSettings {
            rule: BoardRule::Latest,
            order: BoardOrder::Ascending,
            decimals: SOLD_OUT_DECIMALS,
            ..BoardSettings::default()
        };
        let is_new = [
            self.fairlane.ranking(POPULAR).create(BoardSettings::default()).await?,
            self.fairlane.ranking(SOLD_OUT).create(times).await?,
        ];
        if is_new.contains(&true) {
            // What the other board has already changes nothing.
            self.send(sort(&self.store.confirmations().await?)?).await?;
        }
        Ok(())
    }

    /// Applies effects of the outbox, each of which may have been applied before. An event that a
    /// board refuses, because it is older than its horizon for instance, is logged.
    pub async fn apply(&self, effects: &[Effect]) -> Result<(), BoardsError> {
        match self.send(sort(effects)?).await {
            Err(fairlane::Error::Ranking(RankingError::UnknownBoard(_))) => {
                self.prepare().await?;
                Ok(self.send(sort(effects)?).await?)
            }
            sent => Ok(sent?),
        }
    }

    async fn send(&self, sorted: Sorted) -> Result<(), fairlane::Error> {
        let Sorted { confirmed, cancelled, sold_out } = sorted;
        self.fairlane.ranking(POPULAR).record_all(confirmed).await?;
        self.fairlane.ranking(POPULAR).cancel_all(cancelled).await?;
        self.fairlane.ranking(SOLD_OUT).set_all(sold_out).await?;
        Ok(())
    }

    /// The schedules with the most confirmed reservations.
    pub async fn popular(&self, limit: usize) -> Result<Vec<Ranking>, BoardsError> {
        let mut page = self.page(POPULAR, limit).await?;
        // A schedule whose seats were all cancelled keeps its place at the end of the board.
        page.retain(|entry| entry.score > 0);
        let count = |entry: &RankEntry| u64::try_from(entry.score).ok();
        self.titled(page, |entry, ranking| ranking.reservation_count = count(entry)).await
    }

    /// The schedules that sold out fastest.
    pub async fn sold_out(&self, limit: usize) -> Result<Vec<Ranking>, BoardsError> {
        let page = self.page(SOLD_OUT, limit).await?;
        let unit = 10_f64.powi(SOLD_OUT_DECIMALS as i32);
        let seconds = |entry: &RankEntry| Some(entry.score as f64 / unit);
        self.titled(page, |entry, ranking| ranking.sold_out_duration_sec = seconds(entry)).await
    }

    /// The first entries of a board; none if it is not there yet.
    async fn page(&self, name: &str, limit: usize) -> Result<Vec<RankEntry>, BoardsError> {
        match self.fairlane.ranking(name).top(limit).await {
            Err(fairlane::Error::Ranking(RankingError::UnknownBoard(_))) => Ok(Vec::new()),
            listed => Ok(listed?),
        }
    }

    async fn titled(
        &self,
        entries: Vec<RankEntry>,
        add_score: impl Fn(&RankEntry, &mut Ranking),
    ) -> Result<Vec<Ranking>, BoardsError> {
        let schedules = entries.iter().map(|entry| entry.member.to_string()).collect();
        let mut titles = self.store.titles(schedules).await?;
        let ranking = |entry: &RankEntry| {
            // A schedule of another database on the same engine has no title here.
            let title = titles.remove(&entry.member.to_string())?;
            let mut ranking = Ranking {
                rank: entry.rank,
                schedule_id: entry.member.to_string(),
                concert_title: title.title,
                concert_date: title.date,
                sold_out_duration_sec: None,
                reservation_count: None,
            };
            add_score(entry, &mut ranking);
            Some(ranking)
        };
        Ok(entries.iter().filter_map(ranking).collect())
    }
}

fn sort(effects: &[Effect]) -> Result<Sorted, fairlane::Error> {
    let mut sorted = Sorted::default();
    for effect in effects {
        match effect {
            Effect::Job { .. } => {}
            Effect::Confirmed { reservation, schedule, at } => sorted.confirmed.push(NewEvent {
                id: EventId::new(reservation)?,
                member: MemberId::new(schedule)?,
                delta: 1,
                at_ms: *at,
            }),
            Effect::Cancelled { reservation, at } => {
                sorted.cancelled.push(EventCancellation { id: EventId::new(reservation)?, at_ms: *at });
            }
            Effect::SoldOut { schedule, duration_ms, at } => sorted.sold_out.push(NewScore {
                member: MemberId::new(schedule)?,
                value: i64::try_from(*duration_ms).unwrap_or(i64::MAX),
                // A schedule sells out for the first time once.
                version: 1,
                at_ms: *at,
            }),
        }
    }
    Ok(sorted)
}
