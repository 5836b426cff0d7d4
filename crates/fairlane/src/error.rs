//! What can go wrong, each with a message that says what to do.

use std::time::Duration;

use fairlane_core::queue::{BulkRef, Difference, JobRef, Refusal};
use fairlane_core::{BulkId, GroupId, InvalidName, InvalidTrace, OutOfRange};
use fairlane_engine::EngineError;

use crate::duration::duration_text;
use crate::rate::InvalidRate;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine broke, refused the command or did not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A name that cannot be one.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A trace that cannot be one.
    #[error(transparent)]
    Trace(#[from] InvalidTrace),
    /// A rate that cannot be one.
    #[error(transparent)]
    Rate(#[from] InvalidRate),
    /// A number out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// Callbacks cannot be delivered as they were described.
    #[cfg(feature = "targets")]
    #[error(transparent)]
    Target(#[from] fairlane_targets::BadTarget),
    /// A job that no engine would take.
    #[error("job {job} cannot be enqueued: {reason}")]
    Job {
        /// Its id, or where it stands.
        job: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A job was not taken; see [`Receipt::accepted`](crate::Receipt::accepted).
    #[error("job {} of {} was not taken: {}", .job.id, .job.group, refusal_text(*refusal, *retry_after))]
    Refused {
        /// Whose and which.
        job: JobRef,
        /// Why.
        refusal: Refusal,
        /// When it makes sense to try again.
        retry_after: Duration,
    },
    /// The id of a job for a bulk action is taken by a job outside of it.
    #[error(
        "job {} cannot join bulk action {wanted}: {} has a job of this id already, {}; give it an id of its own",
        .job.id, .job.group, belongs_text(owner)
    )]
    Conflict {
        /// Whose and which.
        job: JobRef,
        /// Where it was to belong.
        wanted: BulkId,
        /// Where the job of this id belongs.
        owner: Option<BulkId>,
    },
    /// Another job has its id, and stays as it is.
    #[error(
        "job {} of {} is there already, {}, and stays as it is; send a job again as it was, or give a new one an id of its \
         own",
        .job.id, .job.group, difference_text(*difference, owner)
    )]
    Differs {
        /// Whose and which.
        job: JobRef,
        /// What is another.
        difference: Difference,
        /// Where the job that is there belongs.
        owner: Option<BulkId>,
    },
    /// A job that is known by its position is another one: this is not the source that was pushed before.
    #[error(
        "job {} (number {position} of the source) is there with another {}. Jobs without an id are known by their \
         position: mend a line, but never remove, insert or change one that is loaded. If this is another source, give \
         its jobs ids, or number on behind those that are there (bulk load --append, Ingest::skip)",
        .job.id, .difference.as_str()
    )]
    OtherSource {
        /// Whose and which.
        job: JobRef,
        /// Counted from 1.
        position: u64,
        /// What is another.
        difference: Difference,
    },
    /// A job for a bulk action names another group.
    #[error("a job of {} cannot join bulk action {} of {}; make it with Bulk::job", .group, .bulk.id, .bulk.group)]
    OtherGroup {
        /// The job's group.
        group: GroupId,
        /// The bulk action.
        bulk: BulkRef,
    },
    /// There is no such bulk action.
    #[error("{} has no bulk action {}; open it first, or it ended and is past its retention", .0.group, .0.id)]
    NoSuchBulk(BulkRef),
    /// The group has as many bulk actions as are kept.
    #[error("{0} has as many bulk actions as are kept; wait until old ones are past their retention")]
    TooManyBulks(GroupId),
    /// There is no room for the payload of a new bulk action.
    #[error("bulk action {} of {} was not opened: {}", .bulk.id, .bulk.group, refusal_text(*refusal, *retry_after))]
    BulkRefused {
        /// Whose and which.
        bulk: BulkRef,
        /// Why.
        refusal: Refusal,
        /// When it makes sense to try again.
        retry_after: Duration,
    },
    /// The bulk action has another number of jobs than was expected, and stays open.
    #[error(
        "bulk action {} has {total} jobs, not {expected}, and stays open; an id may stand twice in the source, or \
         another producer adds jobs: add what is missing, or seal it with {total}",
        .bulk.id
    )]
    Mismatch {
        /// Which.
        bulk: BulkRef,
        /// How many the producer counted.
        expected: u64,
        /// How many it has.
        total: u64,
    },
    /// The bulk action was sealed before, with another number of jobs than is expected now.
    #[error(
        "bulk action {} was sealed with {total} jobs, not {expected}, and takes no more; seal it without a number, or \
         open a new one for other jobs",
        .bulk.id
    )]
    SealedWithOthers {
        /// Which.
        bulk: BulkRef,
        /// How many the producer counted.
        expected: u64,
        /// How many it has.
        total: u64,
    },
    /// Nothing can be told at this address.
    #[error("{0:?} is no address for a callback; it begins with http:// or https://")]
    Callback(String),
    /// A type that is new, and there are as many as there may be.
    #[error(
        "type {0} cannot be added: there are 64 types already; use one of them, or remove one without jobs"
    )]
    TooManyTypes(String),
    /// A type is to be removed that has jobs which have not ended, or dead ones.
    #[error(
        "type {type_name} has {jobs} jobs that have not ended or are dead; let them run, cancel them, or discard the dead \
         ones first"
    )]
    TypeHasJobs {
        /// The name of the type.
        type_name: String,
        /// How many.
        jobs: u64,
    },
    /// A bulk action is to have a callback, and there are as many types as there may be.
    #[error(
        "there are 64 types already, and callbacks need one more ({}); open it without a callback, or add that type \
         before others",
        fairlane_worker::CALLBACK_TYPE
    )]
    NoTypeForCallbacks,
    /// Nothing moved for as long as was to be waited.
    #[error("gave up after {} without progress: {reason}", duration_text(*.waited))]
    GaveUp {
        /// So long.
        waited: Duration,
        /// What it waited for.
        reason: String,
    },
    /// A line of a source is wrong.
    #[error("line {line}: {reason}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// Something kept in the queue cannot be read.
    #[error("{what} cannot be read: {reason}")]
    Unreadable {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// A source or target outside the queue.
    #[error("reading or writing failed: {0}")]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Whether the same call may well succeed after a pause.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_retryable(),
            Self::Refused { refusal, .. } => is_full(*refusal),
            Self::GaveUp { .. } => true,
            _ => false,
        }
    }
}

