//! Replies about bulk actions, and about jobs named one by one.

use std::sync::Arc;

use ::redis::Value;
use fairlane_core::congestion::{Backoff, CongestionLevel};
use fairlane_core::limits::REFUSAL_RETRY_MS;
use fairlane_core::queue::*;
use fairlane_core::{Fence, Micros};

use super::{Decoded, Items, bulk_id, group_id, job_id, letters, unknown, verdict};

/// The reply to `command`.
pub(super) fn reply(command: &Command, value: Value) -> Decoded<Reply> {
    Ok(match command {
        Command::Admit(_) => Reply::Admit(admitted(Items::of(value)?)?),
        Command::OpenBulk(_) => Reply::OpenBulk(opened(Items::of(value)?)?),
        Command::SealBulk(_) => Reply::SealBulk(sealed(Items::of(value)?)?),
        Command::HoldBulk(_) => Reply::HoldBulk(BulkHeld(view_if_any(Items::of(value)?)?)),
        Command::ResumeBulk(_) => Reply::ResumeBulk(BulkResumed(view_if_any(Items::of(value)?)?)),
        Command::CancelBulk(_) => Reply::CancelBulk(BulkCancelled(view_if_any(Items::of(value)?)?)),
        Command::LeaseBulks(_) => Reply::LeaseBulks(taken(Items::of(value)?)?),
        Command::SettleBulk(_) => {
            let verdicts = letters(value, verdict)?;
            let first = verdicts.first().ok_or_else(|| unknown("reply to settle_bulk", "nothing"))?;
            Reply::SettleBulk(BulkSettled(*first))
        }
        other => return Err(unknown("command", other)),
    })
}

fn admitted(mut items: Items) -> Decoded<Admitted> {
    let (passed, limit, group_limit) = (items.number()?, items.number()?, items.number()?);
    let (full, more) = (items.number()? == 1, items.number()? == 1);
    let mut admissions = Vec::new();
    while !items.is_empty() {
        let name = items.text()?;
        let (group, id) = name.split_once(':').ok_or_else(|| unknown("job", &name))?;
        let job = JobRef { group: group_id(group)?, id: job_id(id)? };
        let destination = match items.text()?.as_str() {
            "r" => Destination::Ready,
            "w" => {
                let (waiting, speed, backoff_ms) = (items.number()?, items.number()?, items.number()?);
                // A speed of 0 means that congestion control is off, and then the base backoff is
                // no sign of congestion.
                let base_ms = if speed == 0 { 0 } else { items.number()? };
                let level = CongestionLevel::classify(backoff_ms, base_ms);
                Destination::Waiting(Backoff { backoff_ms, waiting, speed, level })
            }
            other => return Err(unknown("destination", other)),
        };
        admissions.push(Admission { job, destination });
    }
    Ok(Admitted { admissions, window: (passed, limit), group_limit, full, more })
}

fn opened(mut items: Items) -> Decoded<BulkOpened> {
    Ok(match items.text()?.as_str() {
        "created" => BulkOpened::Created(bulk_view(&mut items)?),
        "exists" => BulkOpened::Exists(bulk_view(&mut items)?),
        "too many" => BulkOpened::TooMany,
        "group bytes full" => full(Refusal::GroupBytesFull),
        "queue bytes full" => full(Refusal::QueueBytesFull),
        other => return Err(unknown("reply to open_bulk", other)),
    })
}

fn full(refusal: Refusal) -> BulkOpened {
    BulkOpened::Full { refusal, retry_after_ms: REFUSAL_RETRY_MS }
}

fn sealed(mut items: Items) -> Decoded<BulkSealed> {
    Ok(match items.text()?.as_str() {
        "sealed" => BulkSealed::Sealed(bulk_view(&mut items)?),
        "mismatch" => BulkSealed::Mismatch { total: items.number()? },
        "unknown" => BulkSealed::Unknown,
        other => return Err(unknown("reply to seal_bulk", other)),
    })
}

fn taken(mut items: Items) -> Decoded<LeasedBulks> {
    let wake_in_us = items.span_us()?;
    let mut bulks = Vec::new();
    while !items.is_empty() {
        let fence = Fence(items.number()?);
        bulks.push(LeasedBulk { view: bulk_view(&mut items)?, fence });
    }
    Ok(LeasedBulks { bulks, wake_in_us })
}

/// A bulk action, or `None` for an empty reply.
pub(super) fn view_if_any(mut items: Items) -> Decoded<Option<BulkView>> {
    if items.is_empty() { Ok(None) } else { bulk_view(&mut items).map(Some) }
}

/// Reads one bulk action from a flat reply.
pub(super) fn bulk_view(items: &mut Items) -> Decoded<BulkView> {
    let name = items.text()?;
    let (group, id) = name.split_once(':').ok_or_else(|| unknown("bulk action", &name))?;
    let (state, mode) = (items.text()?, items.text()?);
    let state = BulkState::ALL.into_iter().find(|known| known.as_str() == state);
    let mode = BulkMode::ALL.into_iter().find(|known| known.as_str() == mode);
    let mut view = BulkView {
        bulk: BulkRef { group: group_id(group)?, id: bulk_id(id)? },
        state: state.ok_or_else(|| unknown("state of a bulk action", &name))?,
        mode: mode.ok_or_else(|| unknown("mode of a bulk action", &name))?,
        sealed: items.number()? == 1,
        total: items.number()?,
        succeeded: items.number()?,
        failed: items.number()?,
        cancelled: items.number()?,
        on_hold: items.number()?,
        created_at: Micros(items.number()?),
        started_at: items.time()?,
        finished_at: items.time()?,
        deadline: items.time()?,
        failures_max: items.number()?.checked_sub(1),
        cause: None,
        payload: [].into(),
        summary: [].into(),
    };
    let cause = items.text()?;
    if !cause.is_empty() {
        let known = BulkCause::ALL.into_iter().find(|known| known.as_str() == cause);
        view.cause = Some(known.ok_or_else(|| unknown("cause", &cause))?);
    }
    (view.summary, view.payload) = (opaque(items.value()?)?, opaque(items.value()?)?);
    Ok(view)
}

fn opaque(value: Value) -> Decoded<Arc<[u8]>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes.into()),
        other => Err(unknown("summary or payload", other)),
    }
}
