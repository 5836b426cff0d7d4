//! The operations, one file each; the same stems name the scripts and the conformance chapters.

mod admit;
mod audit;
mod cancel_bulk;
mod cancel_job;
mod discard;
mod enqueue;
mod explain;
mod extend;
mod finish_bulk;
mod hold_bulk;
mod inspect;
mod lease;
mod list_jobs;
mod make_due;
mod open_bulk;
mod promote;
mod reclaim;
mod remove_type;
mod requeue_dead;
mod resume_bulk;
mod seal_bulk;
mod set_group;
mod set_type;
mod set_whole;
mod settle;
mod sweep;
mod take_completed;

pub use admit::{Admission, Admit, Admitted, Destination};
pub use audit::{Audit, Audited, Fault, Finding, Suspect};
pub use cancel_bulk::{BulkCancelled, CancelBulk};
pub use cancel_job::{CancelJob, Cancellation, JobsCancelled};
pub use discard::{Discard, Discarded, Disposal};
pub use enqueue::{Difference, Enqueue, Enqueued, JobReceipt, NewJob, Refusal};
pub use explain::{Explain, Explained, Explanation, Reason, Rules};
pub use extend::{Extend, Extended, Extension};
pub use finish_bulk::{Aggregation, BulkFinished, FinishBulk};
pub use hold_bulk::{BulkHeld, HoldBulk};
pub use inspect::{
    CongestionView, GroupLine, GroupView, Inspect, Inspected, JobView, LaneStanding, LaneView, TypeView,
    WholeView,
};
pub use lease::{Lease, Leased, LeasedJob};
pub use list_jobs::{JobLine, ListJobs, Listed, Listing};
pub use make_due::{MadeDue, MakeDue};
pub use open_bulk::{BulkOpened, OpenBulk};
pub use promote::{Promote, Promoted};
pub use reclaim::{Reclaim, Reclaimed};
pub use remove_type::{RemoveType, TypeRemoved};
pub use requeue_dead::{DeadRequeued, RequeueDead, Requeued};
pub use resume_bulk::{BulkResumed, ResumeBulk};
pub use seal_bulk::{BulkSealed, SealBulk};
pub use set_group::{GroupSet, SetGroup};
pub use set_type::{SetType, TypeSet};
pub use set_whole::{SetWhole, WholeSet};
pub use settle::{Outcome, Settle, Settled, Settlement, Verdict};
pub use sweep::{Sweep, Swept};
pub use take_completed::{CompletedTaken, TakeCompleted, TakenBulk};

pub(in crate::queue) use settle::Ended;

use serde::{Deserialize, Serialize};

use crate::numbers::OutOfRange;

/// Why a command was not carried out at all: it is malformed, and repeating it will not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// More items than one command takes.
    #[error("{what} takes at most {most} jobs in one call, not {got}; split the batch")]
    TooMany {
        /// The operation.
        what: &'static str,
        /// The limit.
        most: usize,
        /// What was given.
        got: usize,
    },
    /// More bytes than are taken.
    #[error("{what} has at most {most} bytes, not {got}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        most: usize,
        /// Its size.
        got: usize,
    },
    /// A number out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The same job twice in one settle or extend.
    #[error("job {} of {} stands twice in one call; name it once", .0.id, .0.group)]
    Twice(super::JobRef),
}

/// One step of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Adds jobs.
    Enqueue(Enqueue),
    /// Takes jobs for a worker.
    Lease(Lease),
    /// Keeps leases alive.
    Extend(Extend),
    /// Ends attempts.
    Settle(Settle),
    /// Returns due jobs to their lanes.
    Promote(Promote),
    /// Takes back lost leases.
    Reclaim(Reclaim),
    /// Changes a group.
    SetGroup(SetGroup),
    /// Changes a type.
    SetType(SetType),
    /// Changes the whole.
    SetWhole(SetWhole),
    /// Moves jobs from their lanes to ready or waiting (`classic`).
    Admit(Admit),
    /// Opens a bulk action.
    OpenBulk(OpenBulk),
    /// Says that no more jobs come.
    SealBulk(SealBulk),
    /// Sets a bulk action's jobs aside.
    HoldBulk(HoldBulk),
    /// Lets them run again.
    ResumeBulk(ResumeBulk),
    /// Ends a bulk action; its jobs are dropped.
    CancelBulk(CancelBulk),
    /// Takes complete bulk actions for aggregation.
    TakeCompleted(TakeCompleted),
    /// Ends an aggregation.
    FinishBulk(FinishBulk),
    /// Cancels jobs.
    CancelJob(CancelJob),
    /// Lets dead jobs run again.
    RequeueDead(RequeueDead),
    /// Removes dead jobs.
    Discard(Discard),
    /// Makes waiting jobs due now.
    MakeDue(MakeDue),
    /// Tidies up: what was dropped, resumed, overdue or outlived.
    Sweep(Sweep),
    /// Looks.
    Inspect(Inspect),
    /// Lists jobs.
    ListJobs(ListJobs),
    /// Says why a job is not running.
    Explain(Explain),
    /// Looks again at what does not look right, and repairs it.
    Audit(Audit),
    /// Removes a type without jobs.
    RemoveType(RemoveType),
}

