//! Script replies to values. An unknown code or a missing part is an error, never a default.
//!
//! Scripts reply with time spans instead of times of their clock. `now` is that of the caller, so
//! that a worker with a clock that differs from the server's still wakes at the right time.

pub(super) mod audit;
mod bulks;
mod listing;
mod views;

use std::collections::HashMap;
use std::sync::Arc;

use ::redis::Value;
use fairlane_core::limits::REFUSAL_RETRY_MS;
use fairlane_core::queue::{
    Command, Difference, Enqueued, Extended, Extension, GroupSet, GroupSettings, JobReceipt, JobRef, Leased,
    LeasedJob, Promoted, QueueSet, Reclaimed, Refusal, Reply, Settled, TypeRemoved, TypeSet, TypeSettings,
    Verdict,
};
use fairlane_core::{
    BulkId, Cost, Fence, GroupId, JobId, Level, Micros, Rate, RequestNumber, Trace, TypeId, Weight, WorkerId,
};

use crate::engine::EngineError;

type Decoded<T> = Result<T, EngineError>;

/// The reply to `command`, sent at `now`.
pub(super) fn reply(command: &Command, value: Value, now: Micros) -> Decoded<Reply> {
    Ok(match command {
        Command::Enqueue(_) => Reply::Enqueue(enqueued(Items::of(value)?)?),
        Command::Lease(_) => Reply::Lease(leased(Items::of(value)?)?),
        Command::Extend(command) => {
            let until = now.plus_ms(command.lease_ms);
            Reply::Extend(Extended { extensions: letters(value, |letter| extension(letter, until))? })
        }
        Command::Settle(_) => Reply::Settle(Settled { verdicts: letters(value, verdict)? }),
        Command::Promote(_) => {
            let mut items = Items::of(value)?;
            Reply::Promote(Promoted { moved: items.number()? as usize, wake_in_us: items.span_us()? })
        }
        Command::Reclaim(_) => {
            let mut items = Items::of(value)?;
            Reply::Reclaim(Reclaimed {
                recovered: items.number()? as usize,
                dead: items.number()? as usize,
                cancelled: items.number()? as usize,
                grace_until: items.later(now)?,
            })
        }
        Command::SetGroup(_) => Reply::SetGroup(GroupSet { settings: group_settings(&text(value)?)? }),
        Command::SetType(_) => Reply::SetType(match text(value)?.as_str() {
            "too many types" => TypeSet::TooManyTypes,
            settings => TypeSet::Set(type_settings(settings)?),
        }),
        Command::RemoveType(_) => Reply::RemoveType(match text(value)?.as_str() {
            "removed" => TypeRemoved::Removed,
            "unknown" => TypeRemoved::Unknown,
            "again" => TypeRemoved::Again,
            jobs => TypeRemoved::HasJobs { jobs: parse(jobs)? },
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

fn unknown(what: &str, got: impl std::fmt::Debug) -> EngineError {
    EngineError::broken(format!("a script answered with an unknown {what}: {got:?}"))
}

/// A text reply.
pub(super) fn text(value: Value) -> Decoded<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|error| unknown("text", error)),
        Value::SimpleString(text) => Ok(text),
        Value::Int(number) => Ok(number.to_string()),
        other => Err(unknown("text", other)),
    }
}

/// The value in a reply, or `None` for an empty reply.
fn if_any<T>(value: Value, decode: impl FnOnce(Items) -> Decoded<T>) -> Decoded<Option<T>> {
    if matches!(&value, Value::BulkString(bytes) if bytes.is_empty()) {
        return Ok(None);
    }
    decode(Items::of(value)?).map(Some)
}

fn letters<T>(value: Value, decode: impl Fn(char) -> Option<T>) -> Decoded<Vec<T>> {
    let text = text(value)?;
    text.chars().map(|letter| decode(letter).ok_or_else(|| unknown("code", letter))).collect()
}

/// Decodes the reply to `enqueue`: per run the letters of its jobs followed by the backlog of its
/// group, in one text; then for each existing job the name of its bulk action or an empty text.
fn enqueued(mut items: Items) -> Decoded<Enqueued> {
    let (mut receipts, mut backlogs) = (Vec::new(), Vec::new());
    let text = items.text()?;
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (run, behind) =
            rest.split_at(rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()));
        let (backlog, next) = behind.split_at(behind.find(char::is_alphabetic).unwrap_or(behind.len()));
        let from = receipts.len();
        for letter in run.chars() {
            receipts.push(receipt(letter).ok_or_else(|| unknown("code", letter))?);
        }
        // A wrong count may be negative.
        let mut backlog: i64 = parse(backlog)?;
        backlogs.resize(receipts.len(), 0);
        for (receipt, after) in receipts[from..].iter().zip(&mut backlogs[from..]).rev() {
            *after = backlog.max(0) as u64;
            backlog -= i64::from(*receipt == JobReceipt::Created);
        }
        rest = next;
    }
    for receipt in &mut receipts {
        if let JobReceipt::Exists { bulk } | JobReceipt::Differs { bulk, .. } = receipt {
            let name = items.text()?;
            *bulk = if name.is_empty() { None } else { Some(bulk_id(&name)?) };
        }
    }
    Ok(Enqueued { receipts, backlogs })
}

