//! Commands to the arguments of their scripts; the header of each script describes them.

mod audit;
mod bulks;
mod listing;

use fairlane_core::queue::*;
use fairlane_core::{Fence, Micros, Rate};

type Arguments = Vec<Vec<u8>>;

/// The arguments of a command's script; the first is the time, if a test sets it.
pub(super) fn arguments(command: &Command, given: Option<Micros>) -> Arguments {
    let mut arguments = vec![given.map_or(Vec::new(), |now| decimal(now.0))];
    push(command, &mut arguments);
    arguments
}

fn push(command: &Command, arguments: &mut Arguments) {
    match command {
        Command::Enqueue(command) => enqueue(command, arguments),
        Command::Lease(command) => lease(command, arguments),
        Command::Extend(command) => extend(command, arguments),
        Command::Settle(command) => settle(command, arguments),
        Command::Promote(Promote { jobs_max })
        | Command::Reclaim(Reclaim { jobs_max })
        | Command::Admit(Admit { jobs_max })
        | Command::Sweep(Sweep { jobs_max }) => arguments.push(decimal(*jobs_max as u64)),
        Command::SetGroup(command) => set_group(command, arguments),
        Command::SetType(command) => set_type(command, arguments),
        Command::RemoveType(RemoveType { type_id }) | Command::InspectType(InspectType { type_id }) => {
            arguments.push(type_id.escaped().into());
        }
        Command::SetQueue(command) => {
            for (field, value) in command.settings.fields() {
                arguments.extend([field.into(), value.into_bytes()]);
            }
        }
        Command::InspectJob(InspectJob { job }) | Command::Explain(Explain { job }) => {
            arguments.push(name(job))
        }
        Command::InspectGroup(InspectGroup { group })
        | Command::InspectCongestion(InspectCongestion { group }) => arguments.push(group.escaped().into()),
        Command::InspectQueue(InspectQueue) => {
            let fields = Settings::default().fields();
            arguments.extend(fields.into_iter().map(|(field, _)| field.into()));
        }
        Command::ListGroups(ListGroups { after, limit }) => {
            let after = after.as_ref().map_or(Vec::new(), |group| group.escaped().into());
            arguments.extend([after, decimal(*limit as u64)]);
        }
        Command::ListBulks(ListBulks { group, after, limit, unfinished }) => {
            let which: &[u8] = if *unfinished { b"unfinished" } else { b"bulks" };
            arguments.extend([group.escaped().into(), decimal(*after), decimal(*limit as u64), which.into()]);
        }
        Command::ListSnapshots(ListSnapshots { group, limit }) => {
            arguments.extend([group.escaped().into(), decimal(*limit as u64)]);
        }
        Command::ListJobs(command) => listing::list_jobs(command, arguments),
        Command::Audit(command) => audit::audit(command, arguments),
        other => bulks::push(other, arguments),
    }
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
            place(first),
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
fn place(new: &NewJob) -> Vec<u8> {
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

fn rate(rate: Option<Option<Rate>>) -> Vec<u8> {
    match rate {
        None => Vec::new(),
        Some(None) => b"0:0:0".to_vec(),
        Some(Some(rate)) => format!("{}:{}:{}", rate.count(), rate.period_ms(), rate.burst()).into_bytes(),
    }
}

fn concurrency(concurrency: Option<Option<u32>>) -> Vec<u8> {
    concurrency.map_or(Vec::new(), |most| decimal(most.unwrap_or(0).into()))
}

fn paused(paused: Option<bool>) -> Vec<u8> {
    paused.map_or(Vec::new(), |paused| decimal(paused.into()))
}

fn set_group(command: &SetGroup, arguments: &mut Arguments) {
    let patch = &command.patch;
    arguments.extend([
        command.group.escaped().into(),
        patch.weight.map_or(Vec::new(), |weight| decimal(weight.get())),
        paused(patch.paused),
        concurrency(patch.concurrency),
        rate(patch.rate),
        patch.base_priority.map_or(Vec::new(), |base| base.to_string().into_bytes()),
        decimal(command.reset_congestion.into()),
    ]);
}

fn set_type(command: &SetType, arguments: &mut Arguments) {
    let patch = &command.patch;
    arguments.extend([
        command.type_id.escaped().into(),
        paused(patch.paused),
        concurrency(patch.concurrency),
        rate(patch.rate),
        patch.max_retry_count.map_or(Vec::new(), |most| decimal(most.map_or(0, |most| u64::from(most) + 1))),
    ]);
}