/// Whether room may come by itself.
pub(crate) fn is_full(refusal: Refusal) -> bool {
    refusal.is_full()
}

/// What a refusal means and what to do.
pub(crate) fn refusal_text(refusal: Refusal, retry_after: Duration) -> String {
    let again = format!("try again in {}", duration_text(retry_after));
    match refusal {
        Refusal::GroupFull => format!("its group has as many unfinished jobs as it may; {again}"),
        Refusal::WholeFull => format!("the queue has as many unfinished jobs as it may; {again}"),
        Refusal::GroupBytesFull => format!("its group {}; {again}", bytes_full("group_stored_bytes_max")),
        Refusal::QueueBytesFull => format!("the queue {}; {again}", bytes_full("stored_bytes_max")),
        Refusal::TooManyTypes => {
            "its type is new and there are 64 types already; use one of them, or remove one without jobs"
                .to_owned()
        }
        Refusal::BulkSealed => {
            "its bulk action is sealed or has ended; open another one for more jobs".to_owned()
        }
        Refusal::BulkUnknown => "there is no such bulk action; open it first".to_owned(),
    }
}

/// The state of a group or queue that has no room for bytes, and the cure. Finished jobs hold bytes until they are removed.
fn bytes_full(setting: &str) -> String {
    format!(
        "has as many bytes stored as {setting} allows, finished jobs included: shorten the retention of finished jobs, \
         discard dead ones, or raise {setting}"
    )
}

fn difference_text(difference: Difference, owner: &Option<BulkId>) -> String {
    match difference {
        Difference::Bulk => belongs_text(owner),
        other => format!("with another {}", other.as_str()),
    }
}

fn belongs_text(owner: &Option<BulkId>) -> String {
    match owner {
        Some(owner) => format!("in bulk action {owner}"),
        None => "in no bulk action (it was enqueued alone, or requeued after it had died)".to_owned(),
    }
}
