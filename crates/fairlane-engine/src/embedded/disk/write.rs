//! Changed rows into the tables.

use std::borrow::Cow;
use std::fmt::{Display, Write};

use fairlane_core::queue::LaneStanding;
use fairlane_core::queue::rows::{
    BatchRow, BulkEndedRow, BulkRow, Changes, CompletedRow, GroupRow, JobRow, LaneRow, OrderRow, PlaceRow,
    ProgressRow, SnapshotRow, TypeRow, WorkerRow,
};
use fairlane_core::{Rate, Trace};
use rusqlite::{Connection, Result, params};

/// Writes everything within the transaction that is open.
pub(super) fn write(connection: &Connection, changes: &Changes) -> Result<()> {
    remove(connection, changes)?;
    for row in &changes.types {
        write_type(connection, row)?;
    }
    for row in &changes.groups {
        write_group(connection, row)?;
    }
    for row in &changes.lanes {
        write_lane(connection, row)?;
    }
    write_jobs(connection, &changes.jobs)?;
    write_progress(connection, &changes.progress)?;
    for row in &changes.batches {
        write_batch(connection, row)?;
    }
    for row in &changes.completed {
        write_completed(connection, row)?;
    }
    for row in &changes.bulks {
        write_bulk(connection, row)?;
    }
    for row in &changes.bulk_ended {
        write_bulk_ended(connection, row)?;
    }
    for row in &changes.snapshots {
        write_snapshot(connection, row)?;
    }
    for row in &changes.workers {
        write_worker(connection, row)?;
    }
    let mut whole =
        connection.prepare_cached("INSERT OR REPLACE INTO whole (name, value) VALUES (?1, ?2)")?;
    for (name, value) in &changes.whole {
        whole.execute(params![name, value])?;
    }
    Ok(())
}

fn remove(connection: &Connection, changes: &Changes) -> Result<()> {
    for sql in ["DELETE FROM jobs WHERE number = ?1", "DELETE FROM progress WHERE number = ?1"] {
        let mut gone = connection.prepare_cached(sql)?;
        for number in &changes.jobs_gone {
            gone.execute([number])?;
        }
    }
    for sql in [
        "DELETE FROM groups WHERE name = ?1",
        "DELETE FROM lanes WHERE group_id = ?1",
        "DELETE FROM snapshots WHERE group_id = ?1",
    ] {
        let mut gone = connection.prepare_cached(sql)?;
        for group in &changes.groups_gone {
            gone.execute([group.to_string()])?;
        }
    }
    let mut gone = connection.prepare_cached("DELETE FROM types WHERE name = ?1")?;
    for type_id in &changes.types_gone {
        gone.execute([type_id.to_string()])?;
    }
    let mut gone = connection.prepare_cached("DELETE FROM batches WHERE batch = ?1")?;
    for batch in &changes.batches_gone {
        gone.execute([batch.0])?;
    }
    let mut gone = connection.prepare_cached("DELETE FROM workers WHERE name = ?1")?;
    for worker in &changes.workers_gone {
        gone.execute([worker.to_string()])?;
    }
    if let Some(chunk) = changes.completed_gone {
        connection.prepare_cached("DELETE FROM completed WHERE chunk < ?1")?.execute([chunk])?;
    }
    for sql in ["DELETE FROM bulks WHERE number = ?1", "DELETE FROM bulk_ended WHERE bulk = ?1"] {
        let mut gone = connection.prepare_cached(sql)?;
        for number in &changes.bulks_gone {
            gone.execute([number])?;
        }
    }
    let mut gone = connection.prepare_cached("DELETE FROM bulk_ended WHERE bulk = ?1 AND chunk < ?2")?;
    for (bulk, chunk) in &changes.bulk_ended_gone {
        gone.execute(params![bulk, chunk])?;
    }
    let mut gone = connection.prepare_cached("DELETE FROM snapshots WHERE group_id = ?1 AND number < ?2")?;
    for (group, number) in &changes.snapshots_gone {
        gone.execute(params![group.to_string(), number])?;
    }
    Ok(())
}

