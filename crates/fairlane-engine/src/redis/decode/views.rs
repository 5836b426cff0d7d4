//! Views of jobs, groups, types and the queue, from the replies of their scripts.

use std::sync::Arc;

use ::redis::Value;
use fairlane_core::congestion::{Congestion, CongestionLevel};
use fairlane_core::queue::*;
use fairlane_core::{Fence, Micros};

use super::{
    Decoded, Items, Row, bulk_id, bulks, group_id, group_settings, parse, part, place, rate, row, type_id,
    type_settings, unknown, worker_id,
};

pub(super) fn job_view(job: &JobRef, items: &mut Items) -> Decoded<JobView> {
    let Row { created_at, level, type_id, cost, payload, trace, cancelled, .. } = row(items.value()?)?;
    let Value::BulkString(run) = items.value()? else { return Err(unknown("run", "not a text")) };
    let (due, held, deadline) = (items.time()?, items.text()?, items.time()?);
    let (bulk, mode, ready) = (items.text()?, items.text()?, items.number()? == 1);
    let mut view = JobView {
        job: job.clone(),
        type_id,
        level,
        cost,
        payload,
        created_at,
        state: match () {
            () if due.is_some() => JobState::Waiting,
            () if cancelled || mode == "drop" => JobState::Cancelled,
            () if ready => JobState::Ready,
            () => JobState::Pending,
        },
        until: due.or(deadline),
        attempts: 0,
        throttles: 0,
        losses: 0,
        fence: None,
        worker: None,
        settled_at: None,
        note: Arc::from(&[][..]),
        bulk: if bulk.is_empty() { None } else { Some(bulk_id(&bulk)?) },
        trace,
    };
    if !run.is_empty() {
        add_run(&mut view, &run)?;
    }
    if !held.is_empty() {
        add_hold(&mut view, &held)?;
    }
    Ok(view)
}

/// Adds the state of a leased job: fence and batch at fixed width, then
/// `known:level:type:cost:bulk:worker:bytes`.
fn add_hold(view: &mut JobView, held: &str) -> Decoded<()> {
    view.state = JobState::Processing;
    view.attempts += 1;
    let broken = || unknown("hold", held);
    view.fence = Some(Fence(parse(held.get(..16).ok_or_else(broken)?)?));
    view.worker = Some(worker_id(held.split(':').nth(5).ok_or_else(broken)?)?);
    Ok(())
}

/// Adds a run: state, settled fence and time of settlement at fixed width, then
/// `:level:type:cost:attempts:throttles:losses:worker:note`.
fn add_run(view: &mut JobView, run: &[u8]) -> Decoded<()> {
    const FIXED_BYTES: usize = 33;
    let broken = || unknown("run", String::from_utf8_lossy(run).into_owned());
    let (fixed, tail) = run.split_at_checked(FIXED_BYTES).ok_or_else(broken)?;
    let fixed = std::str::from_utf8(fixed).map_err(|_| broken())?;
    match &fixed[..1] {
        "C" => view.state = JobState::Completed,
        "F" => view.state = JobState::Failed,
        "X" => view.state = JobState::Cancelled,
        "N" => {}
        _ => return Err(broken()),
    }
    view.fence = Some(Fence(parse(&fixed[1..17])?)).filter(|fence| fence.0 > 0);
    view.settled_at = Some(Micros(parse(&fixed[17..33])?)).filter(|at| at.0 > 0);
    let mut parts = tail.splitn(9, |byte| *byte == b':').skip(4);
    let mut next = || parts.next().and_then(|part| std::str::from_utf8(part).ok()).ok_or_else(broken);
    view.attempts = parse(next()?)?;
    view.throttles = parse(next()?)?;
    view.losses = parse(next()?)?;
    let worker = next()?;
    view.worker = if worker.is_empty() { None } else { Some(worker_id(worker)?) };
    view.note = parts.next().ok_or_else(broken)?.into();
    Ok(())
}

pub(super) fn group_view(mut items: Items) -> Decoded<GroupView> {
    let settings = group_settings(&items.text()?)?;
    let (backlog, in_flight) = (items.count()?, items.count()?);
    let (waiting, total, done) = (items.count()?, items.count()?, items.count()?);
    let stored_bytes = items.count()?;
    let mut lanes = Vec::new();
    while !items.is_empty() {
        let (level, type_id) = place(&items.text()?)?;
        let (standing, until) = (items.text()?, Micros(items.number()?));
        let standing = match standing.as_str() {
            "I" => LaneStanding::Idle,
            "A" => LaneStanding::Active,
            "R" => LaneStanding::RateParked(until),
            "S" => LaneStanding::SeatParked,
            "P" => LaneStanding::Paused,
            "C" => LaneStanding::Clearing(until),
            other => return Err(unknown("standing", other)),
        };
        let (backlog, returned) = (items.number()?, items.number()?);
        lanes.push(LaneView { level, type_id, backlog, returned, standing });
    }
    Ok(GroupView { settings, backlog, in_flight, waiting, total, done, stored_bytes, lanes })
}

