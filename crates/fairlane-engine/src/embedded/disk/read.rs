//! The tables into a machine.
//!
//! Rows are read one by one and handed on, so that a million jobs are in memory once.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use fairlane_core::queue::rows::{
    BatchRow, BulkEndedRow, BulkRow, CompletedRow, CutRow, Damage, DownstreamRow, GroupRow, JobRow, LaneRow,
    OrderRow, PlaceRow, ProgressRow, RecordRow, Restore, RunRow, SnapshotRow, TypeRow, WorkerRow,
};
use fairlane_core::queue::{BulkCause, BulkMode, BulkState};
use fairlane_core::queue::{GroupSettings, LaneStanding, Machine, Snapshot, TypeSettings};
use fairlane_core::rate::Bucket;
use fairlane_core::{Cost, Fence, Micros, Rate, RequestNumber, Trace, TypeId, Weight};
use rusqlite::{Connection, Row};

use super::DiskError;
use crate::embedded::random_hash_seed;

/// Jobs between two words about progress.
const PROGRESS_JOBS: u64 = 100_000;

/// How far the loading of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loading {
    /// Jobs read so far.
    pub jobs: u64,
    /// Of how many, at most.
    pub of: u64,
}

/// Why a table cannot be read.
enum Unread {
    /// SQLite could not.
    Sqlite(rusqlite::Error),
    /// What it read cannot be.
    Damage(Damage),
}

impl Unread {
    fn of(self, file: &Path) -> DiskError {
        match self {
            Self::Sqlite(error) => DiskError::of(error, file),
            Self::Damage(damage) => DiskError::damaged(&damage, file),
        }
    }
}

impl From<rusqlite::Error> for Unread {
    /// What SQLite could read and nobody can understand is damage as well.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error() {
            Some(_) => Self::Sqlite(error),
            None => Self::Damage(Damage::new(error.to_string())),
        }
    }
}

impl From<Damage> for Unread {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

/// The machine of the rows there are, or none where none have been written.
pub(super) fn load(
    connection: &Connection,
    file: &Path,
    progress: &mut dyn FnMut(Loading),
) -> Result<Option<Machine>, DiskError> {
    // One transaction, so that all tables are of one moment.
    let read = connection.unchecked_transaction().map_err(Unread::Sqlite);
    let loaded = read.and_then(|transaction| load_all(&transaction, false, progress));
    loaded.map(|loaded| loaded.map(|(machine, _)| machine)).map_err(|unread| unread.of(file))
}

/// The machine of rows of which some are missing, all of it to be written; and what was mended.
pub(super) fn mend(connection: &Connection, file: &Path) -> Result<(Machine, Vec<String>), DiskError> {
    let loaded = load_all(connection, true, &mut |_| {}).map_err(|unread| unread.of(file))?;
    loaded.ok_or_else(|| DiskError::damaged(&Damage::new("no rows came in"), file))
}

type Loaded = Option<(Machine, Vec<String>)>;

fn load_all(
    connection: &Connection,
    mend: bool,
    progress: &mut dyn FnMut(Loading),
) -> Result<Loaded, Unread> {
    let mut whole = Vec::new();
    each(connection, mend, "SELECT name, value FROM whole", |row| {
        whole.push((row.get(0)?, row.get(1)?));
        Ok(())
    })?;
    if whole.is_empty() && !mend {
        return Ok(None);
    }
    let mut restore = Restore::new(whole, random_hash_seed(), mend)?;
    each(connection, mend, "SELECT * FROM types ORDER BY name", |row| Ok(restore.add_type(type_row(row)?)?))?;
    each(connection, mend, "SELECT * FROM groups", |row| Ok(restore.add_group(group_row(row)?)?))?;
    each(connection, mend, "SELECT * FROM lanes", |row| Ok(restore.add_lane(lane_row(row)?)?))?;
    each(connection, mend, "SELECT * FROM snapshots ORDER BY group_id, number", |row| {
        let snapshot = Snapshot {
            at: Micros(row.get(2)?),
            waiting: row.get(3)?,
            speed: row.get(4)?,
            backoff_ms: row.get(5)?,
        };
        Ok(restore.add_snapshot(SnapshotRow { group: name(row, 0)?, number: row.get(1)?, snapshot })?)
    })?;
    each(connection, mend, "SELECT * FROM bulks ORDER BY number", |row| {
        Ok(restore.add_bulk(bulk_row(row)?)?)
    })?;
    load_jobs(connection, &mut restore, mend, progress)?;
    load_rest(connection, &mut restore, mend)?;
    Ok(Some(restore.finish()?))
}

fn load_rest(connection: &Connection, restore: &mut Restore, mend: bool) -> Result<(), Unread> {
    each(connection, mend, "SELECT * FROM batches", |row| {
        let row = BatchRow {
            batch: Fence(row.get(0)?),
            deadline: row.get::<_, Option<u64>>(1)?.map(Micros),
            jobs: numbers(row, 2)?,
        };
        Ok(restore.add_batch(row)?)
    })?;
    each(connection, mend, "SELECT * FROM completed ORDER BY chunk", |row| {
        let (chunk, at) = (row.get(0)?, Micros(row.get(1)?));
        Ok(restore.add_completed(CompletedRow { chunk, at, jobs: numbers(row, 2)? })?)
    })?;
    each(connection, mend, "SELECT * FROM bulk_ended ORDER BY bulk, chunk", |row| {
        let ids = text(row, 3)?.lines().map(str::parse).collect::<Result<_, _>>().map_err(impossible)?;
        let (bulk, chunk, at) = (row.get(0)?, row.get(1)?, Micros(row.get(2)?));
        Ok(restore.add_bulk_ended(BulkEndedRow { bulk, chunk, at, ids })?)
    })?;
    each(connection, mend, "SELECT * FROM workers", |row| {
        let (number, until, fence) = (RequestNumber(row.get(1)?), Micros(row.get(2)?), Fence(row.get(3)?));
        Ok(restore.add_worker(WorkerRow { worker: name(row, 0)?, number, until, fence })?)
    })
}

/// Gives each row to `take`. Where tables are mended, rows that make no sense are left out.
fn each(
    connection: &Connection,
    mend: bool,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> Result<(), Unread>,
) -> Result<(), Unread> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match take(row) {
            Err(Unread::Damage(_)) if mend => {}
            taken => taken?,
        }
    }
    Ok(())
}

