//! The operations, one file each; the same stems name the scripts and the conformance chapters.

mod enqueue;
mod extend;
mod inspect;
mod lease;
mod promote;
mod reclaim;
mod set_group;
mod set_type;
mod set_whole;
mod settle;

pub use enqueue::{Enqueue, Enqueued, JobReceipt, NewJob, Refusal};
pub use extend::{Extend, Extended, Extension};
pub use inspect::{GroupView, Inspect, Inspected, JobView, LaneStanding, LaneView, TypeView, WholeView};
pub use lease::{Lease, Leased, LeasedJob};
pub use promote::{Promote, Promoted};
pub use reclaim::{Reclaim, Reclaimed};
pub use set_group::{GroupSet, SetGroup};
pub use set_type::{SetType, TypeSet};
pub use set_whole::{SetWhole, WholeSet};
pub use settle::{Outcome, Settle, Settled, Settlement, Verdict};

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
    #[error("job {0:?} stands twice in one call; name it once")]
    Twice(super::JobRef),
}

/// One step of the queue.
#[derive(Debug, Clone, PartialEq)]
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
    /// Looks.
    Inspect(Inspect),
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
            Self::Inspect(_) => Ok(()),
        }
    }
}

/// What a command gave.
#[derive(Debug, Clone, PartialEq)]
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
    /// To [`Command::Inspect`].
    Inspected(Inspected),
}

fn at_most(what: &'static str, got: usize, most: usize) -> Result<(), Invalid> {
    if got <= most { Ok(()) } else { Err(Invalid::TooMany { what, most, got }) }
}

fn bytes_at_most(what: &'static str, got: usize, most: usize) -> Result<(), Invalid> {
    if got <= most { Ok(()) } else { Err(Invalid::TooLarge { what, most, got }) }
}

fn each_once<'a>(jobs: impl Iterator<Item = &'a super::JobRef>) -> Result<(), Invalid> {
    let mut seen = rustc_hash::FxHashSet::default();
    for job in jobs {
        if !seen.insert(job) {
            return Err(Invalid::Twice(job.clone()));
        }
    }
    Ok(())
}