pub(super) fn type_view(mut items: Items) -> Decoded<TypeView> {
    let settings = type_settings(&items.text()?)?;
    let in_flight = items.count()?;
    let active_lanes = [items.number()?, items.number()?, items.number()?];
    let rate_milli = items.text()?;
    let rate_milli = if rate_milli.is_empty() { None } else { Some(parse(&rate_milli)?) };
    Ok(TypeView {
        settings,
        in_flight,
        active_lanes,
        rate_milli,
        closed_until: items.time()?,
        answers: items.number()?,
        asked_at: items.time()?,
        ready: items.number()?,
    })
}

pub(super) fn queue_view(mut items: Items) -> Decoded<QueueView> {
    let classic = items.number()? == 1;
    let settings = Settings {
        discipline: if classic { Discipline::Classic } else { Discipline::Share },
        alpha: parse(&items.text()?)?,
        global_rps: items.number()?,
        ready_queue_max_size: items.number()?,
        congestion: Congestion {
            enabled: items.number()? == 1,
            base_backoff_ms: items.number()?,
            max_backoff_ms: items.number()?,
            stats_retention_ms: items.number()?,
        },
        bulk_retention_ms: items.number()?,
        rate: rate(&mut items.text()?.split(':'))?,
        levels: if items.number()? == 1 { LevelOrder::Strict } else { LevelOrder::Weighted },
        max_retry_count: items.number()? as u32,
        max_throttle_count: items.number()? as u32,
        max_loss_count: items.number()? as u32,
        group_backlog_max: items.number()?,
        whole_backlog_max: items.number()?,
        group_stored_bytes_max: items.number()?,
        stored_bytes_max: items.number()?,
        completed_retention_ms: items.number()?,
        failed_retention_ms: items.number()?,
        completed_kept_max: items.number()?,
        failed_kept_max: items.number()?,
    };
    Ok(QueueView {
        settings,
        backlog: items.count()?,
        waiting: items.count()?,
        in_flight: items.count()?,
        parked_lanes: items.count()?,
        completed: items.count()?,
        failed: items.count()?,
        stored_bytes: items.count()?,
        active_groups: items.count()?,
        aggregating: items.count()?,
        sweeping: items.count()?,
        saved_spins: items.number()?,
        active_lanes: [items.number()?, items.number()?, items.number()?],
        types: remaining_types(items)?,
    })
}

fn remaining_types(mut items: Items) -> Decoded<Vec<fairlane_core::TypeId>> {
    let mut types = Vec::new();
    while !items.is_empty() {
        types.push(type_id(&items.text()?)?);
    }
    Ok(types)
}

pub(super) fn bulks_page(mut items: Items) -> Decoded<BulkPage> {
    let next = items.number_if_any()?;
    let mut page = Vec::new();
    while !items.is_empty() {
        page.push(bulks::bulk_view(&mut items)?);
    }
    Ok(BulkPage { bulks: page, next })
}

pub(super) fn congestion_view(mut items: Items) -> Decoded<CongestionView> {
    let (waiting, speed, backoff_ms) = (items.number()?, items.number()?, items.number()?);
    let level = CongestionLevel::classify(backoff_ms, items.number()?);
    Ok(CongestionView {
        waiting,
        speed,
        backoff_ms,
        level,
        throttles: items.number()?,
        ended: items.number()?,
    })
}

/// Parses snapshots, each `at:waiting:speed:backoff_ms`.
pub(super) fn history(mut items: Items) -> Decoded<Vec<Snapshot>> {
    let mut snapshots = Vec::new();
    while !items.is_empty() {
        let entry = items.text()?;
        let mut parts = entry.split(':');
        let mut number = || part(&mut parts).and_then(parse::<u64>);
        snapshots.push(Snapshot {
            at: Micros(number()?),
            waiting: number()?,
            speed: number()?,
            backoff_ms: number()?,
        });
    }
    Ok(snapshots)
}

pub(super) fn groups_page(mut items: Items) -> Decoded<Vec<GroupLine>> {
    let mut groups = Vec::new();
    while !items.is_empty() {
        groups.push(GroupLine {
            group: group_id(&items.text()?)?,
            backlog: items.count()?,
            in_flight: items.count()?,
            waiting: items.count()?,
            total: items.count()?,
            done: items.count()?,
            backoff_ms: items.number()?,
            settings: group_settings(&items.text()?)?,
        });
    }
    Ok(groups)
}