/// Both tables are in the order of numbers, so one walk along each is enough.
fn load_jobs(
    connection: &Connection,
    restore: &mut Restore,
    mend: bool,
    progress: &mut dyn FnMut(Loading),
) -> Result<(), Unread> {
    let of = connection.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0))?;
    let mut moved = connection.prepare("SELECT * FROM progress ORDER BY number")?;
    let mut moved = moved.query([])?;
    let mut next = next_progress(&mut moved, mend)?;
    let mut types: Vec<TypeId> = Vec::new();
    let mut jobs = 0;
    each(connection, mend, "SELECT * FROM jobs ORDER BY number", |row| {
        let job = job_row(row, &mut types)?;
        while let Some(lost) = next.take_if(|next| next.number < job.number) {
            lost_job(&lost, mend)?;
            next = next_progress(&mut moved, mend)?;
        }
        let mine = next.take_if(|next| next.number == job.number);
        if mine.is_some() {
            next = next_progress(&mut moved, mend)?;
        }
        restore.add_job(job, mine)?;
        jobs += 1;
        if jobs % PROGRESS_JOBS == 0 {
            progress(Loading { jobs, of });
        }
        Ok(())
    })?;
    next.as_ref().map_or(Ok(()), |lost| lost_job(lost, mend))
}

fn next_progress(rows: &mut rusqlite::Rows<'_>, mend: bool) -> Result<Option<ProgressRow>, Unread> {
    while let Some(row) = rows.next()? {
        match progress_row(row) {
            Err(Unread::Damage(_)) if mend => {}
            read => return read.map(Some),
        }
    }
    Ok(None)
}

/// Progress without its job, of which nothing can be made.
fn lost_job(lost: &ProgressRow, mend: bool) -> Result<(), Unread> {
    let found = || Damage::new(format!("job {} has progress but is not there", lost.number)).into();
    if mend { Ok(()) } else { Err(found()) }
}

/// There are few types, so their names are shared.
fn job_row(row: &Row<'_>, types: &mut Vec<TypeId>) -> Result<JobRow, Unread> {
    let type_name = text(row, 3)?;
    let known = types.iter().find(|known| known.escaped() == type_name).cloned();
    let type_id = match known {
        Some(known) => known,
        None => {
            let type_id: TypeId = name(row, 3)?;
            types.push(type_id.clone());
            type_id
        }
    };
    Ok(JobRow {
        number: row.get(0)?,
        group: name(row, 1)?,
        id: name(row, 2)?,
        type_id,
        level: name(row, 4)?,
        cost: Cost::new(row.get(5)?).map_err(impossible)?,
        created_at: Micros(row.get(6)?),
        bulk: row.get(7)?,
        payload: bytes(row, 8)?,
        trace: trace(row, 9)?,
    })
}

