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

pub use admit::{Admission, Admit, Admitted, Destination};
pub use audit::{Audit, Audited, Fault, Finding, Suspect};
pub use cancel_bulk::{BulkCancelled, CancelBulk};
pub use cancel_job::{CancelJob, Cancellation, JobsCancelled};
pub use discard::{Discard, Discarded, Disposal};
pub use enqueue::{Difference, Enqueue, Enqueued, JobReceipt, NewJob, Refusal};
pub use explain::{Explain, Explained, Explanation, Reason, Rules};
pub use extend::{Extend, Extended, Extension};
pub use hold_bulk::{BulkHeld, HoldBulk};
pub use inspect_bulk::InspectBulk;
pub use inspect_congestion::{CongestionView, InspectCongestion};
pub use inspect_group::{GroupView, InspectGroup, LaneStanding, LaneView};
pub use inspect_job::{InspectJob, JobView};
pub use inspect_queue::{InspectQueue, QueueView};
pub use inspect_type::{InspectType, TypeView};
pub use lease::{Lease, Leased, LeasedJob};
pub use lease_bulks::{LeaseBulks, LeasedBulk, LeasedBulks};
pub use list_bulks::{BulkPage, ListBulks};
pub use list_groups::{GroupLine, ListGroups};
pub use list_jobs::{JobLine, ListJobs, Listed, Listing};
pub use list_largest_groups::{LargestCursor, LargestGroups, ListLargestGroups};
pub use list_snapshots::ListSnapshots;
pub use make_due::{MadeDue, MakeDue};
pub use open_bulk::{BulkOpened, OpenBulk};
pub use promote::{Promote, Promoted};
pub use reclaim::{Reclaim, Reclaimed};
pub use remove_type::{RemoveType, TypeRemoved};
pub use report_progress::{Progress, ProgressReport, ProgressReported, ReportProgress};
pub use requeue_dead::{DeadRequeued, RequeueDead, Requeued};
pub use resume_bulk::{BulkResumed, ResumeBulk};
pub use seal_bulk::{BulkSealed, SealBulk};
pub use set_group::{GroupSet, SetGroup};
pub use set_queue::{QueueSet, SetQueue};
pub use set_type::{SetType, TypeSet};
pub use settle::{Outcome, Settle, Settled, Settlement, Verdict};
pub use settle_bulk::{Aggregation, BulkSettled, CALLBACK_TYPE, Callback, SettleBulk};
pub use sweep::{Sweep, Swept};

pub(in crate::queue) use settle::Ended;

use super::{JobRef, Machine};
use crate::kernel::{Invalid, operations};

operations! {
    Queue(Machine):
    Enqueue,
    Lease,
    Extend,
    Settle,
    Promote,
    Reclaim,
    SetGroup,
    SetType,
    RemoveType,
    SetQueue,
    Admit,
    OpenBulk,
    SealBulk,
    HoldBulk,
    ResumeBulk,
    CancelBulk,
    LeaseBulks,
    SettleBulk,
    CancelJob,
    RequeueDead,
    Discard,
    MakeDue,
    Sweep,
    InspectJob,
    InspectGroup,
    InspectType,
    InspectBulk,
    InspectCongestion,
    InspectQueue,
    ListGroups,
    ListBulks,
    ListSnapshots,
    ListJobs,
    Explain,
    Audit,
    ReportProgress,
    ListLargestGroups,
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
