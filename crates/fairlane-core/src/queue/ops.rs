//! The operations of the queue, one file each. Scripts and conformance chapters
//! have the same names.

mod admit;
mod audit;
mod cancel_bulk;
mod cancel_job;
mod discard;
mod enqueue;
mod explain;
mod extend;
mod hold_bulk;
mod inspect_bulk;
mod inspect_congestion;
mod inspect_group;
mod inspect_job;
mod inspect_queue;
mod inspect_type;
mod lease;
mod lease_bulks;
mod list_bulks;
mod list_groups;
mod list_jobs;
mod list_largest_groups;
mod list_snapshots;
mod make_due;
mod open_bulk;
mod promote;
mod reclaim;
mod remove_type;
mod report_progress;
mod requeue_dead;
mod resume_bulk;
mod seal_bulk;
mod set_group;
mod set_queue;
mod set_type;
mod settle;
mod settle_bulk;
mod sweep;

pub(in crate::queue) use settle::Ended;

use super::{JobRef, Machine};
use crate::kernel::{Invalid, operations};

operations! {
    Queue(Machine):
    enqueue::Enqueue { Difference, Enqueued, JobReceipt, NewJob, Refusal },
    lease::Lease { Leased, LeasedJob },
    extend::Extend { Extended, Extension },
    settle::Settle { Outcome, Settled, Settlement, Verdict },
    promote::Promote { Promoted },
    reclaim::Reclaim { Reclaimed },
    set_group::SetGroup { GroupSet },
    set_type::SetType { TypeSet },
    remove_type::RemoveType { TypeRemoved },
    set_queue::SetQueue { QueueSet },
    admit::Admit { Admission, Admitted, Destination },
    open_bulk::OpenBulk { BulkOpened },
    seal_bulk::SealBulk { BulkSealed },
    hold_bulk::HoldBulk { BulkHeld },
    resume_bulk::ResumeBulk { BulkResumed },
    cancel_bulk::CancelBulk { BulkCancelled },
    lease_bulks::LeaseBulks { LeasedBulk, LeasedBulks },
    settle_bulk::SettleBulk { Aggregation, BulkSettled, CALLBACK_TYPE, Callback },
    cancel_job::CancelJob { Cancellation, JobsCancelled },
    requeue_dead::RequeueDead { DeadRequeued, Requeued },
    discard::Discard { Discarded, Disposal },
    make_due::MakeDue { MadeDue },
    sweep::Sweep { Swept },
    inspect_job::InspectJob { JobView },
    inspect_group::InspectGroup { GroupView, LaneStanding, LaneView },
    inspect_type::InspectType { TypeView },
    inspect_bulk::InspectBulk,
    inspect_congestion::InspectCongestion { CongestionView },
    inspect_queue::InspectQueue { QueueView },
    list_groups::ListGroups { GroupLine },
    list_bulks::ListBulks { BulkPage },
    list_snapshots::ListSnapshots,
    list_jobs::ListJobs { JobLine, Listed, Listing },
    explain::Explain { Explained, Explanation, Reason, Rules },
    audit::Audit { Audited, Fault, Finding, Suspect },
    report_progress::ReportProgress { Progress, ProgressReport, ProgressReported },
    list_largest_groups::ListLargestGroups { LargestCursor, LargestGroups },
}

/// Rejects a job that is named twice in one call.
fn each_once<'a>(jobs: impl Iterator<Item = &'a JobRef>) -> Result<(), Invalid> {
    // Sorted, not hashed: clients choose these names, and no seed is available here.
    let mut sorted: Vec<&JobRef> = jobs.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Invalid::Twice(format!("job {} of {}", pair[0].id, pair[0].group))),
        None => Ok(()),
    }
}
