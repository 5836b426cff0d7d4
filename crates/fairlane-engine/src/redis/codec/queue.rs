//! The hot operations of the queue: enqueue, lease, extend and settle. Their arguments and replies
//! are flat lists, which cost the server less than a packed value. The header of each Lua file
//! describes them. An unknown code or a missing part is an error, never a default.

use std::collections::HashMap;
use std::sync::Arc;

use ::redis::Value;
use fairlane_core::limits::REFUSAL_RETRY_MS;
use fairlane_core::queue::{
    Command, Difference, Enqueue, Enqueued, Extend, Extended, Extension, JobReceipt, JobRef, Lease, Leased,
    LeasedJob, NewJob, Outcome, Refusal, Reply, Settle, Settled, Settlement, Verdict,
};
use fairlane_core::{BulkId, Cost, Fence, GroupId, JobId, Level, Micros, RequestNumber, Trace, TypeId};

use super::{Arguments, Decoded, text, unknown};
use crate::engine::EngineError;

/// Adds the arguments of a hot operation; returns whether it is one.
pub(super) fn encode(command: &Command, arguments: &mut Arguments) -> bool {
    match command {
        Command::Enqueue(command) => enqueue(command, arguments),
        Command::Lease(command) => lease(command, arguments),
        Command::Extend(command) => extend(command, arguments),
        Command::Settle(command) => settle(command, arguments),
        _ => return false,
    }
    true
}

/// The reply to a hot operation, sent at `now`; the value itself for another operation.
pub(super) fn decode(command: &Command, value: Value, now: Micros) -> Result<Decoded<Reply>, Value> {
    Ok(match command {
        Command::Enqueue(_) => Items::of(value).and_then(enqueued).map(Reply::Enqueue),
        Command::Lease(_) => Items::of(value).and_then(leased).map(Reply::Lease),
        Command::Extend(command) => {
            let until = now.plus_ms(command.lease_ms);
            let extensions = letters(value, |letter| extension(letter, until));
            extensions.map(|extensions| Reply::Extend(Extended { extensions }))
        }
        Command::Settle(_) => letters(value, verdict).map(|verdicts| Reply::Settle(Settled { verdicts })),
        _ => return Err(value),
    })
}

