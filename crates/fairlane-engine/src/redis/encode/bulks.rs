//! Commands about bulk actions, and about jobs named one by one.

use fairlane_core::queue::{Aggregation, BulkRef, Command, JobRef};

use super::{Arguments, decimal, name};

/// The script and its arguments.
pub(super) fn arguments(command: &Command, arguments: &mut Arguments) -> &'static str {
    match command {
        Command::Admit(command) => {
            arguments.push(decimal(command.jobs_max as u64));
            "admit"
        }
        Command::OpenBulk(command) => {
            push_bulk(&command.bulk, arguments);
            arguments.push(command.deadline_ms.map_or(Vec::new(), |ms| decimal(ms * 1000)));
            arguments.push(decimal(command.failures_max.map_or(0, |most| most + 1)));
            arguments.push(command.payload.to_vec());
            "open_bulk"
        }
        Command::SealBulk(command) => {
            push_bulk(&command.bulk, arguments);
            arguments.push(command.expected.map_or(Vec::new(), decimal));
            "seal_bulk"
        }
        Command::HoldBulk(command) => bulk("hold_bulk", &command.bulk, arguments),
        Command::ResumeBulk(command) => bulk("resume_bulk", &command.bulk, arguments),
        Command::CancelBulk(command) => bulk("cancel_bulk", &command.bulk, arguments),
        Command::TakeCompleted(command) => {
            arguments.push(command.worker.escaped().into());
            arguments.extend([decimal(command.bulks_max as u64), decimal(command.lease_ms * 1000)]);
            "take_completed"
        }
        Command::FinishBulk(command) => {
            push_bulk(&command.bulk, arguments);
            let (outcome, delay_ms): (&[u8], u64) = match command.outcome {
                Aggregation::Done => (b"done", 0),
                Aggregation::Failed => (b"failed", 0),
                Aggregation::Released { delay_ms } => (b"released", delay_ms),
            };
            arguments.extend([decimal(command.fence.0), outcome.into()]);
            arguments.extend([command.summary.to_vec(), decimal(delay_ms * 1000)]);
            "finish_bulk"
        }
        Command::CancelJob(command) => jobs("cancel_job", &command.jobs, arguments),
        Command::RequeueDead(command) => jobs("requeue_dead", &command.jobs, arguments),
        Command::Discard(command) => jobs("discard", &command.jobs, arguments),
        Command::MakeDue(command) => {
            arguments.push(command.group.as_ref().map_or(Vec::new(), |group| group.escaped().into()));
            arguments.extend([decimal(command.cursor), decimal(command.jobs_max as u64)]);
            "make_due"
        }
        Command::Sweep(command) => {
            arguments.push(decimal(command.jobs_max as u64));
            "sweep"
        }
        other => unreachable!("{other:?} is encoded elsewhere"),
    }
}

fn push_bulk(bulk: &BulkRef, arguments: &mut Arguments) {
    arguments.extend([bulk.group.escaped().into(), bulk.id.escaped().into()]);
}

fn bulk(stem: &'static str, bulk: &BulkRef, arguments: &mut Arguments) -> &'static str {
    push_bulk(bulk, arguments);
    stem
}

fn jobs(stem: &'static str, jobs: &[JobRef], arguments: &mut Arguments) -> &'static str {
    arguments.extend(jobs.iter().map(name));
    stem
}