fn write_jobs(connection: &Connection, rows: &[JobRow]) -> Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
    for row in rows {
        insert.execute(params![
            row.number,
            plain(row.group.escaped(), &row.group),
            plain(row.id.escaped(), &row.id),
            plain(row.type_id.escaped(), &row.type_id),
            row.level.as_str(),
            row.cost.get(),
            row.created_at.0,
            row.bulk,
            &*row.payload,
            row.trace.as_ref().map(Trace::packed),
        ])?;
    }
    Ok(())
}

fn write_progress(connection: &Connection, rows: &[ProgressRow]) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO progress
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    let mut replace = connection.prepare_cached(sql)?;
    for row in rows {
        let (mut position, mut due_at, mut fence, mut batch, mut worker) = (None, None, None, None, None);
        let place = match &row.place {
            PlaceRow::Backlog => "lane",
            PlaceRow::Returned(order) => {
                position = Some(*order);
                "lane"
            }
            PlaceRow::Ready(order) => {
                position = Some(*order);
                "ready"
            }
            PlaceRow::OnHold(order) => {
                position = Some(*order);
                "on_hold"
            }
            PlaceRow::Waiting(due) => {
                due_at = Some(due.0);
                "waiting"
            }
            PlaceRow::InFlight { fence: held, batch: held_in, worker: holder, cancelled } => {
                (fence, batch) = (Some(held.0), Some(held_in.0));
                worker = Some(plain(holder.escaped(), holder));
                if *cancelled { "in_flight_cancelled" } else { "in_flight" }
            }
            PlaceRow::Completed => "completed",
            PlaceRow::Failed { at, listed } => {
                due_at = Some(at.0);
                if *listed { "failed" } else { "failed_unlisted" }
            }
            PlaceRow::Cancelled => "cancelled",
        };
        let run = row.run.as_ref();
        replace.execute(params![
            row.number,
            place,
            position,
            due_at,
            fence,
            batch,
            worker,
            row.bulk,
            row.cancelled,
            run.map(|run| run.attempts),
            run.map(|run| run.throttles),
            run.map(|run| run.losses),
            run.map(|run| run.settled.0),
            run.map(|run| run.settled_at.0),
            run.and_then(|run| run.worker.as_ref()).map(|worker| plain(worker.escaped(), worker)),
            run.map(|run| &*run.note),
        ])?;
    }
    Ok(())
}

fn write_type(connection: &Connection, row: &TypeRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO types
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
            ?22)";
    let [high, normal, low] = &row.orders;
    let downstream = &row.downstream;
    let cut = downstream.cut;
    connection.prepare_cached(sql)?.execute(params![
        plain(row.name.escaped(), &row.name),
        row.settings.rate.map(rate_text),
        row.settings.concurrency,
        row.settings.paused,
        row.bucket.level,
        row.bucket.at.0,
        row.virtual_time,
        order_text(high),
        order_text(normal),
        order_text(low),
        cut.map(|cut| cut.at.0),
        cut.map(|cut| cut.fence.0),
        cut.map(|cut| cut.plateau_milli),
        cut.map(|cut| cut.plateau_ms),
        downstream.closed_until.0,
        downstream.goodput_at,
        numbers(&downstream.goodput),
        row.tokens,
        row.timer.as_ref().map(|(worker, _)| worker.to_string()),
        row.timer.as_ref().map(|(_, at)| at.0),
        row.asked_at.0,
        row.settings.max_retry_count,
    ])?;
    Ok(())
}

fn write_group(connection: &Connection, row: &GroupRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO groups
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    connection.prepare_cached(sql)?.execute(params![
        plain(row.name.escaped(), &row.name),
        row.settings.weight.get(),
        row.settings.rate.map(rate_text),
        row.settings.concurrency,
        row.settings.paused,
        row.bucket.level,
        row.bucket.at.0,
        row.settings.base_priority,
        row.window.0,
        row.window.1,
        row.record.total,
        row.record.done,
        row.record.throttles,
        row.record.throttles_since,
        row.record.noted,
        row.record.backoff_ms,
        row.idle_at.map(|at| at.0),
    ])?;
    Ok(())
}