impl Command {
    /// Checks what the types alone cannot hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Enqueue(command) => command.validate(),
            Self::Lease(command) => command.validate(),
            Self::Extend(command) => command.validate(),
            Self::Settle(command) => command.validate(),
            Self::Promote(command) => command.validate(),
            Self::Reclaim(command) => command.validate(),
            Self::SetGroup(command) => command.validate(),
            Self::SetType(command) => command.validate(),
            Self::SetWhole(command) => command.validate(),
            Self::Admit(command) => command.validate(),
            Self::OpenBulk(command) => command.validate(),
            Self::SealBulk(command) => command.validate(),
            Self::HoldBulk(command) => command.validate(),
            Self::ResumeBulk(command) => command.validate(),
            Self::CancelBulk(command) => command.validate(),
            Self::TakeCompleted(command) => command.validate(),
            Self::FinishBulk(command) => command.validate(),
            Self::CancelJob(command) => command.validate(),
            Self::RequeueDead(command) => command.validate(),
            Self::Discard(command) => command.validate(),
            Self::MakeDue(command) => command.validate(),
            Self::Sweep(command) => command.validate(),
            Self::Inspect(command) => command.validate(),
            Self::ListJobs(command) => command.validate(),
            Self::Explain(command) => command.validate(),
            Self::Audit(command) => command.validate(),
            Self::RemoveType(command) => command.validate(),
        }
    }
}

/// What a command gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Command::Enqueue`].
    Enqueued(Enqueued),
    /// To [`Command::Lease`].
    Leased(Leased),
    /// To [`Command::Extend`].
    Extended(Extended),
    /// To [`Command::Settle`].
    Settled(Settled),
    /// To [`Command::Promote`].
    Promoted(Promoted),
    /// To [`Command::Reclaim`].
    Reclaimed(Reclaimed),
    /// To [`Command::SetGroup`].
    GroupSet(GroupSet),
    /// To [`Command::SetType`].
    TypeSet(TypeSet),
    /// To [`Command::SetWhole`].
    WholeSet(WholeSet),
    /// To [`Command::Admit`].
    Admitted(Admitted),
    /// To [`Command::OpenBulk`].
    BulkOpened(BulkOpened),
    /// To [`Command::SealBulk`].
    BulkSealed(BulkSealed),
    /// To [`Command::HoldBulk`].
    BulkHeld(BulkHeld),
    /// To [`Command::ResumeBulk`].
    BulkResumed(BulkResumed),
    /// To [`Command::CancelBulk`].
    BulkCancelled(BulkCancelled),
    /// To [`Command::TakeCompleted`].
    CompletedTaken(CompletedTaken),
    /// To [`Command::FinishBulk`].
    BulkFinished(BulkFinished),
    /// To [`Command::CancelJob`].
    JobsCancelled(JobsCancelled),
    /// To [`Command::RequeueDead`].
    DeadRequeued(DeadRequeued),
    /// To [`Command::Discard`].
    Discarded(Discarded),
    /// To [`Command::MakeDue`].
    MadeDue(MadeDue),
    /// To [`Command::Sweep`].
    Swept(Swept),
    /// To [`Command::Inspect`].
    Inspected(Inspected),
    /// To [`Command::ListJobs`].
    Listed(Listed),
    /// To [`Command::Explain`].
    Explained(Explained),
    /// To [`Command::Audit`].
    Audited(Audited),
    /// To [`Command::RemoveType`].
    TypeRemoved(TypeRemoved),
}

fn at_most(what: &'static str, got: usize, most: usize) -> Result<(), Invalid> {
    if got <= most { Ok(()) } else { Err(Invalid::TooMany { what, most, got }) }
}

fn bytes_at_most(what: &'static str, got: usize, most: usize) -> Result<(), Invalid> {
    if got <= most { Ok(()) } else { Err(Invalid::TooLarge { what, most, got }) }
}

fn each_once<'a>(jobs: impl Iterator<Item = &'a super::JobRef>) -> Result<(), Invalid> {
    // Sorted, not hashed: these names come from outside, and there is no seed here.
    let mut sorted: Vec<&super::JobRef> = jobs.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Invalid::Twice(pair[0].clone())),
        None => Ok(()),
    }
}
