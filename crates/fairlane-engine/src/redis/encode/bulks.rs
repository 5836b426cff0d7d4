//! Commands about bulk actions, and about jobs named one by one.

use fairlane_core::queue::*;

use super::{Arguments, decimal, name, place, tail};

/// Adds the arguments of a command.
pub(super) fn push(command: &Command, arguments: &mut Arguments) {
    match command {
        Command::OpenBulk(command) => {
            push_bulk(&command.bulk, arguments);
            arguments.push(command.deadline_ms.map_or(Vec::new(), |ms| decimal(ms * 1000)));
            arguments.push(decimal(command.failures_max.map_or(0, |most| most + 1)));
            arguments.push(command.payload.to_vec());
        }
        Command::SealBulk(command) => {
            push_bulk(&command.bulk, arguments);
            arguments.push(command.expected.map_or(Vec::new(), decimal));
        }
        Command::HoldBulk(HoldBulk { bulk })
        | Command::ResumeBulk(ResumeBulk { bulk })
        | Command::CancelBulk(CancelBulk { bulk })
        | Command::InspectBulk(InspectBulk { bulk }) => push_bulk(bulk, arguments),
        Command::LeaseBulks(command) => {
            arguments.push(command.worker.escaped().into());
            arguments.extend([decimal(command.bulks_max as u64), decimal(command.lease_ms * 1000)]);
        }
        Command::SettleBulk(command) => {
            push_bulk(&command.bulk, arguments);
            let (outcome, delay_ms): (&[u8], u64) = match command.outcome {
                Aggregation::Done => (b"done", 0),
                Aggregation::Failed => (b"failed", 0),
                Aggregation::Released { delay_ms } => (b"released", delay_ms),
            };
            arguments.extend([decimal(command.fence.0), outcome.into()]);
            arguments.extend([command.summary.to_vec(), decimal(delay_ms * 1000)]);
            if let Some(callback) = &command.callback {
                let new = callback.clone().into_job(command.bulk.group.clone());
                arguments.extend([place(&new), new.job.id.escaped().into(), tail(&new)]);
            }
        }
        Command::CancelJob(CancelJob { jobs })
        | Command::RequeueDead(RequeueDead { jobs })
        | Command::Discard(Discard { jobs }) => arguments.extend(jobs.iter().map(name)),
        Command::MakeDue(command) => {
            arguments.push(command.group.as_ref().map_or(Vec::new(), |group| group.escaped().into()));
            arguments.extend([decimal(command.cursor), decimal(command.jobs_max as u64)]);
        }
        other => unreachable!("{other:?} is encoded elsewhere"),
    }
}

fn push_bulk(bulk: &BulkRef, arguments: &mut Arguments) {
    arguments.extend([bulk.group.escaped().into(), bulk.id.escaped().into()]);
}