fn write_snapshot(connection: &Connection, row: &SnapshotRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO snapshots VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let (group, seen) = (plain(row.group.escaped(), &row.group), &row.snapshot);
    let fields = params![group, row.number, seen.at.0, seen.waiting, seen.speed, seen.backoff_ms];
    connection.prepare_cached(sql)?.execute(fields)?;
    Ok(())
}

fn write_lane(connection: &Connection, row: &LaneRow) -> Result<()> {
    let (standing, until) = match row.standing {
        LaneStanding::Idle => ("idle", None),
        LaneStanding::Active => ("active", None),
        LaneStanding::RateParked(until) => ("rate_parked", Some(until.0)),
        LaneStanding::SeatParked => ("seat_parked", None),
        LaneStanding::Paused => ("paused", None),
        LaneStanding::Clearing(since) => ("clearing", Some(since.0)),
    };
    let sql = "INSERT OR REPLACE INTO lanes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        plain(row.group.escaped(), &row.group),
        plain(row.type_id.escaped(), &row.type_id),
        row.level.as_str(),
        standing,
        until,
        row.tag,
        row.epoch,
        row.remainder,
        row.sequence,
    ])?;
    Ok(())
}

fn write_batch(connection: &Connection, row: &BatchRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO batches VALUES (?1, ?2, ?3)";
    let deadline = row.deadline.map(|deadline| deadline.0);
    connection.prepare_cached(sql)?.execute(params![row.batch.0, deadline, numbers(&row.jobs)])?;
    Ok(())
}

fn write_completed(connection: &Connection, row: &CompletedRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO completed VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![row.chunk, row.at.0, numbers(&row.jobs)])?;
    Ok(())
}

fn write_bulk(connection: &Connection, row: &BulkRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO bulks
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
            ?22)";
    connection.prepare_cached(sql)?.execute(params![
        row.number,
        row.group.to_string(),
        row.id.to_string(),
        row.state.as_str(),
        row.mode.as_str(),
        row.sealed,
        row.total,
        row.succeeded,
        row.failed,
        row.cancelled,
        row.created_at.0,
        row.started_at.map(|at| at.0),
        row.finished_at.map(|at| at.0),
        row.deadline.map(|at| at.0),
        row.failures_max,
        row.cause.map(|cause| cause.as_str()),
        row.fence.0,
        row.take_at.map(|at| at.0),
        &*row.summary,
        &*row.payload,
        row.aggregated,
        row.worker.as_ref().map(ToString::to_string),
    ])?;
    Ok(())
}

fn write_bulk_ended(connection: &Connection, row: &BulkEndedRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO bulk_ended VALUES (?1, ?2, ?3, ?4)";
    // No id has a line break in it.
    let ids: Vec<String> = row.ids.iter().map(ToString::to_string).collect();
    connection.prepare_cached(sql)?.execute(params![row.bulk, row.chunk, row.at.0, ids.join("\n")])?;
    Ok(())
}

fn write_worker(connection: &Connection, row: &WorkerRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO workers VALUES (?1, ?2, ?3, ?4)";
    let name = plain(row.worker.escaped(), &row.worker);
    connection.prepare_cached(sql)?.execute(params![name, row.number.0, row.until.0, row.fence.0])?;
    Ok(())
}

/// A name as people write it. Most have nothing to unescape.
fn plain<'a>(escaped: &'a str, name: &impl Display) -> Cow<'a, str> {
    if escaped.contains('%') { Cow::Owned(name.to_string()) } else { Cow::Borrowed(escaped) }
}

fn rate_text(rate: Rate) -> String {
    format!("{} per {} ms, burst {}", rate.count(), rate.period_ms(), rate.burst())
}

fn order_text(order: &OrderRow) -> String {
    numbers(&[order.virtual_time, order.epoch, order.pool, order.tag])
}

fn numbers(numbers: &[u64]) -> String {
    let mut text = String::with_capacity(numbers.len() * 8);
    for number in numbers {
        let separator = if text.is_empty() { "" } else { " " };
        // A string takes whatever is written to it.
        let _ = write!(text, "{separator}{number}");
    }
    text
}
