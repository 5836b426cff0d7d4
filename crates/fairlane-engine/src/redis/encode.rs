//! Commands to the arguments of their scripts; the header of each script describes them.

mod audit;
mod bulks;
mod listing;

use fairlane_core::Rate;
use fairlane_core::queue::*;

use super::codec::Arguments;
use super::codec::queue::{decimal, fence, name, place_of, tail};

/// Adds the arguments of an operation with a flat form; returns whether it is one.
pub(super) fn push(command: &Command, arguments: &mut Arguments) -> bool {
    match command {
        Command::Admit(Admit { jobs_max }) => arguments.push(decimal(*jobs_max as u64)),
        Command::SetGroup(command) => set_group(command, arguments),
        Command::SetType(command) => set_type(command, arguments),
        Command::InspectType(InspectType { type_id }) => arguments.push(type_id.escaped().into()),
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
        other => return bulks::push(other, arguments),
    }
    true
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