fn receipt(letter: char) -> Option<JobReceipt> {
    let refused = |refusal| JobReceipt::Refused { refusal, retry_after_ms: REFUSAL_RETRY_MS };
    let differs = |difference| JobReceipt::Differs { difference, bulk: None };
    Some(match letter {
        'c' => JobReceipt::Created,
        'e' => JobReceipt::Exists { bulk: None },
        'B' => differs(Difference::Bulk),
        'T' => differs(Difference::Type),
        'L' => differs(Difference::Level),
        'C' => differs(Difference::Cost),
        'P' => differs(Difference::Payload),
        's' => refused(Refusal::BulkSealed),
        'u' => refused(Refusal::BulkUnknown),
        'g' => refused(Refusal::GroupFull),
        'w' => refused(Refusal::QueueFull),
        'G' => refused(Refusal::GroupBytesFull),
        'W' => refused(Refusal::QueueBytesFull),
        't' => refused(Refusal::TooManyTypes),
        _ => return None,
    })
}

fn extension(letter: char, until: Micros) -> Option<Extension> {
    match letter {
        'e' => Some(Extension::Until(until)),
        'l' => Some(Extension::Lost),
        'c' => Some(Extension::Cancelled(until)),
        _ => None,
    }
}

fn verdict(letter: char) -> Option<Verdict> {
    match letter {
        'a' => Some(Verdict::Applied),
        's' => Some(Verdict::Stale),
        'g' => Some(Verdict::Gone),
        _ => None,
    }
}

/// A flat reply, read from the front.
struct Items(std::vec::IntoIter<Value>);