fn progress_row(row: &Row<'_>) -> Result<ProgressRow, Unread> {
    let place = match text(row, 1)? {
        "lane" => row.get::<_, Option<i64>>(2)?.map_or(PlaceRow::Backlog, PlaceRow::Returned),
        "ready" => PlaceRow::Ready(row.get(2)?),
        "on_hold" => PlaceRow::OnHold(row.get(2)?),
        "waiting" => PlaceRow::Waiting(Micros(row.get(3)?)),
        word @ ("in_flight" | "in_flight_cancelled") => PlaceRow::InFlight {
            fence: Fence(row.get(4)?),
            batch: Fence(row.get(5)?),
            worker: name(row, 6)?,
            cancelled: word != "in_flight",
        },
        "completed" => PlaceRow::Completed,
        word @ ("failed" | "failed_unlisted") => {
            PlaceRow::Failed { at: Micros(row.get(3)?), listed: word == "failed" }
        }
        "cancelled" => PlaceRow::Cancelled,
        other => return Err(unknown("place", other)),
    };
    let run = match row.get::<_, Option<u32>>(9)? {
        None => None,
        Some(attempts) => Some(RunRow {
            attempts,
            throttles: row.get(10)?,
            losses: row.get(11)?,
            settled: Fence(row.get(12)?),
            settled_at: Micros(row.get(13)?),
            worker: row.get_ref(14)?.as_str_or_null().map_err(impossible)?.map(word).transpose()?,
            note: bytes(row, 15)?,
        }),
    };
    Ok(ProgressRow { number: row.get(0)?, place, bulk: row.get(7)?, cancelled: row.get(8)?, run })
}

fn type_row(row: &Row<'_>) -> Result<TypeRow, Unread> {
    let cut = match row.get::<_, Option<u64>>(10)? {
        None => None,
        Some(at) => Some(CutRow {
            at: Micros(at),
            fence: Fence(row.get(11)?),
            plateau_milli: row.get(12)?,
            plateau_ms: row.get(13)?,
        }),
    };
    let timer = match row.get::<_, Option<u64>>(19)? {
        None => None,
        Some(at) => Some((name(row, 18)?, Micros(at))),
    };
    Ok(TypeRow {
        name: name(row, 0)?,
        settings: TypeSettings {
            rate: rate(row, 1)?,
            concurrency: row.get(2)?,
            paused: row.get(3)?,
            max_retry_count: row.get(21)?,
        },
        bucket: Bucket { level: row.get(4)?, at: Micros(row.get(5)?) },
        virtual_time: row.get(6)?,
        orders: [order(row, 7)?, order(row, 8)?, order(row, 9)?],
        downstream: DownstreamRow {
            cut,
            closed_until: Micros(row.get(14)?),
            goodput_at: row.get(15)?,
            goodput: exactly(row, 16)?,
        },
        tokens: row.get(17)?,
        timer,
        asked_at: Micros(row.get(20)?),
    })
}

fn bulk_row(row: &Row<'_>) -> Result<BulkRow, Unread> {
    let time =
        |at: usize| -> Result<Option<Micros>, Unread> { Ok(row.get::<_, Option<u64>>(at)?.map(Micros)) };
    let state = one_of(text(row, 3)?, "state of a bulk action", &BulkState::ALL, BulkState::as_str)?;
    let mode = one_of(text(row, 4)?, "mode of a bulk action", &BulkMode::ALL, BulkMode::as_str)?;
    let cause = row.get_ref(15)?.as_str_or_null().map_err(impossible)?;
    let cause = cause.map(|word| one_of(word, "cause", &BulkCause::ALL, BulkCause::as_str)).transpose()?;
    Ok(BulkRow {
        number: row.get(0)?,
        group: name(row, 1)?,
        id: name(row, 2)?,
        state,
        mode,
        sealed: row.get(5)?,
        total: row.get(6)?,
        succeeded: row.get(7)?,
        failed: row.get(8)?,
        cancelled: row.get(9)?,
        created_at: Micros(row.get(10)?),
        started_at: time(11)?,
        finished_at: time(12)?,
        deadline: time(13)?,
        failures_max: row.get(14)?,
        cause,
        fence: Fence(row.get(16)?),
        take_at: time(17)?,
        summary: bytes(row, 18)?,
        payload: bytes(row, 19)?,
        aggregated: row.get(20)?,
        worker: row.get_ref(21)?.as_str_or_null().map_err(impossible)?.map(word).transpose()?,
    })
}

