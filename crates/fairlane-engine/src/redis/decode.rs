//! Script replies to values. An unknown code or a missing part is an error, never a default.
//!
//! Scripts reply with time spans instead of times of their clock. `now` is that of the caller, so
//! that a worker with a clock that differs from the server's still wakes at the right time.

pub(super) mod audit;
mod bulks;
mod listing;
mod views;

use ::redis::Value;
use fairlane_core::queue::{Command, GroupSet, GroupSettings, QueueSet, Reply, TypeSet, TypeSettings};
use fairlane_core::{Rate, Weight};

use super::codec::queue::{
    Items, Row, bulk_id, group_id, job_id, letters, parse, part, place, row, type_id, verdict, worker_id,
};
use super::codec::{Decoded, text, unknown};

/// Whether the operation has a flat form.
pub(super) fn is_flat(command: &Command) -> bool {
    !matches!(
        command,
        Command::Promote(_)
            | Command::Reclaim(_)
            | Command::RemoveType(_)
            | Command::CancelJob(_)
            | Command::RequeueDead(_)
            | Command::Discard(_)
            | Command::MakeDue(_)
            | Command::Sweep(_)
    )
}

/// The reply to `command`.
pub(super) fn reply(command: &Command, value: Value) -> Decoded<Reply> {
    Ok(match command {
        Command::SetGroup(_) => Reply::SetGroup(GroupSet { settings: group_settings(&text(value)?)? }),
        Command::SetType(_) => Reply::SetType(match text(value)?.as_str() {
            "too many types" => TypeSet::TooManyTypes,
            settings => TypeSet::Set(type_settings(settings)?),
        }),
        Command::SetQueue(_) => Reply::SetQueue(match text(value)?.as_str() {
            "set" => QueueSet::Set,
            "in use" => QueueSet::DisciplineInUse,
            other => return Err(unknown("reply to set_queue", other)),
        }),
        Command::InspectJob(command) => {
            Reply::InspectJob(if_any(value, |mut items| views::job_view(&command.job, &mut items))?)
        }
        Command::InspectGroup(_) => Reply::InspectGroup(if_any(value, views::group_view)?),
        Command::InspectType(_) => Reply::InspectType(if_any(value, views::type_view)?),
        Command::InspectBulk(_) => Reply::InspectBulk(bulks::view_if_any(Items::of(value)?)?),
        Command::InspectCongestion(_) => Reply::InspectCongestion(if_any(value, views::congestion_view)?),
        Command::InspectQueue(_) => Reply::InspectQueue(views::queue_view(Items::of(value)?)?),
        Command::ListGroups(_) => Reply::ListGroups(views::groups_page(Items::of(value)?)?),
        Command::ListBulks(_) => Reply::ListBulks(views::bulks_page(Items::of(value)?)?),
        Command::ListSnapshots(_) => Reply::ListSnapshots(views::history(Items::of(value)?)?),
        Command::ListJobs(_) => Reply::ListJobs(listing::listed(Items::of(value)?)?),
        Command::Explain(command) => Reply::Explain(listing::explained(&command.job, value)?),
        Command::Audit(command) => Reply::Audit(audit::audited(command, value)?),
        other => bulks::reply(other, value)?,
    })
}

/// The value in a reply, or `None` for an empty reply.
fn if_any<T>(value: Value, decode: impl FnOnce(Items) -> Decoded<T>) -> Decoded<Option<T>> {
    if matches!(&value, Value::BulkString(bytes) if bytes.is_empty()) {
        return Ok(None);
    }
    decode(Items::of(value)?).map(Some)
}

/// Parses `count:period_ms:burst`; all zero means no rate.
fn rate<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Decoded<Option<Rate>> {
    let count: u64 = parse(part(parts)?)?;
    let (period_ms, burst) = (parse(part(parts)?)?, parse(part(parts)?)?);
    if count == 0 {
        return Ok(None);
    }
    Rate::new(count, period_ms, Some(burst)).map(Some).map_err(|error| unknown("rate", error))
}

fn limit(text: &str) -> Decoded<Option<u32>> {
    let most: u32 = parse(text)?;
    Ok((most > 0).then_some(most))
}

fn group_settings(limits: &str) -> Decoded<GroupSettings> {
    let mut parts = limits.split(':');
    let weight = Weight::new(parse(part(&mut parts)?)?).map_err(|error| unknown("weight", error))?;
    let paused = part(&mut parts)? == "1";
    let concurrency = limit(part(&mut parts)?)?;
    let base_priority = parse(part(&mut parts)?)?;
    Ok(GroupSettings { weight, base_priority, rate: rate(&mut parts)?, concurrency, paused })
}

fn type_settings(settings: &str) -> Decoded<TypeSettings> {
    let mut parts = settings.split(':');
    let paused = part(&mut parts)? == "1";
    let concurrency = limit(part(&mut parts)?)?;
    let max_retry_count = parse::<u32>(part(&mut parts)?)?.checked_sub(1);
    Ok(TypeSettings { rate: rate(&mut parts)?, concurrency, paused, max_retry_count })
}