impl Items {
    fn of(value: Value) -> Decoded<Self> {
        match value {
            Value::Array(items) => Ok(Self(items.into_iter())),
            other => Err(unknown("list", other)),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    fn value(&mut self) -> Decoded<Value> {
        self.0.next().ok_or_else(|| unknown("end", "too few items"))
    }

    fn text(&mut self) -> Decoded<String> {
        text(self.value()?)
    }

    fn number(&mut self) -> Decoded<u64> {
        parse(&self.text()?)
    }

    /// A count. A wrong count may be negative until an audit has repaired it.
    fn count(&mut self) -> Decoded<u64> {
        let count: i64 = parse(&self.text()?)?;
        Ok(count.max(0) as u64)
    }

    /// A number, or `None` for an empty text.
    fn number_if_any(&mut self) -> Decoded<Option<u64>> {
        let text = self.text()?;
        if text.is_empty() { Ok(None) } else { parse(&text).map(Some) }
    }

    /// The time after a span from `now` in microseconds, or `None`.
    fn later(&mut self, now: Micros) -> Decoded<Option<Micros>> {
        Ok(self.span_us()?.map(|span_us| now.plus_us(span_us)))
    }

    /// A span in microseconds, or `None`; one in the past is 0.
    fn span_us(&mut self) -> Decoded<Option<u64>> {
        let span = self.text()?;
        if span.is_empty() {
            return Ok(None);
        }
        let span_us: i64 = parse(&span)?;
        Ok(Some(span_us.max(0) as u64))
    }

    fn time(&mut self) -> Decoded<Option<Micros>> {
        let at = self.text()?;
        if at.is_empty() { Ok(None) } else { Ok(Some(Micros(parse(&at)?))) }
    }
}

fn parse<T: std::str::FromStr>(text: &str) -> Decoded<T> {
    text.parse().map_err(|_| unknown("number", text))
}

fn part<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Decoded<&'a str> {
    parts.next().ok_or_else(|| unknown("text", "too few parts"))
}

macro_rules! name {
    ($function:ident, $name:ident) => {
        fn $function(escaped: &str) -> Decoded<$name> {
            $name::from_escaped(escaped)
                .map_err(|error| EngineError::broken(format!("in the store: {error}")))
        }
    };
}
name!(bulk_id, BulkId);
name!(group_id, GroupId);
name!(job_id, JobId);
name!(type_id, TypeId);
name!(worker_id, WorkerId);

fn level(index: &str) -> Decoded<Level> {
    let found = Level::ALL.into_iter().find(|level| level.index().to_string() == index);
    found.ok_or_else(|| unknown("level", index))
}

/// Parses `level:type`.
fn place(place: &str) -> Decoded<(Level, TypeId)> {
    let (index, name) = place.split_once(':').ok_or_else(|| unknown("place", place))?;
    Ok((level(index)?, type_id(name)?))
}

/// A job's row: `X` if it was cancelled in a list, the time in base 36, then
/// `level:type:cost:bulk`, with an empty cost for 1 and an empty number for no bulk action; then
/// `:payload`, or `+`, the packed trace and the payload.
struct Row {
    created_at: Micros,
    level: Level,
    type_id: TypeId,
    cost: Cost,
    bulk: Option<u64>,
    trace: Option<Trace>,
    cancelled: bool,
    payload: Arc<[u8]>,
}

fn row(value: Value) -> Decoded<Row> {
    const TIME_BYTES: usize = 10;
    let Value::BulkString(bytes) = value else { return Err(unknown("row", value)) };
    let broken = || unknown("row", String::from_utf8_lossy(&bytes).into_owned());
    let as_text = |part| std::str::from_utf8(part).map_err(|_| broken());
    let unmarked = bytes.strip_prefix(b"X");
    let cancelled = unmarked.is_some();
    let (time, rest) = unmarked.unwrap_or(&bytes).split_at_checked(TIME_BYTES).ok_or_else(broken)?;
    let created_us = u64::from_str_radix(as_text(time)?, 36).map_err(|_| broken())?;
    let mut parts = rest.splitn(4, |byte| *byte == b':');
    let mut next = || parts.next().ok_or_else(broken);
    let level = level(as_text(next()?)?)?;
    let type_id = type_id(as_text(next()?)?)?;
    let cost = match as_text(next()?)? {
        "" => 1,
        cost => parse(cost)?,
    };
    let rest = next()?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, tail) = rest.split_at(digits);
    let bulk = match as_text(number)? {
        "" => None,
        number => Some(parse(number)?),
    };
    let (trace, payload) = match tail.split_first() {
        Some((b':', payload)) => (None, payload),
        Some((b'+', tail)) => {
            let (packed, payload) = tail.split_at_checked(Trace::PACKED_BYTES).ok_or_else(broken)?;
            (Some(Trace::from_packed(packed).map_err(|_| broken())?), payload)
        }
        _ => return Err(broken()),
    };
    let payload = payload.into();
    let cost = Cost::new(cost).map_err(|error| unknown("cost", error))?;
    Ok(Row { created_at: Micros(created_us), level, type_id, cost, bulk, trace, cancelled, payload })
}

fn leased(mut items: Items) -> Decoded<Leased> {
    match items.text()?.as_str() {
        "superseded" => return Ok(Leased::Superseded { newest: RequestNumber(items.number()?) }),
        "jobs" => {}
        other => return Err(unknown("reply to lease", other)),
    }
    let wake_in_us = items.span_us()?;
    let fence = Fence(items.number()?);
    let mut bulks = HashMap::new();
    for _ in 0..items.number()? {
        bulks.insert(items.number()?, bulk_id(&items.text()?)?);
    }
    let mut jobs = Vec::new();
    while !items.is_empty() {
        leased_lane(&mut items, fence, &bulks, &mut jobs)?;
    }
    Ok(Leased::Jobs { jobs, wake_in_us })
}

/// The leased jobs of one lane; the attempts of returned jobs follow.
fn leased_lane(
    items: &mut Items,
    fence: Fence,
    bulks: &HashMap<u64, BulkId>,
    jobs: &mut Vec<LeasedJob>,
) -> Decoded<()> {
    let (level, type_id) = place(&items.text()?)?;
    let group = group_id(&items.text()?)?;
    let (count, returned) = (items.number()? as usize, items.number()? as usize);
    // A wrong count must not allocate more than the reply has.
    let mut taken = Vec::with_capacity(count.min(items.0.len()));
    for _ in 0..count {
        taken.push((job_id(&items.text()?)?, row(items.value()?)?));
    }
    let mut attempts = vec![1; count];
    for attempt in attempts.iter_mut().take(returned) {
        *attempt = items.number()? as u32;
    }
    for ((id, row), attempt) in taken.into_iter().zip(attempts) {
        jobs.push(LeasedJob {
            job: JobRef { group: group.clone(), id },
            type_id: type_id.clone(),
            level,
            cost: row.cost,
            payload: row.payload,
            created_at: row.created_at,
            fence,
            attempt,
            bulk: row.bulk.and_then(|number| bulks.get(&number).cloned()),
            trace: row.trace,
        });
    }
    Ok(())
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