fn group_row(row: &Row<'_>) -> Result<GroupRow, Unread> {
    Ok(GroupRow {
        name: name(row, 0)?,
        settings: GroupSettings {
            weight: Weight::new(row.get(1)?).map_err(impossible)?,
            base_priority: row.get(7)?,
            rate: rate(row, 2)?,
            concurrency: row.get(3)?,
            paused: row.get(4)?,
        },
        bucket: Bucket { level: row.get(5)?, at: Micros(row.get(6)?) },
        window: (row.get(8)?, row.get(9)?),
        record: RecordRow {
            total: row.get(10)?,
            done: row.get(11)?,
            throttles: row.get(12)?,
            throttles_since: row.get(13)?,
            noted: row.get(14)?,
            backoff_ms: row.get(15)?,
        },
        idle_at: row.get::<_, Option<u64>>(16)?.map(Micros),
    })
}

fn lane_row(row: &Row<'_>) -> Result<LaneRow, Unread> {
    let standing = match text(row, 3)? {
        "idle" => LaneStanding::Idle,
        "active" => LaneStanding::Active,
        "rate_parked" => LaneStanding::RateParked(Micros(row.get(4)?)),
        "seat_parked" => LaneStanding::SeatParked,
        "paused" => LaneStanding::Paused,
        "clearing" => LaneStanding::Clearing(Micros(row.get(4)?)),
        other => return Err(unknown("standing of a lane", other)),
    };
    Ok(LaneRow {
        group: name(row, 0)?,
        type_id: name(row, 1)?,
        level: name(row, 2)?,
        standing,
        tag: row.get(5)?,
        epoch: row.get(6)?,
        remainder: row.get(7)?,
        sequence: row.get(8)?,
    })
}

fn text<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a str, Unread> {
    let value = row.get_ref(at)?;
    value.as_str().map_err(|_| Damage::new(format!("column {at} is no text")).into())
}

fn bytes(row: &Row<'_>, at: usize) -> Result<Arc<[u8]>, Unread> {
    let value = row.get_ref(at)?;
    value.as_blob().map(Arc::from).map_err(|_| Damage::new(format!("column {at} holds no bytes")).into())
}

fn trace(row: &Row<'_>, at: usize) -> Result<Option<Trace>, Unread> {
    let packed = row.get_ref(at)?.as_blob_or_null().map_err(impossible)?;
    packed.map(Trace::from_packed).transpose().map_err(impossible)
}

fn name<T: FromStr<Err: Display>>(row: &Row<'_>, at: usize) -> Result<T, Unread> {
    word(text(row, at)?)
}

fn word<T: FromStr<Err: Display>>(text: &str) -> Result<T, Unread> {
    text.parse().map_err(impossible)
}

fn one_of<T: Copy>(text: &str, what: &str, all: &[T], word: fn(T) -> &'static str) -> Result<T, Unread> {
    all.iter().copied().find(|one| word(*one) == text).ok_or_else(|| unknown(what, text))
}

fn numbers(row: &Row<'_>, at: usize) -> Result<Vec<u64>, Unread> {
    let text = text(row, at)?;
    let parsed: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    parsed.map_err(|_| unknown("list of numbers", text))
}

fn exactly<const N: usize>(row: &Row<'_>, at: usize) -> Result<[u64; N], Unread> {
    let numbers = numbers(row, at)?;
    let count = numbers.len();
    numbers.try_into().map_err(|_| Damage::new(format!("{count} numbers where {N} belong")).into())
}

fn order(row: &Row<'_>, at: usize) -> Result<OrderRow, Unread> {
    let [virtual_time, epoch, pool, tag] = exactly(row, at)?;
    Ok(OrderRow { virtual_time, epoch, pool, tag })
}

fn rate(row: &Row<'_>, at: usize) -> Result<Option<Rate>, Unread> {
    let Some(text) = row.get_ref(at)?.as_str_or_null().map_err(impossible)? else { return Ok(None) };
    let parts: Vec<u64> = text.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let [count, period_ms, burst] = parts[..] else { return Err(unknown("rate", text)) };
    Ok(Some(Rate::new(count, period_ms, Some(burst)).map_err(impossible)?))
}

fn impossible(error: impl Display) -> Unread {
    Damage::new(error.to_string()).into()
}

fn unknown(what: &str, text: &str) -> Unread {
    Damage::new(format!("{text:?} is no {what}")).into()
}