fn decimal(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn fence(fence: Fence) -> Vec<u8> {
    format!("{:016}", fence.0).into_bytes()
}

fn name(job: &JobRef) -> Vec<u8> {
    [job.group.escaped(), ":", job.id.escaped()].concat().into_bytes()
}

/// Consecutive jobs that differ only in id, payload and trace are sent as one run.
fn enqueue(command: &Enqueue, arguments: &mut Arguments) {
    let alike = |a: &NewJob, b: &NewJob| {
        (&a.job.group, &a.type_id, a.level, a.cost, a.delay_ms, &a.bulk)
            == (&b.job.group, &b.type_id, b.level, b.cost, b.delay_ms, &b.bulk)
    };
    for run in command.jobs.chunk_by(alike) {
        let first = &run[0];
        arguments.extend([
            first.job.group.escaped().into(),
            place_of(first),
            decimal(first.cost.get()),
            decimal(first.delay_ms * 1000),
            first.bulk.as_ref().map_or(Vec::new(), |bulk| bulk.escaped().into()),
            decimal(run.len() as u64),
        ]);
        for new in run {
            arguments.extend([new.job.id.escaped().into(), tail(new)]);
        }
    }
}

/// The level and type of a job.
fn place_of(new: &NewJob) -> Vec<u8> {
    format!("{}:{}", new.level.index(), new.type_id.escaped()).into_bytes()
}

/// The end of a job's row: its payload, preceded by its trace if it has one.
fn tail(new: &NewJob) -> Vec<u8> {
    match &new.trace {
        Some(trace) => [&b"+"[..], &trace.packed(), &new.payload].concat(),
        None => [b":", &*new.payload].concat(),
    }
}

fn lease(command: &Lease, arguments: &mut Arguments) {
    let mut types: Vec<&str> = command.types.iter().map(|name| name.escaped()).collect();
    types.sort_unstable();
    types.dedup();
    arguments.extend([
        command.worker.escaped().into(),
        decimal(command.request.0),
        decimal(command.jobs_max as u64),
        decimal(command.lease_ms * 1000),
    ]);
    arguments.extend(types.into_iter().map(Vec::from));
}

fn extend(command: &Extend, arguments: &mut Arguments) {
    arguments.push(decimal(command.lease_ms * 1000));
    for (job, held) in &command.leases {
        arguments.extend([name(job), fence(*held)]);
    }
}

/// The letter of the outcome, delay in µs, Retry-After in µs, and note.
fn outcome(outcome: &Outcome) -> (&'static str, u64, u64, &[u8]) {
    match outcome {
        Outcome::Succeeded { result } => ("s", 0, 0, result),
        Outcome::Failed { reason } => ("f", 0, 0, reason),
        Outcome::Cancelled { reason } => ("c", 0, 0, reason),
        Outcome::Retry { delay_ms, reason } => ("r", delay_ms * 1000, 0, reason),
        Outcome::Throttled { delay_ms, retry_after_ms } => ("t", delay_ms * 1000, retry_after_ms * 1000, &[]),
        Outcome::Released => ("l", 0, 0, &[]),
    }
}

/// Consecutive settlements that differ only in id and note are sent as one run.
fn settle(command: &Settle, arguments: &mut Arguments) {
    let alike = |a: &Settlement, b: &Settlement| {
        let (a_letter, a_delay, a_after, a_note) = outcome(&a.outcome);
        let (b_letter, b_delay, b_after, b_note) = outcome(&b.outcome);
        (&a.job.group, a.fence, a_letter, a_delay, a_after, a_note.is_empty())
            == (&b.job.group, b.fence, b_letter, b_delay, b_after, b_note.is_empty())
    };
    for run in command.settlements.chunk_by(alike) {
        let first = &run[0];
        let (letter, delay_us, retry_after_us, note) = outcome(&first.outcome);
        arguments.extend([
            first.job.group.escaped().into(),
            fence(first.fence),
            letter.into(),
            decimal(delay_us),
            decimal(retry_after_us),
            decimal(run.len() as u64),
            decimal((!note.is_empty()).into()),
        ]);
        for settlement in run {
            arguments.push(settlement.job.id.escaped().into());
            if !note.is_empty() {
                arguments.push(outcome(&settlement.outcome).3.to_vec());
            }
        }
    }
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

    /// A span in microseconds, or `None`; one in the past is 0.
    fn span_us(&mut self) -> Decoded<Option<u64>> {
        let span = self.text()?;
        if span.is_empty() {
            return Ok(None);
        }
        let span_us: i64 = parse(&span)?;
        Ok(Some(span_us.max(0) as u64))
    }
}

pub(in crate::redis) fn parse<T: std::str::FromStr>(text: &str) -> Decoded<T> {
    text.parse().map_err(|_| unknown("number", text))
}

macro_rules! name {
    ($function:ident, $name:ident) => {
        pub(in crate::redis) fn $function(escaped: &str) -> Decoded<$name> {
            $name::from_escaped(escaped)
                .map_err(|error| EngineError::broken(format!("in the store: {error}")))
        }
    };
}
name!(bulk_id, BulkId);
name!(group_id, GroupId);
name!(job_id, JobId);
name!(type_id, TypeId);

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
    cost: Cost,
    bulk: Option<u64>,
    trace: Option<Trace>,
    payload: Arc<[u8]>,
}

fn row(value: Value) -> Decoded<Row> {
    const TIME_BYTES: usize = 10;
    let Value::BulkString(bytes) = value else { return Err(unknown("row", value)) };
    let broken = || unknown("row", String::from_utf8_lossy(&bytes).into_owned());
    let as_text = |part| std::str::from_utf8(part).map_err(|_| broken());
    let unmarked = bytes.strip_prefix(b"X").unwrap_or(&bytes);
    let (time, rest) = unmarked.split_at_checked(TIME_BYTES).ok_or_else(broken)?;
    let created_us = u64::from_str_radix(as_text(time)?, 36).map_err(|_| broken())?;
    let mut parts = rest.splitn(4, |byte| *byte == b':');
    let mut next = || parts.next().ok_or_else(broken);
    // The level and type, which the lane has.
    (next()?, next()?);
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
    Ok(Row { created_at: Micros(created_us), cost, bulk, trace, payload })
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
